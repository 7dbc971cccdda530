//! Blocks of a volume as registers: which value each may have, from what was written and acknowledged.
//!
//! Each block has one writer at a time, which writes numbers that rise by one. A *reign* is the time in which
//! one gateway serves; it begins with a read of every block, which must find what was acknowledged or read.
//! Within a reign a read must return a number that
//!
//! - is not below what was acknowledged, or read, before the read began,
//! - is not above what was sent before it ended, and
//! - was sent in this reign, or is what the block had when the reign began. So a write that an earlier gateway
//!   had in flight is there from the first read on, or never.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onefold_testkit::SplitMix64;

/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;
/// Blocks between two registers, which so lie in many segments of the volume's map.
const STRIDE: u64 = 17;
/// What a page begins with.
const MAGIC: &[u8; 8] = b"REGISTER";
/// The block that a page names which is the same for all blocks.
const ANY: u64 = u64::MAX;
/// A number that no writer sends to the gateway that serves.
pub(super) const ZOMBIE: u64 = 1 << 63;
/// Violations that are kept in words; all are counted.
const KEPT: usize = 20;

/// What is known of one block.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    /// The highest number that was acknowledged or read in this reign.
    known: u64,
    /// The highest number that was sent, ever.
    sent: u64,
    /// The highest number that was acknowledged, ever.
    acknowledged: u64,
    /// What the block had when the reign began.
    base: u64,
    /// The first number of this reign.
    first: u64,
}

/// A read under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    block: u64,
    reign: u64,
    least: u64,
}

/// What the reads at the beginning of a reign found, beside violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Begun {
    /// Blocks that have a number that was not acknowledged, and was in flight when the gateway before ended.
    pub(super) in_flight_kept: u64,
    /// Blocks of which a number was read that is gone: violations.
    pub(super) sights_lost: u64,
}

/// All registers of a volume.
#[derive(Debug)]
pub(super) struct Registers {
    all: Vec<Mutex<Register>>,
    reign: AtomicU64,
    violations: Mutex<(u64, Vec<String>)>,
}

impl Registers {
    /// So many, none of them written.
    pub(super) fn new(count: u64) -> Self {
        let new = |_| Mutex::new(Register { first: 1, ..Register::default() });
        Self {
            all: (0..count).map(new).collect(),
            reign: AtomicU64::new(0),
            violations: Mutex::default(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// Bytes of a volume that has room for all.
    pub(super) fn volume_bytes(&self) -> u64 {
        self.len() * STRIDE * BLOCK as u64
    }

    /// Where block `block` is in the volume, in bytes.
    pub(super) fn offset(block: u64) -> u64 {
        block * STRIDE * BLOCK as u64
    }

    pub(super) fn reign(&self) -> u64 {
        self.reign.load(Ordering::Acquire)
    }

    fn at(&self, block: u64) -> MutexGuard<'_, Register> {
        self.all[block as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that the writer of `block` sends next; none if `reign` is over.
    pub(super) fn begin_write(&self, block: u64, reign: u64) -> Option<u64> {
        let mut register = self.at(block);
        // under the lock, so that a new reign knows of every number of the one before
        if self.reign() != reign {
            return None;
        }
        register.sent += 1;
        Some(register.sent)
    }

    /// Notes that the write of `number`, sent in `reign`, was acknowledged. True if that reign is over.
    pub(super) fn acknowledged(&self, block: u64, number: u64, reign: u64) -> bool {
        let mut register = self.at(block);
        let is_late = self.reign() != reign;
        if !is_late {
            register.known = register.known.max(number);
            register.acknowledged = register.acknowledged.max(number);
        } else if number > register.base {
            let Register { base, .. } = *register;
            self.tell(format!(
                "block {block}: {number} was acknowledged after another gateway served, which found {base}"
            ));
        }
        is_late
    }

    pub(super) fn begin_read(&self, block: u64) -> Reading {
        let register = self.at(block);
        Reading { block, reign: self.reign(), least: register.known }
    }

    /// Judges what a read got.
    pub(super) fn end_read(&self, reading: Reading, page: &[u8]) {
        let Reading { block, reign, least } = reading;
        let number = match number_of(block, page) {
            Ok(number) => number,
            Err(problem) => return self.tell(format!("block {block}: {problem}")),
        };
        let mut register = self.at(block);
        let Register { sent, base, first, .. } = *register;
        if number < least {
            self.tell(format!("block {block}: read {number}, stale: {least} was known before"));
        } else if number > sent {
            self.tell(format!("block {block}: read {number}, expected at most {sent}"));
        } else if reign == self.reign() {
            if number != base && number < first {
                self.tell(format!(
                    "block {block}: read {number} of an earlier gateway, which came after {base} was read"
                ));
            }
            register.known = register.known.max(number);
        }
    }

    /// Begins a reign with what `pages` says that every block has, in order.
    pub(super) fn begin_reign(&self, pages: &[Vec<u8>]) -> Begun {
        let mut begun = Begun::default();
        let mut registers: Vec<_> = (0..self.len()).map(|block| self.at(block)).collect();
        self.reign.fetch_add(1, Ordering::AcqRel);
        for (block, (register, page)) in registers.iter_mut().zip(pages).enumerate() {
            let Register { sent, acknowledged, known, .. } = **register;
            let number = match number_of(block as u64, page) {
                Ok(number) if number < acknowledged => {
                    self.tell(format!(
                        "block {block}: found {number}, and {acknowledged} was acknowledged"
                    ));
                    number
                }
                Ok(number) if number > sent => {
                    self.tell(format!("block {block}: found {number}, expected at most {sent}"));
                    sent
                }
                Ok(number) => number,
                Err(problem) => {
                    self.tell(format!("block {block}: {problem}"));
                    acknowledged
                }
            };
            begun.in_flight_kept += u64::from(number > acknowledged);
            // what was acknowledged as well was told above
            if known > number && number >= acknowledged {
                begun.sights_lost += 1;
                self.tell(format!("block {block}: found {number}, and {known} was read before"));
            }
            (register.known, register.acknowledged, register.base) = (number, number, number);
            register.first = sent + 1;
        }
        begun
    }

    /// Notes a violation.
    pub(super) fn tell(&self, violation: String) {
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        violations.0 += 1;
        if violations.1.len() < KEPT {
            println!("campaign: VIOLATION: {violation}");
            violations.1.push(violation);
        }
    }

    /// How many violations were found since this was called last, and the first of them in words.
    pub(super) fn take_violations(&self) -> (u64, Vec<String>) {
        std::mem::take(&mut *self.violations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The page with which `block` says `number`. Even numbers have one page for all blocks: a duplicate.
pub(super) fn page(block: u64, number: u64) -> Vec<u8> {
    let named = if number.is_multiple_of(2) { ANY } else { block };
    let mut page = vec![0; BLOCK];
    page[..8].copy_from_slice(MAGIC);
    page[8..16].copy_from_slice(&named.to_le_bytes());
    page[16..24].copy_from_slice(&number.to_le_bytes());
    // half of it does not compress
    let mut random = SplitMix64::new(named ^ number.rotate_left(32));
    for word in page[24..BLOCK / 2].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    page
}

/// The number that the page of `block` says: 0 if it was never written.
fn number_of(block: u64, found: &[u8]) -> Result<u64, String> {
    if found.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    let field = |at: usize| found.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let number = field(16).filter(|_| found.starts_with(MAGIC));
    let number = number.ok_or("a page that no client wrote")?;
    if found != page(block, number) {
        let named = field(8);
        return Err(format!("a page that says {number} of block {named:?}, and has other bytes"));
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(registers: &Registers) -> u64 {
        registers.take_violations().0
    }

    fn read(registers: &Registers, block: u64, number: u64) {
        let reading = registers.begin_read(block);
        registers.end_read(reading, &page(block, number));
    }

    #[test]
    fn what_was_acknowledged_or_read_is_the_least_that_is_read() {
        let registers = Registers::new(2);
        registers.end_read(registers.begin_read(1), &[0; BLOCK]);
        for number in 1..=3 {
            assert_eq!(registers.begin_write(1, 0), Some(number));
            if number < 3 {
                assert!(!registers.acknowledged(1, number, 0));
            }
        }
        let early = registers.begin_read(1);
        read(&registers, 1, 2);
        read(&registers, 1, 3);
        registers.end_read(early, &page(1, 2));
        assert_eq!(violations(&registers), 0);
        read(&registers, 1, 2);
        read(&registers, 1, 4);
        registers.end_read(registers.begin_read(1), &[0; BLOCK]);
        registers.end_read(registers.begin_read(1), &[1; BLOCK]);
        registers.end_read(registers.begin_read(1), &page(0, 3));
        assert_eq!(violations(&registers), 5);
    }

    #[test]
    fn a_lost_write_a_late_one_and_a_late_acknowledgement_are_found() {
        let registers = Registers::new(3);
        for block in 0..3 {
            registers.begin_write(block, 0).unwrap();
            registers.acknowledged(block, 1, 0);
            registers.begin_write(block, 0).unwrap();
        }
        read(&registers, 0, 2);
        let pages = |numbers: [u64; 3]| {
            Vec::from_iter(numbers.iter().enumerate().map(|(at, number)| page(at as u64, *number)))
        };
        let begun = registers.begin_reign(&pages([1, 2, 1]));
        assert_eq!(begun, Begun { in_flight_kept: 1, sights_lost: 1 });
        assert_eq!(registers.begin_write(2, 0), None);
        assert!(registers.acknowledged(1, 2, 0));
        // read, and gone
        assert_eq!(violations(&registers), 1);
        // acknowledged, and not there
        assert!(registers.acknowledged(2, 2, 0));
        assert_eq!(violations(&registers), 1);
        // in flight at the end of the reign before, and came after it
        assert_eq!(registers.begin_write(2, 1), Some(3));
        read(&registers, 2, 2);
        read(&registers, 2, 3);
        assert_eq!(violations(&registers), 1);
        // acknowledged or there in the reign before, and lost
        registers.begin_reign(&pages([0, 2, 3]));
        assert_eq!(violations(&registers), 1);
    }
}
