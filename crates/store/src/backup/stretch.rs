//! How a reader reads and cuts its stretches of a large file.

use std::io;
use std::sync::Arc;

use onefold_cdc::decided_cuts;

use super::read::{Reader, Reading};
use super::share::{Large, Left, Stretch, Turn};
use crate::{Progress, StoreError};

impl Reader<'_> {
    /// Takes stretches of `large` until none is left.
    pub(super) fn take_part(&mut self, large: &Large) -> Result<(), StoreError> {
        while let Some(stretch) = large.take() {
            self.shared.stop.check()?;
            self.send()?;
            self.stretch(large, stretch)?;
            // Other readers may wait until this is stored.
            self.send()?;
        }
        Ok(())
    }

    /// Reads and cuts `stretch` into an empty batch.
    fn stretch(&mut self, large: &Large, stretch: Stretch) -> Result<(), StoreError> {
        let chunker = self.shared.chunker;
        let front = chunker.sizes().max();
        let read = self.read_stretch(large, &stretch, front);
        self.filled = front + read.as_ref().map_or(0, |read| *read);
        let mut assumed = Vec::new();
        let mut turn = stretch.before.try_recv().ok();
        if turn.is_none() {
            assumed.push(front);
            assumed.extend(decided_cuts(chunker, &self.batch.buffer[..self.filled], front, &[]));
            turn = stretch.before.recv().ok();
        }
        // The reader of the stretch before ended without an answer: it failed.
        let turn = turn.ok_or(StoreError::Stopped)?;
        let Some(Left { uncut, chunks, segments }) = turn else {
            self.filled = 0;
            return hand_on(&stretch, None);
        };
        self.keep_pace(&large.file, chunks)?;
        let start = front - uncut.len();
        self.batch.buffer[start..front].copy_from_slice(&uncut);
        let mut reading = Reading::at(Arc::clone(&large.file), start, chunks, segments);
        let bytes = &self.batch.buffer[..self.filled];
        let ends = decided_cuts(chunker, bytes, start, &assumed);
        self.push_chunks(&mut reading, &ends);
        match read {
            Ok(read) if read == stretch.len && !stretch.is_last => {
                self.push_segment(&mut reading, None);
                let uncut = self.batch.buffer[reading.start..self.filled].to_vec();
                let Reading { chunks, segments, .. } = reading;
                hand_on(&stretch, Some(Left { uncut, chunks, segments }))
            }
            read => {
                large.end();
                self.cut(&mut reading, true);
                let content = read.map(|read| stretch.offset + read as u64);
                self.finish(reading, &large.opened, content);
                hand_on(&stretch, None)
            }
        }
    }

    /// Reads the bytes of `stretch` to where the batch's buffer has place for them.
    fn read_stretch(
        &mut self,
        large: &Large,
        stretch: &Stretch,
        front: usize,
    ) -> io::Result<usize> {
        let buffer = &mut self.batch.buffer[front..front + stretch.len];
        let read = large.opened.fill(buffer, stretch.offset)?;
        Progress::add(&self.shared.progress.bytes, read as u64);
        Ok(read)
    }
}

/// Tells whoever takes the next stretch what comes before it.
fn hand_on(stretch: &Stretch, turn: Turn) -> Result<(), StoreError> {
    stretch.after.send(turn).map_err(|_| StoreError::Stopped)
}
