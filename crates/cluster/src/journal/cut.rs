//! Ending a journal before the first batch that cannot be read.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use onefold_backend::rados::{Query, Refusal, Step, Update};
use onefold_backend::{Folder, Operation};
use onefold_volume::{Frame, Shard, VolumeError, Writer, kept_name};

use super::head::{Made, State, Trash};
use super::objects::{FOLLOW, Head, NEXT, Segment, WRITER, number};
use super::shards::{Kept, RadosJournals};
use crate::error::failed;

/// Bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

/// What was given up of a journal.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The number of the first batch that was given up.
    pub(crate) next: u64,
    /// What is wrong with it.
    pub(crate) problem: VolumeError,
    /// Files of the shard with copies of what was given up.
    pub(crate) kept: Vec<String>,
}

/// Where a journal breaks off.
struct Break {
    /// The last place with a batch that can be read, and how many bytes of it are whole; none if that is the head.
    last: Option<(Made, u64)>,
    /// The number of that batch.
    next: u64,
    problem: VolumeError,
    /// The segments before that one, all of whose batches can be read.
    whole: BTreeSet<Made>,
}

impl RadosJournals {
    /// Takes `shard` over, and ends what it knows before the first batch that cannot be read, if there is one. The
    /// segments with what is given up are copied to `folder` before.
    ///
    /// One update of the last segment that is kept, or of the head, is what counts: a call that was stopped before
    /// can be repeated, and after it nothing is left to do.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] if the head, the checkpoint or the very first batch cannot be read: then nothing is
    /// given up.
    pub(crate) fn cut(
        &self,
        shard: Shard,
        folder: &dyn Folder,
    ) -> Result<Option<Cut>, VolumeError> {
        let kept = self.kept(shard);
        let mut open = kept.open();
        *open = None;
        kept.writer.store(0, Relaxed);
        let writer = kept.objects.claim()?;
        kept.cut(writer, folder)
    }
}

impl Kept {
    fn cut(&self, writer: Writer, folder: &dyn Folder) -> Result<Option<Cut>, VolumeError> {
        let head = self.objects.own_head(writer)?;
        self.read_checkpoint(&head.state, |_, _| Ok(()))?;
        let Some(found) = self.find_break(writer, &head.state)? else { return Ok(None) };
        if found.next == 0 {
            return Err(found.problem);
        }
        // later segments are copied too: if this one is missing, nothing leads to them
        let kept = self.keep(writer, folder, &found.whole)?;
        self.end_at(head, &found)?;
        self.objects.remove_leaked(writer)?;
        let Break { next, problem, .. } = found;
        Ok(Some(Cut { next, problem, kept }))
    }

    fn find_break(&self, writer: Writer, state: &State) -> Result<Option<Break>, VolumeError> {
        let (mut next, mut segment, mut last) = (state.sequence, state.segment, None);
        let mut whole = BTreeSet::new();
        loop {
            let mut len = 0;
            let found = self.read_segment(writer, segment, &mut next, &mut len);
            match found {
                Ok(Segment { follow: None, .. }) => return Ok(None),
                Ok(Segment { follow: Some(follow), length, .. }) => {
                    last = Some((segment, length));
                    whole.insert(segment);
                    segment = follow;
                }
                Err(problem @ VolumeError::Damaged { .. }) => {
                    last = if len > 0 { Some((segment, len)) } else { last };
                    return Ok(Some(Break { last, next, problem, whole }));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the batches of `segment`, of which the first `whole` bytes are whole.
    fn read_segment(
        &self,
        writer: Writer,
        segment: Made,
        next: &mut u64,
        whole: &mut u64,
    ) -> Result<Segment, VolumeError> {
        if self.objects.look(segment)?.is_none() {
            return Err(self.objects.missing(segment));
        }
        self.objects.raise(segment, writer)?;
        self.objects.read_segment(segment, writer, next, &mut |bodies| {
            let frames = bodies.iter().map(|body| Frame { number: 0, writer, body }.len() as u64);
            *whole += frames.sum::<u64>();
            Ok(())
        })
    }

    /// Copies all segments but those that are `whole`. Returns the names of the copies.
    fn keep(
        &self,
        writer: Writer,
        folder: &dyn Folder,
        whole: &BTreeSet<Made>,
    ) -> Result<Vec<String>, VolumeError> {
        let mut names = Vec::new();
        for segment in self.objects.segments()?.difference(whole) {
            let kept = kept_name(writer, &format!("segment.{segment}"));
            self.copy(&self.objects.segment(*segment), folder, &kept)?;
            names.push(kept);
        }
        Ok(names)
    }

    fn copy(&self, object: &str, folder: &dyn Folder, to: &str) -> Result<(), VolumeError> {
        let mut log = folder.log(to)?;
        log.truncate(0)?;
        loop {
            let range = Some(log.len()..log.len() + PIECE);
            let answer = self.objects.pool.query(object, &Query { range, ..Query::default() });
            let bytes = answer.map_err(|error| failed(Operation::Read, error))?.bytes;
            if bytes.is_empty() {
                return Ok(log.sync()?);
            }
            log.append(&bytes)?;
        }
    }

    /// Lets batches go on in a new segment after what is whole.
    fn end_at(&self, mut head: Head, found: &Break) -> Result<(), VolumeError> {
        let (objects, Head { writer, state, .. }) = (&self.objects, head);
        // no segment of this writer exists: each number is claimed once
        let made = Made { writer, number: 1 };
        match objects.create_segment(made, writer, found.next) {
            // one whose answer was lost
            Err(error) if error.refusal() != Some(Refusal::Exists) => {
                return Err(failed(Operation::Put, error));
            }
            _ => {}
        }
        let Some((segment, whole)) = found.last else {
            objects.remove_trash(state.trash, state.segment)?;
            let state = State { segment: made, trash: Trash::default(), ..state };
            return objects.change_head(&mut head, state);
        };
        let end = Update::existing()
            .expect(WRITER, number(writer.0))
            .then(Step::Truncate(whole))
            .set(NEXT, number(found.next))
            .set(FOLLOW, made.encode().to_vec());
        objects.update(&objects.segment(segment), end).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_backend::rados::{MemoryRados, RadosPool};
    use onefold_seal::ObjectId;
    use onefold_volume::Metadata;

    use super::*;
    use crate::folder::RadosFolder;
    use crate::journal::shards::JournalSizes;

    const ID: ObjectId = ObjectId::from_bytes([7; ObjectId::LEN]);

    #[test]
    fn segments_after_a_lost_one_are_copied_before_they_are_removed() {
        let removal = Update::existing().then(Step::Remove);
        let damage = Update::existing().set(NEXT, vec![1, 2, 3]);
        for (update, copied) in [(removal, 3..6), (damage, 2..6)] {
            let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
            // each batch is in a segment of its own
            let sizes = JournalSizes { segment: 1, part: 1 };
            let journals = RadosJournals::new(Arc::clone(&pool), sizes).unwrap();
            let shard = Shard::of(ID);
            journals.create(shard).unwrap();
            let writer = journals.take_over(shard, &mut |_| Ok(())).unwrap().writer;
            for sequence in 0..6 {
                journals.apply_batch(shard, writer, sequence, &[sequence as u8; 9]).unwrap();
            }
            let kept = journals.kept(shard);
            let objects = &kept.objects;
            let mut segments = vec![objects.read_head().unwrap().state.segment];
            while let Some(next) = objects.look(*segments.last().unwrap()).unwrap().unwrap().follow
            {
                segments.push(next);
            }
            assert_eq!(segments.len(), 6);
            pool.update(&objects.segment(segments[2]), update).unwrap();
            let folder = RadosFolder::take(Arc::clone(&pool), ID).unwrap();
            let cut = journals.cut(shard, &folder).unwrap().unwrap();
            assert_eq!((cut.next, cut.kept.len()), (2, copied.len()), "{cut:?}");
            for (sequence, segment) in copied.clone().zip(&segments[copied]) {
                let name = cut.kept.iter().find(|name| name.ends_with(&segment.to_string()));
                let reader = folder.reader(name.unwrap()).unwrap();
                let mut bytes = vec![0; reader.len() as usize];
                reader.read(0, &mut bytes).unwrap();
                let frame = Frame::decode(ID, &bytes).unwrap();
                assert_eq!((frame.number, frame.body), (sequence as u64, &[sequence as u8; 9][..]));
            }
            // the two whole ones, and that of the next batch
            assert_eq!(objects.segments().unwrap().len(), 3);
        }
    }
}
