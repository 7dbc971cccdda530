//! The chunkers of other crates, each called as its documentation shows.
//!
//! Who has the rule of a chunker of ours claims its cut-points. gearhash and rustic_cdc roll hashes
//! only; the loop around them is ours, as the tools that use them have it.
//!
//! Not here: bitar, whose chunkers are to be had as an asynchronous stream of copied chunks only,
//! and chunkfs, which brings no chunker but those of cdc-chunkers.

use cdc_chunkers::{SizeParams, leap_based, rabin, seq, supercdc, ultra};
use fastcdc::{v2016, v2020};
use onefold_bench::Contender;
use onefold_cdc::{ChunkSizes, Preset};
use rollsum::{Bup, Gear};
use rustic_cdc::{Rabin64, RollingHash64};

use crate::entry::{Entry, hash_sizes, min_cdc_sizes, restic_sizes, seq_cdc_sizes, shown};

/// Average of 8 KiB, in bits.
const BITS: u32 = 13;

/// Every rival over `data`.
pub(crate) fn entries(data: &[u8]) -> Vec<Entry<'_>> {
    let mut entries = min_cdc(data);
    entries.extend(fast_cdc(data));
    entries.push(gearhash_as_xet(data));
    entries.push(rustic(data, "rustic_cdc", "preset restic, scalar", hash_sizes()));
    entries.push(rustic(data, "rustic_cdc, 1 MiB", "preset restic, 1 MiB, scalar", restic_sizes()));
    entries.extend(cdc_chunkers(data));
    entries.extend(others(data));
    entries
}

/// A rival whose chunks are `cut_points`, and that agrees with `equal_to`, if with anyone.
fn rival<'a, I: Iterator<Item = usize> + 'a>(
    by: &'static str,
    name: &str,
    equal_to: Option<&str>,
    parameters: String,
    cut_points: impl Fn() -> I + 'a,
) -> Entry<'a> {
    let contender = Contender::new(name, move |found| found.extend(cut_points()));
    let contender = match equal_to {
        Some(ours) => contender.equal_to(ours),
        None => contender,
    };
    Entry { contender, by, kernel: "its own".into(), parameters }
}

fn min_cdc(data: &[u8]) -> Vec<Entry<'_>> {
    let sizes = min_cdc_sizes();
    let (min, max) = (sizes.min(), sizes.max());
    let ours = Some("mincdc, scalar");
    vec![
        rival("mincdc", "mincdc crate", ours, shown(sizes), move || {
            mincdc::SliceChunker::new(data, min, max, mincdc::MinCdcHash4::new())
                .map(|chunk| chunk.offset() + chunk.len())
        }),
        rival("mothcdc", "mothcdc crate", ours, shown(sizes), move || {
            let rule = mothcdc::mincdc::MinCdcHash4::new();
            mothcdc::mincdc::SliceChunker::new(data, min, max, rule)
                .map(|chunk| (chunk.offset() + chunk.len() as u64) as usize)
        }),
    ]
}

fn fast_cdc(data: &[u8]) -> Vec<Entry<'_>> {
    let sizes = hash_sizes();
    let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
    let parameters = || format!("{}, level 1", shown(sizes));
    let ours_2016 = Some("preset fastcdc-2016, scalar");
    let ours_2020 = Some("preset fastcdc-2020, scalar");
    vec![
        rival("fastcdc", "fastcdc crate v2016", ours_2016, parameters(), move || {
            v2016::FastCDC::new(data, min, avg, max).map(|chunk| chunk.offset + chunk.length)
        }),
        rival("fastcdc", "fastcdc crate v2020", ours_2020, parameters(), move || {
            v2020::FastCDC::new(data, min, avg, max).map(|chunk| chunk.offset + chunk.length)
        }),
        rival("fastcdc-alt", "fastcdc-alt crate", ours_2020, parameters(), move || {
            let [min, avg, max] = [min, avg, max].map(|size| size as u32);
            let chunker = fastcdc_alt::FastCDC::new(min, avg, max);
            let mut chunker = chunker.expect("sizes in order");
            let mut start = 0;
            chunker.set_content_length(data.len());
            std::iter::from_fn(move || {
                start += chunker.cut(&data[start..])?.cutpoint;
                Some(start)
            })
        }),
    ]
}

/// As xet-core: the hash is warm where the first byte may end a chunk.
fn gearhash_as_xet(data: &[u8]) -> Entry<'_> {
    let sizes = hash_sizes();
    let mask = u64::MAX << (64 - BITS);
    let ours = Some("preset xet, scalar");
    rival("gearhash", "gearhash crate", ours, shown(sizes), move || {
        let mut hasher = gearhash::Hasher::default();
        by_chunks(data, sizes, move |warm, rest| {
            hasher.set_hash(0);
            hasher.update(warm);
            hasher.next_match(rest, mask)
        })
    })
}

/// As rustic and restic: the window is warm where the first byte may end a chunk.
fn rustic<'a>(data: &'a [u8], name: &str, ours: &str, sizes: ChunkSizes) -> Entry<'a> {
    let mask = sizes.avg() as u64 - 1;
    let rabin = Rabin64::new_with_polynom(6, &Preset::Restic.params().seed);
    let parameters = format!("{}, window 64", shown(sizes));
    rival("rustic_cdc", name, Some(ours), parameters, move || {
        let mut rabin = rabin.clone();
        by_chunks(data, sizes, move |warm, rest| {
            rabin.reset_and_prefill_window(&mut warm.iter().copied());
            let place = rest.iter().position(|&byte| {
                rabin.slide(byte);
                rabin.hash & mask == 0
            });
            place.map(|place| place + 1)
        })
    })
}

/// The cut-points where `find` tells how many bytes to take, from the 63 bytes before the first
/// that may end a chunk and from the bytes between it and max.
fn by_chunks<'a>(
    data: &'a [u8],
    sizes: ChunkSizes,
    mut find: impl FnMut(&[u8], &[u8]) -> Option<usize> + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let min = sizes.min();
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == data.len() {
            return None;
        }
        let reach = &data[start..data.len().min(start + sizes.max())];
        let found = reach.get(min - 1..).and_then(|rest| find(&reach[min - 64..min - 1], rest));
        start += found.map_or(reach.len(), |taken| min - 1 + taken);
        Some(start)
    })
}

fn cdc_chunkers(data: &[u8]) -> Vec<Entry<'_>> {
    const BY: &str = "cdc-chunkers";
    let end = |chunk: cdc_chunkers::Chunk| chunk.pos + chunk.len;
    let theirs = |sizes: ChunkSizes| SizeParams::new(sizes.min(), sizes.avg(), sizes.max());
    let shown = |sizes: SizeParams| format!("{} / {} / {}", sizes.min, sizes.avg, sizes.max);
    let hash = theirs(hash_sizes());
    let (seq_sizes, leap) = (theirs(seq_cdc_sizes()), SizeParams::leap_default());
    let ultra = SizeParams::ultra_default();
    vec![
        rival(
            BY,
            "cdc-chunkers SeqCDC",
            None,
            format!("{}, 5 / 55 / 256", shown(seq_sizes)),
            move || {
                let rule = seq::OperationMode::Increasing;
                seq::Chunker::new(data, seq_sizes, rule, seq::Config::default()).map(end)
            },
        ),
        rival(BY, "cdc-chunkers SuperCDC", None, shown(hash), move || {
            supercdc::Chunker::with_records(data, Default::default(), hash).map(end)
        }),
        rival(BY, "cdc-chunkers UltraCDC", None, shown(ultra), move || {
            ultra::Chunker::new(data, ultra).map(end)
        }),
        rival(BY, "cdc-chunkers Rabin", None, shown(hash), move || {
            let rule = rabin::ChunkerParams::new();
            rabin::Chunker::with_params(data, rule, hash).map(end)
        }),
        rival(BY, "cdc-chunkers leap-based", None, shown(leap), move || {
            leap_based::Chunker::new(data, leap).map(end)
        }),
    ]
}

fn others(data: &[u8]) -> Vec<Entry<'_>> {
    let sizes = hash_sizes();
    vec![
        rival("cdchunking", "cdchunking ZPAQ", None, format!("{BITS} bits / 65536"), move || {
            let rule = cdchunking::Chunker::new(cdchunking::ZPAQ::new(BITS as usize));
            ends(rule.max_size(sizes.max()).slices(data))
        }),
        rival(
            "quickcdc",
            "quickcdc",
            None,
            format!("{} / {}", sizes.avg(), sizes.max()),
            move || {
                let chunks = quickcdc::Chunker::with_params(data, sizes.avg(), sizes.max(), 0);
                ends(chunks.expect("sizes in order"))
            },
        ),
        rival("rollsum", "rollsum Gear", None, format!("{BITS} bits"), move || {
            let mut rule = Gear::new_with_chunk_bits(BITS);
            edges(data, move |rest| rule.find_chunk_edge(rest).map(|edge| edge.0))
        }),
        rival("rollsum", "rollsum Bup", None, format!("{BITS} bits"), move || {
            let mut rule = Bup::new_with_chunk_bits(BITS);
            edges(data, move |rest| rule.find_chunk_edge(rest).map(|edge| edge.0))
        }),
    ]
}

/// The ends of slices that follow one another.
fn ends<'a>(slices: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = usize> {
    slices.scan(0, |end, slice| {
        *end += slice.len();
        Some(*end)
    })
}

/// The cut-points where `find` tells the length of the next chunk, `None` for all that is left.
fn edges<'a>(
    data: &'a [u8],
    mut find: impl FnMut(&[u8]) -> Option<usize> + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = &data[start..];
        if rest.is_empty() {
            return None;
        }
        start += find(rest).unwrap_or(rest.len());
        Some(start)
    })
}
