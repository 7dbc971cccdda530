//! What is done with one segment: search, select, fingerprint; by the device, or by the CPU where that is lost.

use std::ops::Range as Bytes;

use onefold_fingerprint::Fingerprint;

use super::Chunk;
use super::line::Line;
use crate::select::cut_on_cpu;
use crate::work::{Marks, Room};
use crate::{GpuError, Lane, Range, Stage};

/// A lane and what becomes of it when the device fails: memory of the host.
pub(super) struct Seat {
    pub(super) lane: Option<Box<dyn Lane>>,
    /// Used without a lane.
    pub(super) buffer: Vec<u8>,
    pub(super) room: Room,
}

impl Seat {
    pub(super) fn input(&mut self) -> &mut [u8] {
        match &mut self.lane {
            Some(lane) => lane.input(),
            None => &mut self.buffer,
        }
    }

    /// Does without the lane from now on; what was read into it is kept.
    fn give_up(&mut self) {
        if let Some(mut lane) = self.lane.take() {
            self.buffer = lane.input().to_vec();
        }
    }
}

/// A segment in a seat.
pub(super) struct Segment {
    pub(super) seat: Seat,
    pub(super) number: u64,
    /// Where in the input the seat's first byte is.
    pub(super) base: u64,
    /// Bytes that the segment before had as well.
    pub(super) known: usize,
    pub(super) len: usize,
    pub(super) is_end: bool,
}

/// A segment whose chunks are known.
pub(super) struct Done {
    pub(super) segment: Segment,
    pub(super) chunks: Vec<Chunk>,
}

impl Line<'_> {
    /// The chunks that end in `segment`; `None` if there is no such segment, or if the run was stopped.
    pub(super) fn do_segment(&self, mut segment: Segment) -> Result<Option<Done>, GpuError> {
        let number = segment.number;
        let marks = match self.search(&mut segment) {
            Ok(marks) => Some(marks),
            Err(None) => None,
            Err(Some(error)) => {
                self.lose(error).inspect_err(|_| self.stop())?;
                segment.seat.give_up();
                None
            }
        };
        let Some((start, cuts)) = self.select(&mut segment, marks.as_ref()) else {
            return Ok(None);
        };
        let mut chunk_start = start;
        let mut chunks: Vec<Chunk> = cuts
            .into_iter()
            .map(|end| {
                let chunk = Chunk { start: chunk_start, end, fingerprint: None };
                chunk_start = end;
                chunk
            })
            .collect();
        let fingerprints =
            self.clock.time(number, Stage::Fingerprint, || self.fingerprint(&mut segment, &chunks));
        for (chunk, fingerprint) in
            chunks.iter_mut().zip(fingerprints.inspect_err(|_| self.stop())?)
        {
            chunk.fingerprint = Some(fingerprint);
        }
        Ok(Some(Done { segment, chunks }))
    }

    /// What the device finds of a segment; no error if there is no device any more.
    fn search(&self, segment: &mut Segment) -> Result<Marks, Option<GpuError>> {
        let &mut Segment { ref mut seat, number, known, len, is_end, .. } = segment;
        if self.lost().is_some() {
            seat.give_up();
        }
        let Seat { lane, room, .. } = seat;
        let lane = lane.as_deref_mut().filter(|_| len > 0).ok_or(None)?;
        let copied = self.clock.time(number, Stage::Upload, || {
            lane.upload(len)?;
            if self.settings.trace_copies { lane.wait() } else { Ok(()) }
        });
        copied.map_err(Some)?;
        let search = || self.work.marks(lane, known, len, is_end, room);
        self.clock.time(number, Stage::Search, search).map_err(Some)
    }

    /// The cut before the segment's first, and the segment's cuts; `None` as [`turn`](Self::turn).
    fn select(&self, segment: &mut Segment, marks: Option<&Marks>) -> Option<(u64, Vec<u64>)> {
        let &mut Segment { ref mut seat, number, base, len, is_end, .. } = segment;
        let mut turn = self.turn(number)?;
        let start = turn.selector.start();
        let mut cuts = Vec::new();
        self.clock.time(number, Stage::Select, || {
            let bytes = &seat.input()[..len];
            match marks {
                Some(marks) => {
                    let place = base..base + len as u64;
                    let alone = |at| cut_on_cpu(self.chunker, bytes, at, is_end);
                    turn.selector.advance(marks, alone, place, is_end, &mut cuts);
                }
                None => {
                    turn.selector.advance_on_cpu(self.chunker, bytes, base, is_end, &mut cuts);
                }
            }
        });
        turn.next += 1;
        self.turned.notify_all();
        Some((start, cuts))
    }

    /// The fingerprints of `chunks`, none if none are wanted.
    fn fingerprint(
        &self,
        segment: &mut Segment,
        chunks: &[Chunk],
    ) -> Result<Vec<Fingerprint>, GpuError> {
        let &mut Segment { ref mut seat, base, number, len, is_end, .. } = segment;
        let of = |chunk: &Chunk| Bytes {
            start: (chunk.start - base) as usize,
            end: (chunk.end - base) as usize,
        };
        if let Some(lane) = &mut seat.lane {
            let ranges: Vec<Range> = chunks
                .iter()
                .map(|chunk| Range { start: of(chunk).start, len: of(chunk).len() })
                .collect();
            let device = lane.device().to_owned();
            let found = self.work.fingerprints(&mut **lane, &ranges);
            let bytes = &seat.input()[..len];
            let compared = found.and_then(|found| {
                let one = sample(number, &ranges).map(|one| (ranges[one], found.get(one)));
                let differs =
                    one.and_then(|(range, found)| self.differs(bytes, is_end, range, found));
                differs.map_or(Ok(found), |what| Err(GpuError::Wrong { device, what }))
            });
            match compared {
                Ok(fingerprints) => return Ok(fingerprints),
                Err(error) => self.lose(error)?,
            }
            seat.give_up();
        }
        let Some(fingerprinter) = &self.settings.fingerprinter else { return Ok(Vec::new()) };
        let input = seat.input();
        let bytes: Vec<&[u8]> = chunks.iter().map(|chunk| &input[of(chunk)]).collect();
        let mut fingerprints = Vec::with_capacity(bytes.len());
        fingerprinter.fingerprint_many(&bytes, &mut fingerprints);
        Ok(fingerprints)
    }

    /// What the CPU finds otherwise of the chunk `range` of a segment: its end, or its fingerprint.
    fn differs(
        &self,
        bytes: &[u8],
        is_end: bool,
        range: Range,
        found: Option<&Fingerprint>,
    ) -> Option<String> {
        let Range { start, len } = range;
        let cut = cut_on_cpu(self.chunker, bytes, start, is_end);
        if cut != Some(start + len) {
            let expected = cut.unwrap_or(bytes.len()) - start;
            return Some(format!("a chunk of {len} bytes, expected {expected}"));
        }
        let fingerprinter = self.settings.fingerprinter.as_ref()?;
        let expected = fingerprinter.fingerprint(&bytes[start..][..len]);
        (found != Some(&expected)).then(|| "a fingerprint that the CPU does not find".into())
    }
}

/// The chunk of segment `number` that is compared with the CPU's: each time at another place.
fn sample(number: u64, chunks: &[Range]) -> Option<usize> {
    // the golden ratio spreads consecutive numbers
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (spread as usize).checked_rem(chunks.len())
}
