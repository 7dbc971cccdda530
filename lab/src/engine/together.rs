//! Writes by two threads at once, each on a CPU of its own and to blocks of its own.
//!
//! Each call of one begins with a call of the other, when both have made their pages, and counts until
//! both are done: the time of who waits for the other one's lock is in it, that of making pages is not.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use onefold_bench::Pin;
use onefold_block::{BlockDevice, Durability};
use onefold_volume::Volume;

use super::page::Batch;

/// Threads.
pub(super) const COUNT: usize = 2;

/// Where the threads meet, awake: to be woken would take longer than a call.
#[derive(Default)]
struct Meeting {
    came: AtomicU64,
    is_off: AtomicBool,
}

impl Meeting {
    /// Waits until all have come for the `time`th time; an error if somebody never will.
    fn wait(&self, time: u64) -> Result<()> {
        let is_there = || self.came.load(Ordering::Acquire) >= COUNT as u64 * time;
        self.came.fetch_add(1, Ordering::AcqRel);
        while !is_there() {
            if self.is_off.load(Ordering::Acquire) && !is_there() {
                bail!("the other thread failed");
            }
            spin_loop();
        }
        Ok(())
    }
}

/// Nobody comes any more, whatever the reason.
struct Off<'a>(&'a Meeting);

impl Drop for Off<'_> {
    fn drop(&mut self) {
        self.0.is_off.store(true, Ordering::Release);
    }
}

/// Seconds for the writes of pages to blocks that each thread is given, `depth` a call, on `cpus`.
pub(super) fn write(
    volume: &Volume,
    writes: &[Vec<(u64, u64)>; COUNT],
    depth: usize,
    cpus: [usize; COUNT],
) -> Result<f64> {
    let steps = writes.iter().map(|writes| writes.len().div_ceil(depth)).max().unwrap_or(0);
    let meeting = &Meeting::default();
    let seconds = thread::scope(|scope| {
        let threads = [0, 1].map(|thread: usize| {
            let (writes, cpu) = (&writes[thread], cpus[thread]);
            scope.spawn(move || {
                let _off = Off(meeting);
                let _pin = Pin::to_cpu(cpu)?;
                write_alone(volume, writes, depth, steps, meeting)
            })
        });
        threads.map(|thread| thread.join().expect("it does not panic"))
    });
    // both began and ended at the same moments
    let [one, other] = seconds;
    Ok(one?.max(other?))
}

/// What one of the threads does; the same number of steps as the other, also if it has less to write.
fn write_alone(
    volume: &Volume,
    writes: &[(u64, u64)],
    depth: usize,
    steps: usize,
    meeting: &Meeting,
) -> Result<f64> {
    let (mut batch, mut seconds) = (Batch::new(depth), 0.0);
    let mut calls = writes.chunks(depth);
    for step in 0..steps as u64 {
        batch.clear();
        for (block, number) in calls.next().unwrap_or_default() {
            batch.push(*block, *number);
        }
        let call = batch.writes();
        meeting.wait(2 * step + 1)?;
        let begun = Instant::now();
        if !call.is_empty() {
            volume.write_many(&call, Durability::OnFlush)?;
        }
        meeting.wait(2 * step + 2)?;
        seconds += begun.elapsed().as_secs_f64();
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_who_has_gone() {
        let meeting = Meeting::default();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                meeting.wait(1).unwrap();
                meeting.wait(2)
            });
            let off = Off(&meeting);
            meeting.wait(1).unwrap();
            drop(off);
            assert!(waiting.join().unwrap().is_err());
        });
    }
}
