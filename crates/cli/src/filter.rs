//! Filters for the snapshots that a command applies to.

use clap::Args;
use onefold_seal::ObjectId;
use onefold_store::{Repository, Snapshot, SnapshotSpec, StoreError};

use crate::tags::TagList;

/// Options that filter the snapshots of a repository, and so the meaning of `latest`. They do not apply to
/// a snapshot named by its id.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only snapshots of this host; `latest` is the newest of them
    #[arg(long, value_name = "H")]
    host: Option<String>,
    /// Only snapshots with all of these tags; if repeated, with all tags of any one list
    #[arg(long = "tag", value_name = "T[,T]")]
    tags: Vec<TagList>,
    /// Only snapshots that have all of these paths; may be repeated
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<String>,
}

impl FilterArgs {
    /// Whether any filter is given.
    pub(crate) fn is_given(&self) -> bool {
        self.host.is_some() || !self.tags.is_empty() || !self.paths.is_empty()
    }

    /// Whether `snapshot` passes the filters.
    pub(crate) fn wants(&self, snapshot: &Snapshot) -> bool {
        let has_path = |path: &String| snapshot.paths.iter().any(|one| one == path.as_bytes());
        self.host.as_ref().is_none_or(|host| *host == snapshot.host)
            && TagList::any_fits(&self.tags, &snapshot.tags)
            && self.paths.iter().all(has_path)
    }

    /// The snapshot that `spec` names.
    pub(crate) fn find(
        &self,
        repository: &Repository,
        spec: &SnapshotSpec,
    ) -> Result<(ObjectId, Snapshot), StoreError> {
        match spec {
            SnapshotSpec::Latest => repository.latest(|snapshot| self.wants(snapshot)),
            SnapshotSpec::Prefix(_) => repository.find(spec),
        }
    }

    /// The id of the snapshot that `spec` names, even if the snapshot is damaged or missing.
    pub(crate) fn find_id(
        &self,
        repository: &Repository,
        spec: &SnapshotSpec,
    ) -> Result<ObjectId, StoreError> {
        match spec {
            SnapshotSpec::Latest => Ok(repository.latest_read(|snapshot| self.wants(snapshot))?.0),
            SnapshotSpec::Prefix(_) => repository.find_id(spec),
        }
    }
}
