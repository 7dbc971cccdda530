//! How segments are filled: by one thread from a stream, or each by its own thread from its place.

use std::io::{self, ErrorKind, Read};
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender};

use super::RunError;
use super::line::Line;
use super::segment::{Seat, Segment};
use crate::input::{FromPlace, fill};
use crate::{ReadAt, Stage};

impl Line<'_> {
    /// Fills free seats until the input ends. Ends early if no one takes what is filled.
    pub(super) fn read<R: Read>(
        &self,
        mut reader: R,
        free: &Receiver<Seat>,
        filled: &Sender<Segment>,
    ) -> Result<(), RunError> {
        let (room, overlap) = (self.segment, self.work.sizes().max());
        let mut tail = Vec::new();
        let (mut number, mut base) = (0, 0);
        loop {
            let Ok(mut seat) = self.clock.time(number, Stage::Lane, || free.recv()) else {
                return Ok(());
            };
            let known = tail.len();
            let input = &mut seat.input()[..room];
            input[..known].copy_from_slice(&tail);
            let read =
                self.clock.time(number, Stage::Read, || fill(&mut reader, &mut input[known..]));
            let (read, is_end) = read.map_err(RunError::Read)?;
            let len = known + read;
            let kept = len.min(overlap);
            tail.clear();
            tail.extend_from_slice(&input[len - kept..len]);
            let segment = Segment { seat, number, base, known, len, is_end };
            if filled.send(segment).is_err() || is_end {
                return Ok(());
            }
            base += (len - kept) as u64;
            number += 1;
        }
    }

    /// Gives each free seat the number of a segment, until the last segment is known. The thread that takes the seat
    /// reads the segment.
    pub(super) fn number(&self, free: &Receiver<Seat>, filled: &Sender<Segment>) {
        let (room, overlap) = (self.segment, self.work.sizes().max());
        for number in 0.. {
            let Ok(seat) = self.clock.time(number, Stage::Lane, || free.recv()) else { return };
            let known = if number == 0 { 0 } else { overlap };
            let base = number * (room - overlap) as u64;
            let segment = Segment { seat, number, base, known, len: 0, is_end: false };
            if number > self.last.load(Ordering::Acquire) || filled.send(segment).is_err() {
                return;
            }
        }
    }

    /// Reads `segment`, whose place is known. The first that is not full is the last.
    pub(super) fn read_at(&self, source: &dyn ReadAt, segment: &mut Segment) -> io::Result<()> {
        let &mut Segment { ref mut seat, number, base, known, .. } = segment;
        let input = &mut seat.input()[..self.segment];
        let mut reader = FromPlace { source, at: base };
        let read = self.clock.time(number, Stage::Read, || fill(&mut reader, input));
        let is_end = read.as_ref().map_or(true, |&(_, is_end)| is_end);
        if is_end {
            self.last.fetch_min(number, Ordering::AcqRel);
        }
        segment.is_end = is_end;
        segment.len = read?.0;
        if segment.len < known {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                format!("it ends before byte {}, which was read before", base + known as u64),
            ));
        }
        Ok(())
    }
}
