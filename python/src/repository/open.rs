//! Opening a repository, and making one.

use std::path::{Path, PathBuf};

use onefold_backend::BackendError;
use onefold_cdc::Params;
use onefold_seal::{Cost, ObjectId, Password};
use onefold_store::tree::Time;
use onefold_store::{Config, KeyRemark, Located, Repository, Sighting, StoreError};
use pyo3::exceptions::{PyFileNotFoundError, PyPermissionError, PyValueError};
use pyo3::prelude::*;

use super::errors::{RepositoryError, of_store, told};
use super::local::{Memories, cache};
use super::place::Place;

/// How a repository is opened.
pub(super) struct Opening {
    pub(super) password: Option<Vec<u8>>,
    pub(super) host: String,
    pub(super) user: String,
    pub(super) state_dir: Option<PathBuf>,
    pub(super) cache_dir: Option<PathBuf>,
    pub(super) use_cache: bool,
    /// The id of a repository that is accepted, whatever was at the location before.
    pub(super) accept: Option<ObjectId>,
    pub(super) endpoint: Option<String>,
}

/// A repository that was opened.
pub(super) struct Opened {
    pub(super) repository: Repository,
    pub(super) place: Place,
    /// What is wrong, but kept it from opening no more than that.
    pub(super) warnings: Vec<String>,
}

/// Why there is none.
pub(super) enum Failure {
    Place(PathBuf, BackendError),
    Store(StoreError),
    /// The password does not fit how the repository is protected.
    Password(&'static str),
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Place(location, error) => {
                let message = format!(
                    "cannot reach a repository in '{}': {}",
                    location.display(),
                    told(&error)
                );
                let is_missing = matches!(
                    &error,
                    BackendError::BadRoot { source: Some(cause), .. }
                        if cause.kind() == std::io::ErrorKind::NotFound
                );
                match error {
                    _ if is_missing => PyFileNotFoundError::new_err(message),
                    BackendError::BadLocation { .. } => PyValueError::new_err(message),
                    _ => RepositoryError::new_err(message),
                }
            }
            Failure::Store(error) => of_store(&error),
            Failure::Password(message) => PyPermissionError::new_err(message),
        }
    }
}

impl Opening {
    /// Opens the repository in `location`.
    pub(super) fn open(self, location: &Path) -> Result<Opened, Failure> {
        let store = Failure::Store;
        let (place, objects) = Place::reach(location, self.endpoint.as_deref(), false)
            .map_err(|error| Failure::Place(location.to_owned(), error))?;
        let mut warnings = Vec::new();
        let memories = Memories::open(self.state_dir.as_deref(), &mut warnings);
        let located = Repository::locate_early(objects, true).map_err(store)?;
        let found = match &located {
            Located::Open(repository) => sighting(repository),
            Located::Locked(locked) => Sighting { id: locked.id(), is_encrypted: true },
        };
        let known_as = place.remembered();
        let is_new =
            memories.ensure_known(&known_as, found, self.accept, &mut warnings).map_err(store)?;
        let repository = match (located, &self.password) {
            (Located::Open(_), Some(_)) => {
                return Err(Failure::Password(
                    "a password was given, but the repository is not encrypted; open it without \
                     one if you know that, and if it was encrypted, it has been replaced",
                ));
            }
            (Located::Open(repository), None) => *repository,
            (Located::Locked(locked), Some(password)) => {
                locked.unlock(&Password::new(password.clone())).map_err(store)?
            }
            (Located::Locked(_), None) => return Err(store(StoreError::Locked)),
        };
        if is_new {
            memories.note(&known_as, found, &mut warnings);
        }
        self.finish(repository, place, &memories, warnings).map_err(store)
    }

    /// Makes a repository in `location`, which must hold none.
    pub(super) fn init(
        self,
        location: &Path,
        params: Option<Params>,
        encrypt: bool,
        padding: bool,
    ) -> Result<Opened, Failure> {
        let store = Failure::Store;
        let standard = Config::standard();
        let params = params.unwrap_or(standard.params);
        let config = Config { params, padding, ..Config::standard() };
        let password = match (encrypt, &self.password) {
            (true, Some(password)) if !password.is_empty() => Some(Password::new(password.clone())),
            (true, _) => {
                return Err(Failure::Password(
                    "a new repository takes a password, or encrypt=False: then anyone who can read \
                     it can read your files",
                ));
            }
            (false, Some(_)) => {
                return Err(Failure::Password(
                    "a password was given, but encrypt=False makes a repository without encryption",
                ));
            }
            (false, None) => None,
        };
        let (place, objects) = Place::reach(location, self.endpoint.as_deref(), true)
            .map_err(|error| Failure::Place(location.to_owned(), error))?;
        let mut warnings = Vec::new();
        let memories = Memories::open(self.state_dir.as_deref(), &mut warnings);
        let repository = match password {
            None => Repository::init(objects, config),
            Some(password) => {
                let remark = KeyRemark {
                    created: Time::now(),
                    host: self.host.clone(),
                    user: self.user.clone(),
                    label: String::new(),
                };
                Repository::init_encrypted(objects, config, &password, Cost::STANDARD, &remark)
            }
        }
        .map_err(store)?;
        memories.note(&place.remembered(), sighting(&repository), &mut warnings);
        self.finish(repository, place, &memories, warnings).map_err(store)
    }

    /// Gives the repository what is kept of it here, and compares it with what was seen of it before.
    fn finish(
        self,
        mut repository: Repository,
        place: Place,
        memories: &Memories,
        mut warnings: Vec<String>,
    ) -> Result<Opened, StoreError> {
        if self.use_cache {
            let directory = self.cache_dir.as_deref();
            let (index, copies) = cache(directory, repository.id(), place.is_far(), &mut warnings);
            repository.keep_index(index);
            copies.into_iter().for_each(|copies| repository.keep_copies(copies));
        }
        let folder = memories.of(repository.id(), &mut warnings);
        if let Some(folder) = &folder {
            repository.lock_backups_in(folder.clone());
        }
        repository.act_as(self.host, folder.map(|folder| folder as _));
        match repository.recall() {
            Ok(findings) => warnings.extend(findings.iter().map(|finding| {
                format!(
                    "the repository is not as this client or its logs recorded it: {finding}; \
                     `onefold snapshots` says what to do"
                )
            })),
            Err(error @ StoreError::Memory(_)) => warnings.push(told(&error)),
            Err(error) => return Err(error),
        }
        warnings.extend(repository.load()?.iter().cloned());
        Ok(Opened { repository, place, warnings })
    }
}

fn sighting(repository: &Repository) -> Sighting {
    Sighting { id: repository.id(), is_encrypted: repository.is_encrypted() }
}
