//! Filling a volume through its server, by several connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use onefold_lab::nbd::{Client, Uri};

use super::content::Shape;
use super::served::PATIENCE;

/// Connections that write: a few more than the server needs to keep two cores at work.
const CONNECTIONS: usize = 4;

/// Bytes of a write.
const WRITTEN: u64 = 1 << 20;

/// Writes every block of a volume, flushes, and returns how long that took.
pub(super) fn fill(uri: &Uri, shape: Shape) -> Result<Duration> {
    let begun = Instant::now();
    // requests are of whole blocks, of all sizes that a volume's blocks can have
    let (blocks, next) = (WRITTEN / shape.block_bytes, AtomicU64::new(0));
    thread::scope(|scope| {
        let write = || {
            let mut client = Client::connect_with(uri, PATIENCE)?;
            let mut data = vec![0; WRITTEN as usize];
            loop {
                let from = next.fetch_add(blocks, Ordering::Relaxed);
                let to = shape.blocks.min(from.saturating_add(blocks));
                if from >= to {
                    return client.flush();
                }
                let data = &mut data[..((to - from) * shape.block_bytes) as usize];
                for (block, data) in (from..to).zip(data.chunks_mut(shape.block_bytes as usize)) {
                    shape.write(shape.filled(block), data);
                }
                client.write(from * shape.block_bytes, data)?;
            }
        };
        let writers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(write)).collect();
        let written = writers.into_iter().map(|one| one.join().expect("a writer does not panic"));
        written.collect::<Vec<Result<()>>>().into_iter().collect::<Result<()>>()
    })?;
    Ok(begun.elapsed())
}
