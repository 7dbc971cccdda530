//! Upgrades of a pool to the newest version of the format.
//!
//! The pool is opened as one of the new version, which reads the checkpoint of an older one. Up to there
//! nothing is written that the older version does not have, so a pool that turns out to be damaged stays
//! what it was. Then a file `pool` that names the new version takes the place of the old one: that is the
//! upgrade, and a crash leaves the one or the other. The checkpoint that follows is the first thing of the
//! new version. Without it the pool is opened in the old way, until any other checkpoint.
//!
//! So an upgrade takes as long as an opening and a checkpoint.

use std::sync::Arc;

use onefold_backend::Folder;

use crate::engine::options::{IndexLayout, Options};
use crate::error::VolumeError;
use crate::ids::Version;
use crate::journal::journals::Journals;
use crate::journal::metadata::Metadata;
use crate::pool::head::{Head, open_head, replace_head};
use crate::pool::open::{Begun, Pool, SMALL_TABLE, begin};

/// What an upgrade did.
#[derive(Debug)]
pub struct Upgraded {
    /// The version that the pool had.
    pub before: Version,
    /// The version that it has: if that is the same, nothing was done.
    pub now: Version,
    /// What could not be found out about the pool before it was upgraded, if anything.
    pub warning: Option<VolumeError>,
}

impl Pool {
    /// Makes the pool in `folder` one of [`Version::NEWEST`], which programs that know only earlier versions
    /// refuse from then on. One that is of that version already stays as it is. Volumes, and the pages that
    /// they share, are the same as before.
    ///
    /// The pool is of the old version or of the new one at any moment, durably and as a whole.
    ///
    /// # Errors
    /// [`VolumeError::NotUpgraded`] if anything is damaged, and whatever an opening fails with: then the
    /// pool is of the version that it was. A pool that is open elsewhere is
    /// [`BackendError::InUse`](onefold_backend::BackendError::InUse). After another error it is of either
    /// version; it can be opened, and the call can be repeated.
    pub fn upgrade(folder: &Arc<dyn Folder>, options: Options) -> Result<Upgraded, VolumeError> {
        let (own, head) = open_head(&**folder)?;
        let (before, now) = (head.version, Version::NEWEST);
        if before == now {
            return Ok(Upgraded { before, now, warning: None });
        }
        let head = Head { version: now, ..head };
        // nobody looks pages up by their fingerprints
        let options = Options { table_bytes: SMALL_TABLE, index: IndexLayout::Chained, ..options };
        let journals = Arc::new(Journals::new(Arc::clone(folder), head.id));
        let metadata = Arc::<Journals>::clone(&journals) as Arc<dyn Metadata>;
        let begun = begin(Arc::clone(folder), own, head.clone(), metadata, options, false, None)?;
        let Begun { engine, damage, .. } = begun;
        if let Some(first) = damage.into_iter().next() {
            return Err(VolumeError::NotUpgraded { first: Box::new(first) });
        }
        let new = replace_head(&**folder, &head)?;
        journals.outdate_checkpoint();
        let written = engine.checkpoint();
        let warning = journals.warning();
        // the pool is done with before another process can own the new file
        drop((engine, journals));
        drop(new);
        written?;
        Ok(Upgraded { before, now, warning })
    }
}
