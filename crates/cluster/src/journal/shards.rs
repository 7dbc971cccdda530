//! Writers of shards: taking a shard over, batches, checkpoints.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_backend::rados::{RadosError, RadosPool, Refusal, Step, Update};
use onefold_backend::{BackendError, Operation};
use onefold_seal::ObjectId;
use onefold_volume::{
    Checkpoint, Frame, Known, MAX_BATCH, Metadata, Shard, Take, Taken, VolumeError, Writer,
};

use super::head::{Made, State, Trash, Whole};
use super::objects::{FOLLOW, Head, NEXT, Segment, ShardObjects, WRITER, damaged, number};
use crate::error::{ClusterError, failed};
use crate::seeded::fault;

/// How long objects of a journal get, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalSizes {
    /// A segment that would get longer takes no batch any more, unless it is empty.
    pub segment: u64,
    /// The same for a part of a checkpoint.
    pub part: u64,
}

impl Default for JournalSizes {
    fn default() -> Self {
        Self { segment: 64 << 20, part: 16 << 20 }
    }
}

/// What shards know, in objects of a replicated pool.
pub struct RadosJournals {
    pool: Arc<dyn RadosPool>,
    sizes: JournalSizes,
    shards: Mutex<BTreeMap<Shard, Arc<Kept>>>,
    /// Whether a checkpoint is written also if there was no batch since the last one.
    is_outdated: bool,
}

/// A shard, as this process knows it.
pub(super) struct Kept {
    pub(super) objects: ShardObjects,
    /// None until the shard was taken over.
    open: Mutex<Option<Open>>,
    /// The writer that has it; none is 0. Apart from `open`, whose holder waits for answers.
    pub(super) writer: AtomicU64,
}

/// Where batches go.
#[derive(Clone, Copy)]
pub(super) struct Open {
    writer: Writer,
    segment: Made,
    /// The length of the segment, in bytes.
    length: u64,
    /// The number of the first batch of the segment.
    first: u64,
    /// The number of the next batch.
    next: u64,
    /// Whether the next batch was submitted before, and may have been applied.
    is_unsure: bool,
    /// How many segments and checkpoints this writer made.
    made: u64,
}

impl Open {
    /// A name that was never used.
    fn make(&mut self) -> Made {
        self.made += 1;
        Made { writer: self.writer, number: self.made }
    }

    fn go_on_in(&mut self, segment: Made) {
        (self.segment, self.length, self.first) = (segment, 0, self.next);
    }
}

impl RadosJournals {
    /// Those in `pool`.
    ///
    /// # Errors
    ///
    /// [`ClusterError::ErasureCoded`]: batches have any length, and the pool for metadata has omaps.
    pub fn new(pool: Arc<dyn RadosPool>, sizes: JournalSizes) -> Result<Self, ClusterError> {
        let kind = pool.kind();
        if kind.alignment > 1 || !kind.has_omap {
            return Err(ClusterError::ErasureCoded { pool: kind.name.clone() });
        }
        Ok(Self { pool, sizes, shards: Mutex::default(), is_outdated: false })
    }

    /// The same, whose checkpoints are written also if there was no batch since the last one: what the pool says has
    /// another form by now.
    pub(crate) fn outdated(self) -> Self {
        Self { is_outdated: true, ..self }
    }

    /// Makes a shard of which nothing is known. A call that failed may be repeated, and may leave an empty
    /// segment.
    ///
    /// # Errors
    ///
    /// [`BackendError::AlreadyExists`] if there is the shard, also if an earlier call made it whose answer
    /// was lost.
    pub fn create(&self, shard: Shard) -> Result<(), VolumeError> {
        let kept = self.kept(shard);
        let objects = &kept.objects;
        let exists = || -> VolumeError {
            let place = format!("pool {}", self.pool.kind().name);
            BackendError::AlreadyExists { name: objects.head(), place }.into()
        };
        if objects.has(&objects.head())? {
            return Err(exists());
        }
        // An earlier call may have left a segment, and may yet make it. A name of its own keeps it apart.
        let id = ObjectId::random();
        let (number, _) = id.as_bytes().split_first_chunk().expect("it is longer");
        let first = Made { writer: Writer(0), number: u64::from_be_bytes(*number) };
        let created = objects.create_segment(first, Writer(0), 0);
        created.map_err(|error| failed(Operation::Put, error))?;
        match objects.create_head(&State::new(first)) {
            Ok(_) => Ok(()),
            Err(error) if error.refusal() == Some(Refusal::Exists) => Err(exists()),
            Err(error) => Err(failed(Operation::Put, error)),
        }
    }

    /// Removes objects of earlier writers that `shard` does not need, and returns how many: what crashes,
    /// late updates and superseded writers left. It lists all objects of the namespace.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Superseded`] or [`VolumeError::Stopped`] if `writer` does not have the shard.
    pub fn remove_leaked(&self, shard: Shard, writer: Writer) -> Result<u64, VolumeError> {
        let kept = self.kept(shard);
        kept.ensure_taken(writer)?;
        kept.objects.remove_leaked(writer)
    }

    pub(super) fn kept(&self, shard: Shard) -> Arc<Kept> {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = shards.entry(shard).or_insert_with(|| {
            let objects = ShardObjects { pool: Arc::clone(&self.pool), shard: shard.id() };
            Arc::new(Kept { objects, open: Mutex::default(), writer: AtomicU64::new(0) })
        });
        Arc::clone(kept)
    }
}

/// Fails unless operations are what [`Metadata`] demands.
#[track_caller]
fn expect_operations(operations: &[u8]) {
    let len = operations.len();
    assert!(len > 0 && len <= MAX_BATCH, "{len} bytes of operations, expected 1 to {MAX_BATCH}");
}

impl Kept {
    pub(super) fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails unless `writer` took the shard over here, and nothing did since.
    fn ensure_taken(&self, writer: Writer) -> Result<(), VolumeError> {
        match Writer(self.writer.load(Relaxed)) {
            by if by == writer => Ok(()),
            Writer(0) => Err(VolumeError::Stopped {
                why: "the shard was not taken over, or a later opening failed".into(),
            }),
            by => Err(VolumeError::Superseded { writer, by }),
        }
    }

    /// The open shard, if `writer` took it over here.
    fn opened<'a>(
        &self,
        open: &'a mut Option<Open>,
        writer: Writer,
    ) -> Result<&'a mut Open, VolumeError> {
        self.ensure_taken(writer)?;
        Ok(open.as_mut().expect("it is open while there is a writer"))
    }

    /// Gives all that the shard has to `take`, and keeps earlier writers from adding to it.
    fn read(&self, writer: Writer, take: &mut Take<'_>) -> Result<(Open, u64), VolumeError> {
        let objects = &self.objects;
        let state = objects.own_head(writer)?.state;
        let State { sequence, mut segment, .. } = state;
        let mut tell = |object: &str, known: Known<'_>| {
            let malformed = |source| VolumeError::Malformed { object: object.to_owned(), source };
            take(known).map_err(malformed)
        };
        tell(&objects.head(), Known::Anew)?;
        self.read_checkpoint(&state, |object, body| tell(object, Known::Checkpoint(body)))?;
        let (mut next, mut places) = (sequence, 0);
        loop {
            if !fault!(RaisedLate) {
                objects.raise(segment, writer)?;
            }
            let (object, first) = (objects.segment(segment), next);
            let found = objects.read_segment(segment, writer, &mut next, &mut |bodies| {
                tell(&object, Known::Coming(bodies))?;
                bodies.iter().try_for_each(|body| tell(&object, Known::Batch(body)))
            })?;
            fault!(RaisedLate => objects.raise(segment, writer)?);
            places += 1;
            let Some(follow) = found.follow else {
                let (length, is_unsure, made) = (found.length, false, 0);
                let open = Open { writer, segment, length, first, next, is_unsure, made };
                return Ok((open, places));
            };
            segment = follow;
        }
    }

    /// Gives the bodies of the frames of the checkpoint to `take`, with the object that each is in.
    pub(super) fn read_checkpoint(
        &self,
        state: &State,
        mut take: impl FnMut(&str, &[u8]) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let Some(Whole { name, parts, frames }) = state.checkpoint else { return Ok(()) };
        let (objects, mut next) = (&self.objects, 0);
        for part in 0..parts {
            let object = objects.part(name, part);
            objects.read_frames(&object, &[], &mut next, &mut |bodies| {
                bodies.iter().try_for_each(|body| take(&object, body))
            })?;
        }
        if next != frames {
            let problem = format!("the checkpoint has {next} frames, expected {frames}");
            return Err(damaged(&objects.part(name, parts), 0, problem));
        }
        Ok(())
    }

    /// Appends the next batch.
    fn append(&self, open: &mut Open, operations: &[u8]) -> Result<(), VolumeError> {
        let objects = &self.objects;
        loop {
            let Open { writer, next, .. } = *open;
            let frame = Frame { number: next, writer, body: operations };
            let mut update =
                Update::existing().expect(WRITER, number(writer.0)).expect(NEXT, number(next));
            if !fault!(SealUnseen) {
                update = update.expect(FOLLOW, "");
            }
            let append = Step::Append(frame.encode(objects.shard).into());
            let update = update.set(NEXT, number(next + 1)).then(append);
            let error = match objects.send(&objects.segment(open.segment), update) {
                Ok(_) => {
                    open.length += frame.len() as u64;
                    (open.next, open.is_unsure) = (next + 1, false);
                    return Ok(());
                }
                Err(error) => error,
            };
            open.is_unsure |= matches!(error, RadosError::Unknown { .. });
            let found = self.refused(open, error)?;
            if let Some(follow) = found.follow {
                // the answer to sealing it was lost
                open.go_on_in(follow);
                continue;
            }
            fault!(BatchTwice => {
                open.next += 1;
                continue;
            });
            // it was applied before, and the answer was lost
            open.length = found.length;
            (open.next, open.is_unsure) = (next + 1, false);
            return Ok(());
        }
    }

    /// Finds out why the open segment refused an update, as `error` says. On success it is sealed before
    /// the next batch, or it has the next batch already, whose answer was lost.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Superseded`] if there is a later writer; `error` if no guard refused the update.
    fn refused(&self, open: &Open, error: RadosError) -> Result<Segment, VolumeError> {
        if !matches!(error.refusal(), Some(Refusal::Guard | Refusal::Absent)) {
            return Err(failed(Operation::Append, error));
        }
        let name = self.objects.segment(open.segment);
        let found = self.objects.look(open.segment)?;
        // After the look: if no later writer has the shard now, none had changed what was found.
        self.objects.own_head(open.writer)?;
        let found = found.ok_or_else(|| damaged(&name, 0, "it is missing".into()))?;
        let is_sealed = found.follow.is_some() && found.next == open.next;
        let is_applied = found.follow.is_none() && open.is_unsure && found.next == open.next + 1;
        if !is_sealed && !is_applied {
            let problem = format!("its next batch is {}, expected {}", found.next, open.next);
            return Err(damaged(&name, found.length, problem));
        }
        Ok(found)
    }

    /// Lets batches go to a new segment.
    fn roll(&self, open: &mut Open) -> Result<(), VolumeError> {
        let (name, Open { writer, next, .. }) = (open.make(), *open);
        let objects = &self.objects;
        let created = objects.create_segment(name, writer, next);
        created.map_err(|error| failed(Operation::Put, error))?;
        let mut update = Update::existing();
        if !fault!(SealedUnguarded) {
            update = update.expect(WRITER, number(writer.0)).expect(NEXT, number(next));
        }
        let update = update.expect(FOLLOW, "").set(FOLLOW, name.encode().to_vec());
        let follow = match objects.send(&objects.segment(open.segment), update) {
            Ok(_) => name,
            Err(error) => {
                let found = self.refused(open, error)?;
                found.follow.expect("no batch is unsure, so it is sealed")
            }
        };
        open.go_on_in(follow);
        Ok(())
    }
}

impl Metadata for RadosJournals {
    fn take_over(&self, shard: Shard, take: &mut Take<'_>) -> Result<Taken, VolumeError> {
        let kept = self.kept(shard);
        let mut open = kept.open();
        // what an earlier opening of this process holds
        *open = None;
        kept.writer.store(0, Relaxed);
        let writer = kept.objects.claim()?;
        let refused =
            |error| damaged(&kept.objects.head(), 0, format!("a writer was refused: {error}"));
        take(Known::Writer(writer)).map_err(refused)?;
        let read = kept.read(writer, take);
        if read.is_err() {
            // what is missing may have gone since, with a later writer's checkpoint
            kept.objects.own_head(writer)?;
        }
        let (found, places) = read?;
        let taken = Taken { writer, sequence: found.next, places };
        *open = Some(found);
        kept.writer.store(writer.0, Relaxed);
        Ok(taken)
    }

    fn apply_batch(
        &self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
        operations: &[u8],
    ) -> Result<(), VolumeError> {
        expect_operations(operations);
        let kept = self.kept(shard);
        let mut open = kept.open();
        let open = kept.opened(&mut open, writer)?;
        match sequence.cmp(&open.next) {
            Ordering::Less => return kept.objects.own_head(writer).map(drop),
            Ordering::Greater => {
                return Err(VolumeError::OutOfOrder { sequence, expected: open.next });
            }
            Ordering::Equal => {}
        }
        let end = open.length + Frame { number: sequence, writer, body: operations }.len() as u64;
        // A batch that may have been applied stays where it may be.
        if open.length > 0 && end > self.sizes.segment && !open.is_unsure {
            kept.roll(open)?;
        }
        kept.append(open, operations)
    }

    fn expect_current(&self, shard: Shard, writer: Writer) -> Result<(), VolumeError> {
        let kept = self.kept(shard);
        kept.ensure_taken(writer)?;
        kept.objects.own_head(writer).map(drop)
    }

    fn checkpoint<'a>(
        &'a self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
    ) -> Result<Option<Box<dyn Checkpoint + 'a>>, VolumeError> {
        let kept = self.kept(shard);
        let (mut head, name, segment) = {
            let mut open = kept.open();
            let open = kept.opened(&mut open, writer)?;
            if sequence != open.next {
                return Err(VolumeError::OutOfOrder { sequence, expected: open.next });
            }
            let head = kept.objects.own_head(writer)?;
            if head.state.sequence == sequence && !self.is_outdated {
                return Ok(None);
            }
            if open.is_unsure {
                let why = format!("batch {sequence} was not answered: submit it again first");
                return Err(VolumeError::Unanswered { source: why.into() });
            }
            if open.first < sequence {
                kept.roll(open)?;
            }
            (head, open.make(), open.segment)
        };
        let (state, objects) = (head.state, &kept.objects);
        objects.remove_trash(state.trash, state.segment)?;
        // A late update of the head may name what was begun, until another one was applied.
        let trash = Trash { checkpoint: state.begun, segment: None };
        fault!(RemovedEarly => objects.remove_trash(trash, state.segment)?);
        objects.change_head(&mut head, State { begun: Some(name), trash, ..state })?;
        objects.remove_trash(trash, state.segment)?;
        let writing = Writing {
            kept,
            head,
            sequence,
            segment,
            sizes: self.sizes,
            whole: Whole { name, parts: 0, frames: 0 },
            part: Vec::new(),
        };
        Ok(Some(Box::new(writing)))
    }
}

/// A checkpoint on its way. If it is not finished, the next one removes its parts.
struct Writing {
    kept: Arc<Kept>,
    head: Head,
    sequence: u64,
    /// The segment that begins with it.
    segment: Made,
    sizes: JournalSizes,
    /// What is durable.
    whole: Whole,
    /// The frames of the next part.
    part: Vec<u8>,
}

impl Writing {
    /// Makes the next part durable.
    fn store_part(&mut self) -> Result<(), VolumeError> {
        if self.part.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.part);
        let object = self.kept.objects.part(self.whole.name, self.whole.parts);
        let update = Update::creating().then(Step::Append(bytes.into()));
        self.kept.objects.update(&object, update)?;
        self.whole.parts += 1;
        Ok(())
    }
}

impl Checkpoint for Writing {
    fn put(&mut self, operations: &[u8]) -> Result<(), VolumeError> {
        expect_operations(operations);
        let frame = Frame { number: self.whole.frames, writer: self.head.writer, body: operations };
        if (self.part.len() + frame.len()) as u64 > self.sizes.part {
            self.store_part()?;
        }
        self.part.extend_from_slice(&frame.encode(self.kept.objects.shard));
        self.whole.frames += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), VolumeError> {
        if !fault!(CheckpointNamedEarly) {
            self.store_part()?;
        }
        let mut whole = self.whole;
        fault!(CheckpointNamedEarly => whole.parts += u32::from(!self.part.is_empty()));
        let before = self.head.state;
        let state = State {
            sequence: self.sequence,
            segment: self.segment,
            checkpoint: Some(whole),
            begun: None,
            trash: Trash {
                checkpoint: before.checkpoint.map(|checkpoint| checkpoint.name),
                segment: Some(before.segment),
            },
        };
        self.kept.objects.change_head(&mut self.head, state)?;
        fault!(CheckpointNamedEarly => self.store_part()?);
        self.kept.objects.remove_trash(state.trash, state.segment)
    }
}
