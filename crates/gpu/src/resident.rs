//! Data that are in the device's memory already: cut and fingerprinted where they are. Only cut-points and
//! fingerprints come back.
//!
//! Kernels read up to 64 bytes behind what they search. So the last few chunks' bytes are copied, on the
//! device, to memory that has as many behind them; all before are read in place.

use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprinter;

use crate::work::{MOST, Room, ranges_from};
use crate::{Chunk, Device, GpuError, Memory, Range, Resident, SPARE, Work};

/// Bytes that are searched at a time, if chunks are not longer than an eighth of it.
const SEGMENT: usize = 64 << 20;

/// The chunks of `data` by the rule of `chunker`, with their fingerprints if wanted: those that the CPU
/// finds.
///
/// # Errors
/// Work that no device can do, [`GpuError::NotResident`] for a device that takes no addresses,
/// [`GpuError::Elsewhere`] for bytes in other memory, and what the device reports.
pub fn cut_resident(
    device: &dyn Device,
    chunker: &Chunker,
    fingerprinter: Option<&Fingerprinter>,
    data: Resident,
) -> Result<Vec<Chunk>, GpuError> {
    let max = Work::new(chunker, fingerprinter)?.sizes().max();
    if !data.is_empty() {
        device.ensure_resident(data)?;
    }
    cut_by_segments(device, chunker, fingerprinter, data, SEGMENT.max(8 * max))
}

fn cut_by_segments(
    device: &dyn Device,
    chunker: &Chunker,
    fingerprinter: Option<&Fingerprinter>,
    data: Resident,
    segment: usize,
) -> Result<Vec<Chunk>, GpuError> {
    let work = Work::new(chunker, fingerprinter)?;
    // a segment that is searched in place is longer than two chunks, so that it has a cut-point
    let copied = 2 * work.sizes().max() + 2 * SPARE;
    if segment < copied || segment > MOST {
        return Err(GpuError::Segment { segment, least: copied, most: MOST });
    }
    let mut lane = device.lane(copied, Memory::Pageable)?;
    work.prepare(&mut *lane)?;
    let mut room = Room::of(segment);
    let (lead, data) = data.whole_pieces();
    let (mut start, mut chunks) = (lead, Vec::new());
    while start < data.len() {
        let base = Resident::piece_before(start);
        let left = data.len() - base;
        let is_end = left <= copied;
        let len = if is_end { left } else { segment.min(left - SPARE) };
        let part = data.part(base, len);
        if is_end { lane.copy_resident(part) } else { lane.lend(part) }?;
        let cuts = work.cuts_on_device(&mut *lane, start - base, len, is_end, &mut room)?;
        let ranges = ranges_from(start - base, &cuts);
        let mut fingerprints = work.fingerprints(&mut *lane, &ranges)?.into_iter();
        for Range { start: at, len } in ranges {
            start = base + at + len;
            let (from, end) = ((base + at - lead) as u64, (start - lead) as u64);
            chunks.push(Chunk { start: from, end, fingerprint: fingerprints.next() });
        }
    }
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Simulated, Slot};
    use onefold_cdc::{Algorithm, Params, Secret};
    use onefold_testkit::random;

    /// The chunks that the CPU finds.
    fn expected(chunker: &Chunker, fingerprinter: &Fingerprinter, data: &[u8]) -> Vec<Chunk> {
        let cuts: Vec<usize> = chunker.cut_points(data).collect();
        let chunk = |Range { start, len }: Range| Chunk {
            start: start as u64,
            end: (start + len) as u64,
            fingerprint: Some(fingerprinter.fingerprint(&data[start..start + len])),
        };
        Work::ranges(&cuts).into_iter().map(chunk).collect()
    }

    /// Room on both sides, as the pieces of 16 need it.
    fn resident(room: &[u8], from: usize, len: usize) -> Resident {
        let bytes = &room[from..from + len];
        // SAFETY: the simulated device is the host, and `room` goes on behind.
        unsafe { Resident::new(bytes.as_ptr() as u64, len) }
    }

    #[test]
    fn resident_data_are_cut_like_the_cpu_cuts_at_every_alignment_and_length() {
        let room = random(1, 40_000);
        let keyed = Fingerprinter::blake3_keyed([5; 32]);
        for algorithm in [Algorithm::MinCdc, Algorithm::FastCdc, Algorithm::Rabin] {
            let params = Params::for_mean(algorithm, 700).unwrap();
            let chunker =
                Chunker::new(&Params { secret: Some(Secret::new([9; 32])), ..params }).unwrap();
            let copied = 2 * params.sizes.max() + 2 * SPARE;
            let lens = [0, 1, 15, 16, 1000, copied - 1, copied, copied + 1, 2 * copied, 30_000];
            for (from, len) in (16..33).flat_map(|from| lens.map(|len| (from, len))) {
                let data = resident(&room, from, len);
                let device = Simulated::new();
                let found = cut_by_segments(&device, &chunker, Some(&keyed), data, copied + 999);
                let expected = expected(&chunker, &keyed, data.on_host());
                assert!(found.unwrap() == expected, "{algorithm}, {len} bytes from {from}");
            }
        }
    }

    #[test]
    fn a_device_that_is_lost_is_named() {
        let room = random(2, 40_000);
        let data = resident(&room, 32, 30_000);
        let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, 700).unwrap()).unwrap();
        let working = Simulated::new();
        cut_resident(&working, &chunker, None, data).unwrap();
        for call in 0..working.calls() {
            let device = Simulated::new().with_fault(Fault::LostAt(call));
            let error = cut_resident(&device, &chunker, None, data).unwrap_err();
            assert!(error.to_string().starts_with("simulated:0 (made up) failed"), "{error}");
        }
    }

    #[test]
    fn a_device_that_finds_no_cut_point_is_named() {
        let room = random(3, 40_000);
        let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, 700).unwrap()).unwrap();
        let device = Simulated::with_kernels("idle".into(), |_, _, _, arrays| {
            arrays.get_mut(&Slot::List).into_iter().for_each(|list| list.fill(0));
            Ok(())
        });
        let data = resident(&room, 32, 30_000);
        let error = cut_resident(&device, &chunker, None, data).unwrap_err().to_string();
        assert!(error.contains("wrong result: no cut-point after byte"), "{error}");
    }
}
