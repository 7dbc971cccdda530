//! Jobs that threads do ahead of who takes what comes of them, in order: check, repair, copy and
//! prune read and verify so.
//!
//! What is on the way has a bounded length together, and threads are there only once there is
//! something for them to do.

use std::collections::VecDeque;
use std::num::NonZero;
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use onefold_backend::Objects;

use crate::StoreError;

/// How much may be on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    threads: usize,
    /// How many bytes may be on the way, at most, besides those of one job.
    len: usize,
}

impl Reach {
    /// For jobs that compute. More threads would have nothing to do: one takes what all have done.
    pub(crate) fn here() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self { threads: cores.min(4), len: 4 << 20 }
    }

    /// For jobs that read `objects`: where these are far away, threads wait for them and do not compute.
    pub(crate) fn of(objects: &dyn Objects) -> Self {
        match objects.gap() {
            0 => Self::here(),
            _ => Self { threads: 32, len: 16 << 20 },
        }
    }
}

/// Jobs on the way, done by threads of a scope.
pub(crate) struct Ahead<'scope, 'env, R> {
    scope: &'scope Scope<'scope, 'env>,
    reach: Reach,
    jobs: Sender<Job<'scope, R>>,
    /// Where threads take jobs from.
    taken: Receiver<Job<'scope, R>>,
    /// How many threads there are.
    threads: usize,
    /// Of each job on the way its bytes, and what comes of it.
    waiting: VecDeque<(usize, Receiver<R>)>,
    /// Their bytes together.
    len: usize,
}

struct Job<'scope, R> {
    work: Box<dyn FnOnce() -> R + Send + 'scope>,
    done: Sender<R>,
}

impl<'scope, 'env, R: Send + 'scope> Ahead<'scope, 'env, R> {
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, reach: Reach) -> Self {
        let (jobs, taken) = unbounded();
        Self { scope, reach, jobs, taken, threads: 0, waiting: VecDeque::new(), len: 0 }
    }

    /// Has `work` done, which takes and gives about `len` bytes. Whoever gives work takes what is
    /// [over](Self::over) then.
    pub(crate) fn push(&mut self, len: usize, work: impl FnOnce() -> R + Send + 'scope) {
        let (done, result) = bounded(1);
        let is_taken = self.jobs.send(Job { work: Box::new(work), done });
        debug_assert!(is_taken.is_ok(), "the other end is here");
        self.waiting.push_back((len, result));
        self.len = self.len.saturating_add(len);
        if self.threads < self.waiting.len().min(self.reach.threads) {
            self.threads += 1;
            let jobs = self.taken.clone();
            self.scope.spawn(move || {
                for Job { work, done } in jobs {
                    // Who gave it has failed meanwhile.
                    let _ = done.send(work());
                }
            });
        }
    }

    /// What came of the first job, if too much is on the way.
    pub(crate) fn over(&mut self) -> Result<Option<R>, StoreError> {
        if self.len > self.reach.len { self.next() } else { Ok(None) }
    }

    /// What came of the first job, if any is on the way. Fails if the job panicked.
    pub(crate) fn next(&mut self) -> Result<Option<R>, StoreError> {
        let Some((len, result)) = self.waiting.pop_front() else { return Ok(None) };
        self.len = self.len.saturating_sub(len);
        result.recv().map(Some).map_err(|_| StoreError::Stopped)
    }
}

/// Does `work` for each of `jobs`, which come with about how many bytes they take, and gives what came
/// of each to `take`, in order and on this thread.
pub(crate) fn in_order<J: Send, R: Send>(
    reach: Reach,
    jobs: impl IntoIterator<Item = (usize, J)>,
    work: impl Fn(&J) -> R + Sync,
    mut take: impl FnMut(J, R) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut jobs = jobs.into_iter();
    let Some((first_len, first)) = jobs.next() else { return Ok(()) };
    let Some(second) = jobs.next() else {
        let result = work(&first);
        return take(first, result);
    };
    let work = &work;
    thread::scope(|scope| {
        let mut ahead = Ahead::new(scope, reach);
        for (len, job) in [(first_len, first), second].into_iter().chain(jobs) {
            ahead.push(len, move || {
                let result = work(&job);
                (job, result)
            });
            while let Some((job, result)) = ahead.over()? {
                take(job, result)?;
            }
        }
        while let Some((job, result)) = ahead.next()? {
            take(job, result)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_comes_of_jobs_comes_in_order_however_long_they_take() {
        for count in [0_usize, 1, 2, 3, 100] {
            let slow = |job: &usize| {
                thread::sleep(Duration::from_micros(if job.is_multiple_of(3) { 500 } else { 0 }));
                job * 2
            };
            for reach in [Reach::here(), Reach { threads: 32, len: 16 << 20 }] {
                let mut taken = Vec::new();
                let jobs = (0..count).map(|job| (1000, job));
                in_order(reach, jobs, slow, |job, result| {
                    taken.push((job, result));
                    Ok(())
                })
                .unwrap();
                assert_eq!(taken, (0..count).map(|job| (job, job * 2)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_more_is_on_the_way_than_the_bound_and_one_job() {
        let (there, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // The longest that a group may be stands among short ones.
        let jobs = (0..200).map(|job| if job % 50 == 7 { 65 << 20 } else { 300 << 10 });
        let begin = |len: usize| {
            let now = there.fetch_add(len, Ordering::SeqCst) + len;
            most.fetch_max(now, Ordering::SeqCst);
        };
        in_order(
            Reach::here(),
            jobs.map(|len| (len, len)),
            |len| begin(*len),
            |len, ()| {
                there.fetch_sub(len, Ordering::SeqCst);
                Ok(())
            },
        )
        .unwrap();
        assert!(most.into_inner() <= Reach::here().len + (65 << 20));
        assert_eq!(there.into_inner(), 0);
    }

    #[test]
    fn the_first_error_ends_it_and_nothing_is_taken_behind_it() {
        let mut taken = 0;
        let result = in_order(
            Reach::here(),
            (0..50).map(|job| (1, job)),
            |job| *job,
            |_, job| {
                taken += 1;
                if job == 20 { Err(StoreError::Interrupted) } else { Ok(()) }
            },
        );
        assert!(matches!(result, Err(StoreError::Interrupted)));
        assert_eq!(taken, 21);
    }
}
