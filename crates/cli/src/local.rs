//! Repositories in directories of this machine.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result};
use clap::Args;
use onefold_backend::{BackendError, LocalObjects, Operation};
use onefold_seal::SealError;
use onefold_store::{Config, Repository, StoreError};

use crate::console::Console;
use crate::encryption::PasswordArgs;

/// Which repository a command works on.
#[derive(Debug, Args)]
pub(crate) struct RepositoryArgs {
    /// The repository's directory
    #[arg(long, short, value_name = "REPO", env = "ONEFOLD_REPOSITORY")]
    repo: PathBuf,
    #[command(flatten)]
    password: PasswordArgs,
}

/// There is no repository at the given place. Its cause tells what is there instead.
#[derive(Debug)]
pub(crate) struct NoRepository {
    path: PathBuf,
    /// Whether a repository could be made there.
    is_free: bool,
}

impl NoRepository {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> String {
        match self.is_free {
            true => format!("make one with `onefold init {}`", self.path.display()),
            false => "name the directory of a repository, or make one in a directory of its own \
                      with `onefold init`"
                .into(),
        }
    }
}

impl fmt::Display for NoRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no repository in '{}'", self.path.display())
    }
}

/// A repository with the directory it is in.
pub(crate) struct LocalRepository {
    pub(crate) repository: Repository,
    /// Absolute, symbolic links resolved.
    pub(crate) root: PathBuf,
}

impl RepositoryArgs {
    /// Opens the repository and says what is wrong with its index.
    pub(crate) fn open(&self, console: &Console) -> Result<LocalRepository> {
        let opened = self.open_unloaded(console)?;
        opened.load(console)?;
        Ok(opened)
    }

    /// Opens the repository and leaves its index alone.
    pub(crate) fn open_unloaded(&self, console: &Console) -> Result<LocalRepository> {
        let opened = LocalRepository::open(&self.repo)?;
        self.password.check_existing(console);
        opened.tell(console);
        Ok(opened)
    }

    /// Opens the repository, or makes it where there is nothing yet.
    pub(crate) fn open_or_init(
        &self,
        no_encryption: bool,
        console: &Console,
    ) -> Result<LocalRepository> {
        match LocalRepository::open(&self.repo) {
            Ok(opened) => {
                self.password.check_existing(console);
                opened.tell(console);
                opened.load(console)?;
                return Ok(opened);
            }
            Err(error) if error.downcast_ref().is_some_and(NoRepository::is_free) => {}
            Err(error) => return Err(error),
        }
        self.password.refuse_new(no_encryption)?;
        match LocalRepository::init(&self.repo, Config::standard()) {
            Ok(made) => {
                let place = made.root.display();
                console.notice(format_args!("made a repository in '{place}', not encrypted"));
                self.password.warn_new(no_encryption, console);
                Ok(made)
            }
            // Another process was faster.
            Err(error) if matches!(error.downcast_ref(), Some(StoreError::Exists)) => {
                self.open(console)
            }
            Err(error) => Err(error),
        }
    }
}

impl NoRepository {
    const fn is_free(&self) -> bool {
        self.is_free
    }
}

impl LocalRepository {
    /// Opens the repository in `path`; fails with [`NoRepository`] if there is none.
    fn open(path: &Path) -> Result<Self> {
        let missing =
            |error: Error, is_free| error.context(NoRepository { path: path.to_owned(), is_free });
        let objects = match LocalObjects::open(path) {
            Ok(objects) => objects,
            Err(error) => {
                return Err(match what_is_at(&error) {
                    Place::Nothing => missing(error.into(), true),
                    Place::NoDirectory => missing(error.into(), false),
                    Place::Unknown => error.into(),
                });
            }
        };
        let root = objects.root().to_owned();
        let repository = Repository::open(Arc::new(objects)).map_err(|error| match error {
            StoreError::NoRepository => missing(error.into(), true),
            // Listed is what lies there only after no configuration was found.
            StoreError::LostConfig { .. }
            | StoreError::Backend(BackendError::Io { operation: Operation::List, .. })
            | StoreError::Envelope { source: SealError::NotOnefold, .. } => {
                missing(error.into(), false)
            }
            error => Error::new(error)
                .context(format!("cannot open the repository in '{}'", path.display())),
        })?;
        Ok(Self { repository, root })
    }

    /// Makes a repository in `path`, which is made as well if it does not exist.
    pub(crate) fn init(path: &Path, config: Config) -> Result<Self> {
        let objects = LocalObjects::create(path)?;
        let root = objects.root().to_owned();
        let repository = Repository::init(Arc::new(objects), config)
            .with_context(|| format!("cannot make a repository in '{}'", path.display()))?;
        Ok(Self { repository, root })
    }

    /// Device and inode of the directory, by which a backup leaves it out of itself.
    pub(crate) fn identity(&self) -> Result<(u64, u64)> {
        let metadata = self
            .root
            .metadata()
            .with_context(|| format!("cannot stat '{}'", self.root.display()))?;
        Ok((metadata.dev(), metadata.ino()))
    }

    fn tell(&self, console: &Console) {
        let Config { params, fingerprint, compression_level } = self.repository.config();
        let sizes = params.sizes;
        console.detail(format_args!(
            "repository {} in '{}'",
            self.repository.id(),
            self.root.display()
        ));
        console.detail(format_args!(
            "chunks by {} of {} to {} bytes, {} in the mean; {fingerprint}, zstd level {compression_level}",
            params.algorithm,
            sizes.min(),
            sizes.max(),
            sizes.avg(),
        ));
    }

    fn load(&self, console: &Console) -> Result<()> {
        for warning in self.repository.load().context("cannot load the index")? {
            console.warn(warning);
        }
        Ok(())
    }
}

/// What is where a repository was looked for.
enum Place {
    Nothing,
    NoDirectory,
    /// The operating system does not let us see.
    Unknown,
}

fn what_is_at(error: &BackendError) -> Place {
    match error {
        BackendError::BadRoot { source: Some(cause), .. } => match cause.kind() {
            io::ErrorKind::NotFound => Place::Nothing,
            io::ErrorKind::NotADirectory => Place::NoDirectory,
            _ => Place::Unknown,
        },
        BackendError::BadRoot { root, source: None, .. } if !root.is_dir() => Place::NoDirectory,
        _ => Place::Unknown,
    }
}
