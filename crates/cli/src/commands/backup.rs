//! `onefold backup`

use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
#[cfg(feature = "gpu")]
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
#[cfg(feature = "gpu")]
use std::thread;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{HumanBytes, HumanCount};
#[cfg(feature = "gpu")]
use onefold_gpu::Choice;
use onefold_seal::ObjectId;
#[cfg(feature = "gpu")]
use onefold_store::backup::Accelerator;
use onefold_store::backup::{self, Compression, Marker, Options, Stream};
use onefold_store::{Snapshot, Summary};
use serde::Serialize;

use crate::console::Console;
use crate::count;
#[cfg(feature = "gpu")]
use crate::device::LargeFiles;
use crate::exit::Exit;
use crate::files_from::FilesFrom;
use crate::host;
use crate::interrupt::cancel_on_signal;
use crate::output::Output;
use crate::progress::watched;
use crate::ratio;
use crate::repository::{OpenRepository, RepositoryArgs};
use crate::tags::TagList;
use crate::time::rfc3339;

const AFTER_HELP: &str = "\
Patterns are those of gitignore: '*.o' matches at any depth, '/target' only at the top of a PATH,
'cache/' only directories, and '!keep.o' includes a file again. A pattern that begins with a PATH, as
given or absolute, starts there: '/home/*/.cache' is '/.cache' of the PATH /home/ann. Patterns that
match nothing are reported. If a file or PATH cannot be read, the backup reports it, makes the snapshot
without it and ends with exit code 3. A repository inside a PATH is excluded. Holes in files are not
read, and are restored as holes.

A single directory becomes the root of the snapshot. Several PATHs become its entries, each named by
its last component. If two have the same last component, or with --full-paths or --files-from, they are
named by their full paths.

A file is not read if the last snapshot of the same PATHs on the same host has it with the same size,
times and inode number, and the file last changed at least 10 ms before that backup began. The limit is
2 s if the file system keeps whole seconds, and one day on network file systems and FUSE, whose clock
may differ from this machine's.

The output of a program becomes one file, /NAME. With --stdin-from-command no snapshot is made if the
program fails. With --stdin the backup cannot know whether its input is complete.

Examples:
  onefold backup --repo /mnt/backup ~/Documents
  onefold backup --repo /mnt/backup --init --password-file ~/.onefold /etc /home
  onefold backup --repo /mnt/backup --one-file-system /
  onefold backup --repo /mnt/backup --tag weekly --exclude '*.tmp' \\
      --exclude-caches ~
  onefold backup --repo /mnt/backup --dry-run \\
      --exclude-if-present .nobackup /srv
  find . -newer mark -print0 |
      onefold backup --repo /mnt/backup --files-from-raw -
  onefold backup --repo /mnt/backup --device /dev/vg/root --device disk.img
  onefold backup --repo /mnt/backup --compute cuda:0 /srv/images
  zcat dump.gz | onefold backup --repo /mnt/backup --stdin \\
      --stdin-filename dump.sql
  onefold backup --repo /mnt/backup --stdin-from-command \\
      --stdin-filename dump.sql -- pg_dump shop

With --json: one object per line, with a \"type\". \"progress\" is written every second and has files,
bytes, total_files and total_bytes (0 while unknown), unchanged_files, new_bytes, stored_bytes,
issues and seconds. \"issue\" has path, loss (whether content is missing because of it) and message.
\"file\", with -v -v, has path and outcome (new, changed or unchanged). \"summary\" is the last, if a
snapshot was made, and has its id as snapshot (none with --dry-run) and the patterns that matched
nothing as unused_excludes.";

/// Make a snapshot of files and directories
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Backup {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Files and directories to back up. Symbolic links named here are followed, those below are
    /// stored as links
    #[arg(
        required_unless_present_any = [
            "devices", "stdin", "files_from", "files_from_verbatim", "files_from_raw",
        ],
        value_name = "PATH"
    )]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    lists: FilesFrom,
    /// Name every PATH in the snapshot by its full path
    #[arg(long, conflicts_with_all = ["stdin", "stdin_from_command"])]
    full_paths: bool,
    /// Back up the content of a block device or a disk image as one file; may be repeated. Of a device
    /// that is a PATH, or in one, only the device node is stored
    #[arg(long = "device", value_name = "PATH")]
    devices: Vec<PathBuf>,
    /// Back up standard input
    #[arg(long, conflicts_with_all = ["paths", "devices"])]
    stdin: bool,
    /// Run PATH... as a command with arguments, and back up its output
    #[arg(long, conflicts_with_all = ["stdin", "devices"])]
    stdin_from_command: bool,
    /// The file's name with --stdin or --stdin-from-command
    #[arg(long, value_name = "NAME", default_value = "stdin")]
    stdin_filename: OsString,
    /// Create an encrypted repository if none exists
    #[arg(long)]
    init: bool,
    /// With --init: create the repository without encryption, so that anyone who can read it can read
    /// your files. Fails if a password is given, even by ONEFOLD_PASSWORD
    #[arg(long, requires = "init")]
    no_encryption: bool,
    /// Tags for the snapshot; may be repeated
    #[arg(long = "tag", value_name = "T[,T]", value_parser = TagList::some)]
    tags: Vec<TagList>,
    /// The host to record [default: this machine's name]
    #[arg(long, value_name = "H")]
    host: Option<String>,
    /// Exclude files that match; may be repeated
    #[arg(long = "exclude", value_name = "GLOB")]
    excludes: Vec<String>,
    /// Exclude files that match a line of FILE; may be repeated
    #[arg(long = "exclude-file", value_name = "FILE")]
    exclude_files: Vec<PathBuf>,
    /// Exclude the other content of directories with a file NAME, which must begin with HEADER if
    /// that is given; may be repeated
    #[arg(long, value_name = "NAME[:HEADER]", value_parser = marker)]
    exclude_if_present: Vec<Marker>,
    /// Exclude the content of directories with a CACHEDIR.TAG
    #[arg(long)]
    exclude_caches: bool,
    /// Honour .gitignore, .ignore and .onefoldignore files
    #[arg(long)]
    ignore_files: bool,
    /// Exclude file systems mounted below a PATH
    #[arg(long, short = 'x')]
    one_file_system: bool,
    /// Read every file, even one that looks unchanged
    #[arg(long)]
    force: bool,
    /// Read everything, store nothing, and report what would be new
    #[arg(long, short = 'n', conflicts_with_all = ["init", "stdin", "stdin_from_command"])]
    dry_run: bool,
    /// The compression of new data
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    compression: Effort,
    /// The number of reading and of storing threads [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// What cuts and fingerprints streams, and files of 16 MiB or more: cpu; cuda:N or opencl:N for one device; or auto
    /// for a GPU that is measured to be faster than these threads. `onefold devices` lists them
    #[cfg(feature = "gpu")]
    #[arg(long, value_name = "DEVICE", default_value_t = Choice::Cpu)]
    compute: Choice,
}

/// The compression of a backup, with restic's names.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Effort {
    /// As set when the repository was created
    Auto,
    /// None
    Off,
    /// zstd, level 1
    Fastest,
    /// zstd, level 9
    Better,
    /// zstd, level 19
    Max,
}

impl From<Effort> for Compression {
    fn from(effort: Effort) -> Self {
        match effort {
            Effort::Auto => Self::Configured,
            Effort::Off => Self::Off,
            Effort::Fastest => Self::Level(1),
            Effort::Better => Self::Level(9),
            Effort::Max => Self::Level(19),
        }
    }
}

fn marker(text: &str) -> Result<Marker, String> {
    let (name, head) = text.split_once(':').unwrap_or((text, ""));
    match name.is_empty() || name == "." || name == ".." || name.contains('/') {
        true => Err("expected NAME to be a file name without a directory".into()),
        false => Ok(Marker { name: name.into(), head: head.into() }),
    }
}

/// A backup in JSON.
#[derive(Serialize)]
struct Done {
    r#type: &'static str,
    /// The snapshot, if one was made.
    #[serde(flatten)]
    made: Option<Made>,
    files: u64,
    unchanged_files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    new_bytes: u64,
    stored_bytes: u64,
    /// Read bytes per new byte; none if nothing was new.
    dedup_ratio: Option<f64>,
    unreadable: u64,
    unused_excludes: Vec<String>,
    seconds: f64,
}

/// A snapshot in JSON.
#[derive(Serialize)]
struct Made {
    snapshot: String,
    parent: Option<String>,
    time: String,
}

impl Backup {
    pub(crate) fn run(mut self, console: &Console) -> Result<Exit> {
        self.full_paths |= self.lists.is_given();
        self.paths.append(&mut self.lists.read()?);
        let opened = match self.init {
            true => self.repository.open_or_init(self.no_encryption, console)?,
            false => self.repository.open_unloaded(console)?,
        };
        let stream = self.stream()?;
        if let (Some(root), None) = (opened.place.directory(), &stream) {
            refuse_own(self.paths.iter().chain(&self.devices), root)?;
        }
        #[cfg_attr(not(feature = "gpu"), expect(unused_mut, reason = "only a device changes them"))]
        let mut options = self.options(&opened, console)?;
        #[cfg(feature = "gpu")]
        let device = LargeFiles::choose(self.compute, &opened.repository, self.threads(), console)?;
        #[cfg(feature = "gpu")]
        if let Some(device) = &device {
            options.accelerator = Some(Arc::clone(device) as Arc<dyn Accelerator>);
        }
        let cancel = cancel_on_signal(console, "stored data are kept and will be reused")?;
        let (losses, unused, result) = watched(console, |progress| {
            let (repository, paths) = (&opened.repository, &self.paths);
            let result = match &stream {
                Some(stream) => {
                    backup::backup_stream(repository, stream, &options, progress, &cancel)
                        .map(|made| Outcome::Snapshot(Box::new(made)))
                }
                None if self.dry_run => {
                    backup::rehearse(repository, paths, &options, progress, &cancel)
                        .map(Outcome::Rehearsal)
                }
                None => backup::backup(repository, paths, &options, progress, &cancel)
                    .map(|made| Outcome::Snapshot(Box::new(made))),
            };
            let unused = progress.unused_excludes.get().cloned().unwrap_or_default();
            (progress.losses.load(Ordering::Relaxed), unused, result)
        });
        // The index is loaded by the backup, once it has given notice of itself.
        opened.repository.warnings().iter().for_each(|warning| console.warn(warning));
        opened.repository.index_trouble().iter().for_each(|trouble| console.warn(trouble));
        opened.tell_of_memory(console);
        let outcome = result?;
        #[cfg(feature = "gpu")]
        if let Some(lost) = device.as_ref().and_then(|device| device.lost()) {
            console.warn(format_args!("{lost}; the CPU did the rest"));
        }
        if !console.is_json() {
            self.tell_unused(&unused, console);
        }
        outcome.show(unused, console)?;
        if losses == 0 {
            return Ok(Exit::Fine);
        }
        if !console.is_json() {
            let them = if losses == 1 { "it" } else { "them" };
            console.warn(format_args!("{losses} could not be read; the snapshot lacks {them}"));
        }
        Ok(Exit::Incomplete)
    }

    /// Reports patterns that matched nothing: each one from the command line, but only the number of
    /// those from files, because these are often shared by several machines.
    fn tell_unused(&self, unused: &[String], console: &Console) {
        let (given, listed): (Vec<_>, Vec<_>) =
            unused.iter().partition(|pattern| self.excludes.contains(pattern));
        for pattern in given {
            console.warn(format_args!("--exclude '{pattern}' matched nothing"));
        }
        if console.is_verbose() {
            listed
                .iter()
                .for_each(|pattern| console.detail(format!("'{pattern}' matched nothing")));
        } else if !listed.is_empty() {
            console.notice(format_args!(
                "{} of --exclude-file matched nothing; --verbose names them",
                count::patterns(listed.len() as u64)
            ));
        }
    }

    /// The output of a program or standard input, if one was requested.
    fn stream(&self) -> Result<Option<Stream>> {
        let name = self.stdin_filename.as_bytes().to_vec();
        if self.stdin {
            let input = io::stdin().as_fd().try_clone_to_owned();
            let input = input.context("cannot read standard input")?.into();
            return Ok(Some(Stream { name, input, expect_whole: Box::new(|| Ok(())) }));
        }
        if !self.stdin_from_command {
            return Ok(None);
        }
        let (program, arguments) = self.paths.split_first().expect("a PATH is required");
        let mut command = Command::new(program);
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run '{}'", program.display()))?;
        let input = OwnedFd::from(child.stdout.take().expect("it is piped")).into();
        let (child, program) = (Mutex::new(child), program.display().to_string());
        let expect_whole = move || {
            let ended = child.lock().expect("it is locked once").wait();
            match ended {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(format!("'{program}' failed: {status}")),
                Err(error) => Err(format!("cannot get the exit status of '{program}': {error}")),
            }
        };
        Ok(Some(Stream { name, input, expect_whole: Box::new(expect_whole) }))
    }

    #[cfg(feature = "gpu")]
    fn threads(&self) -> NonZero<usize> {
        let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        self.threads.unwrap_or_else(cores)
    }

    fn options(&self, opened: &OpenRepository, console: &Console) -> Result<Options> {
        let mut excludes = self.excludes.clone();
        for path in &self.exclude_files {
            let lines = fs::read_to_string(path)
                .with_context(|| format!("cannot read the patterns in '{}'", path.display()))?;
            excludes.extend(lines.lines().map(str::to_owned));
        }
        let mut markers = self.exclude_if_present.clone();
        markers.extend(self.exclude_caches.then(Marker::cache));
        Ok(Options {
            host: self.host.clone().unwrap_or_else(host::name),
            user: host::user(),
            tags: self.tags.iter().flat_map(TagList::tags).cloned().collect(),
            excludes,
            ignore_files: self.ignore_files,
            exclude_if_present: markers,
            one_file_system: self.one_file_system,
            devices: self.devices.clone(),
            full_paths: self.full_paths,
            force: self.force,
            compression: self.compression.into(),
            own_repository: opened.place.identity()?,
            count_first: console.is_json() || !console.bars().is_hidden(),
            threads: self.threads,
            ..Options::default()
        })
    }
}

/// Refuses sources that are or are in the repository: a backup would back up its own output.
fn refuse_own<'a>(paths: impl Iterator<Item = &'a PathBuf>, root: &Path) -> Result<()> {
    for path in paths {
        // A path that cannot be resolved is for the backup to report.
        if path.canonicalize().is_ok_and(|real| real.starts_with(root)) {
            bail!("'{}' is in the repository itself and cannot be backed up to it", path.display());
        }
    }
    Ok(())
}

/// The result of a backup.
enum Outcome {
    Snapshot(Box<(ObjectId, Snapshot)>),
    Rehearsal(Summary),
}

impl Outcome {
    fn show(&self, unused_excludes: Vec<String>, console: &Console) -> Result<()> {
        let (summary, made, last) = match self {
            Self::Snapshot(made) => {
                let (id, snapshot) = &**made;
                if let Some(parent) = snapshot.parent {
                    let by = format_args!("unchanged files were recognised by snapshot {parent}");
                    console.detail(by);
                }
                let summary = &snapshot.summary;
                let last = format!("snapshot {id} in {:.1} s", seconds(summary));
                (summary, Some(Made::of(*id, snapshot)), last)
            }
            Self::Rehearsal(summary) => (summary, None, "dry run: nothing was stored".into()),
        };
        let mut output = Output::new();
        if console.is_json() {
            output.json_line(&Done::of(summary, made, unused_excludes))?;
        } else if !console.is_quiet() {
            for line in describe(summary) {
                output.line(line)?;
            }
            output.line(last)?;
        }
        output.finish()
    }
}

/// Lines on the files read and the bytes stored.
fn describe(summary: &Summary) -> [String; 3] {
    let Summary { files, unchanged_files, directories, others, .. } = *summary;
    let read = HumanCount(files.saturating_sub(unchanged_files));
    let unchanged = HumanCount(unchanged_files);
    let dedup = match dedup_ratio(summary) {
        Some(ratio) => format!("dedup {}", ratio::times(ratio)),
        None => "nothing new".into(),
    };
    [
        format!("{}: {read} new or changed, {unchanged} unchanged", count::files(files)),
        format!("{}, {}", count::directories(directories), count::others(others)),
        format!(
            "{} in files, {} new, {} stored; {dedup}",
            HumanBytes(summary.bytes),
            HumanBytes(summary.new_bytes),
            HumanBytes(summary.stored_bytes),
        ),
    ]
}

fn seconds(summary: &Summary) -> f64 {
    summary.milliseconds as f64 / 1000.0
}

fn dedup_ratio(summary: &Summary) -> Option<f64> {
    (summary.new_bytes > 0).then(|| summary.bytes as f64 / summary.new_bytes as f64)
}

impl Made {
    fn of(id: ObjectId, snapshot: &Snapshot) -> Self {
        Self {
            snapshot: id.to_string(),
            parent: snapshot.parent.map(|parent| parent.to_string()),
            time: rfc3339(snapshot.time),
        }
    }
}

impl Done {
    fn of(summary: &Summary, made: Option<Made>, unused_excludes: Vec<String>) -> Self {
        Self {
            r#type: "summary",
            made,
            files: summary.files,
            unchanged_files: summary.unchanged_files,
            directories: summary.directories,
            others: summary.others,
            bytes: summary.bytes,
            new_bytes: summary.new_bytes,
            stored_bytes: summary.stored_bytes,
            dedup_ratio: dedup_ratio(summary),
            unreadable: summary.unreadable,
            unused_excludes,
            seconds: seconds(summary),
        }
    }
}
