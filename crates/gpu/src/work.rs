//! What is to be found of one buffer, and the kernels that find it.

use std::ops::Range as Bytes;

use onefold_cdc::{ChunkSizes, Chunker, LeastHash, Tables, WindowHash, WindowTest};
use onefold_fingerprint::{Fingerprint, FingerprintAlgorithm, Fingerprinter};
use zeroize::Zeroizing;

use crate::kernel::{GROUP, STRICT};
use crate::select::{Chains, Selector};
use crate::{Argument, GpuError, Kernel, Lane, STRIP, Slot, TILE};

/// Bytes of a leaf of BLAKE3.
const LEAF: usize = 1024;

/// The initial value of BLAKE3, which stands for the key where there is none.
const BLAKE3_VALUE: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The flag of BLAKE3 for a hash with a key.
const KEYED: u32 = 16;

/// The longest buffer: positions have 31 bits, and 64 bytes are spared.
pub(crate) const MOST: usize = 1 << 30;

/// A chunk in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its first byte.
    pub start: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// What is to be found: cut-points by the rule of a chunker, and fingerprints if so.
#[derive(Clone, Debug)]
pub struct Work {
    sizes: ChunkSizes,
    tables: Tables,
    fingerprinter: Option<Fingerprinter>,
    /// FastCDC has two limits that a device tells apart.
    is_normalised: bool,
    /// Whether Rabin's kernel is the one without tiles.
    is_direct: bool,
}

/// What a device found of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Positions that pass the test, ascending, those under the strict limit with [`STRICT`].
    Candidates(Vec<u32>),
    /// Chains of cut-points, each from its own first byte.
    Chains(Chains),
}

/// How many candidates a lane has room for.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Room {
    pub(crate) const fn of(bytes: usize) -> Self {
        Self(if bytes / 64 < 1024 { 1024 } else { bytes / 64 })
    }
}

impl Work {
    /// # Errors
    /// Names the algorithm, preset or size that no device can do.
    pub fn new(chunker: &Chunker, fingerprinter: Option<&Fingerprinter>) -> Result<Self, GpuError> {
        let params = chunker.params();
        let (sizes, algorithm) = (params.sizes, params.algorithm);
        if let Some(preset) = params.preset {
            return Err(GpuError::Preset { preset: preset.to_string() });
        }
        let tables = chunker.tables().ok_or(GpuError::NotCut { algorithm })?;
        if !sizes.is_bounded() {
            return Err(GpuError::Unbounded);
        }
        if let Tables::Window(WindowTest { window, .. }) = tables
            && sizes.min() < window
        {
            return Err(GpuError::ShortMin { algorithm, min: sizes.min(), window });
        }
        if let Some(FingerprintAlgorithm::Sha1) = fingerprinter.map(Fingerprinter::algorithm) {
            return Err(GpuError::NotHashed { algorithm: FingerprintAlgorithm::Sha1 });
        }
        let fingerprinter = fingerprinter.cloned();
        let is_normalised = algorithm == onefold_cdc::Algorithm::FastCdc;
        Ok(Self { sizes, tables, fingerprinter, is_normalised, is_direct: false })
    }

    /// The same with a kernel that does without tiles where there is one, which is for Rabin.
    #[must_use]
    pub fn without_tiles(self) -> Self {
        Self { is_direct: true, ..self }
    }

    /// The chunks that end at `cuts`, the first of which begins with byte 0.
    pub fn ranges(cuts: &[usize]) -> Vec<Range> {
        ranges_from(0, cuts)
    }

    /// The cut-points of the first `len` bytes of the lane's input as a whole input, and the fingerprint of each
    /// chunk if there is a function for them.
    pub fn whole(
        &self,
        lane: &mut dyn Lane,
        len: usize,
    ) -> Result<(Vec<usize>, Vec<Fingerprint>), GpuError> {
        self.prepare(lane)?;
        lane.upload(len)?;
        let cuts = self.cuts_on_device(lane, 0, len, true, &mut Room::of(len))?;
        let fingerprints = self.fingerprints(lane, &Self::ranges(&cuts))?;
        Ok((cuts, fingerprints))
    }

    pub(crate) fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    /// Selects the cut-points after byte `start`.
    pub(crate) fn selector(&self, start: u64) -> Selector {
        Selector::new(self.sizes, self.is_normalised, start)
    }

    /// The cut-points after `start` that the first `len` bytes of [`Slot::Data`] decide, all of them if
    /// nothing follows. The host's bytes are not looked at.
    pub(crate) fn cuts_on_device(
        &self,
        lane: &mut dyn Lane,
        start: usize,
        len: usize,
        is_end: bool,
        room: &mut Room,
    ) -> Result<Vec<usize>, GpuError> {
        if let Tables::Least(hash) = &self.tables {
            return least_cuts(lane, hash, self.sizes.max(), start..len, is_end);
        }
        let marks = self.marks(lane, start, len, is_end, room)?;
        let mut cuts = Vec::new();
        self.selector(start as u64).advance(&marks, |_| None, 0..len as u64, is_end, &mut cuts);
        Ok(cuts.into_iter().map(|cut| cut as usize).collect())
    }

    /// Brings what does not depend on the data. Once a lane.
    pub(crate) fn prepare(&self, lane: &mut dyn Lane) -> Result<(), GpuError> {
        if let Tables::Window(test) = &self.tables {
            let bytes: Vec<u8> = if is_wide(test.hash) {
                test.table.iter().flat_map(|entry| entry.to_le_bytes()).collect()
            } else {
                test.table.iter().flat_map(|&entry| (entry as u32).to_le_bytes()).collect()
            };
            let bytes = Zeroizing::new(bytes);
            lane.reserve(Slot::Table, bytes.len())?;
            lane.write(Slot::Table, &bytes)?;
            lane.reserve(Slot::Counter, 4)?;
        }
        match &self.fingerprinter {
            Some(fingerprinter) => prepare_hash(lane, fingerprinter),
            None => Ok(()),
        }
    }

    /// What cut-points of the uploaded `len` bytes follow from, at positions after `first`. Nothing follows if this
    /// `is_end`.
    pub(crate) fn marks(
        &self,
        lane: &mut dyn Lane,
        first: usize,
        len: usize,
        is_end: bool,
        room: &mut Room,
    ) -> Result<Marks, GpuError> {
        match &self.tables {
            Tables::Window(test) => {
                let kernel = match (self.is_direct, test.hash) {
                    (true, WindowHash::Rabin) => Kernel::DirectRabin,
                    (_, hash) => kernel_of(hash),
                };
                candidates(lane, kernel, test, first, len, room).map(Marks::Candidates)
            }
            Tables::Least(hash) => {
                let max = self.sizes.max();
                if len > 0 {
                    launch_minima(lane, hash, len)?;
                }
                let groups = len.div_ceil(Chains::stretch(max, len));
                chains(lane, hash, max, 0..len, is_end, groups).map(Marks::Chains)
            }
        }
    }

    /// The fingerprint of each of `chunks` of the uploaded bytes; none if there is no function.
    pub fn fingerprints(
        &self,
        lane: &mut dyn Lane,
        chunks: &[Range],
    ) -> Result<Vec<Fingerprint>, GpuError> {
        match &self.fingerprinter {
            Some(fingerprinter) => hash(lane, fingerprinter, chunks),
            None => Ok(Vec::new()),
        }
    }
}

/// Brings the key of `fingerprinter`, or what stands for it.
pub(crate) fn prepare_hash(
    lane: &mut dyn Lane,
    fingerprinter: &Fingerprinter,
) -> Result<(), GpuError> {
    let value = BLAKE3_VALUE.iter().flat_map(|word| word.to_le_bytes());
    let (key, flags) = match (fingerprinter.algorithm(), fingerprinter.key()) {
        (FingerprintAlgorithm::Blake3, _) => (Zeroizing::new(value.collect::<Vec<u8>>()), 0),
        (_, Some(key)) => (Zeroizing::new(key.to_vec()), KEYED),
        _ => return Ok(()),
    };
    let key = Zeroizing::new([&key[..], &u32::to_le_bytes(flags)].concat());
    lane.reserve(Slot::Key, key.len())?;
    lane.write(Slot::Key, &key)
}

/// The fingerprint of each of `chunks` of the uploaded bytes, whose key was brought.
pub(crate) fn hash(
    lane: &mut dyn Lane,
    fingerprinter: &Fingerprinter,
    chunks: &[Range],
) -> Result<Vec<Fingerprint>, GpuError> {
    let count = chunks.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    let leaves = write_chunks(lane, chunks)?;
    launch_hash(lane, fingerprinter.algorithm(), count, leaves)?;
    let mut bytes = vec![0; Fingerprint::LEN * count];
    lane.read(Slot::Digests, &mut bytes)?;
    let (digests, _) = bytes.as_chunks::<{ Fingerprint::LEN }>();
    Ok(digests.iter().copied().map(Fingerprint::from_bytes).collect())
}

/// Brings where `chunks` are, and makes room for their fingerprints; how many leaves they have.
pub(crate) fn write_chunks(lane: &mut dyn Lane, chunks: &[Range]) -> Result<usize, GpuError> {
    let count = chunks.len();
    let mut leaves = 0;
    let mut table = Vec::with_capacity(12 * count);
    for &Range { start, len } in chunks {
        for number in [start, len, leaves] {
            table.extend((number as u32).to_le_bytes());
        }
        leaves += len.div_ceil(LEAF).max(1);
    }
    lane.reserve(Slot::Chunks, table.len())?;
    lane.write(Slot::Chunks, &table)?;
    lane.reserve(Slot::Digests, Fingerprint::LEN * count)?;
    Ok(leaves)
}

/// Starts the kernels that hash `count` chunks with `leaves`, which were brought.
pub(crate) fn launch_hash(
    lane: &mut dyn Lane,
    algorithm: FingerprintAlgorithm,
    count: usize,
    leaves: usize,
) -> Result<(), GpuError> {
    let number = |number: usize| Argument::U32(number as u32);
    let array = Argument::Slot;
    let by_item = [array(Slot::Data), array(Slot::Chunks), array(Slot::Digests), number(count)];
    match algorithm {
        FingerprintAlgorithm::Sha256 => {
            lane.launch(Kernel::Sha256, count.div_ceil(GROUP), &by_item)
        }
        FingerprintAlgorithm::Sha3 => lane.launch(Kernel::Sha3, count.div_ceil(GROUP), &by_item),
        _ => {
            lane.reserve(Slot::Values, 32 * leaves)?;
            let [data, chunks, digests, count_of] = by_item;
            let (key, values) = (array(Slot::Key), array(Slot::Values));
            let arguments = [data, chunks, key, values, count_of, number(leaves)];
            lane.launch(Kernel::Blake3Leaves, leaves.div_ceil(GROUP), &arguments)?;
            let arguments = [chunks, key, values, digests, count_of, number(leaves)];
            lane.launch(Kernel::Blake3Join, count, &arguments)
        }
    }
}

/// The chunks that end at `cuts`, the first of which begins with byte `start`.
pub(crate) fn ranges_from(start: usize, cuts: &[usize]) -> Vec<Range> {
    let starts = [start].into_iter().chain(cuts.iter().copied());
    starts.zip(cuts).map(|(start, &end)| Range { start, len: end - start }).collect()
}

/// Whether hashes and table entries have 64 bits.
pub(crate) const fn is_wide(hash: WindowHash) -> bool {
    matches!(hash, WindowHash::Gear | WindowHash::Rabin)
}

const fn kernel_of(hash: WindowHash) -> Kernel {
    match hash {
        WindowHash::Gear => Kernel::CandidatesGear,
        WindowHash::Gear32 => Kernel::CandidatesGear32,
        WindowHash::Gear16 => Kernel::CandidatesGear16,
        WindowHash::Rabin => Kernel::CandidatesRabin,
        WindowHash::Crc => Kernel::CandidatesCrc,
        WindowHash::Buzhash => Kernel::CandidatesBuzhash,
    }
}

/// The candidates after `first` in the uploaded `len` bytes, ascending.
///
/// Groups append to the list in the order in which they end; the table of tiles puts that right. If the
/// list is too short, the kernel runs again with one that is long enough.
fn candidates(
    lane: &mut dyn Lane,
    kernel: Kernel,
    test: &WindowTest,
    first: usize,
    len: usize,
    room: &mut Room,
) -> Result<Vec<u32>, GpuError> {
    let first_tile = first / TILE;
    let tiles = len.div_ceil(TILE).saturating_sub(first_tile);
    if tiles == 0 {
        return Ok(Vec::new());
    }
    let limit = |limit: u64| match is_wide(test.hash) {
        true => Argument::U64(limit),
        false => Argument::U32(limit as u32),
    };
    loop {
        lane.reserve(Slot::Tiles, 8 * tiles)?;
        lane.reserve(Slot::List, 4 * room.0)?;
        lane.write(Slot::Counter, &[0; 4])?;
        let arguments = [
            Argument::Slot(Slot::Data),
            Argument::Slot(Slot::Table),
            Argument::Slot(Slot::List),
            Argument::Slot(Slot::Tiles),
            Argument::Slot(Slot::Counter),
            Argument::U32(first_tile as u32),
            Argument::U32(first as u32),
            Argument::U32(len as u32),
            Argument::U32(test.window as u32),
            limit(test.limit),
            limit(test.strict),
            Argument::U32(room.0 as u32),
        ];
        lane.launch(kernel, tiles, &arguments)?;
        let mut counter = [0; 4];
        lane.read(Slot::Counter, &mut counter)?;
        let count = u32::from_le_bytes(counter) as usize;
        if count > len {
            let what = format!("{count} candidates in {len} bytes");
            return Err(GpuError::Wrong { device: lane.device().to_owned(), what });
        }
        if count > room.0 {
            room.0 = count;
            continue;
        }
        let tiles = read_u32s(lane, Slot::Tiles, 2 * tiles)?;
        let list = read_u32s(lane, Slot::List, count)?;
        return in_order(&tiles, &list)
            .map_err(|what| GpuError::Wrong { device: lane.device().to_owned(), what });
    }
}

/// The candidates tile by tile.
fn in_order(tiles: &[u32], list: &[u32]) -> Result<Vec<u32>, String> {
    let mut ordered = Vec::with_capacity(list.len());
    for tile in tiles.as_chunks::<2>().0 {
        let [start, count] = tile.map(|number| number as usize);
        let own = start.checked_add(count).and_then(|end| list.get(start..end));
        ordered.extend_from_slice(own.unwrap_or_default());
    }
    let rises = |pair: &[u32]| pair[0] & !STRICT < pair[1] & !STRICT;
    if ordered.len() != list.len() || !ordered.windows(2).all(rises) {
        return Err(format!("{} candidates that are not in order", list.len()));
    }
    Ok(ordered)
}

fn launch_minima(lane: &mut dyn Lane, hash: &LeastHash, len: usize) -> Result<(), GpuError> {
    lane.reserve(Slot::Minima, 8 * len.div_ceil(STRIP))?;
    let arguments = [
        Argument::Slot(Slot::Data),
        Argument::Slot(Slot::Minima),
        Argument::U32(0),
        Argument::U32(len as u32),
        Argument::U32(hash.factor),
        Argument::U32(hash.addend),
    ];
    lane.launch(Kernel::Minima, len.div_ceil(TILE), &arguments)
}

/// Chains of cut-points by least hashes after byte `start` of the uploaded `len` bytes, one for each of `groups`
/// stretches, whose least hashes were found.
fn chains(
    lane: &mut dyn Lane,
    hash: &LeastHash,
    max: usize,
    Bytes { start, end: len }: Bytes<usize>,
    is_end: bool,
    groups: usize,
) -> Result<Chains, GpuError> {
    let stretch = Chains::stretch(max, len);
    // every chunk but the last has that many bytes or more
    let room = stretch / hash.first.min(max) + Chains::MORE + 2;
    lane.reserve(Slot::List, 4 * room * groups)?;
    let number = |number: usize| Argument::U32(number as u32);
    let arguments = [
        Argument::Slot(Slot::Data),
        Argument::Slot(Slot::Minima),
        Argument::Slot(Slot::List),
        number(start),
        number(stretch),
        number(Chains::MORE),
        number(room),
        number(len),
        number(hash.first),
        number(max),
        number(is_end.into()),
        Argument::U32(hash.factor),
        Argument::U32(hash.addend),
    ];
    lane.launch(Kernel::SelectLeast, groups, &arguments)?;
    let found = read_u32s(lane, Slot::List, room * groups)?;
    Chains::new(found, start..len, max, room)
        .map_err(|what| GpuError::Wrong { device: lane.device().to_owned(), what })
}

/// The cut-points by least hashes in `place`, whose end is that of the data on the device, without a look at the
/// host's bytes.
fn least_cuts(
    lane: &mut dyn Lane,
    hash: &LeastHash,
    max: usize,
    place: Bytes<usize>,
    is_end: bool,
) -> Result<Vec<usize>, GpuError> {
    let Bytes { start: mut at, end: len } = place;
    if place.is_empty() {
        return Ok(Vec::new());
    }
    launch_minima(lane, hash, len)?;
    let groups = place.len().div_ceil(Chains::stretch(max, len));
    let all = chains(lane, hash, max, place, is_end, groups)?;
    let mut join = all.join();
    let mut cuts = Vec::new();
    while at < len && (len - at >= max || is_end) {
        if let Some(cut) = join.after(at) {
            cuts.push(cut);
            at = cut;
            continue;
        }
        // the chains have no cut-point in common: one chain goes on alone until they have
        let alone = chains(lane, hash, max, at..len, is_end, 1)?;
        if alone.first().is_empty() {
            let what = format!("no cut-point after byte {at} of {len}");
            return Err(GpuError::Wrong { device: lane.device().to_owned(), what });
        }
        for &cut in alone.first() {
            cuts.push(cut as usize);
            at = cut as usize;
            if join.meets(at) {
                break;
            }
        }
    }
    Ok(cuts)
}

fn read_u32s(lane: &mut dyn Lane, slot: Slot, count: usize) -> Result<Vec<u32>, GpuError> {
    let mut bytes = vec![0; 4 * count];
    if count > 0 {
        lane.read(slot, &mut bytes)?;
    }
    Ok(bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_cdc::{Algorithm, Params, Preset};

    fn refusal(params: &Params, hash: Option<Fingerprinter>) -> String {
        Work::new(&Chunker::new(params).unwrap(), hash.as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn what_no_kernel_can_do_is_refused_by_name() {
        let ae = Params::for_mean(Algorithm::AeMax, 1000).unwrap();
        assert!(refusal(&ae, None).starts_with("no device cuts by ae-max; expected one of gear,"));
        let short = Params::for_mean(Algorithm::Gear, 100).unwrap();
        assert_eq!(
            refusal(&short, None),
            "a device cannot cut by gear with a minimum of 25 bytes, expected at least its window, 64"
        );
        let preset = Preset::Restic.params();
        assert!(refusal(&preset, None).contains("restic"));
        let gear = Params::for_mean(Algorithm::Gear, 1000).unwrap();
        let sha1 = refusal(&gear, Some(Fingerprinter::sha1()));
        assert!(sha1.starts_with("no device computes sha1"), "{sha1}");
        let unbounded = ChunkSizes::unbounded(64, 1000).unwrap();
        assert!(refusal(&Params { sizes: unbounded, ..gear }, None).contains("maximum"));
    }

    #[test]
    fn lists_that_no_kernel_writes_are_refused() {
        assert_eq!(in_order(&[1, 2, 0, 1], &[9, 3, 5 | STRICT]), Ok(vec![3, 5 | STRICT, 9]));
        for (tiles, list) in [
            (&[0, 2][..], &[3, 3][..]),
            (&[0, 2], &[4, 3]),
            (&[0, 2], &[4 | STRICT, 3]),
            (&[0, 1], &[4, 5]),
            (&[0, 3], &[4, 5]),
            (&[u32::MAX, u32::MAX], &[4]),
        ] {
            assert!(in_order(tiles, list).is_err(), "{tiles:?} {list:?}");
        }
    }
}
