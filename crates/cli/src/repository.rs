//! The repository that a command works on, opened or created.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result};
use clap::Args;
use onefold_backend::{BackendError, LocalObjects, Operation};
use onefold_seal::{ObjectId, SealError};
use onefold_store::{Config, Located, Repository, Sighting, StoreError};

use crate::console::Console;
use crate::encryption::{FromPasswordArgs, PasswordArgs, Protection};
use crate::failure;
use crate::host;
use crate::index_place::IndexArgs;
use crate::memory_place::{Memories, MemoryArgs};
use crate::name::shown;
use crate::place::{self, Access, Found, Opened, Place};

/// Which repository a command works on.
#[derive(Debug, Args)]
pub(crate) struct RepositoryArgs {
    /// The repository: a directory, s3://BUCKET/PREFIX, az://…, gs://… or sftp:USER@HOST:/PATH
    #[arg(long, short, value_name = "REPO", env = "ONEFOLD_REPOSITORY")]
    repo: PathBuf,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Accept the repository with this full id, although this client has used others at its location;
    /// the client then remembers all of them
    #[arg(long, value_name = "ID")]
    accept_repository: Option<ObjectId>,
}

/// There is no repository at the given location. The cause says what is there instead.
#[derive(Debug)]
pub(crate) struct NoRepository {
    place: Place,
    /// Whether a repository could be created there.
    is_free: bool,
}

impl NoRepository {
    /// Advice for the user.
    pub(crate) fn hint(&self) -> String {
        match self.is_free {
            true => format!("create one with `onefold init {}`", self.place),
            false => "name the location of a repository, or create one in an empty location with \
                      `onefold init`"
                .into(),
        }
    }
}

impl fmt::Display for NoRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no repository in '{}'", self.place)
    }
}

/// A repository with the place it is in.
pub(crate) struct OpenRepository {
    pub(crate) repository: Repository,
    pub(crate) place: Place,
    /// The location under which the client remembers the repository.
    location: Vec<u8>,
    on_disk: Option<Arc<LocalObjects>>,
}

/// How a repository is opened.
struct Opening<'a> {
    access: &'a Access,
    password: &'a PasswordArgs,
    memories: &'a Memories,
    /// The id of a repository that the user accepts, whatever was at the location before.
    accepted: Option<ObjectId>,
    /// Whether the command reads chunks.
    needs_index: bool,
}

impl RepositoryArgs {
    /// Whether a put first looks up the name instead of being conditional. This does not decide races.
    pub(crate) fn is_without_conditional_put(&self) -> bool {
        self.access.is_without_conditional_put()
    }

    /// Opens the repository and says what is wrong with its index.
    pub(crate) fn open(&self, console: &Console) -> Result<OpenRepository> {
        let memories = self.memory.memories(console);
        let opened = self.open_at(&self.repo, &self.password, &memories, true, console)?;
        opened.load(console)?;
        Ok(opened)
    }

    /// Opens the repository and leaves its index alone.
    pub(crate) fn open_unloaded(&self, console: &Console) -> Result<OpenRepository> {
        let memories = self.memory.memories(console);
        self.open_at(&self.repo, &self.password, &memories, false, console)
    }

    /// Opens the repository in `repo` and leaves its index alone, though the command may need it.
    fn open_at(
        &self,
        repo: &Path,
        password: &PasswordArgs,
        memories: &Memories,
        needs_index: bool,
        console: &Console,
    ) -> Result<OpenRepository> {
        let (access, accepted) = (&self.access, self.accept_repository);
        let opening = Opening { access, password, memories, accepted, needs_index };
        let mut opened = OpenRepository::open(repo, &opening, console)?;
        self.keep_locally(&mut opened, console);
        opened.tell(console);
        opened.recall(memories, console)?;
        Ok(opened)
    }

    /// Makes the repository keep its index, and copies of remote objects, on this machine.
    fn keep_locally(&self, opened: &mut OpenRepository, console: &Console) {
        let repository = &mut opened.repository;
        repository.keep_index(self.index.place(console));
        // A write-only key opens none of what would be kept.
        if opened.on_disk.is_none() && !repository.is_write_only() {
            let copies = self.index.copies(repository.id(), console);
            copies.into_iter().for_each(|cache| repository.keep_copies(cache));
        }
    }

    /// Fails before `what` starts if nothing may be deleted.
    pub(crate) fn expect_deletes(&self, what: &str) -> Result<()> {
        self.access.expect_deletes(what)
    }

    /// Opens another repository, reached in the same way, to read from.
    pub(crate) fn open_other(
        &self,
        repo: &Path,
        password: &FromPasswordArgs,
        console: &Console,
    ) -> Result<OpenRepository> {
        let memories = self.memory.memories(console);
        let opened = self.open_at(repo, &password.to_args(), &memories, true, console)?;
        opened.load(console)?;
        Ok(opened)
    }

    /// Opens the repository without its index, or creates it if there is none.
    pub(crate) fn open_or_init(
        &self,
        no_encryption: bool,
        console: &Console,
    ) -> Result<OpenRepository> {
        let memories = self.memory.memories(console);
        let open = || self.open_at(&self.repo, &self.password, &memories, false, console);
        match open() {
            Ok(opened) => return Ok(opened),
            Err(error) if error.downcast_ref().is_some_and(NoRepository::is_free) => {}
            Err(error) => return Err(error),
        }
        let protect = || Protection::choose(no_encryption, &self.password);
        let config = Config::standard();
        let made =
            OpenRepository::init(&self.repo, &self.access, config, protect, &memories, console);
        match made {
            Ok((mut made, protection)) => {
                self.keep_locally(&mut made, console);
                made.recall(&memories, console)?;
                let place = &made.place;
                console.notice(format_args!("made a repository in '{place}', {protection}"));
                Ok(made)
            }
            // Another process was faster.
            Err(error) if matches!(error.downcast_ref(), Some(StoreError::Exists)) => open(),
            Err(error) => Err(error),
        }
    }
}

impl NoRepository {
    const fn is_free(&self) -> bool {
        self.is_free
    }
}

impl OpenRepository {
    /// Opens the repository in `repo`; fails with [`NoRepository`] if there is none.
    fn open(repo: &Path, opening: &Opening<'_>, console: &Console) -> Result<Self> {
        let Opening { access, password, memories, accepted, needs_index } = *opening;
        let named = Place::of(repo)?;
        let missing =
            |error: Error, is_free| error.context(NoRepository { place: named.clone(), is_free });
        let Opened { objects, place, on_disk } = match named.open(access, console) {
            Ok(opened) => opened,
            Err(error) => {
                return Err(match place::what_is_at(&error) {
                    Found::Nothing => missing(error.into(), true),
                    Found::NoDirectory => missing(error.into(), false),
                    Found::Unknown => error.into(),
                });
            }
        };
        let located =
            Repository::locate_early(objects, needs_index).map_err(|error| match error {
                StoreError::NoRepository => missing(error.into(), true),
                // List the content only after no configuration was found.
                StoreError::LostConfig { .. }
                | StoreError::Backend(BackendError::Io { operation: Operation::List, .. })
                | StoreError::Envelope { source: SealError::NotOnefold, .. } => {
                    missing(error.into(), false)
                }
                error => {
                    Error::new(error).context(format!("cannot open the repository in '{named}'"))
                }
            })?;
        let found = match &located {
            Located::Open(repository) => sighting(repository),
            Located::Locked(locked) => Sighting { id: locked.id(), is_encrypted: true },
        };
        let location = place.location(access);
        // Before the user is asked for a password.
        let is_new = memories.ensure_known(&location, found, accepted)?;
        let repository = match located {
            Located::Open(repository) => {
                password.ensure_none(false)?;
                *repository
            }
            Located::Locked(locked) => password
                .unlock(locked)
                .with_context(|| format!("cannot open the repository in '{named}'"))?,
        };
        if is_new {
            memories.note(&location, found);
        }
        Ok(Self { repository, place, location, on_disk })
    }

    /// Creates a repository in `repo`, and the directory if it does not exist. Asks for a password only
    /// after checking that the location is free.
    pub(crate) fn init(
        repo: &Path,
        access: &Access,
        config: Config,
        protect: impl FnOnce() -> Result<Protection>,
        memories: &Memories,
        console: &Console,
    ) -> Result<(Self, Protection)> {
        let named = Place::of(repo)?;
        let there = match named.open(access, console) {
            Ok(opened) => Some(opened),
            Err(error) if matches!(place::what_is_at(&error), Found::Nothing) => None,
            Err(_) => Some(named.create(access, console)?),
        };
        let cannot = || format!("cannot make a repository in '{named}'");
        // Users should not have to choose a password needlessly.
        if let Some(Opened { objects, place, .. }) = &there {
            Repository::expect_free(&**objects).with_context(cannot)?;
            tell_of_others(place, console)?;
        }
        let protection = protect()?;
        let Opened { objects, place, on_disk } = match there {
            Some(opened) => opened,
            None => named.create(access, console)?,
        };
        let repository = protection.init(objects, config).with_context(cannot)?;
        let location = place.location(access);
        // Its maker knows that it is another one than was there.
        memories.note(&location, sighting(&repository));
        let made = Self { repository, place, location, on_disk };
        made.keep_reserve(console);
        Ok((made, protection))
    }

    /// Compares the repository with its logs and with this client's memory, and reports contradictions.
    fn recall(&mut self, memories: &Memories, console: &Console) -> Result<()> {
        let id = self.repository.id();
        let folder = memories.of(id, self.repository.is_write_only());
        let path = folder.as_ref().map(|folder| folder.path().to_owned());
        // One folder for all keys: a prune must find the locks of write-only clients as well.
        let locks = match self.repository.is_write_only() && folder.is_some() {
            true => memories.of(id, false),
            false => folder.clone(),
        };
        if let Some(locks) = locks {
            self.repository.lock_backups_in(locks);
        }
        self.repository.act_as(host::name(), folder.map(|folder| folder as _));
        match self.repository.recall() {
            Ok(findings) if findings.is_empty() => {}
            Ok(findings) => {
                let elsewhere = memories.elsewhere(id, &self.location);
                failure::alarm(&findings, path.as_deref(), &elsewhere, console);
            }
            Err(error @ StoreError::Memory(_)) => {
                console.forget();
                console.warn(format!("{:#}", Error::new(error)));
            }
            Err(error) => return Err(Error::new(error).context("cannot read the logs")),
        }
        self.tell_of_memory(console);
        Ok(())
    }

    /// Runs `free`, which frees space. On a full disk `free` may use the reserve, which is refilled
    /// afterwards if there is space.
    pub(crate) fn with_reserve<T>(
        &self,
        console: &Console,
        free: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.on_disk.iter().for_each(|objects| objects.use_reserve());
        let result = free();
        self.keep_reserve(console);
        result
    }

    fn keep_reserve(&self, console: &Console) {
        let kept = self.on_disk.as_ref().map_or(Ok(true), |objects| objects.keep_reserve());
        match kept {
            Ok(true) => {}
            Ok(false) => console.notice(format_args!(
                "'{}' has no space for the whole reserve, which helps to free a full disk; a prune \
                 creates it when there is space",
                self.place
            )),
            Err(error) => console.warn(format!("{:#}", Error::new(error))),
        }
    }

    fn tell(&self, console: &Console) {
        let Config { params, fingerprint, compression_level, padding } = self.repository.config();
        let sizes = params.sizes;
        console.detail(format_args!("repository {} in '{}'", self.repository.id(), self.place));
        if self.repository.is_encrypted() {
            let how = match self.repository.is_write_only() {
                true => "opened for backups only".to_owned(),
                false => format!("key epoch {}", self.repository.epoch()),
            };
            let padded = if *padding { ", lengths padded" } else { "" };
            console.detail(format_args!("encrypted, {how}{padded}"));
        }
        console.detail(format_args!(
            "chunks by {} of {} to {} bytes, {} in the mean; {fingerprint}, zstd level {compression_level}",
            params.algorithm,
            sizes.min(),
            sizes.max(),
            sizes.avg(),
        ));
    }

    /// Reports problems of this client's memory.
    pub(crate) fn tell_of_memory(&self, console: &Console) {
        self.repository.trouble().iter().for_each(|trouble| console.warn(trouble));
    }

    fn load(&self, console: &Console) -> Result<()> {
        for warning in self.repository.load().context("cannot load the index")? {
            console.warn(warning);
        }
        Ok(())
    }
}

/// What a client remembers of an open repository.
fn sighting(repository: &Repository) -> Sighting {
    Sighting { id: repository.id(), is_encrypted: repository.is_encrypted() }
}

/// Warns a user who creates a repository in a directory that has other content.
fn tell_of_others(place: &Place, console: &Console) -> Result<()> {
    // Of these many names are shown.
    const SHOWN: usize = 3;
    let Some(directory) = place.directory() else { return Ok(()) };
    let cannot = || format!("cannot read '{place}'");
    let mut names = Vec::new();
    for entry in directory.read_dir().with_context(cannot)? {
        let name = entry.with_context(cannot)?.file_name();
        // Keys of an init that was cut off, and what every ext4 has.
        if name != "keys" && name != "lost+found" {
            names.push(format!("'{}'", shown(name.as_bytes())));
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    names.sort_unstable();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(SHOWN);
    console.warn(format_args!(
        "'{place}' already has other content, {}{more}, and the repository is created among it; a \
         repository in its own directory is easier to copy and to remove",
        names.join(", ")
    ));
    Ok(())
}
