//! The end of the newest journal is damaged, in copies of a pool whose server was killed or lost its
//! power: a bit of the last frame is flipped, or the journal is cut off within that frame, before it, or
//! to nothing.
//!
//! A copy may open only if every block is one of those that its register allows. Otherwise it must be
//! refused, with a message that names the journal, and no file but the mark may change. A repair then
//! lets it open, and every block is one that was written at some time.
//!
//! **The window.** A server notes ten times a second how far it acknowledged changes
//! (docs/decisions/0047-acknowledged-position.md). A frame that it acknowledged in the last tenth of a
//! second before the kill, and for as long as the disk took to write the note, may therefore be lost
//! unseen. These copies are counted apart. Two things must be noticed all the same: any damage after a
//! second of rest, and a flipped bit if no power cut came since and the kill left no part of a frame
//! behind that.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::{SplitMix64, flip_bit};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::registers::{Registers, read_blocks};
use crate::lab::Lab;
use crate::served::Served;

/// Bytes of a frame before its body.
const HEAD: usize = 36;
/// Bytes of each copy of the note.
const NOTE: usize = 4096;

/// After so long a rest all that was acknowledged must be noted.
const REST: Duration = Duration::from_millis(1500);
/// Longer than a note takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const SERVE: &str = "serve --pool copy --unix socket --index-memory 1MiB";

/// What came of damaged copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Damaged {
    pub(super) copies: u64,
    /// Those of pools that had rested before the kill.
    pub(super) rested_copies: u64,
    /// Rests after which something was not noted yet.
    pub(super) late_notes: u64,
    /// Copies that were refused by a message that names the journal, and stayed as they were.
    pub(super) refused: u64,
    /// Copies that opened with every block as its register allows.
    pub(super) opened_whole: u64,
    /// Copies that opened without changes that were acknowledged and not noted yet.
    pub(super) in_the_window: u64,
    /// Copies that opened though the damage had to be noticed: must be 0.
    pub(super) silent: u64,
    /// Repairs after which a refused copy opened.
    pub(super) repaired: u64,
    /// Blocks that were lost then with containers that the repair named.
    pub(super) lost_with_containers: u64,
    /// Blocks of any copy that are no change that was ever begun: must be 0.
    pub(super) invented_blocks: u64,
}

/// What is done to a journal.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit of this byte is flipped.
    Flip(usize),
    /// The journal is cut off at this byte.
    Cut(usize),
}

impl Damage {
    /// The first byte that is wrong or missing.
    fn at(self) -> usize {
        let (Self::Flip(at) | Self::Cut(at)) = self;
        at
    }

    fn apply(self, journal: &Path) {
        match self {
            Self::Flip(at) => flip_bit(journal, at as u64),
            Self::Cut(len) => {
                fs::File::options().write(true).open(journal).unwrap().set_len(len as u64).unwrap();
            }
        }
    }
}

/// The newest journal of a pool that has a frame.
struct Journal {
    name: String,
    writer: u64,
    /// The number of its first frame.
    first: u64,
    /// Where it begins and where its frames end, in bytes.
    ends: Vec<usize>,
    /// Whether a part of another frame follows.
    has_part: bool,
}

impl Journal {
    fn newest(pool: &Path) -> Option<Self> {
        let mut names = names(pool);
        names.sort();
        let mut journals = names.iter().rev().filter_map(|name| Self::read(pool, name));
        journals.find(|journal| journal.ends.len() > 1)
    }

    fn read(pool: &Path, name: &str) -> Option<Self> {
        let (writer, first) = name.strip_prefix("journal-")?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).unwrap();
        let (writer, first) = (number(writer), number(first));
        let bytes = fs::read(pool.join(name)).unwrap();
        let mut ends = vec![0];
        for frame in first.. {
            let start = *ends.last().expect("it begins with one");
            let Some(len) = frame_len(&bytes[start..], frame, writer) else { break };
            ends.push(start + len);
        }
        let has_part = ends.last() != Some(&bytes.len());
        Some(Self { name: name.to_owned(), writer, first, ends, has_part })
    }

    /// The number of the first frame that is lost by `damage`.
    fn first_lost(&self, damage: Damage) -> u64 {
        let whole = self.ends[1..].iter().filter(|end| **end <= damage.at()).count();
        self.first + whole as u64
    }

    fn last(&self) -> u64 {
        self.first + self.ends.len() as u64 - 2
    }

    /// One damage of each kind to the end.
    fn damages(&self, numbers: &mut SplitMix64) -> [Damage; 5] {
        let [.., start, end] = self.ends[..] else { panic!("there is a frame") };
        let (head, body) = (start, start + HEAD);
        [
            Damage::Flip(head + numbers.below(HEAD)),
            Damage::Flip(body + numbers.below(end - body)),
            Damage::Cut(start + 1 + numbers.below(end - start - 1)),
            Damage::Cut(start),
            Damage::Cut(0),
        ]
    }
}

/// The length of the frame with which `bytes` begin, if that is whole and has this number and writer.
fn frame_len(bytes: &[u8], number: u64, writer: u64) -> Option<usize> {
    let (len, rest) = bytes.split_first_chunk()?;
    let len = HEAD + u32::from_le_bytes(*len) as usize;
    let is_it = rest.get(..8)? == number.to_le_bytes() && rest.get(8..16)? == writer.to_le_bytes();
    (is_it && len > HEAD && len <= bytes.len()).then_some(len)
}

/// The last frame of which a pool notes that it was acknowledged.
struct Noted {
    writer: u64,
    frame: u64,
    /// Whether the kernel told on which mount it was written.
    has_mount: bool,
}

impl Noted {
    fn read(pool: &Path) -> Option<Self> {
        let bytes = fs::read(pool.join("acknowledged")).ok()?;
        let number = |copy: &[u8], at: usize| {
            u64::from_le_bytes(copy[at..at + 8].try_into().expect("eight bytes"))
        };
        let copies = bytes.chunks_exact(NOTE).filter(|copy| copy.iter().any(|byte| *byte != 0));
        let read = |copy: &[u8]| Self {
            writer: number(copy, 0),
            frame: number(copy, 16),
            has_mount: number(copy, 64) != 0,
        };
        copies.map(read).max_by_key(|noted| noted.frame)
    }
}

/// Lets a server rest until all that it acknowledged is noted, which must not take long.
pub(super) fn rest(pool: &Path, tally: &mut Damaged) {
    let is_noted = || {
        let noted = Noted::read(pool).map_or(0, |noted| noted.frame);
        Journal::newest(pool).is_none_or(|journal| journal.last() <= noted)
    };
    let begun = Instant::now();
    thread::sleep(REST);
    tally.late_notes += u64::from(!is_noted());
    while !is_noted() {
        assert!(begun.elapsed() < PATIENCE, "what was acknowledged is not noted");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The files of a pool; sockets are none.
fn names(pool: &Path) -> Vec<String> {
    let files = fs::read_dir(pool).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn files(pool: &Path) -> BTreeMap<String, Vec<u8>> {
    names(pool).into_iter().map(|name| (name.clone(), fs::read(pool.join(name)).unwrap())).collect()
}

/// A pool that nobody serves, and what its blocks may be.
pub(super) struct Left<'a> {
    pub(super) lab: &'a Lab,
    /// Its folder in the lab.
    pub(super) pool: &'a str,
    pub(super) registers: &'a Registers,
    /// Whether it was let rest before the kill.
    pub(super) has_rested: bool,
    /// Whether the power was cut.
    pub(super) is_power_cut: bool,
}

impl Left<'_> {
    /// Damages copies of the pool, each in another way.
    pub(super) fn damage_copies(&self, numbers: &mut SplitMix64, tally: &mut Damaged) {
        let pool = self.lab.path(self.pool);
        let Some(journal) = Journal::newest(&pool) else { return };
        for damage in journal.damages(numbers) {
            self.copy(&pool);
            damage.apply(&self.folder().join(&journal.name));
            tally.copies += 1;
            tally.rested_copies += u64::from(self.has_rested);
            self.try_copy(&journal, damage, tally);
        }
    }

    fn folder(&self) -> PathBuf {
        self.lab.path("copy")
    }

    fn copy(&self, pool: &Path) {
        // there may be none yet
        let _ = fs::remove_dir_all(self.folder());
        fs::create_dir(self.folder()).unwrap();
        for name in names(pool) {
            fs::copy(pool.join(&name), self.folder().join(&name)).unwrap();
        }
    }

    /// Whether `damage` must be noticed: the frame is noted, or bits cannot have changed by a power cut.
    fn must_be_noticed(&self, journal: &Journal, damage: Damage) -> bool {
        let Some(noted) = Noted::read(&self.folder()) else { return self.has_rested };
        let is_as_written = !self.is_power_cut && noted.has_mount && noted.writer == journal.writer;
        self.has_rested
            || noted.frame >= journal.first_lost(damage)
            || (is_as_written && !journal.has_part && matches!(damage, Damage::Flip(_)))
    }

    /// Opens a copy in both ways, to read it and to serve it.
    fn try_copy(&self, journal: &Journal, damage: Damage, tally: &mut Damaged) {
        let [.., start, end] = journal.ends[..] else { panic!("there is a frame") };
        let context = format!("{damage:?} in {}, last frame {start}..{end}", journal.name);
        let must_be_noticed = self.must_be_noticed(journal, damage);
        let before = files(&self.folder());
        let read = self.lab.run("volume list --pool copy");
        assert!(files(&self.folder()) == before, "{context}: reading wrote");
        match Served::start_with(self.lab, SERVE) {
            Ok(served) => {
                assert_eq!(read.code, 0, "{context}: {read:#?}");
                let differences = self.differences(served, tally);
                if must_be_noticed {
                    println!("{context}: it opens, {differences} blocks are not as they may be");
                    tally.silent += 1;
                } else if differences > 0 {
                    tally.in_the_window += 1;
                } else {
                    tally.opened_whole += 1;
                }
            }
            Err(said) => {
                assert!(said.contains(&journal.name), "{context}: {said}");
                read.expect(1).says(&[&journal.name]);
                self.expect_unchanged(before, &context);
                tally.refused += 1;
                self.repair(&context, tally);
            }
        }
    }

    /// How many blocks of the copy are not as they may be, or cannot be read.
    fn differences(&self, mut served: Served, tally: &mut Damaged) -> u64 {
        let found = self.registers.compare(&read_blocks(&mut served.client("disk")));
        served.signal(Signal::KILL);
        tally.invented_blocks += found.invented;
        found.other + found.unreadable
    }

    /// The copy is as `before`, but for the mark, which each opening writes.
    fn expect_unchanged(&self, mut before: BTreeMap<String, Vec<u8>>, context: &str) {
        let mut after = files(&self.folder());
        for files in [&mut before, &mut after] {
            files.remove("writer");
        }
        assert!(after == before, "{context}: a refused opening changed a file");
    }

    /// Repairs a copy that was refused: it opens then, without blocks that were never written.
    fn repair(&self, context: &str, tally: &mut Damaged) {
        let repaired = self.lab.run("volume check --pool copy --repair --json");
        let told = repaired.json();
        let says = |words: &str| {
            let settled = told["settled"].as_array().unwrap();
            settled.iter().any(|line| line.as_str().unwrap().contains(words))
        };
        assert!(says("gave up changes from frame "), "{context}: {repaired:#?}");
        assert!(!told["kept"].as_array().unwrap().is_empty(), "{context}: {repaired:#?}");
        // a container that the server removed since cannot come back
        let is_container_lost = says("did without 'container-");
        assert!(repaired.code == 0 || is_container_lost, "{context}: {repaired:#?}");
        let mut served = Served::start_with(self.lab, SERVE)
            .unwrap_or_else(|said| panic!("{context}: after the repair {said}"));
        let found = self.registers.compare(&read_blocks(&mut served.client("disk")));
        served.signal(Signal::KILL);
        assert!(found.unreadable == 0 || is_container_lost, "{context}: {found:?}");
        tally.lost_with_containers += found.unreadable;
        tally.invented_blocks += found.invented;
        tally.repaired += 1;
    }
}
