//! The mark: the file that names the owner of a pool and the cut, for the [fencing](super#fencing) of
//! writers.

use onefold_backend::{BackendError, Folder, Pages};
use onefold_seal::wire::{Put, Reader};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::error::VolumeError;
use crate::ids::Writer;
use crate::seeded::fault;

/// The file.
pub(crate) const NAME: &str = "writer";

const COPIES: usize = 2;

/// Each copy has a sector of its own, also where these are long.
const PAGE: usize = 4096;

/// All numbers of writers, frames and marks are below, so that none is ever the last.
pub(crate) const LIMIT: u64 = 1 << 63;

const LEN: usize = 4 * 8 + 1 + CHECK_LEN;

/// The fencing point: how far the frames of earlier writers count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Whose first frame has this number. Frames from it on of earlier writers were never
    /// acknowledged.
    pub(crate) first: u64,
    pub(crate) writer: Writer,
    /// Whether a journal of that writer was begun with this frame.
    pub(crate) is_begun: bool,
}

/// What the mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    /// How often it was written.
    count: u64,
    /// The owner.
    writer: Writer,
    /// Of the last writer that had read the pool before it changed anything.
    cut: Cut,
}

impl Said {
    fn encode(&self, pool: ObjectId) -> [u8; LEN] {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.put_u64(self.count);
        bytes.put_u64(self.writer.0);
        bytes.put_u64(self.cut.writer.0);
        bytes.put_u64(self.cut.first);
        bytes.put_u8(self.cut.is_begun.into());
        let check = Check::of(&[pool.as_bytes(), &bytes]);
        bytes.extend_from_slice(check.as_bytes());
        bytes.try_into().expect("as long as its fields")
    }

    /// `None` if it was torn, or is not of this pool.
    fn decode(bytes: &[u8; LEN], pool: ObjectId) -> Option<Self> {
        let (fields, check) = bytes.split_last_chunk().expect("longer");
        Check::from_bytes(*check).verify(&[pool.as_bytes(), fields]).ok()?;
        let mut reader = Reader::new(fields);
        let mut next = || reader.u64("a number").ok();
        let (count, writer, cut_writer, first) = (next()?, next()?, next()?, next()?);
        if [count, writer, cut_writer, first].iter().any(|number| *number >= LIMIT) {
            return None;
        }
        let is_begun = match reader.u8("whether it is begun").ok()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let cut = Cut { first, writer: Writer(cut_writer), is_begun };
        if cut_writer > writer {
            return None;
        }
        Some(Self { count, writer: Writer(writer), cut })
    }
}

/// The mark of a pool, as a writer holds it.
pub(crate) struct Mark {
    file: Box<dyn Pages + Sync>,
    pool: ObjectId,
    said: Said,
    /// What the copies are, as far as this writer wrote or found them.
    copies: [[u8; LEN]; COPIES],
}

/// How often a claim starts again because an earlier writer wrote to the mark. Such a writer looks
/// after each write, and stops.
const CLAIMS: usize = 16;

impl Mark {
    /// Makes the mark of a pool that nobody has opened yet, or that was not made to the end.
    pub(crate) fn create(folder: &dyn Folder, pool: ObjectId) -> Result<(), VolumeError> {
        Self::create_as(folder, pool, Writer(0), Cut::default())
    }

    /// The same of any mark.
    pub(crate) fn create_as(
        folder: &dyn Folder,
        pool: ObjectId,
        writer: Writer,
        cut: Cut,
    ) -> Result<(), VolumeError> {
        let mut file = folder.pages(NAME, PAGE)?;
        file.set_count(COPIES as u64)?;
        for count in 0..COPIES as u64 {
            file.write(count, &page(&Said { count, writer, cut }.encode(pool)))?;
        }
        Ok(file.sync()?)
    }

    /// Whether neither copy tells who has the pool.
    pub(crate) fn is_lost(folder: &dyn Folder, pool: ObjectId) -> Result<bool, VolumeError> {
        match Self::found(folder.pages(NAME, PAGE)?, pool) {
            Ok(_) => Ok(false),
            Err(VolumeError::Damaged { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Claims the pool for a new writer, durably: on success no earlier one acknowledges anything
    /// any more.
    pub(crate) fn claim(folder: &dyn Folder, pool: ObjectId) -> Result<Self, VolumeError> {
        let mut file = folder.pages(NAME, PAGE)?;
        for _ in 0..CLAIMS {
            let mut mark = Self::found(file, pool)?;
            if mark.claim_both()? {
                return Ok(mark);
            }
            file = mark.file;
        }
        let place = "the pool".to_owned();
        Err(BackendError::InUse { name: NAME.to_owned(), place }.into())
    }

    /// What the mark is, for a new writer.
    fn found(file: Box<dyn Pages + Sync>, pool: ObjectId) -> Result<Self, VolumeError> {
        let is_whole = file.count() >= COPIES as u64;
        let copies = if is_whole { read(&*file)? } else { [[0; LEN]; COPIES] };
        let found = || copies.iter().filter_map(|copy| Said::decode(copy, pool));
        // also if an earlier writer was in the middle of writing the other one, with a higher count
        let newest = found().max_by_key(|said| (said.writer, said.count));
        // who claimed the pool last may not have found what the one before was telling
        let cut = found().map(|said| said.cut).max_by_key(|cut| (cut.writer, cut.is_begun));
        let (true, Some(newest), Some(cut)) = (is_whole, newest, cut) else {
            let problem = "neither of its copies is whole, so nobody knows who has the pool".into();
            return Err(VolumeError::Damaged { object: NAME.into(), at: 0, problem });
        };
        let said = Said { count: newest.count, writer: Writer(newest.writer.0 + 1), cut };
        Ok(Self { file, pool, said, copies })
    }

    /// Puts this writer into both copies as the owner. False if an earlier writer wrote either in
    /// between: it may have written a cut that was not found here, or its next write hides the
    /// other copy.
    fn claim_both(&mut self) -> Result<bool, VolumeError> {
        let copies = if fault!(ClaimedOnce) { 1 } else { COPIES };
        for _ in 0..copies {
            self.put(self.said.cut)?;
            if self.unchanged()? < COPIES {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn writer(&self) -> Writer {
        self.said.writer
    }

    pub(crate) fn cut(&self) -> Cut {
        self.said.cut
    }

    /// Puts the cut at frame `first`: from it on only frames of this writer count.
    pub(crate) fn cut_at(&mut self, first: u64) -> Result<(), VolumeError> {
        fault!(CutUntold => return Ok(()));
        let cut = Cut { first, writer: self.said.writer, is_begun: false };
        self.write(cut)?;
        self.write(cut)
    }

    /// Notes that the journal which begins at the cut exists.
    pub(crate) fn begin(&mut self) -> Result<(), VolumeError> {
        self.write(Cut { is_begun: true, ..self.said.cut })
    }

    /// Writes one copy, unless a later writer has the pool.
    fn write(&mut self, cut: Cut) -> Result<(), VolumeError> {
        self.ensure_own()?;
        self.put(cut)
    }

    fn put(&mut self, cut: Cut) -> Result<(), VolumeError> {
        let said = Said { count: self.said.count + 1, cut, ..self.said };
        let (slot, bytes) = (said.count % COPIES as u64, said.encode(self.pool));
        self.file.write(slot, &page(&bytes))?;
        self.file.sync()?;
        self.copies[slot as usize] = bytes;
        self.said = said;
        Ok(())
    }

    /// Fails if this writer is superseded.
    pub(crate) fn ensure_own(&self) -> Result<(), VolumeError> {
        match self.unchanged()? {
            0 => Err(foreign()),
            _ => Ok(()),
        }
    }

    /// How many of the copies are as they were left or found here: an earlier writer may have been in
    /// the middle of writing one. Fails if this writer is superseded.
    fn unchanged(&self) -> Result<usize, VolumeError> {
        let mut unchanged = 0;
        for (found, expected) in read(&*self.file)?.iter().zip(&self.copies) {
            if found == expected {
                unchanged += 1;
                continue;
            }
            let Some(said) = Said::decode(found, self.pool) else { return Err(foreign()) };
            // one with the same number opened the pool at the same moment
            let is_later = (said.writer, said.count) >= (self.said.writer, self.said.count);
            if is_later {
                return Err(VolumeError::Superseded { writer: self.writer(), by: said.writer });
            }
        }
        Ok(unchanged)
    }
}

fn foreign() -> VolumeError {
    let problem = "it is not what was written here, expected to find that".into();
    VolumeError::Damaged { object: NAME.into(), at: 0, problem }
}

/// A page that begins with `bytes`.
fn page(bytes: &[u8; LEN]) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page[..LEN].copy_from_slice(bytes);
    page
}

/// All copies, read at once: whoever appends looks at them each time.
fn read(file: &dyn Pages) -> Result<[[u8; LEN]; COPIES], VolumeError> {
    let mut pages = [[0; PAGE]; COPIES];
    file.read_many(0, pages.as_flattened_mut())?;
    Ok(pages.each_ref().map(|page| *page.first_chunk().expect("a page is longer")))
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryFolder;

    use super::*;

    const POOL: ObjectId = ObjectId::from_bytes([4; 16]);

    fn folder() -> MemoryFolder {
        let folder = MemoryFolder::new();
        Mark::create(&folder, POOL).unwrap();
        folder
    }

    #[test]
    fn each_claim_is_one_above_the_last_and_ends_it() {
        let folder = folder();
        let mut last: Option<Mark> = None;
        for writer in 1..6 {
            let mut mark = Mark::claim(&folder, POOL).unwrap();
            assert_eq!(mark.writer(), Writer(writer));
            let check = |last: &Option<Mark>| {
                if let Some(last) = last {
                    let error = last.ensure_own().unwrap_err();
                    assert!(matches!(error, VolumeError::Superseded { .. }), "{error}");
                }
            };
            check(&last);
            mark.ensure_own().unwrap();
            mark.cut_at(writer * 10).unwrap();
            check(&last);
            mark.ensure_own().unwrap();
            if writer % 2 == 0 {
                mark.begin().unwrap();
                check(&last);
                mark.ensure_own().unwrap();
            }
            last = Some(mark);
        }
        let mark = Mark::claim(&folder, POOL).unwrap();
        assert_eq!(mark.cut(), Cut { first: 50, writer: Writer(5), is_begun: false });
    }

    #[test]
    fn either_copy_tells_who_has_the_pool_and_where_the_cut_is() {
        for slot in 0..2 {
            let folder = folder();
            let tear = || folder.pages(NAME, PAGE).unwrap().write(slot, &[9; PAGE]).unwrap();
            drop(Mark::claim(&folder, POOL).unwrap());
            tear();
            let mut mark = Mark::claim(&folder, POOL).unwrap();
            assert_eq!((mark.writer(), mark.cut()), (Writer(2), Cut::default()));
            mark.cut_at(7).unwrap();
            tear();
            let mark = Mark::claim(&folder, POOL).unwrap();
            let cut = Cut { first: 7, writer: Writer(2), is_begun: false };
            assert_eq!((mark.writer(), mark.cut()), (Writer(3), cut));
            mark.ensure_own().unwrap();
        }
    }

    #[test]
    fn a_copy_that_was_being_written_is_as_if_it_were_not() {
        let folder = folder();
        let mut mark = Mark::claim(&folder, POOL).unwrap();
        mark.cut_at(7).unwrap();
        let kept = mark.copies;
        mark.begin().unwrap();
        let slot = mark.said.count % 2;
        folder.pages(NAME, PAGE).unwrap().write(slot, &[9; PAGE]).unwrap();
        let mark = Mark::claim(&folder, POOL).unwrap();
        let before = Said::decode(&kept[1 - slot as usize], POOL).unwrap();
        assert_eq!((mark.writer(), mark.cut()), (Writer(2), before.cut));
    }

    #[test]
    fn what_was_torn_is_written_over_before_what_is_whole() {
        for slot in 0..COPIES {
            let folder = folder();
            folder.pages(NAME, PAGE).unwrap().write(slot as u64, &[9; PAGE]).unwrap();
            let mut mark = Mark::found(folder.pages(NAME, PAGE).unwrap(), POOL).unwrap();
            let before = read(&*mark.file).unwrap();
            // the power may go now, and leave this one torn
            mark.put(mark.cut()).unwrap();
            let after = read(&*mark.file).unwrap();
            assert_eq!(after[1 - slot], before[1 - slot]);
            assert!(Said::decode(&after[slot], POOL).is_some());
        }
    }

    #[test]
    fn a_mark_that_is_damaged_or_of_another_pool_is_none() {
        let folder = folder();
        let other = Mark::claim(&folder, ObjectId::from_bytes([5; 16]));
        assert!(matches!(other.err(), Some(VolumeError::Damaged { .. })));
        assert!(Mark::claim(&MemoryFolder::new(), POOL).is_err());
        for bit in 0..LEN * 8 {
            let mut bytes = Said {
                count: 1 << 40,
                writer: Writer(3),
                cut: Cut { first: 9, writer: Writer(2), is_begun: true },
            }
            .encode(POOL);
            assert!(Said::decode(&bytes, POOL).is_some());
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Said::decode(&bytes, POOL), None, "{bit}");
        }
    }

    /// What `mark` would write next if it did not look.
    fn late(mark: &mut Mark, cut: Cut) {
        mark.put(cut).unwrap();
    }

    fn is_superseded(result: Result<(), VolumeError>, writer: u64, by: u64) -> bool {
        let (one, other) = (Writer(writer), Writer(by));
        matches!(result, Err(VolumeError::Superseded { writer, by }) if (writer, by) == (one, other))
    }

    #[test]
    fn a_write_that_was_on_its_way_does_not_hide_who_has_the_pool() {
        for is_cut in [false, true] {
            let folder = folder();
            let mut early = Mark::claim(&folder, POOL).unwrap();
            if is_cut {
                early.cut_at(0).unwrap();
            }
            let mut later = Mark::claim(&folder, POOL).unwrap();
            // it had looked, and was to write where the claim is by now
            late(&mut early, Cut { is_begun: is_cut, writer: Writer(1), ..Cut::default() });
            assert!(is_superseded(early.ensure_own(), 1, 2));
            assert!(is_superseded(early.begin(), 1, 2), "it looks before it writes once more");
            later.ensure_own().unwrap();
            later.cut_at(4).unwrap();
            assert!(is_superseded(early.ensure_own(), 1, 2));
            let next = Mark::claim(&folder, POOL).unwrap();
            assert_eq!((next.writer(), next.cut()), (Writer(3), later.cut()));
        }
    }

    #[test]
    fn nothing_is_cut_by_who_lost_the_pool_before() {
        let folder = folder();
        let mut early = Mark::claim(&folder, POOL).unwrap();
        let mut later = Mark::claim(&folder, POOL).unwrap();
        later.cut_at(3).unwrap();
        assert!(is_superseded(early.cut_at(9), 1, 2));
        later.ensure_own().unwrap();
        assert_eq!(Mark::claim(&folder, POOL).unwrap().cut(), later.cut());
    }

    #[test]
    fn a_later_writer_counts_however_often_an_earlier_one_wrote() {
        let folder = folder();
        let mut early = Mark::claim(&folder, POOL).unwrap();
        // found before the other one wrote more
        let mut later = Mark::found(folder.pages(NAME, PAGE).unwrap(), POOL).unwrap();
        early.cut_at(2).unwrap();
        assert!(!later.claim_both().unwrap(), "the cut would be lost");
        let mut later = Mark::claim(&folder, POOL).unwrap();
        assert_eq!((later.writer(), later.cut()), (Writer(3), early.cut()));
        later.cut_at(5).unwrap();
        // with a count above
        early.said.count += 100;
        let cut = early.cut();
        late(&mut early, cut);
        assert!(is_superseded(early.ensure_own(), 1, 3));
        later.ensure_own().unwrap();
        assert_eq!(Mark::claim(&folder, POOL).unwrap().cut(), later.cut());
    }

    #[test]
    fn of_two_that_take_the_same_number_one_finds_out() {
        let folder = folder();
        let found = || Mark::found(folder.pages(NAME, PAGE).unwrap(), POOL).unwrap();
        let (mut one, mut other) = (found(), found());
        assert!(one.claim_both().unwrap());
        assert!(is_superseded(other.claim_both().map(drop), 1, 1));
        // neither goes on in doubt
        let claimed = Mark::claim(&folder, POOL).unwrap();
        assert_eq!(claimed.writer(), Writer(2));
        assert!(is_superseded(one.ensure_own(), 1, 2) && is_superseded(other.begin(), 1, 2));
    }

    #[test]
    fn what_an_earlier_writer_was_in_the_middle_of_means_nothing() {
        let folder = folder();
        let mut early = Mark::claim(&folder, POOL).unwrap();
        early.cut_at(0).unwrap();
        let mut later = Mark::claim(&folder, POOL).unwrap();
        later.cut_at(4).unwrap();
        let begun = Cut { is_begun: true, ..early.cut() };
        late(&mut early, begun);
        later.ensure_own().unwrap();
        assert!(early.ensure_own().is_err());
        assert_eq!(Mark::claim(&folder, POOL).unwrap().cut(), later.cut());
    }
}
