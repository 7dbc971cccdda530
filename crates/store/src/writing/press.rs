//! Groups that threads of their own compress, for who otherwise works alone: prune, repair and copy.
//!
//! Groups come back in the order in which they were given, so that what is stored does not depend on
//! which thread was faster. Those on the way have a bounded length together.

use std::collections::VecDeque;
use std::num::NonZero;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use onefold_container::{CompressedGroup, Compressor, ContainerError, Content, GroupBuilder};
use onefold_seal::Suite;

use crate::StoreError;
use crate::seeded::fault;

/// More of them have nothing to do: one thread reads for all.
const MAX_THREADS: usize = 4;

/// So many bytes may be on the way at most, and one group.
const MAX_LEN: usize = 8 << 20;

/// What came of a group.
type Pressed = Result<CompressedGroup, ContainerError>;

/// Threads that compress groups. They are there once the first group is.
pub(crate) struct Presses {
    level: i32,
    suite: Suite,
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    /// The groups on the way, in order.
    waiting: VecDeque<Waiting>,
    /// Their bytes.
    len: usize,
}

struct Job {
    group: GroupBuilder,
    done: Sender<Pressed>,
}

struct Waiting {
    content: Content,
    len: usize,
    done: Receiver<Pressed>,
}

impl Presses {
    /// Threads that compress at `level` for a repository of `suite`. Fails unless that can be done.
    pub(crate) fn new(level: i32, suite: Suite) -> Result<Self, StoreError> {
        Compressor::new(level, suite)?;
        let (jobs, threads) = (None, Vec::new());
        Ok(Self { level, suite, jobs, threads, waiting: VecDeque::new(), len: 0 })
    }

    /// Takes a group. Whoever gives one takes what is [over](Self::over) then.
    pub(crate) fn push(&mut self, content: Content, group: GroupBuilder) -> Result<(), StoreError> {
        let (sender, done) = bounded(1);
        let len = group.len();
        let job = Job { group, done: sender };
        self.jobs()?.send(job).map_err(|_| StoreError::Stopped)?;
        self.waiting.push_back(Waiting { content, len, done });
        self.len += len;
        Ok(())
    }

    /// The first group, if too much is on the way.
    pub(crate) fn over(&mut self) -> Result<Option<(Content, CompressedGroup)>, StoreError> {
        if self.len > MAX_LEN { self.next() } else { Ok(None) }
    }

    /// The first group, if any is on the way.
    pub(crate) fn next(&mut self) -> Result<Option<(Content, CompressedGroup)>, StoreError> {
        let Some(Waiting { content, len, done }) = self.waiting.pop_front() else {
            return Ok(None);
        };
        self.len -= len;
        let pressed = done.recv().map_err(|_| StoreError::Stopped)?;
        Ok(Some((content, pressed?)))
    }

    /// Where jobs go.
    fn jobs(&mut self) -> Result<&Sender<Job>, StoreError> {
        if self.jobs.is_none() {
            let (sender, receiver) = unbounded::<Job>();
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            for _ in 0..cores.min(MAX_THREADS) {
                let (mut compressor, jobs) =
                    (Compressor::new(self.level, self.suite)?, receiver.clone());
                self.threads.push(thread::spawn(move || {
                    for Job { mut group, done } in jobs {
                        // Who gave it has failed meanwhile.
                        let _ = done.send(match fault!(CompressorFails) {
                            true => Err(ContainerError::Compress {
                                len: group.len(),
                                reason: "as it was told to".into(),
                            }),
                            false => compressor.compress(&mut group),
                        });
                    }
                }));
            }
            self.jobs = Some(sender);
        }
        Ok(self.jobs.as_ref().expect("it was put there"))
    }
}

impl Drop for Presses {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // One that panicked was told of where its group was waited for.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_fingerprint::Fingerprinter;
    use onefold_testkit::{random, text};

    use super::*;

    fn group(bytes: &[u8]) -> GroupBuilder {
        let mut group = GroupBuilder::default();
        group.push(Fingerprinter::blake3().fingerprint(bytes), bytes);
        group
    }

    #[test]
    fn groups_come_back_in_order_as_one_compressor_makes_them() {
        let mut presses = Presses::new(3, Suite::Plain).unwrap();
        let mut compressor = Compressor::new(3, Suite::Plain).unwrap();
        // Long ones take longer than short ones.
        let all: Vec<Vec<u8>> =
            (0..60).map(|n| if n % 3 == 0 { text(n, 700_000) } else { random(n, 1000) }).collect();
        let mut back = Vec::new();
        for (number, bytes) in all.iter().enumerate() {
            let content = if number % 2 == 0 { Content::Data } else { Content::Metadata };
            presses.push(content, group(bytes)).unwrap();
            while let Some(one) = presses.over().unwrap() {
                back.push(one);
            }
            assert!(presses.len <= MAX_LEN);
        }
        assert!(!back.is_empty() && back.len() < all.len());
        while let Some(one) = presses.next().unwrap() {
            back.push(one);
        }
        assert_eq!((back.len(), presses.len), (all.len(), 0));
        for (number, ((content, found), bytes)) in back.iter().zip(&all).enumerate() {
            assert_eq!(*content == Content::Data, number % 2 == 0);
            let expected = compressor.compress(&mut group(bytes)).unwrap();
            assert_eq!(found.stored_len(), expected.stored_len(), "{number}");
        }
        assert!(presses.next().unwrap().is_none());
    }

    #[test]
    fn groups_that_nobody_waits_for_keep_nobody_waiting() {
        let mut presses = Presses::new(3, Suite::Plain).unwrap();
        presses.push(Content::Data, group(&text(1, 700_000))).unwrap();
        drop(presses);
    }
}
