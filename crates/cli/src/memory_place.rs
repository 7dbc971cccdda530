//! The folder in which a command keeps its memory of repositories.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Error;
use clap::Args;
use onefold_backend::{BackendError, LocalFolder, own_place};
use onefold_seal::ObjectId;
use onefold_store::{KnownRepositories, Sighting, StoreError};

use crate::console::Console;
use crate::name::shown;

/// The folder for the memory of locations.
const LOCATIONS: &str = "locations";

/// The option for the memory of all repositories.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Remember the last known state of repositories, and the backups that run here, below DIR, to
    /// notice when a repository goes back, loses snapshots or is exchanged [default:
    /// $XDG_STATE_HOME/onefold or ~/.local/state/onefold]
    #[arg(long, value_name = "DIR", env = "ONEFOLD_STATE_DIR")]
    state_dir: Option<PathBuf>,
}

/// The memory of all repositories.
pub(crate) struct Memories {
    state_dir: Option<PathBuf>,
    console: Console,
    /// Opened when it is first needed; none if it cannot be opened.
    folder: OnceCell<Option<LocalFolder>>,
}

impl MemoryArgs {
    /// The memory in that folder. If the folder cannot be opened, warns once and does without.
    pub(crate) fn memories(&self, console: &Console) -> Memories {
        let (state_dir, console) = (self.state_dir.clone(), console.clone());
        Memories { state_dir, console, folder: OnceCell::new() }
    }
}

impl Memories {
    /// The folder for the memory of `repository`. A write-only key can read only a part of the repository,
    /// so that its memory must be separate.
    pub(crate) fn of(&self, repository: ObjectId, is_write_only: bool) -> Option<Arc<LocalFolder>> {
        let whose = if is_write_only { "-write-only" } else { "" };
        let folder = self.folder()?.folder(&format!("{repository}{whose}"));
        self.had(folder).map(Arc::new)
    }

    /// Whether the repository `found` must still be recorded for `location`.
    ///
    /// # Errors
    /// [`StoreError::OtherRepository`] if only others were used there, unless its id is `accepted`.
    pub(crate) fn ensure_known(
        &self,
        location: &[u8],
        found: Sighting,
        accepted: Option<ObjectId>,
    ) -> Result<bool, StoreError> {
        let Some(known) = self.known() else { return Ok(false) };
        if known.is_lost() {
            self.console
                .warn("the memory of repositories' locations is damaged and is started again");
        }
        known.ensure_known(location, found, accepted)
    }

    /// Records that `found` may be at `location` from now on.
    pub(crate) fn note(&self, location: &[u8], found: Sighting) {
        let Some(mut known) = self.known() else { return };
        if let Err(error) = known.note(location, found) {
            self.console.warn(format_args!("{:#}", Error::new(error)));
        }
    }

    /// The locations besides `here` at which `repository` was used.
    pub(crate) fn elsewhere(&self, repository: ObjectId, here: &[u8]) -> Vec<String> {
        let Some(known) = self.known() else { return Vec::new() };
        known.locations_of(repository).filter(|at| *at != here).map(shown).collect()
    }

    fn known(&self) -> Option<KnownRepositories> {
        let folder = self.had(self.folder()?.folder(LOCATIONS))?;
        match KnownRepositories::open(&folder) {
            Ok(known) => Some(known),
            Err(error) => {
                self.console.warn(format_args!("{:#}", Error::new(error)));
                None
            }
        }
    }

    fn folder(&self) -> Option<&LocalFolder> {
        let open = || {
            let named = self.state_dir.clone().map(Ok);
            match named.unwrap_or_else(|| own_place("XDG_STATE_HOME", ".local/state")) {
                Ok(path) => self.had(LocalFolder::create_private(&path)),
                Err(why) => {
                    self.warn(&why);
                    None
                }
            }
        };
        self.folder.get_or_init(open).as_ref()
    }

    /// The folder, or none and a warning if it cannot be opened.
    fn had(&self, folder: Result<LocalFolder, BackendError>) -> Option<LocalFolder> {
        match folder {
            Ok(folder) => Some(folder),
            Err(error) => {
                self.console.forget();
                self.warn(&format!("{:#}", Error::new(error)));
                None
            }
        }
    }

    fn warn(&self, why: &str) {
        self.console.warn(format_args!(
            "the state of the repository is not remembered: {why}; --state-dir names another place"
        ));
    }
}
