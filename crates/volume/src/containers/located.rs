//! Where pages are, and their bytes read from there.
//!
//! Pages that lie close to one another in a container, as those do that were written one after
//! another, are one read of its file. It goes into a buffer that each thread keeps, their checks are
//! computed together, and each page is decompressed to where it is wanted. If such a read fails, each
//! of its pages is read alone, so that only those are lost that cannot be read.

use std::cell::RefCell;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use onefold_container::{Codec, decompress_into};
use onefold_fingerprint::Fingerprinter;
use onefold_seal::Check;

use crate::containers::entry::PageEntry;
use crate::containers::files::PageFile;
use crate::error::VolumeError;
use crate::ids::Handle;

/// Bytes that one read of a file has at most, unless a page takes more.
const LONGEST: u64 = 1 << 20;

/// Bytes between two pages that are read over: to copy a few KiB takes no longer than a call of the
/// system.
const GAP: u64 = 4096;

thread_local! {
    /// Stored bytes; as long as the longest read of this thread so far.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A page that can be read without anybody's lock.
#[derive(Clone)]
pub(crate) struct Located {
    /// The page that was there when it was located: by now its block may be another.
    pub(crate) page: Handle,
    pub(crate) file: Arc<PageFile>,
    pub(crate) offset: u32,
    pub(crate) stored_len: u32,
    /// As [`short`] has it.
    pub(crate) check: u32,
    pub(crate) codec: Codec,
}

/// The part of a check that is kept in memory.
pub(crate) fn short(check: &[u8]) -> u32 {
    u32::from_le_bytes(*check.first_chunk().expect("a check is longer"))
}

impl Located {
    /// The stored bytes, as their check in memory says.
    pub(crate) fn read_stored(&self) -> Result<Vec<u8>, VolumeError> {
        let mut stored = vec![0; self.stored_len as usize];
        self.file.read(self.offset.into(), &mut stored)?;
        self.ensure_check(Check::of(&[&stored]).as_bytes())?;
        Ok(stored)
    }

    /// Fills `page` from its stored bytes, whose BLAKE3 hash begins with their check.
    fn unpack(&self, stored: &[u8], hash: &[u8], page: &mut [u8]) -> Result<(), VolumeError> {
        self.ensure_check(hash)?;
        self.decompress(stored, page)
    }

    fn ensure_check(&self, check: &[u8]) -> Result<(), VolumeError> {
        match short(check) == self.check {
            true => Ok(()),
            false => Err(self.damaged("the page's bytes are not those that were written".into())),
        }
    }

    fn decompress(&self, stored: &[u8], page: &mut [u8]) -> Result<(), VolumeError> {
        decompress_into(self.codec, stored, page).map_err(|problem| {
            self.damaged(format!("expected a page of {} bytes: {problem}", page.len()))
        })
    }

    fn damaged(&self, problem: String) -> VolumeError {
        self.file.damaged(self.offset.into(), problem)
    }

    /// What it takes of the file.
    fn range(&self) -> Range<u64> {
        let start = u64::from(self.offset);
        start..start + u64::from(self.stored_len)
    }

    /// Whether it is the page of which a footer says this, as far as memory tells.
    pub(crate) fn is(&self, said: &PageEntry) -> bool {
        let Self { offset, stored_len, check, codec, .. } = *self;
        (offset, stored_len, codec) == (said.offset, said.stored_len, said.codec)
            && check == short(said.check.as_bytes())
    }

    /// Whether `other`, of the same file, is the same page.
    fn is_same(&self, other: &Located) -> bool {
        let all = |one: &Located| (one.offset, one.stored_len, one.check, one.codec);
        all(self) == all(other)
    }
}

/// A page that is to be read.
pub(crate) struct Wanted<'a> {
    /// Which one of those that are asked for.
    pub(crate) at: usize,
    pub(crate) located: &'a Located,
    /// As long as the page, or it cannot be read.
    pub(crate) into: &'a mut [u8],
}

/// Reads all pages; which could not be read, and why. What such a one leaves behind is of no meaning.
pub(crate) fn read_all(mut wanted: Vec<Wanted<'_>>) -> Vec<(usize, VolumeError)> {
    wanted.sort_unstable_by_key(|one| (one.located.file.number(), one.located.offset));
    let mut failed = Vec::new();
    STORED.with_borrow_mut(|buffer| {
        let mut rest = &mut wanted[..];
        while !rest.is_empty() {
            let (count, range) = first_run(rest);
            let (run, others) = rest.split_at_mut(count);
            read_run(run, range, buffer, &mut failed);
            rest = others;
        }
    });
    failed
}

/// How many of the first pages are one read, and what that reads.
fn first_run(wanted: &[Wanted<'_>]) -> (usize, Range<u64>) {
    let first = wanted[0].located;
    let Range { start, mut end } = first.range();
    let mut count = 1;
    for Wanted { located, .. } in &wanted[1..] {
        let range = located.range();
        let is_near = Arc::ptr_eq(&located.file, &first.file) && range.start <= end + GAP;
        if !is_near || range.end - start > LONGEST {
            break;
        }
        end = end.max(range.end);
        count += 1;
    }
    (count, start..end)
}

/// Reads pages that lie in `range` of one file, in order.
fn read_run(
    run: &mut [Wanted<'_>],
    range: Range<u64>,
    buffer: &mut Vec<u8>,
    failed: &mut Vec<(usize, VolumeError)>,
) {
    let len = (range.end - range.start) as usize;
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    if let Err(error) = run[0].located.file.read(range.start, &mut buffer[..len]) {
        if let [one] = run {
            failed.push((one.at, error.into()));
            return;
        }
        for one in run {
            let range = one.located.range();
            read_run(slice::from_mut(one), range, buffer, failed);
        }
        return;
    }
    let is_same = |one: &Wanted<'_>, other: &Wanted<'_>| one.located.is_same(other.located);
    let stored_of = |same: &[Wanted<'_>]| {
        let Range { start, end } = same[0].located.range();
        &buffer[(start - range.start) as usize..(end - range.start) as usize]
    };
    let stored: Vec<&[u8]> = run.chunk_by(is_same).map(stored_of).collect();
    let mut hashes = Vec::with_capacity(stored.len());
    // a check is the first bytes of BLAKE3, whoever computes it
    Fingerprinter::blake3().fingerprint_many(&stored, &mut hashes);
    for ((same, stored), hash) in run.chunk_by_mut(is_same).zip(stored).zip(&hashes) {
        let mut unpacked: Option<&[u8]> = None;
        for Wanted { at, located, into } in same {
            match unpacked {
                Some(page) if page.len() == into.len() => into.copy_from_slice(page),
                _ => match located.unpack(stored, hash.as_bytes(), into) {
                    Ok(()) => unpacked = Some(&**into),
                    Err(error) => failed.push((*at, error)),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
    use onefold_backend::{Folder, MemoryFolder, Operation};
    use onefold_seal::{Envelope, ObjectId};
    use onefold_testkit::{SplitMix64, random, text};

    use super::*;
    use crate::containers::files::Files;
    use crate::containers::new_pages::Packer;

    const PAGE: usize = 4096;

    /// Fills `page` with the one that is located, by a read of its own.
    fn alone(located: &Located, page: &mut [u8]) -> Result<(), VolumeError> {
        located.decompress(&located.read_stored()?, page)
    }

    /// Pages in two containers, some of which no longer are what was written.
    struct Fixture {
        faults: Faults,
        pages: Vec<Located>,
    }

    impl Fixture {
        /// With so many pages a container.
        fn new(count: u64) -> Self {
            let faults = Faults::none();
            let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
            let folder = Arc::new(Faulty::new(folder, "pool", &faults));
            let envelope = Envelope::plain(ObjectId::from_bytes([7; ObjectId::LEN]));
            let files = Files::new(folder, envelope, 1);
            let mut pages = Vec::new();
            for number in [1, 2] {
                let file = files.open(number).unwrap();
                let codecs = Codec::ALL.into_iter().cycle();
                let mut packer = Packer::new(count as usize);
                for (n, codec) in (0..count).zip(codecs) {
                    let bytes = if n % 5 == 0 { random(n, PAGE) } else { text(n, PAGE) };
                    let fingerprint = Fingerprinter::blake3().fingerprint(&bytes);
                    packer.push(fingerprint, &bytes, codec, ()).unwrap();
                }
                let new = packer.finish();
                let all = new.all();
                file.append(b"what comes first").unwrap();
                let mut offset = file.len() as u32;
                for page in all.pages {
                    pages.push(Located {
                        page: Handle::HOLE,
                        file: Arc::clone(&file),
                        offset,
                        stored_len: page.stored_len,
                        check: short(page.check.as_bytes()),
                        codec: page.codec,
                    });
                    offset += page.stored_len;
                }
                file.append(all.bytes).unwrap();
            }
            Self { faults, pages }
        }

        /// Reads the pages of these numbers together, which must give what each gives alone. How many
        /// reads of files they were together.
        fn read(&self, numbers: &[usize]) -> u64 {
            let mut found = vec![0xee; numbers.len() * PAGE];
            let wanted = numbers.iter().enumerate().zip(found.chunks_mut(PAGE));
            let wanted = wanted.map(|((at, number), into)| Wanted {
                at,
                located: &self.pages[*number],
                into,
            });
            let wanted = wanted.collect();
            let before = self.faults.count(Operation::Read);
            let mut failed = read_all(wanted);
            let reads = self.faults.count(Operation::Read) - before;
            failed.sort_by_key(|(at, _)| *at);
            let mut failed = failed.into_iter().peekable();
            for ((at, number), found) in numbers.iter().enumerate().zip(found.chunks(PAGE)) {
                let mut expected = [0; PAGE];
                match alone(&self.pages[*number], &mut expected) {
                    Ok(()) => assert!(found == expected, "page {number} of {numbers:?}"),
                    Err(error) => {
                        let (place, told) = failed.next().expect("it is told");
                        assert_eq!((place, told.to_string()), (at, error.to_string()));
                    }
                }
            }
            assert!(failed.next().is_none(), "{numbers:?}");
            reads
        }
    }

    #[test]
    fn pages_read_together_are_what_each_is_alone() {
        let mut numbers = SplitMix64::new(1);
        let mut fixture = Fixture::new(60);
        for lost in 0..4 {
            for _ in 0..60 {
                let count = numbers.next_u64() % 90;
                // in any order, some several times, of either container
                let any: Vec<usize> =
                    (0..count).map(|_| (numbers.next_u64() % 120) as usize).collect();
                fixture.read(&any);
                let first = (numbers.next_u64() % 60) as usize;
                fixture.read(&(first..first + count as usize / 2).collect::<Vec<_>>());
            }
            // from now on the first and the last page of a container are lost, and others
            let damaged = [[0, 59, 1], [30, 60, 119], [31, 32, 90]].into_iter().nth(lost);
            for number in damaged.into_iter().flatten() {
                fixture.pages[number].check ^= 1 << (number % 32);
            }
        }
    }

    #[test]
    fn who_wants_a_page_of_another_length_gets_an_error() {
        let fixture = Fixture::new(8);
        for (number, located) in fixture.pages.iter().enumerate() {
            let [mut right, mut short, mut long] = [PAGE, PAGE - 1, PAGE + 1].map(|n| vec![0; n]);
            let into = [&mut short, &mut right, &mut long];
            let wanted =
                into.into_iter().enumerate().map(|(at, into)| Wanted { at, located, into });
            let mut lost: Vec<_> =
                read_all(wanted.collect()).into_iter().map(|(at, _)| at).collect();
            lost.sort_unstable();
            assert_eq!(lost, [0, 2], "{number}");
            let mut expected = [0; PAGE];
            alone(located, &mut expected).unwrap();
            assert!(right == expected, "{number}");
        }
    }

    #[test]
    fn neighbours_are_one_read_and_so_are_those_behind_a_gap() {
        let fixture = Fixture::new(200);
        assert_eq!(fixture.read(&[]), 0);
        assert_eq!(fixture.read(&(0..200).collect::<Vec<_>>()), 1);
        assert_eq!(fixture.read(&(0..400).rev().collect::<Vec<_>>()), 2);
        assert_eq!(fixture.read(&[3; 20]), 1);
        // between them lies one page
        assert_eq!(fixture.read(&[7, 11, 9]), 1);
        let far: u32 = fixture.pages[8..100].iter().map(|page| page.stored_len).sum();
        assert!(u64::from(far) > GAP);
        assert_eq!(fixture.read(&[100, 7]), 2);
        assert_eq!(fixture.read(&[100, 7, 300]), 3);
    }

    #[test]
    fn a_read_is_not_longer_than_a_mebibyte() {
        let fixture = Fixture::new(1500);
        let bytes: u64 = fixture.pages[..1500].iter().map(|page| u64::from(page.stored_len)).sum();
        let reads = fixture.read(&(0..1500).collect::<Vec<_>>());
        assert!(reads > 1 && reads <= bytes / LONGEST + 2, "{reads} reads of {bytes} bytes");
        STORED.with_borrow(|stored| assert!(stored.len() as u64 <= LONGEST));
    }

    #[test]
    fn where_a_read_of_many_fails_those_are_lost_that_cannot_be_read_alone() {
        let fixture = Fixture::new(20);
        let read = |faults: &[Fault]| {
            let mut found = vec![0; 20 * PAGE];
            let wanted = fixture.pages[..20].iter().enumerate().zip(found.chunks_mut(PAGE));
            let wanted = wanted.map(|((at, page), into)| Wanted { at, located: page, into });
            faults.iter().for_each(|fault| fixture.faults.add(fault.clone()));
            let mut lost: Vec<usize> = read_all(wanted.collect())
                .into_iter()
                .map(|(at, error)| {
                    assert!(error.to_string().contains("container-00000001"), "{error}");
                    at
                })
                .collect();
            lost.sort_unstable();
            for (at, found) in found.chunks(PAGE).enumerate() {
                let mut expected = [0; PAGE];
                alone(&fixture.pages[at], &mut expected).unwrap();
                assert!(lost.contains(&at) || found == expected, "{at}");
            }
            lost
        };
        let fails = || Fault::new(Failure::Io).on(Operation::Read);
        assert!(read(&[]).is_empty());
        // the one of all
        assert!(read(&[fails()]).is_empty());
        // and then the first, one in the middle, the last
        assert_eq!(
            read(&[fails(), fails().skip(1), fails().skip(8), fails().skip(20)]),
            [0, 7, 19]
        );
        assert_eq!(read(&[fails().times(21)]), (0..20).collect::<Vec<_>>());
    }
}
