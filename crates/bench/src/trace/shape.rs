//! Traces that are made up, in the shape of real ones.

use anyhow::{Result, ensure};

use super::content::{Digest, Numbers, mix};
use super::format::{Kind, Operation, PageSize};

/// Every operation is of so many bytes.
const BLOCK: u64 = 4096;

/// A trace of FIU whose shape can be asked for.
///
/// How much each read and wrote in one week, of how many distinct sectors, with how many distinct
/// contents, and which part of the file system it touched, is in table 1 of Koller and Rangaswami,
/// "I/O Deduplication" (FAST 2010; ACM TOS 6(3), 2010). The figures were taken down from memory of
/// that table, in GB, and could not be compared with the paper; see docs/decisions/0024-traces.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A mail server.
    Mail,
    /// A server of web pages.
    Web,
    /// A file server of home folders.
    Homes,
}

/// One row of that table, in GB, but for the last.
struct Week {
    read: f64,
    written: f64,
    /// Distinct sectors that were written.
    written_sectors: f64,
    /// Distinct contents that were written.
    written_contents: f64,
    /// What was touched of the file system.
    touched: f64,
    page_size: PageSize,
}

impl Shape {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Mail, Self::Web, Self::Homes];

    /// As the paper calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Web => "web",
            Self::Homes => "homes",
        }
    }

    fn week(self) -> Week {
        match self {
            Self::Mail => Week {
                read: 62.00,
                written: 482.10,
                written_sectors: 4.18,
                written_contents: 34.02,
                touched: 0.0627 * 500.0,
                page_size: PageSize::B4096,
            },
            Self::Web => Week {
                read: 3.40,
                written: 11.46,
                written_sectors: 0.86,
                written_contents: 4.85,
                touched: 0.028 * 70.0,
                page_size: PageSize::B4096,
            },
            Self::Homes => Week {
                read: 5.79,
                written: 148.86,
                written_sectors: 4.33,
                written_contents: 33.68,
                touched: 0.0144 * 470.0,
                page_size: PageSize::B512,
            },
        }
    }

    /// A trace of so many operations: shares as in the week, the footprint as large a part of all
    /// that is read and written as it was there.
    ///
    /// No figure is known of how uneven writes and contents are: a skew of 0.9 for both is an
    /// assumption. So is that operations have 4 KiB, and that they come at 1,000 a second.
    pub fn plan(self, operations: u64) -> Plan {
        let week = self.week();
        let moved = week.read + week.written;
        Plan {
            operations,
            page_size: week.page_size,
            write_share: week.written / moved,
            duplicate_share: 1.0 - week.written_contents / week.written,
            footprint: (operations as f64 * BLOCK as f64 * week.touched / moved) as u64,
            written_part: week.written_sectors / week.touched,
            skew: 0.9,
            rate: 1000.0,
            seed: 1,
        }
    }
}

/// What a made-up trace is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How many there are, each of 4 KiB.
    pub operations: u64,
    /// The unit of digests.
    pub page_size: PageSize,
    /// The part of operations that write, from 0 to 1.
    pub write_share: f64,
    /// The part of written pages that have a content that was written before, from 0 to 1.
    pub duplicate_share: f64,
    /// Distinct bytes that there are to read and write. Takes two bytes of memory for a KiB.
    pub footprint: u64,
    /// The part of these that writes may touch, from 0 to 1. Reads come from below a cache and are
    /// spread evenly over all.
    pub written_part: f64,
    /// Exponent of Zipf's law by which blocks are chosen to be written, and contents to be written
    /// again: 0 chooses evenly, at 1 the second is chosen half as often as the first.
    pub skew: f64,
    /// Operations a second, by the times in the trace.
    pub rate: f64,
    /// Another seed gives another trace of the same kind.
    pub seed: u64,
}

/// The most that a trace may touch, in bytes: takes 8 GiB of memory.
const MAX_FOOTPRINT: u64 = 4 << 40;

impl Plan {
    /// The trace.
    ///
    /// # Errors
    ///
    /// A number that makes no sense, by name.
    pub fn generate(self) -> Result<Generator> {
        for (name, share) in [
            ("the share of writes", self.write_share),
            ("the share of duplicates", self.duplicate_share),
            ("the part that is written", self.written_part),
        ] {
            ensure!((0.0..=1.0).contains(&share), "{name} is {share}, expected 0 to 1");
        }
        ensure!((0.0..=4.0).contains(&self.skew), "a skew of {}, expected 0 to 4", self.skew);
        let rates = 1e-3..=1e9;
        ensure!(
            rates.contains(&self.rate),
            "{} operations a second, expected {rates:?}",
            self.rate
        );
        let footprint = self.footprint;
        ensure!(
            (1..=MAX_FOOTPRINT).contains(&footprint),
            "a footprint of {footprint} bytes, expected 1 to {MAX_FOOTPRINT}"
        );
        let blocks = footprint.div_ceil(BLOCK);
        Ok(Generator {
            numbers: Numbers::new(mix(self.seed)),
            contents: vec![NEVER_WRITTEN; blocks as usize],
            stride: coprime(blocks),
            written_blocks: ((blocks as f64 * self.written_part).ceil() as u64).clamp(1, blocks),
            distinct: 0,
            done: 0,
            nanoseconds: 0.0,
            plan: self,
        })
    }
}

/// The content of a block that has only what was there before the trace.
const NEVER_WRITTEN: u64 = u64::MAX;

/// The operations of a made-up trace, in order.
pub struct Generator {
    plan: Plan,
    numbers: Numbers,
    /// The number of what each block has.
    contents: Vec<u64>,
    /// Ranks go over the blocks in steps of so many, so that the first ranks are not neighbours.
    stride: u64,
    written_blocks: u64,
    /// How many contents were written.
    distinct: u64,
    done: u64,
    nanoseconds: f64,
}

impl Generator {
    fn write(&mut self) -> (u64, u64) {
        let rank_of_block = rank(self.numbers.share(), self.written_blocks, self.plan.skew);
        let block = self.block(rank_of_block);
        let is_duplicate = self.numbers.share() < self.plan.duplicate_share && self.distinct > 0;
        let content = match is_duplicate {
            true => rank(self.numbers.share(), self.distinct, self.plan.skew),
            false => {
                self.distinct += 1;
                self.distinct - 1
            }
        };
        self.contents[block as usize] = content;
        (block, content)
    }

    fn read(&mut self) -> (u64, u64) {
        let rank = rank(self.numbers.share(), self.contents.len() as u64, 0.0);
        let block = self.block(rank);
        let content = self.contents[block as usize];
        // what was there before has a number of its own for each block
        (block, if content == NEVER_WRITTEN { NEVER_WRITTEN - 1 - block } else { content })
    }

    fn block(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.stride) % self.contents.len() as u128) as u64
    }

    /// The digests of the pages of a block with this content.
    fn digests(&self, content: u64) -> Vec<Digest> {
        let of_page = |page: u64| {
            let first = mix(mix(self.plan.seed ^ 0x5EED) ^ content);
            let second = mix(content.wrapping_mul(BLOCK) ^ page);
            Digest(((u128::from(first) << 64) | u128::from(second)).to_be_bytes())
        };
        (0..BLOCK / self.plan.page_size.bytes()).map(of_page).collect()
    }
}

impl Iterator for Generator {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.done == self.plan.operations {
            return None;
        }
        self.done += 1;
        self.nanoseconds -= (1.0 - self.numbers.share()).ln() / self.plan.rate * 1e9;
        let is_write = self.numbers.share() < self.plan.write_share;
        let (kind, (block, content)) = match is_write {
            true => (Kind::Write, self.write()),
            false => (Kind::Read, self.read()),
        };
        Some(Operation {
            nanoseconds: self.nanoseconds as u64,
            pid: 1,
            process: "generated".into(),
            sector: block * (BLOCK / super::SECTOR),
            kind,
            device: (6, 0),
            page_size: self.plan.page_size,
            digests: self.digests(content),
        })
    }
}

/// The rank, from 0, below `count`, that `share` of all choices do not go beyond, if the chance of
/// the `r`th, from 1, is about 1 / r^`skew`: the sum is taken for an integral.
fn rank(share: f64, count: u64, skew: f64) -> u64 {
    let end = count as f64 + 1.0;
    let exponent = 1.0 - skew;
    let place = match exponent.abs() < 1e-9 {
        true => end.powf(share),
        false => (share * (end.powf(exponent) - 1.0) + 1.0).powf(1.0 / exponent),
    };
    (place as u64).clamp(1, count) - 1
}

/// A number without a common divisor with `count`, and about 0.6 of it.
fn coprime(count: u64) -> u64 {
    let golden = (count as f64 * 0.618) as u64;
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (golden.max(1)..).find(|number| divisor(*number, count) == 1).expect("there are primes")
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn plan(shape: Shape) -> Plan {
        Plan { footprint: 4 << 20, written_part: 0.5, ..shape.plan(20_000) }
    }

    fn share(part: usize, all: usize) -> f64 {
        part as f64 / all as f64
    }

    #[test]
    fn a_trace_has_the_shares_it_was_asked_for() {
        for shape in Shape::ALL {
            let plan = plan(shape);
            let all: Vec<_> = plan.clone().generate().unwrap().collect();
            assert_eq!(all.len(), 20_000);
            let written: Vec<_> = all.iter().filter(|one| one.kind == Kind::Write).collect();
            let write_share = share(written.len(), all.len());
            assert!((write_share - plan.write_share).abs() < 0.01, "{shape:?}: {write_share}");
            let distinct: HashSet<_> = written.iter().flat_map(|one| &one.digests).collect();
            let pages = written.iter().map(|one| one.digests.len()).sum();
            let duplicates = 1.0 - share(distinct.len(), pages);
            assert!((duplicates - plan.duplicate_share).abs() < 0.02, "{shape:?}: {duplicates}");
            let blocks: HashSet<_> = all.iter().map(|one| one.sector).collect();
            assert!(blocks.len() <= 1024 && blocks.iter().all(|sector| sector / 8 < 1024));
            let written_blocks: HashSet<_> = written.iter().map(|one| one.sector).collect();
            assert!((400..=512).contains(&written_blocks.len()), "{}", written_blocks.len());
            assert!(all.iter().all(|one| one.page_size == plan.page_size));
            let seconds = all.last().unwrap().nanoseconds as f64 / 1e9;
            assert!((seconds - 20.0).abs() < 1.0, "{seconds} s of 20,000 at 1,000 a second");
            assert!(all.is_sorted_by_key(|one| one.nanoseconds));
        }
    }

    #[test]
    fn a_read_finds_what_was_written_last() {
        let mut written = HashMap::new();
        let mut before = HashMap::new();
        let (mut seen, mut unwritten) = (0, 0);
        for one in plan(Shape::Web).generate().unwrap() {
            if one.kind == Kind::Write {
                written.insert(one.sector, one.digests);
            } else if let Some(digests) = written.get(&one.sector) {
                assert_eq!(*digests, one.digests);
                seen += 1;
            } else {
                let first = before.entry(one.sector).or_insert(one.digests.clone());
                assert_eq!(*first, one.digests);
                unwritten += 1;
            }
        }
        assert!(seen > 100 && unwritten > 100, "{seen}, {unwritten}");
        let distinct: HashSet<_> = before.values().flatten().collect();
        assert_eq!(distinct.len(), before.len());
    }

    #[test]
    fn a_seed_makes_a_trace() {
        let first = |seed| Plan { seed, ..plan(Shape::Homes) }.generate().unwrap().take(50);
        let trace = |seed| first(seed).collect::<Vec<_>>();
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
    }

    #[test]
    fn ranks_follow_zipf() {
        for (skew, ratio) in [(0.0, 1.0), (0.9, 8.0), (1.0, 10.0), (1.2, 16.0)] {
            let mut numbers = Numbers::new(1);
            let mut counts = [0; 1000];
            for _ in 0..400_000 {
                counts[rank(numbers.share(), 1000, skew) as usize] += 1;
            }
            // ranks about 20 and about 200
            let sum = |from: usize| counts[from..from + from / 10].iter().sum::<u32>();
            let found = f64::from(sum(20)) / 2.0 / (f64::from(sum(200)) / 20.0);
            assert!((found / ratio - 1.0).abs() < 0.15, "skew {skew}: {found}, expected {ratio}");
        }
        assert_eq!([0.0, 0.999_999].map(|share| rank(share, 1, 0.9)), [0, 0]);
    }

    #[test]
    fn every_rank_has_a_block_of_its_own() {
        for blocks in [1, 2, 3, 12, 1024, 1000] {
            let generator =
                Plan { footprint: blocks * BLOCK, ..plan(Shape::Web) }.generate().unwrap();
            let found: HashSet<_> = (0..blocks).map(|rank| generator.block(rank)).collect();
            assert_eq!(found.len() as u64, blocks);
        }
    }

    #[test]
    fn numbers_that_make_no_sense_are_named() {
        let web = plan(Shape::Web);
        for (plan, expected) in [
            (Plan { write_share: 1.1, ..web.clone() }, "the share of writes is 1.1"),
            (Plan { duplicate_share: f64::NAN, ..web.clone() }, "the share of duplicates"),
            (Plan { skew: -1.0, ..web.clone() }, "a skew of -1"),
            (Plan { rate: 0.0, ..web.clone() }, "0 operations a second"),
            (Plan { footprint: 0, ..web.clone() }, "a footprint of 0 bytes"),
            (Plan { footprint: u64::MAX, ..web }, "a footprint of 18446744073709551615"),
        ] {
            let error = plan.generate().err().expect(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
