//! The mark: who has a pool, in a file that each opening writes over.
//!
//! A lock on a file keeps two processes from having a pool. A machine that slept, or a network file
//! system that forgot the lock, can still leave one that does not know that it lost the pool. It looks
//! at the mark: whoever opens the pool writes there before reading anything, so that of the two
//! either the one sees the mark or the other sees what the one has made durable.
//!
//! The mark is two pages that are written in turn, so that a torn one leaves the one before.

use onefold_backend::{Folder, Pages};
use onefold_seal::wire::{Put, Reader};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::VolumeError;
use crate::metadata::Writer;
use crate::seeded::{self, Bug};

/// The file.
pub(crate) const NAME: &str = "writer";

/// Each copy has a sector of its own, also where these are long.
const PAGE: usize = 4096;

/// All numbers of writers, frames and marks are below, so that none is ever the last.
pub(crate) const LIMIT: u64 = 1 << 63;

const LEN: usize = 4 * 8 + 1 + CHECK_LEN;

/// How far the frames of earlier writers count.
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
    /// Who has the pool.
    writer: Writer,
    /// Of the last that had read the pool before it changed anything.
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

/// The mark of a pool, as whoever opened it last holds it.
pub(crate) struct Mark {
    file: Box<dyn Pages + Sync>,
    pool: ObjectId,
    said: Said,
    /// What the other page has: the next to write the mark writes over it.
    other: [u8; LEN],
}

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
        file.set_count(2)?;
        for count in 0..2 {
            file.write(count, &page(&Said { count, writer, cut }.encode(pool)))?;
        }
        Ok(file.sync()?)
    }

    /// Takes the pool for a new writer, durably: no earlier one acknowledges anything from here on.
    pub(crate) fn claim(folder: &dyn Folder, pool: ObjectId) -> Result<Self, VolumeError> {
        let file = folder.pages(NAME, PAGE)?;
        let mut found = [None; 2];
        for (slot, found) in (0..).zip(&mut found) {
            if slot < file.count() {
                *found = Said::decode(&read(&*file, slot)?, pool);
            }
        }
        let newest = found.into_iter().flatten().max_by_key(|said| said.count);
        let Some(said) = newest.filter(|_| file.count() >= 2) else {
            let problem = "neither of its copies is whole, so nobody knows who has the pool".into();
            return Err(VolumeError::Damaged { object: NAME.into(), at: 0, problem });
        };
        let mut mark = Self { file, pool, said, other: [0; LEN] };
        mark.write(Writer(said.writer.0 + 1), said.cut)?;
        Ok(mark)
    }

    pub(crate) fn writer(&self) -> Writer {
        self.said.writer
    }

    pub(crate) fn cut(&self) -> Cut {
        self.said.cut
    }

    /// From frame `first` on only this writer's count.
    pub(crate) fn cut_at(&mut self, first: u64) -> Result<(), VolumeError> {
        if seeded::active(Bug::CutUntold) {
            return Ok(());
        }
        let writer = self.said.writer;
        self.write(writer, Cut { first, writer, is_begun: false })
    }

    /// The journal that begins at the cut is there.
    pub(crate) fn begin(&mut self) -> Result<(), VolumeError> {
        self.write(self.said.writer, Cut { is_begun: true, ..self.said.cut })
    }

    fn write(&mut self, writer: Writer, cut: Cut) -> Result<(), VolumeError> {
        let said = Said { count: self.said.count + 1, writer, cut };
        self.file.write(said.count % 2, &page(&said.encode(self.pool)))?;
        self.file.sync()?;
        self.other = self.said.encode(self.pool);
        self.said = said;
        Ok(())
    }

    /// Fails if a later writer wrote it.
    pub(crate) fn expect_own(&self) -> Result<(), VolumeError> {
        let found = read(&*self.file, (self.said.count + 1) % 2)?;
        if found == self.other {
            return Ok(());
        }
        match Said::decode(&found, self.pool) {
            // of an earlier one, which was in the middle of it: it means nothing
            Some(said) if said.count < self.said.count => Ok(()),
            Some(said) => {
                Err(VolumeError::Superseded { writer: self.said.writer, by: said.writer })
            }
            None => {
                let problem = "it is not what was written here, expected to find that".into();
                Err(VolumeError::Damaged { object: NAME.into(), at: 0, problem })
            }
        }
    }
}

/// A page that begins with `bytes`.
fn page(bytes: &[u8; LEN]) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page[..LEN].copy_from_slice(bytes);
    page
}

fn read(file: &dyn Pages, slot: u64) -> Result<[u8; LEN], VolumeError> {
    let mut page = [0; PAGE];
    file.read(slot, &mut page)?;
    Ok(*page.first_chunk().expect("a page is longer"))
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
                    let error = last.expect_own().unwrap_err();
                    assert!(matches!(error, VolumeError::Superseded { .. }), "{error}");
                }
            };
            check(&last);
            mark.expect_own().unwrap();
            mark.cut_at(writer * 10).unwrap();
            check(&last);
            mark.expect_own().unwrap();
            if writer % 2 == 0 {
                mark.begin().unwrap();
                check(&last);
                mark.expect_own().unwrap();
            }
            last = Some(mark);
        }
        let mark = Mark::claim(&folder, POOL).unwrap();
        assert_eq!(mark.cut(), Cut { first: 50, writer: Writer(5), is_begun: false });
    }

    #[test]
    fn a_torn_copy_leaves_the_one_before() {
        for slot in 0..2 {
            let folder = folder();
            Mark::claim(&folder, POOL).unwrap().cut_at(7).unwrap();
            // counts 2 and 3 are there
            folder.pages(NAME, PAGE).unwrap().write(slot, &[9; PAGE]).unwrap();
            let mark = Mark::claim(&folder, POOL).unwrap();
            let (first, writer) = if slot == 0 { (7, 1) } else { (0, 0) };
            assert_eq!((mark.cut().first, mark.cut().writer), (first, Writer(writer)));
            assert_eq!(mark.writer(), Writer(2));
            mark.expect_own().unwrap();
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

    #[test]
    fn what_an_earlier_writer_was_in_the_middle_of_means_nothing() {
        let folder = folder();
        let mut early = Mark::claim(&folder, POOL).unwrap();
        early.cut_at(0).unwrap();
        let mut late = Mark::claim(&folder, POOL).unwrap();
        late.cut_at(4).unwrap();
        early.begin().unwrap();
        late.expect_own().unwrap();
        assert!(early.expect_own().is_err());
        assert_eq!(Mark::claim(&folder, POOL).unwrap().cut(), late.cut());
    }
}
