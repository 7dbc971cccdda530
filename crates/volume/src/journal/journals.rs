//! What a pool knows, in its folder: journals of batches, and checkpoints that take their place.
//!
//! A batch is a frame of a journal. Each writer has journals of its own; which frames count, and when a
//! batch is acknowledged, follows from the [fencing](super#fencing) of writers.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use onefold_backend::{Folder, Log, MountId};
use onefold_seal::ObjectId;
use onefold_seal::wire::WireError;

use crate::error::{VolumeError, told};
use crate::ids::Writer;
use crate::journal::acknowledged::{self, Position, Said};
use crate::journal::ahead::Ahead;
use crate::journal::frame::{self, End, Owner};
use crate::journal::mark::{self, Cut, LIMIT, Mark};
use crate::journal::metadata::{Checkpoint, Known, Metadata, Shard, Take, Taken};
use crate::seeded::fault;

/// Frames of one writer: which is the first, and whose they are. A checkpoint says how the pool is
/// before that frame.
///
/// In the order of time: of writers, and of frames of one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Begin {
    writer: Writer,
    first: u64,
}

const JOURNAL: &str = "journal-";
const CHECKPOINT: &str = "checkpoint-";
/// Copies that a repair keeps of what is given up.
const KEPT: &str = "lost-";

impl Begin {
    fn name(self, prefix: &str) -> String {
        format!("{prefix}{:016x}-{:016x}", self.writer.0, self.first)
    }

    /// The one whose name this is, with this prefix.
    fn of_name(name: &str, prefix: &str) -> Option<Self> {
        let (writer, first) = name.strip_prefix(prefix)?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let begin = Self { writer: Writer(number(writer)?), first: number(first)? };
        let is_possible = begin.writer.0 < LIMIT && begin.first < LIMIT;
        (is_possible && begin.name(prefix) == name).then_some(begin)
    }

    fn all(names: &[String], prefix: &str) -> Vec<Self> {
        let mut all: Vec<Self> =
            names.iter().filter_map(|name| Self::of_name(name, prefix)).collect();
        all.sort();
        all
    }

    /// Before which frame those of this writer, from this one on, end, as far as others say.
    fn end(self, journals: &[Self], cut: Cut) -> Option<u64> {
        let later = journals.iter().filter(|one| **one > self);
        let cut = (self.writer < cut.writer).then_some(cut.first);
        later.map(|one| one.first).chain(cut).min()
    }
}

/// What a journal or a checkpoint is called.
pub(crate) fn name_of(is_checkpoint: bool, writer: Writer, first: u64) -> String {
    Begin { writer, first }.name(if is_checkpoint { CHECKPOINT } else { JOURNAL })
}

/// What the copy of the file `name` is called that the repair of `writer` keeps.
pub fn kept_name(writer: Writer, name: &str) -> String {
    format!("{KEPT}{:016x}-{name}", writer.0)
}

/// Whose repair kept the copy `name`, if it is one.
fn writer_of_kept(name: &str) -> Option<Writer> {
    let (digits, _) = name.strip_prefix(KEPT)?.split_once('-')?;
    u64::from_str_radix(digits, 16).ok().filter(|number| *number < mark::LIMIT).map(Writer)
}

/// What a folder knows of its pool.
pub struct Journals {
    folder: Arc<dyn Folder>,
    /// Where the folder is.
    mount: Option<MountId>,
    pool: ObjectId,
    /// Once the pool was taken over; apart from the journal, since who only looks at it waits for no
    /// sync of that.
    mark: Mutex<Option<Mark>>,
    journal: Mutex<Journal>,
    /// The last frame that this writer acknowledged.
    last: Mutex<Option<Position>>,
    /// Apart from `last`, since its holder waits for syncs of the record.
    record: Mutex<Recorded>,
}

/// What this process knows of the record of the last acknowledged position.
#[derive(Default)]
struct Recorded {
    /// Open once something was written or found there.
    record: Option<acknowledged::Record>,
    /// What this writer last wrote.
    last: Option<Position>,
    /// Why neither copy could be read when the pool was taken over, if so.
    problem: Option<String>,
}

/// How far a pool's files could be read.
pub(crate) struct Found {
    /// The checkpoint; its journal begins with the first frame that is not in it.
    base: Begin,
    /// The first that is nowhere.
    pub(crate) next: u64,
    /// In how many journals those between are.
    places: u64,
    /// Why frames that count are not all there. Those before `next` are.
    pub(crate) problem: Option<VolumeError>,
    /// The journals in which frames from `next` on are, or were.
    pub(crate) left: Vec<String>,
}

/// The journal that takes batches now.
#[derive(Default)]
struct Journal {
    /// And the number of its first frame. None before the first batch of a writer.
    open: Option<(Ahead, u64)>,
    /// Of the next frame.
    next: u64,
    /// Of the first frame that is not in the last checkpoint.
    base: u64,
    /// Whether the next checkpoint is written though nothing came since the last.
    is_outdated: bool,
    /// Why nothing more is taken.
    stopped: Option<String>,
}

impl Journal {
    fn ensure_running(&self) -> Result<(), VolumeError> {
        match &self.stopped {
            None => Ok(()),
            Some(why) => Err(VolumeError::Stopped { why: why.clone() }),
        }
    }

    /// Nothing more is taken, since nobody knows what is durable.
    fn stop(&mut self, what: &str, error: &dyn std::error::Error) -> VolumeError {
        let why = format!("{what}: {}", told(error));
        self.stopped = Some(why.clone());
        VolumeError::Stopped { why }
    }

    /// The same after the mark could not be looked at or written, or is another writer's, which is
    /// told as it is.
    fn stop_by_mark(&mut self, what: &str, error: VolumeError) -> VolumeError {
        let stopped = self.stop(what, &error);
        if matches!(error, VolumeError::Superseded { .. }) { error } else { stopped }
    }
}

impl Journals {
    /// Those of the pool `id` in `folder`.
    pub fn new(folder: Arc<dyn Folder>, id: ObjectId) -> Self {
        Self {
            mount: folder.mount(),
            folder,
            pool: id,
            mark: Mutex::new(None),
            journal: Mutex::default(),
            last: Mutex::default(),
            record: Mutex::default(),
        }
    }

    /// Makes those of a new pool, of which nothing is known.
    pub fn create(folder: &dyn Folder, id: ObjectId) -> Result<(), VolumeError> {
        let begin = Begin { writer: Writer(0), first: 0 };
        Mark::create(folder, id)?;
        folder.log(&begin.name(JOURNAL))?.truncate(0)?;
        let mut checkpoint = folder.log(&begin.name(CHECKPOINT))?;
        checkpoint.truncate(0)?;
        frame::append(&mut *checkpoint, Owner { pool: id, writer: begin.writer }, 0, &[])?;
        Ok(checkpoint.sync()?)
    }

    /// Whether `name` is one that [`create`](Self::create) makes.
    pub(crate) fn is_of_new(name: &str) -> bool {
        let begin = Begin { writer: Writer(0), first: 0 };
        name == mark::NAME || [JOURNAL, CHECKPOINT].iter().any(|prefix| name == begin.name(prefix))
    }

    /// Whether `name` is that of a journal or checkpoint of a process that opened a pool.
    pub(crate) fn is_of_writer(name: &str) -> bool {
        let mut all = [JOURNAL, CHECKPOINT].iter().filter_map(|one| Begin::of_name(name, one));
        all.any(|one| one.writer > Writer(0))
    }

    fn expect(&self, shard: Shard) {
        assert_eq!(shard, Shard::of(self.pool), "a folder has one pool");
    }

    fn mark(&self) -> MutexGuard<'_, Option<Mark>> {
        self.mark.lock().expect("nobody panics with it")
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().expect("nobody panics with it")
    }

    /// Fails unless `writer` owns the pool, as the mark says.
    fn ensure_own(&self, writer: Writer) -> Result<(), VolumeError> {
        match &*self.mark() {
            Some(mark) if mark.writer() == writer => mark.ensure_own(),
            Some(mark) => Err(VolumeError::Superseded { writer, by: mark.writer() }),
            None => Err(nobody()),
        }
    }

    fn owner(&self, writer: Writer) -> Owner {
        Owner { pool: self.pool, writer }
    }

    fn last(&self) -> MutexGuard<'_, Option<Position>> {
        self.last.lock().expect("nobody panics with it")
    }

    fn record(&self) -> MutexGuard<'_, Recorded> {
        self.record.lock().expect("nobody panics with it")
    }

    /// Reads what counts for the writer that has just claimed `mark`, up to the first frame that is
    /// missing or damaged.
    pub(crate) fn read(&self, mark: &Mark, take: &mut Take<'_>) -> Result<Found, VolumeError> {
        let (names, cut) = (self.folder.names()?, mark.cut());
        let journals = Begin::all(&names, JOURNAL);
        if let Some(late) = journals.last().filter(|one| one.writer >= mark.writer()) {
            let problem = format!("the mark knows no writer {}", late.writer);
            return Err(damaged(&late.name(JOURNAL), problem));
        }
        let acknowledged = self.read_record(&names)?;
        let base = self.read_checkpoint(&names, &journals, cut, take)?;
        let mut found =
            Found { base, next: base.first, places: 0, problem: None, left: Vec::new() };
        if !journals.contains(&base) {
            // it was made before the checkpoint was
            found.problem = Some(missing(&base.name(JOURNAL)));
        }
        let mut last_end = 0;
        for (at, journal) in journals.iter().enumerate() {
            let end = journal.end(&journals, cut);
            if end.is_some_and(|end| end <= found.next.max(journal.first)) {
                continue;
            }
            let name = journal.name(JOURNAL);
            found.left = journals[at..].iter().map(|one| one.name(JOURNAL)).collect();
            if journal.first != found.next {
                let (first, next) = (journal.first, found.next);
                let problem = format!("it begins with frame {first}, expected frame {next}");
                found.problem.get_or_insert(damaged(&name, problem));
                return Ok(found);
            }
            found.places += 1;
            let until = match (end, acknowledged) {
                (Some(end), _) => End::Before(end),
                (None, Some(one)) if self.is_as_written(&one, journal.writer) => End::CutShort,
                (None, _) => End::Torn,
            };
            let read =
                self.read_frames(*journal, JOURNAL, until, &mut |body| take(Known::Batch(body)))?;
            (found.next, last_end) = (read.next, read.end);
            if let Some(problem) = read.problem {
                let incomplete = VolumeError::Incomplete { journal: name, at: read.end, problem };
                found.problem.get_or_insert(incomplete);
                return Ok(found);
            }
        }
        if found.problem.is_none() {
            found.problem = self.lacks(&found, &journals, cut, acknowledged, last_end);
        }
        Ok(found)
    }

    /// Why frames up to `found.next` are not all that there were, though they follow one another.
    fn lacks(
        &self,
        found: &Found,
        journals: &[Begin],
        cut: Cut,
        acknowledged: Option<Position>,
        last_end: u64,
    ) -> Option<VolumeError> {
        let cut_begin = Begin { writer: cut.writer, first: cut.first };
        if cut.first >= found.base.first && cut.is_begun && !journals.contains(&cut_begin) {
            return Some(missing(&cut_begin.name(JOURNAL)));
        }
        let next = found.next;
        if next < cut.first {
            let problem = format!("frames {next} to {} are in no journal", cut.first - 1);
            return Some(damaged(mark::NAME, problem));
        }
        let Position { writer, first, frame, end, .. } =
            acknowledged.filter(|one| one.frame >= next)?;
        let journal = Begin { writer, first };
        let at =
            if journal.first <= next && journals.last() == Some(&journal) { last_end } else { 0 };
        let problem = format!(
            "frames {next} to {frame} are not here, though all were acknowledged, and the last of them \
             ended at byte {end}"
        );
        Some(VolumeError::Incomplete { journal: journal.name(JOURNAL), at, problem })
    }

    /// Whether the files hold all that `writer` wrote to them: it wrote on the mount that there is now,
    /// so no power cut came since.
    fn is_as_written(&self, acknowledged: &Position, writer: Writer) -> bool {
        acknowledged.writer == writer
            && acknowledged.mount.is_some()
            && acknowledged.mount == self.mount
    }

    /// The last frame that the record says was acknowledged.
    fn read_record(&self, names: &[String]) -> Result<Option<Position>, VolumeError> {
        let mut recorded = self.record();
        *recorded = Recorded::default();
        if !names.iter().any(|name| name == acknowledged::NAME) {
            return Ok(None);
        }
        // It is there to tell more, and keeps nobody from what there is without it.
        let (record, said) = match acknowledged::Record::open(&*self.folder, self.pool) {
            Ok(opened) => opened,
            Err(error) => {
                recorded.problem = Some(told(&error));
                return Ok(None);
            }
        };
        recorded.record = Some(record);
        Ok(match said {
            Said::Acknowledged(position) => Some(position),
            Said::Nothing => None,
            Said::Unreadable => {
                recorded.problem = Some("neither of its copies is whole".into());
                None
            }
        })
    }

    /// Lets what was `found` be all that counts, durably: frames from `found.next` on are given up.
    pub(crate) fn settle_for(&self, found: &Found, mark: &mut Mark) -> Result<(), VolumeError> {
        // It must be there, even if it has no frame.
        self.folder.log(&found.base.name(JOURNAL))?;
        mark.cut_at(found.next)?;
        // Frames that it names are gone. After a crash before this a repair does the same again.
        self.record().record.as_mut().map_or(Ok(()), acknowledged::Record::clear)
    }

    /// Makes the mark anew for the last writer that left anything in the folder, also if that is a copy
    /// that a repair kept. Frames of a writer count up to where a later one's journal begins.
    pub(crate) fn rebuild_mark(&self) -> Result<(), VolumeError> {
        let names = self.folder.names()?;
        let begun = [JOURNAL, CHECKPOINT].into_iter().flat_map(|prefix| Begin::all(&names, prefix));
        let recorded = self.read_record(&names)?.map(|one| one.writer);
        let kept = names.iter().filter_map(|name| writer_of_kept(name));
        let begun = begun.map(|one| one.writer);
        let last = begun.chain(recorded).chain(kept).max().unwrap_or_default();
        Mark::create_as(&*self.folder, self.pool, last, Cut::default())
    }

    /// Has the next checkpoint written though there was no batch since the last, which an earlier writer
    /// wrote: the pool says the same in another form by now. The pool was taken over.
    pub(crate) fn outdate_checkpoint(&self) {
        self.journal().is_outdated = true;
    }

    /// What of the folder could not be used, and is not needed to open the pool.
    pub(crate) fn warning(&self) -> Option<VolumeError> {
        let problem = self.record().problem.clone()?;
        Some(VolumeError::UnreadRecord { object: acknowledged::NAME, problem })
    }

    /// Reads the newest checkpoint that is whole. One that is not was being written when the power
    /// went, if there is an older one; these go once it is whole.
    fn read_checkpoint(
        &self,
        names: &[String],
        journals: &[Begin],
        cut: Cut,
        take: &mut Take<'_>,
    ) -> Result<Begin, VolumeError> {
        let mut why = missing("a checkpoint");
        for checkpoint in Begin::all(names, CHECKPOINT).into_iter().rev() {
            // one that tells of frames that do not count does not count
            if checkpoint.end(journals, cut).is_some_and(|end| end < checkpoint.first) {
                continue;
            }
            let mut is_whole = false;
            take(Known::Anew).expect("nothing is told");
            let read = self.read_frames(checkpoint, CHECKPOINT, End::Torn, &mut |body| {
                is_whole = body.is_empty();
                if is_whole { Ok(()) } else { take(Known::Checkpoint(body)) }
            });
            match read {
                Ok(read) if is_whole && read.problem.is_none() => return Ok(checkpoint),
                Ok(read) => {
                    let incomplete = || "it is not whole, and there is no older one".into();
                    why = VolumeError::Damaged {
                        object: checkpoint.name(CHECKPOINT),
                        at: read.end,
                        problem: read.problem.unwrap_or_else(incomplete),
                    };
                }
                Err(error @ VolumeError::Malformed { .. }) => why = error,
                Err(error) => return Err(error),
            }
        }
        Err(why)
    }

    fn read_frames(
        &self,
        begin: Begin,
        prefix: &str,
        until: End,
        take: &mut dyn FnMut(&[u8]) -> Result<(), WireError>,
    ) -> Result<frame::Read, VolumeError> {
        let name = begin.name(prefix);
        let mut log = self.folder.log(&name)?;
        // room that a writer kept ahead of it and could not give back, because it was killed
        log.reserve(0);
        frame::read(&*log, self.owner(begin.writer), begin.first, until, |body| {
            take(body).map_err(|source| VolumeError::Malformed { object: name.clone(), source })
        })
    }

    /// Lets frames go to a new journal that begins with the next, unless they do.
    fn begin_journal(&self, journal: &mut Journal, writer: Writer) -> Result<(), VolumeError> {
        if journal.open.as_ref().is_some_and(|(_, first)| *first == journal.next) {
            return Ok(());
        }
        let begin = Begin { writer, first: journal.next };
        // As soon as there may be a file of that name no frame counts that goes to the one before.
        let before = journal.open.take().map(|(ahead, _)| ahead);
        let mut log = self.folder.log(&begin.name(JOURNAL))?;
        // what is left of trying the same before
        log.truncate(0)?;
        let mut mark = self.mark();
        let mark = mark.as_mut().expect("the pool was taken over");
        if mark.cut().first == begin.first && !mark.cut().is_begun {
            let what = "the mark could not be written";
            mark.begin().map_err(|error| journal.stop_by_mark(what, error))?;
        }
        journal.open = Some((Ahead::instead_of(before, log), journal.next));
        Ok(())
    }
}

/// The pool was not taken over, or an opening of this one after the last failed.
fn nobody() -> VolumeError {
    VolumeError::Stopped { why: "it was opened again, which did not succeed".into() }
}

fn damaged(object: &str, problem: String) -> VolumeError {
    VolumeError::Damaged { object: object.to_owned(), at: 0, problem }
}

fn missing(object: &str) -> VolumeError {
    damaged(object, "it is missing".into())
}

impl Metadata for Journals {
    fn take_over(&self, shard: Shard, take: &mut Take<'_>) -> Result<Taken, VolumeError> {
        self.expect(shard);
        let mut journal = self.journal();
        // what another opening of this one holds
        *self.mark() = None;
        *journal = Journal::default();
        *self.last() = None;
        let mut mark = Mark::claim(&*self.folder, self.pool)?;
        let refused = |error| damaged(mark::NAME, format!("a writer was refused: {error}"));
        take(Known::Writer(mark.writer())).map_err(refused)?;
        let read = self.read(&mark, take).and_then(|found| match found.problem {
            Some(problem) => Err(problem),
            None => Ok(found),
        });
        if read.is_err() {
            // what is missing may have gone since, with a later writer's checkpoint
            mark.ensure_own()?;
        }
        let Found { base, next, places, .. } = read?;
        // before anything is changed or removed that a frame from here on could name
        mark.cut_at(next)?;
        let taken = Taken { writer: mark.writer(), sequence: next, places };
        *journal = Journal { next, base: base.first, ..Journal::default() };
        *self.mark() = Some(mark);
        Ok(taken)
    }

    fn apply_batch(
        &self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
        operations: &[u8],
    ) -> Result<(), VolumeError> {
        self.expect(shard);
        assert!(!operations.is_empty(), "a frame without a body ends a checkpoint");
        let mut journal = self.journal();
        journal.ensure_running()?;
        self.ensure_own(writer)?;
        match sequence.cmp(&journal.next) {
            Ordering::Less => return Ok(()),
            Ordering::Greater => {
                return Err(VolumeError::OutOfOrder { sequence, expected: journal.next });
            }
            Ordering::Equal => {}
        }
        if journal.open.is_none() {
            self.begin_journal(&mut journal, writer)?;
        }
        let (ahead, first) = journal.open.as_mut().expect("just begun");
        let check = ahead.append(self.owner(writer), sequence, operations)?;
        let position = Position {
            writer,
            first: *first,
            frame: sequence,
            end: ahead.len(),
            check: *check.as_bytes(),
            mount: self.mount,
        };
        if !fault!(JournalUnsynced)
            && let Err(error) = ahead.sync()
        {
            return Err(journal.stop("the journal could not be synced", &error));
        }
        // Look after the sync: a writer that took over before this may have missed the frame; a
        // later one reads it.
        if !fault!(SupersededUnseen)
            && let Err(error) = self.ensure_own(writer)
        {
            return Err(journal.stop_by_mark("the pool was lost, or may be", error));
        }
        journal.next += 1;
        *self.last() = Some(position);
        Ok(())
    }

    fn note_acknowledged(&self, shard: Shard) -> Result<(), VolumeError> {
        self.expect(shard);
        let mut recorded = self.record();
        let Some(last) = *self.last() else { return Ok(()) };
        if recorded.last == Some(last) {
            return Ok(());
        }
        // A superseded writer leaves the record to its successor.
        self.ensure_own(last.writer)?;
        if recorded.record.is_none() {
            recorded.record = Some(acknowledged::Record::open(&*self.folder, self.pool)?.0);
        }
        recorded.record.as_mut().expect("just opened").write(&last)?;
        recorded.last = Some(last);
        Ok(())
    }

    fn expect_current(&self, shard: Shard, writer: Writer) -> Result<(), VolumeError> {
        self.expect(shard);
        self.ensure_own(writer)
    }

    fn checkpoint<'a>(
        &'a self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
    ) -> Result<Option<Box<dyn Checkpoint + 'a>>, VolumeError> {
        self.expect(shard);
        let mut journal = self.journal();
        journal.ensure_running()?;
        self.ensure_own(writer)?;
        if sequence != journal.next {
            return Err(VolumeError::OutOfOrder { sequence, expected: journal.next });
        }
        if journal.base == sequence && !journal.is_outdated {
            return Ok(None);
        }
        self.begin_journal(&mut journal, writer)?;
        let begin = Begin { writer, first: sequence };
        let mut log = self.folder.log(&begin.name(CHECKPOINT))?;
        log.truncate(0)?;
        Ok(Some(Box::new(Writing { journals: self, log, begin, next: sequence, is_done: false })))
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        // Without it the next opening knows a little less; nothing is lost.
        let _ = self.note_acknowledged(Shard::of(self.pool));
    }
}

/// A checkpoint on its way.
struct Writing<'a> {
    journals: &'a Journals,
    log: Box<dyn Log + Sync>,
    begin: Begin,
    /// The number of its next frame.
    next: u64,
    is_done: bool,
}

impl Writing<'_> {
    fn append(&mut self, body: &[u8]) -> Result<(), VolumeError> {
        let owner = self.journals.owner(self.begin.writer);
        frame::append(&mut *self.log, owner, self.next, body)?;
        self.next += 1;
        Ok(())
    }
}

impl Checkpoint for Writing<'_> {
    fn put(&mut self, operations: &[u8]) -> Result<(), VolumeError> {
        assert!(!operations.is_empty(), "a frame without a body is the end");
        self.append(operations)
    }

    fn finish(mut self: Box<Self>) -> Result<(), VolumeError> {
        self.append(&[])?;
        if !fault!(CheckpointUnsynced) {
            self.log.sync()?;
        }
        // a later writer may need the older files
        self.journals.ensure_own(self.begin.writer)?;
        self.is_done = true;
        {
            let mut journal = self.journals.journal();
            (journal.base, journal.is_outdated) = (self.begin.first, false);
        }
        let folder = &*self.journals.folder;
        for name in folder.names()? {
            let is_older =
                |prefix| Begin::of_name(&name, prefix).is_some_and(|one| one < self.begin);
            if is_older(CHECKPOINT) || is_older(JOURNAL) {
                folder.remove(&name)?;
            }
        }
        Ok(())
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // It would take room for nothing; what is there without it is enough.
            let _ = self.journals.folder.remove(&self.begin.name(CHECKPOINT));
        }
    }
}
