//! Presets cut where the tools' own code cuts.

use fastcdc::{v2016, v2020};
use onefold_cdc::{
    Algorithm, ChunkSizes, Chunker, Cuts, ParamError, Params, Preset, Stream, cut_points,
};
use onefold_testkit::{cycle, random, text};
use proptest::prelude::*;
use rustic_cdc::{Rabin64, RollingHash64};

use crate::support::{any_input, corner_inputs, sizes};

#[path = "../../src/preset/borg_table.rs"]
mod borg_table;
#[path = "../../src/preset/casync_table.rs"]
mod casync_table;

const FAST_CDC: [Preset; 2] = [Preset::FastCdc2016, Preset::FastCdc2020];

/// The cut-points by the crate fastcdc.
fn by_fastcdc(params: &Params, data: &[u8]) -> Vec<usize> {
    let (min, avg, max) = (params.sizes.min(), params.sizes.avg(), params.sizes.max());
    if params.preset == Some(Preset::FastCdc2016) {
        use v2016::Normalization::{Level0, Level1, Level2, Level3};
        let level = [Level0, Level1, Level2, Level3][usize::from(params.level)];
        let chunks = v2016::FastCDC::with_level(data, min, avg, max, level);
        return chunks.map(|chunk| chunk.offset + chunk.length).collect();
    }
    use v2020::Normalization::{Level0, Level1, Level2, Level3};
    let level = [Level0, Level1, Level2, Level3][usize::from(params.level)];
    let chunks = v2020::FastCDC::with_level_and_seed(data, min, avg, max, level, params.seed);
    chunks.map(|chunk| chunk.offset + chunk.length).collect()
}

/// The cut-points by the crate gearhash, as xet-core drives it.
fn by_gearhash(params: &Params, data: &[u8]) -> Vec<usize> {
    let mask = u64::MAX << (64 - params.sizes.avg().ilog2());
    by_chunks(params, data, |warm, rest| {
        let mut hasher = gearhash::Hasher::default();
        hasher.update(warm);
        rest.iter().position(|&byte| {
            hasher.update(&[byte]);
            hasher.is_match(mask)
        })
    })
}

/// The cut-points by rustic's rolling hash, as restic drives it.
fn by_rustic(params: &Params, data: &[u8]) -> Vec<usize> {
    let mask = params.sizes.avg() as u64 - 1;
    let mut rabin = Rabin64::new_with_polynom(6, &params.seed);
    by_chunks(params, data, |warm, rest| {
        rabin.reset_and_prefill_window(&mut warm.iter().copied());
        rest.iter().position(|&byte| {
            rabin.slide(byte);
            rabin.hash & mask == 0
        })
    })
}

/// The cut-points where `find` finds the first byte that ends a chunk, from the 63 bytes before
/// the first that may and the bytes from it to max.
fn by_chunks(
    params: &Params,
    data: &[u8],
    mut find: impl FnMut(&[u8], &[u8]) -> Option<usize>,
) -> Vec<usize> {
    let min = params.sizes.min();
    let mut cut_points = Vec::new();
    let mut start = 0;
    while start < data.len() {
        let reach = &data[start..data.len().min(start + params.sizes.max())];
        let found = reach.get(min - 1..).and_then(|rest| find(&reach[min - 64..min - 1], rest));
        start += found.map_or(reach.len(), |i| min + i);
        cut_points.push(start);
    }
    cut_points
}

/// The hash by cyclic polynomials of any window, from the hashes of the beginnings of the data.
struct Cyclic(Vec<u32>);

impl Cyclic {
    fn new(data: &[u8], table: impl Fn(usize) -> u32) -> Self {
        let mut hashes = vec![0_u32];
        for &byte in data {
            hashes.push(hashes[hashes.len() - 1].rotate_left(1) ^ table(usize::from(byte)));
        }
        Self(hashes)
    }

    /// What is before the window cancels out.
    fn of(&self, start: usize, len: usize) -> u32 {
        self.0[start + len] ^ self.0[start].rotate_left((len % 32) as u32)
    }
}

/// The cut-points by borg's rule, written without a rolling hash.
fn by_borg(params: &Params, data: &[u8]) -> Vec<usize> {
    let &Params { sizes, window, seed, .. } = params;
    let hashes = Cyclic::new(data, |byte| borg_table::TABLE[byte] ^ seed as u32);
    by_ends(data, |start| {
        let end = data.len().min(start + sizes.max());
        (start + sizes.min()..end)
            .take_while(|cut| cut + window < end)
            .find(|&cut| hashes.of(cut, window).trailing_zeros() >= sizes.avg().ilog2())
            .unwrap_or(end)
    })
}

/// The cut-points by casync's or desync's rule, written without a rolling hash.
fn by_casync(params: &Params, data: &[u8]) -> Vec<usize> {
    let (min, avg, max) = (params.sizes.min(), params.sizes.avg(), params.sizes.max());
    let hashes = Cyclic::new(data, |byte| casync_table::TABLE[byte]);
    let d = (avg as f64 / (-1.42888852e-7 * avg as f64 + 1.33237515)) as usize;
    let (first, d) = match params.preset {
        Some(Preset::Casync) => (min.max(48), d.max(min).min(max)),
        _ => (min + 1, d),
    };
    by_ends(data, |start| {
        let end = data.len().min(start + max);
        (start + first..end)
            .find(|cut| hashes.of(cut - 48, 48) as usize % d == d - 1)
            .unwrap_or(end)
    })
}

/// The cut-points where `end` finds the end of the chunk that starts at an offset of `data`.
fn by_ends(data: &[u8], end: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut cut_points = vec![0];
    while let Some(&start) = cut_points.last().filter(|&&cut| cut < data.len()) {
        cut_points.push(end(start));
    }
    cut_points.split_off(1)
}

fn by_tool(params: &Params, data: &[u8]) -> Vec<usize> {
    match params.preset.unwrap() {
        Preset::Xet => by_gearhash(params, data),
        Preset::Restic => by_rustic(params, data),
        Preset::Borg => by_borg(params, data),
        Preset::Casync | Preset::Desync => by_casync(params, data),
        _ => by_fastcdc(params, data),
    }
}

fn assert_as_tool(params: &Params, data: &[u8]) {
    let expected = by_tool(params, data);
    assert_eq!(cut_points(params, data).unwrap(), expected, "{params:?}, {} bytes", data.len());
    let cuts = Cuts::new(params, data).unwrap();
    let streamed: Vec<_> = cuts.map(|cut| cut.unwrap() as usize).collect();
    assert_eq!(streamed, expected, "{params:?}, {} bytes streamed", data.len());
}

/// Sizes that a tool can have, small and with every kind of remainder.
fn small_params() -> Vec<Params> {
    let mut all = Vec::new();
    for preset in FAST_CDC {
        for (min, avg, max) in [(64, 256, 1024), (130, 362, 1034), (256, 726, 4096)] {
            for (level, seed) in [(0, 0), (1, 666), (2, u64::MAX), (3, 1 << 63)] {
                let sizes = sizes(min, avg, max);
                all.push(Params { sizes, level, seed, ..preset.params() });
            }
        }
    }
    for (min, avg, max) in [(65, 2, 1000), (100, 128, 1000), (300, 512, 1025)] {
        let sizes = sizes(min, avg.max(min.next_power_of_two()), max);
        all.push(Params { sizes, ..Preset::Xet.params() });
        all.push(Params { sizes, ..Preset::Restic.params() });
    }
    for (min, avg, max) in [(1, 1, 4), (1, 8, 512), (16, 64, 128), (128, 128, 1024)] {
        for (window, seed) in [(1, 0), (2, 7), (31, 1), (64, 1 << 31), (95, u64::from(u32::MAX))] {
            if min + window < max {
                let sizes = sizes(min, avg, max);
                all.push(Params { sizes, window, seed, ..Preset::Borg.params() });
            }
        }
    }
    for (min, avg, max) in [(48, 48, 48), (48, 50, 300), (49, 200, 700), (100, 101, 1001)] {
        for preset in [Preset::Casync, Preset::Desync] {
            all.push(Params { sizes: sizes(min, avg, max), ..preset.params() });
        }
    }
    for (min, avg, max) in [(1, 1, 48), (1, 64, 256), (47, 100, 100)] {
        all.push(Params { sizes: sizes(min, avg, max), ..Preset::Casync.params() });
    }
    all
}

/// What the remote-execution API asks for: level 2, a quarter and four times the mean.
fn remote_execution(seed: u64) -> Params {
    let sizes = sizes(128 << 10, 512 << 10, 2 << 20);
    Params { sizes, level: 2, seed, ..Preset::FastCdc2020.params() }
}

#[test]
fn standard_parameters_cut_where_the_tool_cuts() {
    let others = [remote_execution(0), remote_execution(666)];
    for params in Preset::ALL.iter().map(|preset| preset.params()).chain(others) {
        for data in [random(90, 5 << 20), text(91, 5 << 20), cycle(&[0], 9 << 20)] {
            assert_as_tool(&params, &data);
        }
    }
}

#[test]
fn small_sizes_and_every_tail_are_cut_where_the_tool_cuts() {
    for params in small_params() {
        for data in corner_inputs(6000) {
            assert_as_tool(&params, &data);
        }
        for len in (0..1200).step_by(7).chain(60..70).chain(250..270).chain(1020..1040) {
            assert_as_tool(&params, &random(len as u64, len));
        }
    }
}

/// Where the last byte but one would end a chunk, it depends on whether it has a partner.
#[test]
fn the_last_byte_of_an_odd_rest_is_not_tested() {
    let params = Params { sizes: sizes(64, 256, 1024), ..Preset::FastCdc2020.params() };
    let chunker = Chunker::new(&params).unwrap();
    let mut unpaired = 0;
    for seed in 0..300 {
        let data = random(seed, 1100);
        let Some(cut) = chunker.next_cut(&data).filter(|cut| cut % 2 == 0 && *cut < 1024) else {
            continue;
        };
        unpaired += 1;
        assert_eq!(chunker.next_cut(&data[..=cut]), None);
        assert_eq!(chunker.last_cut(&data[..=cut]), Some(cut + 1));
        assert_eq!(chunker.next_cut(&data[..cut + 2]), Some(cut));
        assert_as_tool(&params, &data[..=cut]);
    }
    assert!(unpaired > 50, "{unpaired}");
}

proptest! {
    #[test]
    fn any_input_is_cut_where_the_tool_cuts(
        params in prop::sample::select(small_params()),
        data in any_input(),
    ) {
        assert_as_tool(&params, &data);
    }

    #[test]
    fn more_data_never_changes_a_decision(
        params in prop::sample::select(small_params()),
        data in any_input(),
    ) {
        let chunker = Chunker::new(&params).unwrap();
        let whole = chunker.next_cut(&data);
        for len in 0..data.len().min(1200) {
            let cut = chunker.next_cut(&data[..len]);
            prop_assert!(cut.is_none() || cut == whole);
            prop_assert!(cut.is_some() || len < params.sizes.max());
        }
    }
}

#[test]
fn what_a_tool_cannot_have_is_refused() {
    let refusal = |params: Params| Chunker::new(&params).unwrap_err().to_string();
    let with =
        |preset: Preset, min, avg, max| Params { sizes: sizes(min, avg, max), ..preset.params() };
    let message = refusal(with(Preset::FastCdc2020, 4096, 16384, 65535));
    assert_eq!(message, "fastcdc-2020 cannot have these parameters, expected even sizes");
    assert!(Chunker::new(&with(Preset::FastCdc2016, 4096, 16384, 65535)).is_ok());
    for (min, avg, max) in [(32, 256, 1024), (64, 200, 1024), (64, 256, 1000)] {
        for preset in FAST_CDC {
            assert!(refusal(with(preset, min, avg, max)).contains("average of 256 bytes"));
        }
    }
    let message = refusal(Params { level: 4, ..Preset::FastCdc2016.params() });
    assert!(message.contains("a level from 0 to 3"), "{message}");
    for preset in [Preset::Xet, Preset::Restic] {
        assert!(refusal(with(preset, 100, 1000, 2000)).contains("a power of two"));
        assert!(refusal(with(preset, 60, 1024, 2000)).contains("64 bytes"));
    }
    // x^53 alone, and a polynomial of degree 52
    for polynomial in [1 << 53, (1 << 52) + 1] {
        let params = Params { seed: polynomial, ..Preset::Restic.params() };
        let refusal = Chunker::new(&params).unwrap_err();
        assert_eq!(refusal, ParamError::Polynomial { polynomial });
    }
    for (min, avg, max) in [(3, 64, 1024), (4, 65, 1024), (4, 64, 1025), (4, 64, 32 << 20)] {
        assert!(refusal(with(Preset::Borg, min, avg, max)).contains("powers of two"));
    }
    for (window, fits) in [(0, false), (1, true), (959, true), (960, false), (usize::MAX, false)] {
        let params = Params { window, ..with(Preset::Borg, 64, 128, 1024) };
        match Chunker::new(&params) {
            Ok(_) => assert!(fits, "{window}"),
            Err(error) => {
                assert!(!fits, "{window}");
                assert!(error.to_string().contains("fit into max"), "{error}");
            }
        }
    }
    let message = refusal(Params { seed: 1 << 32, ..Preset::Borg.params() });
    assert!(message.contains("a seed of 32 bits"), "{message}");
    assert!(refusal(with(Preset::Casync, 1, 40, 47)).contains("a maximum of at least 48"));
    assert!(refusal(with(Preset::Desync, 47, 100, 200)).contains("a minimum of at least 48"));
    for preset in [Preset::Casync, Preset::Desync] {
        let largest = 9_309_387;
        assert!(Chunker::new(&with(preset, 64, largest, 64 << 20)).is_ok());
        assert!(refusal(with(preset, 64, largest + 1, 64 << 20)).contains("9,309,387"));
        let message = refusal(Params { window: 64, ..preset.params() });
        assert!(message.contains("a window of 48 bytes"), "{message}");
    }
    for &preset in Preset::ALL {
        let sizes = ChunkSizes::unbounded(4096, 65536).unwrap();
        assert!(Chunker::new(&Params { sizes, ..preset.params() }).is_err(), "{preset}");
        let params = Params { algorithm: Algorithm::Ram, ..preset.params() };
        assert!(refusal(params).contains("algorithm"), "{preset}");
    }
}

#[test]
fn presets_are_told_apart_from_what_a_repository_can_note_down() {
    for &preset in Preset::ALL {
        assert_eq!(preset.name().parse(), Ok(preset));
        assert!(!preset.params().is_plain());
        let chunker = Chunker::new(&preset.params()).unwrap();
        assert_eq!(chunker.kernel(), preset.kernels()[0]);
        let mut stream = Stream::new(chunker, &[1, 2, 3][..]);
        assert_eq!(stream.next().unwrap(), Some(&[1, 2, 3][..]));
    }
    assert!("Restic".parse::<Preset>().unwrap_err().to_string().contains("'Restic'"));
    let plain = Params::for_mean(Algorithm::FastCdc, 65536).unwrap();
    assert!(plain.is_plain());
    let sizes = ChunkSizes::unbounded(1, 65536).unwrap();
    assert!(!Params { sizes, ..plain }.is_plain());
}
