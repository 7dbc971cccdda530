//! The record of the last acknowledged position, in a file that programs before it ignore.
//!
//! A journal cannot tell a last frame that a power cut tore, and that nobody was told of, from one that
//! was acknowledged and damaged later. The record can: it names a frame that was acknowledged. Each
//! state of the record that ever reaches the disk names a frame that was synced before the record was
//! written. So it is a lower bound, whatever of it a power cut keeps, and a journal that has less was
//! damaged.
//!
//! The record has two copies, written in turn and synced each time: a power cut tears one at most.

use onefold_backend::{Folder, MountId, Pages};
use onefold_seal::wire::{Put, Reader};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::error::VolumeError;
use crate::ids::Writer;
use crate::journal::mark::LIMIT;

/// The file.
pub(crate) const NAME: &str = "acknowledged";

const COPIES: u64 = 2;

/// Each copy has a sector of its own, also where these are long.
const PAGE: usize = 4096;

const LEN: usize = 4 * 8 + CHECK_LEN + 16 + 8 + CHECK_LEN;

/// Where a frame is that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) writer: Writer,
    /// The number of the first frame of its journal.
    pub(crate) first: u64,
    /// The number of the frame.
    pub(crate) frame: u64,
    /// The byte of the journal behind the frame.
    pub(crate) end: u64,
    /// The frame's own check.
    pub(crate) check: [u8; CHECK_LEN],
    /// The mount on which the frame was written, if it is known.
    pub(crate) mount: Option<MountId>,
}

impl Position {
    fn encode(&self, pool: ObjectId) -> [u8; LEN] {
        let mut bytes = Vec::with_capacity(LEN);
        for number in [self.writer.0, self.first, self.frame, self.end] {
            bytes.put_u64(number);
        }
        bytes.extend_from_slice(&self.check);
        let MountId { boot, number } = self.mount.unwrap_or(NO_MOUNT);
        bytes.extend_from_slice(&boot);
        bytes.put_u64(number);
        let check = Check::of(&[pool.as_bytes(), &bytes]);
        bytes.extend_from_slice(check.as_bytes());
        bytes.try_into().expect("as long as its fields")
    }

    /// `None` if the copy is torn or damaged, or is not of this pool.
    fn decode(bytes: &[u8; LEN], pool: ObjectId) -> Option<Self> {
        let (fields, check) = bytes.split_last_chunk().expect("longer");
        Check::from_bytes(*check).verify(&[pool.as_bytes(), fields]).ok()?;
        let mut reader = Reader::new(fields);
        let mut number = || reader.u64("a number").ok().filter(|number| *number < LIMIT);
        let (writer, first, frame, end) = (Writer(number()?), number()?, number()?, number()?);
        let check = reader.array("a check").ok()?;
        let mount =
            MountId { boot: reader.array("a boot").ok()?, number: reader.u64("a mount").ok()? };
        let mount = (mount.boot != NO_MOUNT.boot).then_some(mount);
        let is_possible = first <= frame && (mount.is_some() || fields.ends_with(&[0; 24]));
        is_possible.then_some(Self { writer, first, frame, end, check, mount })
    }
}

/// How a copy says that the mount is not known.
const NO_MOUNT: MountId = MountId { boot: [0; 16], number: 0 };

/// What the record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing: no frame was recorded yet, or the first record was being written.
    Nothing,
    /// That this frame was acknowledged.
    Acknowledged(Position),
    /// Neither copy is whole.
    Unreadable,
}

/// The record of a pool.
pub(crate) struct Record {
    file: Box<dyn Pages + Sync>,
    pool: ObjectId,
    /// The copy that is written next.
    next: u64,
}

impl Record {
    /// Opens the record of `pool`, which is made if there is none. Also what it says.
    pub(crate) fn open(folder: &dyn Folder, pool: ObjectId) -> Result<(Self, Said), VolumeError> {
        let file = folder.pages(NAME, PAGE)?;
        let mut copies = [[0; PAGE]; COPIES as usize];
        for (number, copy) in (0..file.count()).zip(&mut copies) {
            file.read(number, copy)?;
        }
        let found = copies.each_ref().map(|copy| {
            let (bytes, rest) = copy.split_first_chunk().expect("a page is longer");
            Position::decode(bytes, pool).filter(|_| rest.iter().all(|byte| *byte == 0))
        });
        let newest = (0..).zip(&found).filter_map(|(at, one)| Some((at, (*one)?)));
        let newest = newest.max_by_key(|(_, one)| (one.frame, one.writer));
        let said = match newest {
            Some((_, position)) => Said::Acknowledged(position),
            None if copies.iter().all(|copy| *copy != [0; PAGE]) => Said::Unreadable,
            None => Said::Nothing,
        };
        // never over the newest, which is the only one that is known to be whole
        let next = newest.map_or(0, |(at, _): (u64, Position)| 1 - at);
        Ok((Self { file, pool, next }, said))
    }

    /// Says durably that the frame at `position` was acknowledged.
    pub(crate) fn write(&mut self, position: &Position) -> Result<(), VolumeError> {
        if self.file.count() < COPIES {
            self.file.set_count(COPIES)?;
        }
        let mut page = [0; PAGE];
        page[..LEN].copy_from_slice(&position.encode(self.pool));
        self.put(&page)
    }

    /// Says nothing any more, durably. Only a repair may do so.
    pub(crate) fn clear(&mut self) -> Result<(), VolumeError> {
        Ok(self.file.set_count(0)?)
    }

    fn put(&mut self, page: &[u8; PAGE]) -> Result<(), VolumeError> {
        self.file.write(self.next, page)?;
        self.file.sync()?;
        self.next = 1 - self.next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryFolder;

    use super::*;

    const POOL: ObjectId = ObjectId::from_bytes([4; 16]);

    fn position(frame: u64) -> Position {
        let mount = MountId { boot: [7; 16], number: 8 };
        let (writer, check) = (Writer(3), [5; CHECK_LEN]);
        Position { writer, first: 2, frame, end: 100, check, mount: Some(mount) }
    }

    fn said(folder: &MemoryFolder) -> Said {
        Record::open(folder, POOL).unwrap().1
    }

    #[test]
    fn the_last_position_comes_back() {
        let folder = MemoryFolder::new();
        let (mut record, nothing) = Record::open(&folder, POOL).unwrap();
        assert_eq!(nothing, Said::Nothing);
        for frame in 2..9 {
            record.write(&position(frame)).unwrap();
            assert_eq!(said(&folder), Said::Acknowledged(position(frame)));
        }
        let unknown = Position { mount: None, ..position(9) };
        record.write(&unknown).unwrap();
        assert_eq!(said(&folder), Said::Acknowledged(unknown));
        record.clear().unwrap();
        assert_eq!(said(&folder), Said::Nothing);
    }

    #[test]
    fn a_copy_that_is_being_written_leaves_the_one_before() {
        let folder = MemoryFolder::new();
        let tear = |copy| folder.pages(NAME, PAGE).unwrap().write(copy, &[9; PAGE]).unwrap();
        let (mut record, _) = Record::open(&folder, POOL).unwrap();
        record.write(&position(2)).unwrap();
        // the first one that is written has none before
        tear(0);
        assert_eq!(said(&folder), Said::Nothing);
        for frame in 3..7 {
            let (mut record, _) = Record::open(&folder, POOL).unwrap();
            record.write(&position(frame)).unwrap();
            let (record, found) = Record::open(&folder, POOL).unwrap();
            assert_eq!(found, Said::Acknowledged(position(frame)));
            tear(record.next);
            assert_eq!(said(&folder), Said::Acknowledged(position(frame)));
        }
        (0..COPIES).for_each(tear);
        assert_eq!(said(&folder), Said::Unreadable);
    }

    #[test]
    fn a_copy_with_any_bit_wrong_or_of_another_pool_says_nothing() {
        let bytes = position(5).encode(POOL);
        assert_eq!(Position::decode(&bytes, POOL), Some(position(5)));
        assert_eq!(Position::decode(&bytes, ObjectId::from_bytes([5; 16])), None);
        for bit in 0..LEN * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Position::decode(&bytes, POOL), None, "{bit}");
        }
    }

    #[test]
    fn numbers_that_no_frame_has_are_refused() {
        for wrong in [
            Position { first: 6, ..position(5) },
            Position { writer: Writer(LIMIT), ..position(5) },
            Position { end: LIMIT, ..position(5) },
            position(LIMIT),
        ] {
            assert_eq!(Position::decode(&wrong.encode(POOL), POOL), None, "{wrong:?}");
        }
    }
}
