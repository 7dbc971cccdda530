//! Restoring: from a snapshot back to files.
//!
//! One thread walks the trees, makes directories, and collects files and where their chunks lie in a
//! window; others write a window while the next one is collected. In a window every group of chunks is
//! fetched and decoded once, and every chunk verified. A file appears under its name only when all of
//! it is written: until then it has a temporary one, and what stood there before stays. Hard links
//! follow when all files are there, and directories get their times last.
//!
//! A short file has no name at all until it is whole, where the file system has such files.
//!
//! A restore that was cut off leaves temporary files. Their names follow from what they are to
//! become and where, so another restore of the same finds them, compares what they hold chunk by
//! chunk, and writes only what is missing. Those that nothing came of are removed at the end; files
//! that only look like them stay.
//!
//! After a power cut a file may be there under its name, with its length and times, and without its
//! bytes. Where the length may come first the file is therefore synced before it gets its name.

mod context;
mod delete;
mod device;
mod file;
mod moves;
mod nameless;
mod options;
mod report;
mod seed;
mod selection;
mod standing;
mod target;
mod wanted;
mod window;
mod writer;

use std::io::{self, ErrorKind};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use crossbeam_channel::{Receiver, Sender};
use onefold_cdc::Chunker;
use rustix::fs::{FileType, Stat};

use self::context::Context;
use self::delete::{Deleting, Extra};
pub use self::device::{DeviceOptions, DeviceReport, Disk, restore_device, restore_disk};
use self::file::RestoredFile;
use self::nameless::Nameless;
pub use self::options::{Options, Overwrite};
use self::report::Counts;
pub use self::report::Report;
use self::seed::Seeds;
use self::selection::Selection;
use self::target::{Components, Target};
use self::window::{Window, content_of};
use self::writer::Writer;
use crate::reading::entries::Entries;
use crate::reading::trees_ahead;
use crate::reading::walk::walk;
use crate::system;
use crate::tree::inodes::Inodes;
use crate::tree::{self, Detail, Entry, Meta, Node};
use crate::{Act, Cancel, Progress, Recipe, Repository, StoreError, threads};

/// Containers whose footers are read for the next window: so few that the reader keeps them until then.
const FOOTERS_AHEAD: usize = 32;

/// Restores `entry` to `target`.
///
/// A directory's content, and its metadata, goes to `target` itself; anything else becomes an
/// entry of `target`. Whatever cannot be restored is reported to `progress`, counted as failed,
/// and does not stop the rest. No byte is written that its fingerprint does not vouch for, and
/// none outside `target`.
pub fn restore(
    repository: &Repository,
    entry: &Entry,
    target: &Path,
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Report, StoreError> {
    let selection = Selection::new(options)?;
    let (root, is_there) = match options.dry_run {
        true => Target::open_nearest(target),
        false => Target::open(target).map(|root| (root, true)),
    }
    .map_err(StoreError::file("open target", target))?;
    let root = Arc::new(root);
    let chunks = repository.reader()?;
    let threads = options.threads.map_or_else(threads::cores, NonZero::get);
    let chunker = Chunker::new(&repository.config().params)?;
    let seeds = match options.dry_run {
        true => Seeds::default(),
        false => Seeds::read(&options.seeds, &chunker, &chunks, threads, (progress, cancel))?,
    };
    let counts = Counts::default();
    let (full, failed) = (OnceLock::new(), Mutex::default());
    let context = Context {
        chunks: &chunks,
        chunker,
        target,
        options,
        progress,
        cancel,
        counts: &counts,
        nameless: Nameless::default(),
        seeds,
        full,
        outage: OnceLock::new(),
        failed,
        look_temporary: Mutex::default(),
    };
    // While one window is written another is collected.
    let (windows, collected) = crossbeam_channel::bounded(0);
    let mut plan = Plan {
        context: &context,
        selection: &selection,
        windows,
        window: Window::first(),
        directories: Vec::new(),
        found: vec![Arc::default()],
        extras: Vec::new(),
        links: Vec::new(),
        inodes: Inodes::default(),
        levels: Vec::new(),
    };
    trees_ahead::read(&chunks, [&entry.node].into_iter(), &|_| false);
    let is_over = AtomicBool::new(false);
    let walked = thread::scope(|scope| {
        let writer = Writer::new(&context, &root, threads);
        scope.spawn(move || write(&writer, collected));
        if options.count_first && !options.dry_run && !progress.has_totals() {
            scope.spawn(|| count(&context, &selection, entry, &is_over));
        }
        let walked = plan.root(&root, is_there, entry).and_then(|()| plan.hand_over());
        is_over.store(true, Ordering::Relaxed);
        // Without a sender the threads end when the queue is empty.
        plan.close();
        walked
    });
    if walked.is_err() {
        plan.window.give_up(&context);
    }
    if let Err(error) = walked.and_then(|()| context.go_on()) {
        return Err(context.outage.into_inner().unwrap_or(error));
    }
    if !options.dry_run {
        plan.link_files(&root);
        plan.remove_leftovers(&root);
    }
    let undeleted = plan.delete(&root)?;
    if !options.dry_run {
        plan.finish_directories(&root);
    }
    Ok(Report { undeleted, ..counts.report() })
}

/// Counts what is to be restored, for who watches. What cannot be read the restore reports.
fn count(context: &Context<'_>, selection: &Selection, entry: &Entry, is_over: &AtomicBool) {
    let (mut files, mut bytes) = (0, 0);
    let mut add = |entry: &Entry| {
        if let Node::File { content, .. } = &entry.node {
            files += 1;
            bytes += content.len;
        }
    };
    add(entry);
    let walked = walk(context.chunks, entry, &mut |path, entry| {
        if is_over.load(Ordering::Relaxed) {
            return Err(StoreError::Stopped);
        }
        context.go_on()?;
        if selection.takes(path, matches!(entry.node, Node::Directory { .. })) {
            add(entry);
        }
        Ok(())
    });
    if walked.is_ok() {
        context.progress.total_files.store(files, Ordering::Relaxed);
        context.progress.total_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Writes each window that comes, until no more can come.
fn write(writer: &Writer<'_>, windows: Receiver<Window>) {
    windows.into_iter().for_each(|window| writer.write(window));
}

/// What the walking thread does now and what it keeps for the end.
struct Plan<'a> {
    context: &'a Context<'a>,
    selection: &'a Selection,
    windows: Sender<Window>,
    /// Files that are not handed over yet.
    window: Window,
    /// Directories in the order they were made, with the metadata they get at the end.
    directories: Vec<(Arc<Components>, Meta)>,
    /// Directories that were there already.
    found: Vec<Arc<Components>>,
    /// What the target has and the snapshot has not.
    extras: Vec<Extra>,
    /// Names that become hard links of a file restored under another name.
    links: Vec<Link>,
    inodes: Inodes<Components>,
    /// From the target down to the directory at hand.
    levels: Vec<Level>,
}

struct Link {
    path: Components,
    first: Components,
    /// Bytes of the file, for the progress.
    bytes: u64,
}

impl Plan<'_> {
    fn root(
        &mut self,
        root: &Arc<Target>,
        is_there: bool,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        let opened = Opened { target: Arc::clone(root), path: Arc::default(), is_new: !is_there };
        let (meta, state) = (entry.meta.clone(), State::Open(opened));
        self.levels.push(Level { name: Arc::default(), meta, state });
        if !matches!(entry.node, Node::Directory { .. }) {
            return self.entry(entry);
        }
        if self.selection.takes_root() && !entry.is_synthetic_root() {
            Counts::add(&self.context.counts.directories, 1);
            self.directories.push((Arc::default(), entry.meta.clone()));
        }
        self.children(entry)
    }

    /// Lets the writing threads end.
    fn close(&mut self) {
        self.windows = crossbeam_channel::bounded(0).0;
    }

    /// The path of the directory at hand.
    fn path(&self) -> Components {
        self.levels.iter().skip(1).map(|level| Arc::clone(&level.name)).collect()
    }

    fn path_of(&self, entry: &Entry) -> Components {
        let mut path = self.path();
        path.push(entry.name[..].into());
        path
    }

    fn children(&mut self, entry: &Entry) -> Result<(), StoreError> {
        match self.note_names(entry) {
            Ok(names) if self.context.options.delete && !entry.is_synthetic_root() => {
                self.note_extras(&names);
            }
            Ok(_) => {}
            Err(error) => return self.unread(error),
        }
        let mut entries = Entries::of_directory(entry)?;
        loop {
            match entries.next(self.context.chunks, Detail::All) {
                Ok(Some(child)) => {
                    entries.park_before(&child);
                    self.entry(&child)?;
                }
                Ok(None) => return Ok(()),
                Err(error) => return self.unread(error),
            }
        }
    }

    /// Reports that what the directory at hand holds cannot be read, and goes on with others if they
    /// may be read.
    fn unread(&self, error: StoreError) -> Result<(), StoreError> {
        let fate = if error.is_no_answer() { "cannot be read" } else { "is lost" };
        let reason = format!("what it holds {fate}: {}", self.context.reason(error));
        self.context.failed(&self.path(), reason);
        self.context.go_on()
    }

    /// Looks for names like those of temporary files before any such file is made, and whether the
    /// tree can be read. Gives all names, in ascending order, if others are to be deleted.
    fn note_names(&self, directory: &Entry) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut entries = Entries::of_directory(directory)?;
        let mut names = Vec::new();
        while let Some(child) = entries.next(self.context.chunks, Detail::Outline)? {
            if target::looks_temporary(&child.name) {
                let mut known =
                    self.context.look_temporary.lock().expect("no thread panics with it locked");
                known.insert(child.name.clone());
            }
            if self.context.options.delete {
                names.push(child.name);
            }
        }
        Ok(names)
    }

    /// Notes what the target has in the directory at hand beside `known`, which the snapshot has.
    /// Nothing of this restore is written there yet. Directories on other file systems than the
    /// target, and those above sources, of which the snapshot has a part, lose nothing.
    fn note_extras(&mut self, known: &[Vec<u8>]) {
        let path = self.path();
        let root = match &self.levels[0].state {
            State::Open(root) if !root.is_new => Arc::clone(&root.target),
            _ => return,
        };
        match self.levels.last().map(|level| &level.state) {
            Some(State::Open(opened)) if !opened.is_new => {}
            // Nothing of it is restored, but what it has besides may be to be deleted.
            Some(State::Closed) => {}
            _ => return,
        }
        if self.is_above_source(&path) {
            return;
        }
        let own = self.context.options.own_repository;
        let names = root.find_unmounted(&path).and_then(|target| match target {
            Some(target) if target.is(own)? => {
                Err(io::Error::other("it is the repository that is restored from"))
            }
            Some(target) => target.names_beside(known),
            None => Ok(Vec::new()),
        });
        match names {
            Ok(names) => {
                let directory = Arc::new(path);
                let extra =
                    |name| Extra { directory: Arc::clone(&directory), name: Arc::from(name) };
                self.extras.extend(names.into_iter().map(extra));
            }
            Err(error) => {
                let reason = format!("nothing is deleted from it or elsewhere: {error}");
                self.context.failed(&path, reason);
            }
        }
    }

    /// Whether a source of the snapshot lies below the directory at `path`.
    fn is_above_source(&self, path: &[Arc<[u8]>]) -> bool {
        self.context.options.sources.iter().any(|source| {
            let mut names = source.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            path.iter().all(|name| names.next() == Some(name)) && names.next().is_some()
        })
    }

    /// Deletes what was noted, and returns how many names stay because something was not restored: a
    /// user may need what the target has in its place.
    fn delete(&self, root: &Target) -> Result<u64, StoreError> {
        if self.context.counts.failed.load(Ordering::Relaxed) > 0 {
            return Ok(self.extras.len() as u64);
        }
        Deleting { context: self.context, selection: self.selection }.delete(root, &self.extras)?;
        Ok(0)
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        self.context.go_on()?;
        let is_directory = matches!(entry.node, Node::Directory { .. });
        let mut is_picked = true;
        if !self.selection.is_all() {
            let above = self.path();
            if self.selection.leaves_out(&above, &entry.name, is_directory) {
                return Ok(());
            }
            is_picked = self.selection.picks(&above, &entry.name, is_directory);
        }
        if is_directory {
            let (name, meta) = (entry.name[..].into(), entry.meta.clone());
            self.levels.push(Level { name, meta, state: State::Closed });
            tree::check_depth(self.levels.len())?;
            let may_go_on = !is_picked || self.open().is_some();
            let result = if may_go_on { self.children(entry) } else { Ok(()) };
            self.levels.pop();
            return result;
        }
        match is_picked.then(|| self.open()).flatten() {
            Some(directory) => self.leaf(&directory, entry),
            None => Ok(()),
        }
    }

    /// Opens the directory at hand, and makes it and those above it if they are not there yet.
    ///
    /// `None` if that cannot be done, which is reported once.
    fn open(&mut self) -> Option<Opened> {
        let mut above: Option<Opened> = None;
        for depth in 0..self.levels.len() {
            let level = &self.levels[depth];
            above = Some(match &level.state {
                State::Open(opened) => opened.clone(),
                State::Failed => return None,
                State::Closed => {
                    let made = above?.make_directory(&level.name, self.context.options.dry_run);
                    self.enter(depth, made)?
                }
            });
        }
        above
    }

    /// Takes note of the directory that was made, or could not be made, at `depth`.
    fn enter(&mut self, depth: usize, made: io::Result<(Arc<Target>, bool)>) -> Option<Opened> {
        let names = self.levels[1..=depth].iter().map(|level| Arc::clone(&level.name));
        let path = Arc::new(names.collect());
        let level = &mut self.levels[depth];
        match made {
            Ok((target, is_new)) => {
                let opened = Opened { target, path: Arc::clone(&path), is_new };
                level.state = State::Open(opened.clone());
                if let (true, true, Some((name, above))) =
                    (is_new, self.context.options.dry_run, path.split_last())
                {
                    self.context.act(Act::Create, above, name);
                }
                Counts::add(&self.context.counts.directories, 1);
                if !is_new {
                    self.found.push(Arc::clone(&path));
                }
                if is_new || self.context.options.overwrite != Overwrite::Never {
                    self.directories.push((path, level.meta.clone()));
                }
                Some(opened)
            }
            Err(error) => {
                level.state = State::Failed;
                self.context.failed(&path, error.to_string());
                None
            }
        }
    }

    /// Restores what is no directory.
    fn leaf(&mut self, directory: &Opened, entry: &Entry) -> Result<(), StoreError> {
        let (context, target) = (self.context, &*directory.target);
        let path = &self.path_of(entry);
        context.progress.at(|| context.show(path));
        let act = match self.is_in_the_way(directory, entry) {
            Ok(InTheWay::Stays) => Act::Keep,
            Ok(InTheWay::Goes) => Act::Replace,
            Ok(InTheWay::Nothing) => Act::Create,
            Err(error) => {
                context.failed(path, error.to_string());
                return Ok(());
            }
        };
        if context.options.dry_run {
            context.act(act, &directory.path, &entry.name);
        }
        if act == Act::Keep {
            Counts::add(&context.counts.kept, 1);
            Progress::add(&context.progress.files, 1);
            Progress::add(&context.progress.bytes, entry.content_len());
            // Further names of a file that is as it should be become links to it.
            if context.options.overwrite == Overwrite::IfChanged {
                self.inodes.note(entry, path);
            }
            return Ok(());
        }
        if act == Act::Replace {
            Counts::add(&context.counts.replaced, 1);
        }
        let bytes = entry.content_len();
        if let Some(first) = self.inodes.first_name(entry, path) {
            let first = first.clone();
            match context.options.dry_run {
                true => Counts::add(&context.counts.files, 1),
                false => self.links.push(Link { path: path.clone(), first, bytes }),
            }
            return Ok(());
        }
        if context.options.dry_run {
            let is_file = matches!(entry.node, Node::File { .. });
            let counts = context.counts;
            Counts::add(if is_file { &counts.files } else { &counts.others }, 1);
            Counts::add(&counts.bytes, bytes);
            return Ok(());
        }
        if matches!(entry.node, Node::File { .. }) {
            let is_standing = act == Act::Replace
                && context.chunks.is_far()
                && target.is_file(&entry.name).unwrap_or(false);
            return self.file(directory, entry, path, is_standing);
        }
        let made = target.replace(&entry.name, |temporary| {
            target.make_special(temporary, &entry.node)?;
            target.set_special_meta(temporary, &entry.meta, &entry.node)
        });
        match made {
            Ok(missing) => {
                Counts::add(&context.counts.others, 1);
                context.incomplete(path, missing);
            }
            Err(error) => context.failed(path, error.to_string()),
        }
        Ok(())
    }

    fn is_in_the_way(&self, directory: &Opened, entry: &Entry) -> io::Result<InTheWay> {
        // Nothing stands in a directory that was made here.
        if directory.is_new {
            return Ok(InTheWay::Nothing);
        }
        let target = &directory.target;
        let Some(stat) = target.stat(&entry.name)? else { return Ok(InTheWay::Nothing) };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(io::Error::other("a directory stands in its place"));
        }
        Ok(match self.context.options.overwrite {
            Overwrite::Always => InTheWay::Goes,
            Overwrite::Never => InTheWay::Stays,
            Overwrite::IfChanged => match looks_the_same(target, entry, &stat)? {
                true if self.context.options.verify => self.verify_kept(target, entry),
                true => InTheWay::Stays,
                false => InTheWay::Goes,
            },
        })
    }

    /// Compares a file that looks unchanged with the snapshot; if it differs, it is replaced.
    fn verify_kept(&self, target: &Target, entry: &Entry) -> InTheWay {
        match file::verify(self.context, target, entry) {
            Ok(()) if matches!(entry.node, Node::File { .. }) => {
                Counts::add(&self.context.counts.verified, 1);
                InTheWay::Stays
            }
            Ok(()) => InTheWay::Stays,
            Err(_) => InTheWay::Goes,
        }
    }

    /// Lets a file wait for its window to be full. If another `is_standing` in its place, that may have
    /// some of its chunks.
    fn file(
        &mut self,
        directory: &Opened,
        entry: &Entry,
        path: &Components,
        is_standing: bool,
    ) -> Result<(), StoreError> {
        let Some((size, content)) = content_of(entry) else { return Ok(()) };
        if !Window::is_short(size) {
            return self.long_file(directory, entry, content, path, is_standing);
        }
        let (chunks, mut leaves) = (self.context.chunks, Vec::new());
        let visited = chunks.visit(content, &mut |leaf| {
            leaves.push((chunks.place_of(&leaf.root), leaf));
            Ok(())
        });
        match visited {
            Ok(()) => {
                let number = self.window.push_short(&directory.path, entry, leaves);
                self.window.standing.extend(is_standing.then_some(number));
            }
            Err(error) => self.context.failed(path, self.context.reason(error)),
        }
        self.hand_over_if_full()
    }

    /// Lets the chunks of a long file wait, as many at a time as there is room for.
    fn long_file(
        &mut self,
        directory: &Opened,
        entry: &Entry,
        content: &Recipe,
        path: &Components,
        is_standing: bool,
    ) -> Result<(), StoreError> {
        let context = self.context;
        let target = Arc::clone(&directory.target);
        let file = Arc::new(RestoredFile::new(target, path.clone(), entry.clone()));
        let push = |window: &mut Window| {
            let number = window.push_long(&file);
            window.standing.extend(is_standing.then_some(number));
            number
        };
        let mut number = push(&mut self.window);
        let (mut start, mut stopped) = (0, None);
        let visited = context.chunks.visit(content, &mut |leaf| {
            if file.has_failed() {
                return Err(StoreError::Stopped);
            }
            let begins = start;
            start += leaf.len;
            if file.has_chunk(&leaf, begins, context) {
                return context.go_on();
            }
            file.expects_chunk();
            self.window.push_chunk(number, begins, leaf, context.chunks.place_of(&leaf.root));
            if self.window.is_full() {
                self.hand_over().inspect_err(|_| stopped = Some(StoreError::Stopped))?;
                number = push(&mut self.window);
            }
            Ok(())
        });
        if let Err(error) = visited {
            file.fail(context.reason(error));
        }
        if file.is_done() {
            // Nobody writes to it any more.
            if file.must_be_synced(context) {
                file.sync(context);
            }
            file.finish(context);
        }
        context.go_on()?;
        stopped.map_or(Ok(()), Err)?;
        self.hand_over_if_full()
    }

    fn hand_over_if_full(&mut self) -> Result<(), StoreError> {
        if self.window.is_full() { self.hand_over() } else { Ok(()) }
    }

    /// Hands the files that wait to the writing threads.
    fn hand_over(&mut self) -> Result<(), StoreError> {
        self.context.go_on()?;
        let next = self.window.next();
        let full = std::mem::replace(&mut self.window, next);
        self.read_footers(&full);
        self.windows.send(full).map_err(|_| StoreError::Stopped)
    }

    /// Far away, reads the footers that a window needs while the window before it is written. For the
    /// first window the writing thread would only wait, so that thread reads them itself; and where files
    /// at hand may have the content, nobody knows yet which footers are needed.
    fn read_footers(&self, window: &Window) {
        let chunks = self.context.chunks;
        let has_other_sources =
            !window.standing.is_empty() || !self.context.options.seeds.is_empty();
        if chunks.is_far() && !window.is_first() && !has_other_sources {
            let mut containers = window.containers();
            containers.truncate(FOOTERS_AHEAD);
            chunks.prepare_directories(&containers);
        }
    }

    /// Makes the hard links; every file is there by now.
    fn link_files(&self, root: &Target) {
        for Link { path, first, bytes } in &self.links {
            let is_there = !self.context.has_failed(first);
            let link = || -> io::Result<()> {
                if !is_there {
                    return Err(io::Error::other("it could not be restored"));
                }
                let (name, directory) = path.split_last().expect("a file has a name");
                let (from, from_directory) = first.split_last().expect("a file has a name");
                let directory = root.descend(directory)?;
                let from_directory = root.descend(from_directory)?;
                directory
                    .replace(name, |temporary| directory.link(&from_directory, from, temporary))
            };
            match link() {
                Ok(()) => {
                    Counts::add(&self.context.counts.files, 1);
                    Progress::add(&self.context.progress.files, 1);
                    Progress::add(&self.context.progress.bytes, *bytes);
                }
                Err(error) => {
                    let first = self.context.show(first);
                    let reason = format!("cannot link it to '{}': {error}", first.display());
                    self.context.failed(path, reason);
                }
            }
        }
    }

    /// Removes what restores that were cut off have left in the directories that were there. What
    /// cannot be removed harms nothing.
    fn remove_leftovers(&self, root: &Target) {
        let spared = self.context.look_temporary.lock().expect("no thread panics with it locked");
        for path in &self.found {
            let _ = root.descend(path).and_then(|directory| directory.remove_leftovers(&spared));
        }
    }

    /// Gives directories their metadata, the deepest first: making entries changed their times.
    fn finish_directories(&self, root: &Target) {
        for (path, meta) in self.directories.iter().rev() {
            match root.descend(path).and_then(|directory| directory.set_meta(meta)) {
                Ok(missing) => self.context.incomplete(path, missing),
                Err(error) => self.context.failed(path, error.to_string()),
            }
        }
    }
}

enum InTheWay {
    Nothing,
    Stays,
    Goes,
}

fn looks_the_same(target: &Target, entry: &Entry, stat: &Stat) -> io::Result<bool> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let mtime = &entry.meta.mtime;
    Ok(match &entry.node {
        Node::File { size, .. } => {
            kind == FileType::RegularFile
                && stat.st_size as u64 == *size
                && stat.st_mtime == mtime.secs
                && stat.st_mtime_nsec as u32 == mtime.nanos
        }
        Node::Symlink { target: to } => {
            kind == FileType::Symlink && target.read_link(&entry.name)? == *to
        }
        Node::Fifo => kind == FileType::Fifo,
        Node::Socket => kind == FileType::Socket,
        Node::CharDevice { rdev } => {
            kind == FileType::CharacterDevice && system::special_device(stat) == *rdev
        }
        Node::BlockDevice { rdev } => {
            kind == FileType::BlockDevice && system::special_device(stat) == *rdev
        }
        Node::Directory { .. } => false,
    })
}

/// A directory on the way to the entry at hand; made only if something goes into it.
struct Level {
    name: Arc<[u8]>,
    meta: Meta,
    state: State,
}

enum State {
    Open(Opened),
    Closed,
    /// It could not be made, which was reported.
    Failed,
}

/// A directory of the target.
#[derive(Clone)]
struct Opened {
    /// Open. In a dry run a new directory does not exist: then this is one above it, and not used.
    target: Arc<Target>,
    path: Arc<Components>,
    /// Whether this restore made it.
    is_new: bool,
}

impl Opened {
    /// Makes the directory `name` in this one if it is missing, unless it is a `dry_run`, and opens
    /// it. True if it was made, or would be.
    fn make_directory(&self, name: &[u8], dry_run: bool) -> io::Result<(Arc<Target>, bool)> {
        if !dry_run {
            let (target, is_new) = self.target.make_directory(name)?;
            return Ok((Arc::new(target), is_new));
        }
        if self.is_new {
            return Ok((Arc::clone(&self.target), true));
        }
        match self.target.directory(name) {
            Ok(target) => Ok((Arc::new(target), false)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok((Arc::clone(&self.target), true))
            }
            Err(error) => Err(error),
        }
    }
}
