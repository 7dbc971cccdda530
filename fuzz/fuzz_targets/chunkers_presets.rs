//! Presets cut within their bounds, alike on every kernel and however the data come; those of
//! FastCDC where its crate cuts.
#![no_main]

use fastcdc::{v2016, v2020};
use libfuzzer_sys::fuzz_target;
use onefold_cdc::{ChunkSizes, Chunker, Params, Preset};
use onefold_fuzz::{assert_all_ways_agree, assert_kernels_agree};

fuzz_target!(|input: (u8, u16, u16, u16, u8, u64, Vec<u8>)| {
    let (preset, min, more, most, level, seed, data) = input;
    let preset = Preset::ALL[usize::from(preset) % Preset::ALL.len()];
    let min = usize::from(min % 512) + 1;
    let avg = min + usize::from(more % 1024);
    // a power of two is what some of the tools need
    let avg = if most % 2 == 0 { avg.next_power_of_two() } else { avg };
    let sizes = ChunkSizes::new(min, avg, avg + usize::from(most % 4096)).expect("sizes in order");
    let mut params = Params { sizes, ..preset.params() };
    if matches!(preset, Preset::FastCdc2016 | Preset::FastCdc2020) {
        params.level = level % 4;
    }
    if preset == Preset::FastCdc2020 {
        params.seed = seed;
    }
    let Ok(chunker) = Chunker::new(&params) else { return };
    assert_kernels_agree(&params, &data);
    assert_all_ways_agree(&params, &data, usize::from(level));
    if let Some(expected) = by_crate(&params, &data) {
        assert_eq!(chunker.cut_points(&data).collect::<Vec<_>>(), expected, "{params:?}");
    }
});

/// The cut-points of the crate fastcdc, if the preset is one of its rules.
fn by_crate(params: &Params, data: &[u8]) -> Option<Vec<usize>> {
    let (min, avg, max) = (params.sizes.min(), params.sizes.avg(), params.sizes.max());
    match params.preset? {
        Preset::FastCdc2016 => {
            use v2016::Normalization::{Level0, Level1, Level2, Level3};
            let level = [Level0, Level1, Level2, Level3][usize::from(params.level)];
            let chunks = v2016::FastCDC::with_level(data, min, avg, max, level);
            Some(chunks.map(|chunk| chunk.offset + chunk.length).collect())
        }
        Preset::FastCdc2020 => {
            use v2020::Normalization::{Level0, Level1, Level2, Level3};
            let level = [Level0, Level1, Level2, Level3][usize::from(params.level)];
            let chunks =
                v2020::FastCDC::with_level_and_seed(data, min, avg, max, level, params.seed);
            Some(chunks.map(|chunk| chunk.offset + chunk.length).collect())
        }
        _ => None,
    }
}
