//! Every kernel cuts where scalar cuts: on every length, alignment and kind of data, and without a
//! look at a byte before or behind its input.
//!
//! A kernel that this CPU lacks is skipped, and says so; one that `ONEFOLD_REQUIRE_KERNELS` names
//! (`avx512,avx2`) fails instead.

use std::env;

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Divisors, Kernel, Params, Preset, Secret};
use onefold_testkit::{any_bytes, cycle, low_entropy, random, skip, text};
use proptest::prelude::*;

/// The widest vector of any kernel, in bytes.
const WIDEST: usize = 64;

/// The algorithms that `kernel` can run here; none if the CPU lacks it, which is skipped aloud.
fn algorithms_on(kernel: Kernel) -> Vec<Algorithm> {
    let written = |algorithm: &Algorithm| Kernel::written(*algorithm).contains(&kernel);
    let usable = |algorithm: &Algorithm| Kernel::usable(*algorithm).contains(&kernel);
    let (usable, unusable): (Vec<_>, Vec<_>) =
        Algorithm::ALL.iter().copied().filter(written).partition(usable);
    if !unusable.is_empty() {
        assert!(!is_required(kernel), "ONEFOLD_REQUIRE_KERNELS: no {kernel} for {unusable:?} here");
        skip(&format!("this CPU lacks {kernel} for {unusable:?}"));
    }
    usable
}

fn is_required(kernel: Kernel) -> bool {
    let required = env::var("ONEFOLD_REQUIRE_KERNELS").unwrap_or_default();
    required.split(',').filter(|name| !name.is_empty()).any(|name| name.parse() == Ok(kernel))
}

/// The scalar rule and a kernel that is to cut where it cuts.
struct Pair {
    scalar: Chunker,
    vector: Chunker,
}

impl Pair {
    fn new(params: &Params, kernel: Kernel) -> Self {
        let scalar = Chunker::with_kernel(params, Kernel::Scalar).unwrap();
        let vector = Chunker::with_kernel(params, kernel).unwrap();
        assert_eq!(vector.kernel(), kernel);
        Self { scalar, vector }
    }

    fn assert_on(&self, data: &[u8]) {
        let Self { scalar, vector } = self;
        let name = || format!("{}, {:?}, {} bytes", vector.kernel(), vector.params(), data.len());
        assert!(vector.cut_points(data).eq(scalar.cut_points(data)), "{}", name());
        assert_eq!(vector.next_cut(data), scalar.next_cut(data), "{}", name());
    }
}

/// Parameters of `algorithm` with sizes below, at, next to and far above the width of a vector.
fn all_params(algorithm: Algorithm) -> Vec<Params> {
    let mut all = Vec::new();
    for avg in [1, 3, 17, 33, 64, 65, 129, 200, 517, 700, 1025, 2000] {
        all.extend(Params::for_mean(algorithm, avg));
    }
    for (min, max) in [(1, 1), (1, 97), (5, 15), (31, 65), (63, 191), (64, 64), (129, 1031)] {
        let avg = usize::midpoint(min, max);
        all.push(Params::new(algorithm, ChunkSizes::new(min, avg, max).unwrap()));
    }
    for (min, avg, max) in [(1, 300, 301), (2, 300, 4000), (299, 300, 601), (400, 400, 1200)] {
        all.push(Params::new(algorithm, ChunkSizes::new(min, avg, max).unwrap()));
    }
    if algorithm.takes_secret() {
        let keyed = all.iter().skip(6).step_by(4);
        let keyed = keyed.map(|&params| Params { secret: Some(Secret::new([7; 32])), ..params });
        all.extend(keyed.collect::<Vec<_>>());
    }
    all.extend(own_params(algorithm));
    all.retain(|params| Chunker::new(params).is_ok());
    all
}

/// Parameters for every way that the one algorithm has.
fn own_params(algorithm: Algorithm) -> Vec<Params> {
    let own = |sizes: ChunkSizes| Params::new(algorithm, sizes);
    let without_min = |avg: usize| own(ChunkSizes::new(1, avg, 64 << 20).unwrap());
    match algorithm {
        // the means of intervals of 2 to 11 bytes
        Algorithm::Mii => {
            let means = [2, 8, 31, 149, 888, 6232, 50_000, 450_000, 4_500_000, 50_000_000];
            means.map(without_min).into()
        }
        // the means of its table, one in each factor of 1.4, and those between them
        Algorithm::Pci => {
            let means = (0..40).map(|i| 1.4_f64.powi(i) as usize);
            means
                .chain([13, 20, 60, 114, 209, 507, 762, 1019, 2087, 4300])
                .map(without_min)
                .collect()
        }
        Algorithm::Bfbc => {
            let few = ChunkSizes::new(3, 100, 700).unwrap();
            let text = text(9, 20_000);
            let every = |step| (0..=u16::MAX).step_by(step).map(u16::to_be_bytes);
            let sets = [
                Divisors::from_pairs([[0, 0]]),
                Divisors::from_pairs([[0xff, 0xff], [0, 1], [0x7f, 0x80]]),
                Divisors::from_pairs(every(1)),
                Divisors::from_pairs(every(3)),
                Divisors::from_pairs(every(257)),
                Divisors::from_pairs(every(1009)),
                Divisors::from_pairs(every(4099)),
                Divisors::most_frequent(&text, 1),
                Divisors::most_frequent(&text, 40),
                Divisors::for_mean(&text, few),
                Divisors::for_mean(&text, ChunkSizes::around(2000).unwrap()),
                Divisors::for_mean(&random(9, 20_000), few),
            ];
            sets.map(|set| Params { divisors: Some(set.unwrap()), ..own(few) }).into()
        }
        _ => Vec::new(),
    }
}

/// Inputs that provoke ties, runs, deferred cuts, extremes at every place and none of them.
fn all_inputs(seed: u64, len: usize) -> Vec<Vec<u8>> {
    let mut sparse = vec![0; len];
    let mut with_runs = random(seed, len);
    let mut with_zero_runs = random(seed + 1, len);
    let places = random(seed + 2, len / 40 + 1);
    let mut at = 0;
    for step in places {
        at += usize::from(step);
        if at < len {
            sparse[at] = step;
            let end = len.min(at + usize::from(step) / 2);
            with_runs[at..end].fill(0xff);
            with_zero_runs[at..end].fill(0);
        }
    }
    let middle = random(seed + 3, len).into_iter().map(|byte| byte.clamp(1, 0xfe)).collect();
    vec![
        cycle(&[0], len),
        cycle(&[0x7f], len),
        cycle(&[0x80], len),
        cycle(&[0xff], len),
        (0..len).map(|i| i as u8).collect(),
        (0..len).map(|i| !(i as u8)).collect(),
        (0..len).map(|i| (i / 9) as u8).collect(),
        (0..len).map(|i| !((i / 70) as u8)).collect(),
        low_entropy(seed, len, 2),
        low_entropy(seed, len, 2).into_iter().map(|byte| 0xfe + byte).collect(),
        sparse,
        with_runs,
        with_zero_runs,
        middle,
        text(seed, len),
        random(seed, len),
    ]
}

fn every_length(kernel: Kernel) {
    let longest = 4 * WIDEST + 1;
    for algorithm in algorithms_on(kernel) {
        let inputs = all_inputs(1, longest);
        for params in all_params(algorithm) {
            let pair = Pair::new(&params, kernel);
            for data in &inputs {
                // chunks longer than the data for the tails, and shorter for what follows a cut
                for len in (0..=longest).filter(|len| len % 7 == 0 || params.sizes.max() >= *len) {
                    pair.assert_on(&data[..len]);
                }
            }
        }
    }
}

fn every_alignment(kernel: Kernel) {
    for algorithm in algorithms_on(kernel) {
        let params = all_params(algorithm);
        let pairs: Vec<_> = params.iter().map(|params| Pair::new(params, kernel)).collect();
        for (i, data) in all_inputs(2, 1500).iter().enumerate() {
            for offset in 0..WIDEST {
                pairs[(i + offset) % pairs.len()].assert_on(&data[offset..]);
            }
        }
    }
}

fn every_kind_of_data(kernel: Kernel) {
    for algorithm in algorithms_on(kernel) {
        let inputs = all_inputs(3, 9000);
        for params in all_params(algorithm) {
            let pair = Pair::new(&params, kernel);
            inputs.iter().for_each(|data| pair.assert_on(data));
        }
        let common = Pair::new(&params(algorithm), kernel);
        for data in all_inputs(4, 100_000) {
            common.assert_on(&data);
        }
    }
}

/// One byte that stands out, at every place of a chunk.
fn every_place_of_an_extreme(kernel: Kernel) {
    for algorithm in algorithms_on(kernel) {
        for avg in [200, 700] {
            let params = Params::for_mean(algorithm, avg).unwrap();
            let pair = Pair::new(&params, kernel);
            let len = 2 * params.sizes.max() + 1;
            for (ground, peak) in [(3, 4), (0, 0xff), (0xff, 0), (0x80, 0x7f), (0x7f, 0x80)] {
                for place in (0..len.min(1200)).chain([len - 1]) {
                    let mut data = vec![ground; len];
                    data[place] = peak;
                    pair.assert_on(&data);
                }
            }
        }
    }
}

/// Windows longer and shorter than min, on inputs that hold several blocks of lanes and vectors.
fn every_kind_of_window(kernel: Kernel) {
    for algorithm in algorithms_on(kernel).into_iter().filter(|&algorithm| has_window(algorithm)) {
        let inputs = all_inputs(5, 7001);
        let mut i = 0;
        for window in [1, 2, 7, 31, 32, 33, 48, 63, 64, 65, 255, 256] {
            for min in [1, window - 1, window, window + 1, window + 300] {
                for (more, most) in [(1, 2), (90, 1200), (5000, 6000)] {
                    let min = min.max(1);
                    let sizes = ChunkSizes::new(min, min + more, min + most).unwrap();
                    let params = Params { window, ..Params::new(algorithm, sizes) };
                    let pair = Pair::new(&params, kernel);
                    // random bytes, and five of the other inputs in turn
                    pair.assert_on(&inputs[inputs.len() - 1]);
                    for _ in 0..5 {
                        i = (i + 1) % inputs.len();
                        pair.assert_on(&inputs[i]);
                    }
                }
            }
        }
    }
}

fn has_window(algorithm: Algorithm) -> bool {
    use Algorithm as A;
    matches!(algorithm, A::Rabin | A::Tttd | A::Crc | A::Buzhash)
}

#[cfg(unix)]
fn no_byte_outside(kernel: Kernel) {
    let mut fenced = fence::Fenced::new();
    for algorithm in algorithms_on(kernel) {
        for params in all_params(algorithm) {
            let pair = Pair::new(&params, kernel);
            for len in (0..300).chain([1031, 2000, 4095, 4096]) {
                let data = random(len as u64, len);
                pair.assert_on(fenced.at_end(&data));
                pair.assert_on(fenced.at_start(&data));
            }
        }
        let windows = if has_window(algorithm) { &[1, 32, 64, 256][..] } else { &[] };
        for &window in windows {
            for min in [1, 64, 256] {
                let sizes = ChunkSizes::new(min, 3000, 9000).unwrap();
                let params = Params { window, ..Params::new(algorithm, sizes) };
                let pair = Pair::new(&params, kernel);
                for len in (0..600).step_by(7).chain([1023 + min, 1024 + window, 4095, 4096]) {
                    let data = random(len as u64, len);
                    pair.assert_on(fenced.at_end(&data));
                    pair.assert_on(fenced.at_start(&data));
                }
            }
        }
    }
}

/// Memory with nothing readable before and behind it.
#[cfg(unix)]
mod fence {
    use std::ptr;
    use std::slice;

    const ROOM: usize = 64 << 10;

    pub(super) struct Fenced {
        /// Three times `ROOM`, of which the middle can be used.
        start: *mut u8,
    }

    impl Fenced {
        pub(super) fn new() -> Self {
            // SAFETY: a new mapping, at a place that the system chooses; both calls are checked.
            unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let start = libc::mmap(ptr::null_mut(), 3 * ROOM, libc::PROT_NONE, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                let usable = libc::PROT_READ | libc::PROT_WRITE;
                assert_eq!(libc::mprotect(start.add(ROOM), ROOM, usable), 0);
                Self { start: start.cast() }
            }
        }

        /// A copy of `data` that ends where nothing can be read.
        pub(super) fn at_end(&mut self, data: &[u8]) -> &[u8] {
            self.copy(data, 2 * ROOM - data.len())
        }

        /// A copy of `data` that begins behind what cannot be read.
        pub(super) fn at_start(&mut self, data: &[u8]) -> &[u8] {
            self.copy(data, ROOM)
        }

        fn copy(&mut self, data: &[u8], at: usize) -> &[u8] {
            assert!(data.len() <= ROOM);
            // SAFETY: the copy lies in the usable third, by the assertion and the two callers, and
            // `self` is borrowed as long as the slice lives.
            unsafe {
                let copy = slice::from_raw_parts_mut(self.start.add(at), data.len());
                copy.copy_from_slice(data);
                copy
            }
        }
    }

    impl Drop for Fenced {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and no slice outlives the borrow it came from.
            unsafe { libc::munmap(self.start.cast(), 3 * ROOM) };
        }
    }
}

fn any_data() -> impl Strategy<Value = Vec<u8>> {
    any_bytes(0..4000, 1..40, 1..150)
}

fn any_input(kernel: Kernel) {
    let algorithms = algorithms_on(kernel);
    if algorithms.is_empty() {
        return;
    }
    let sizes = (1..400_usize, 0..400_usize, 0..900_usize);
    let numbers = (1..=256_usize, 0..4_u8, 0..3_u64);
    let input = (prop::sample::select(algorithms), sizes, numbers, any_data());
    let test = |(algorithm, (min, more, most), (window, level, seed), data): (_, _, _, Vec<u8>)| {
        let sizes = match algorithm {
            Algorithm::MinCdc => ChunkSizes::new(min, min + most / 2, min + most),
            _ => ChunkSizes::new(min, min + more, min + more + most),
        };
        let secret = (seed == 2 && algorithm.takes_secret()).then(|| Secret::new([level; 32]));
        let params =
            Params { window, level, seed, secret, ..Params::new(algorithm, sizes.unwrap()) };
        if Chunker::new(&params).is_ok() {
            Pair::new(&params, kernel).assert_on(&data);
        }
        Ok(())
    };
    proptest::test_runner::TestRunner::default().run(&input, test).unwrap();
}

macro_rules! cuts_where_scalar_cuts {
    ($($(#[$attribute:meta])* $name:ident: $kernel:expr,)*) => {$(
        $(#[$attribute])*
        mod $name {
            use super::*;

            #[test]
            fn for_every_length() {
                every_length($kernel);
            }

            #[test]
            fn at_every_alignment() {
                every_alignment($kernel);
            }

            #[test]
            fn on_every_kind_of_data() {
                every_kind_of_data($kernel);
            }

            #[test]
            fn with_an_extreme_at_every_place() {
                every_place_of_an_extreme($kernel);
            }

            #[test]
            fn for_every_kind_of_window() {
                every_kind_of_window($kernel);
            }

            #[cfg(unix)]
            #[test]
            fn and_reads_no_byte_outside() {
                no_byte_outside($kernel);
            }

            #[test]
            fn on_any_input() {
                any_input($kernel);
            }
        }
    )*};
}

cuts_where_scalar_cuts! {
    interleaved: Kernel::Interleaved,
    #[cfg(target_arch = "x86_64")]
    ssse3: Kernel::Ssse3,
    #[cfg(target_arch = "x86_64")]
    sse41: Kernel::Sse41,
    #[cfg(target_arch = "x86_64")]
    avx2: Kernel::Avx2,
    #[cfg(target_arch = "x86_64")]
    avx512: Kernel::Avx512,
    #[cfg(target_arch = "x86_64")]
    avx512_vbmi: Kernel::Avx512Vbmi,
    #[cfg(target_arch = "aarch64")]
    neon: Kernel::Neon,
}

/// Parameters of `preset` with bounds at, next to and far above its window and what a kernel does at
/// once.
fn preset_params(preset: Preset) -> Vec<Params> {
    let own = preset.params();
    let with = |(min, avg, max): (usize, usize, usize)| {
        let sizes = ChunkSizes::new(min, avg, max).unwrap();
        Params { sizes, ..own }
    };
    let mut all = match preset {
        Preset::Restic => {
            let sizes =
                [(64, 64, 64), (64, 128, 9000), (65, 1024, 2000), (300, 4096, 8000)].map(with);
            sizes.into()
        }
        Preset::Borg => {
            let sizes = [(1, 1, 4), (1, 8, 512), (64, 64, 128), (256, 1 << 12, 1 << 13)];
            let long = [(1, 1 << 15, 1 << 16), (1 << 12, 1 << 16, 1 << 18)];
            let mut all = Vec::new();
            for sizes in sizes.into_iter().chain(long).map(with) {
                let windows = [1, 2, 31, 32, 33, 63, 64, 255, 256, 257, 4095, 16383, 16384, 16385];
                for (window, seed) in windows.into_iter().zip([0, 7, 1 << 31].into_iter().cycle()) {
                    all.push(Params { window, seed, ..sizes });
                }
            }
            all
        }
        Preset::Casync | Preset::Desync => {
            let sizes = [(1, 1, 48), (1, 64, 256), (47, 100, 1100), (48, 48, 48), (48, 50, 300)];
            let long = [(49, 200, 2100), (100, 101, 1001), (100, 4000, 4000), (300, 7000, 7 << 20)];
            sizes.into_iter().chain(long).map(with).collect()
        }
        _ => Vec::new(),
    };
    all.retain(|params| Chunker::new(params).is_ok());
    all.push(own);
    all
}

#[test]
fn every_kernel_of_a_preset_cuts_where_scalar_cuts() {
    let inputs = all_inputs(6, 9000);
    let long = all_inputs(8, 140_000);
    for &preset in Preset::ALL {
        for kernel in preset.kernels().iter().copied().filter(|&kernel| kernel != Kernel::Scalar) {
            for (i, params) in preset_params(preset).iter().enumerate() {
                let pair = Pair::new(params, kernel);
                inputs.iter().for_each(|data| pair.assert_on(data));
                for data in long.iter().skip(i % 3).step_by(3) {
                    pair.assert_on(data);
                }
                for len in (0..400).chain((400..2400).step_by(41)) {
                    pair.assert_on(&random(len as u64, len));
                }
            }
            Pair::new(&preset.params(), kernel).assert_on(&random(7, 9 << 20));
        }
    }
}

/// A run of bytes that cannot end a chunk, and at one place random bytes that can: the cut-point lies
/// in each lane, at its ends too.
#[test]
fn the_only_cut_point_of_a_preset_is_found_in_every_lane() {
    for (preset, window, lane) in [(Preset::Casync, 48, 256), (Preset::Borg, 257, 16 << 10)] {
        let sizes = ChunkSizes::new(1 << 8, 1 << 8, 1 << 18).unwrap();
        let params = Params { sizes, window, ..preset.params() };
        let pair = Pair::new(&params, Kernel::Interleaved);
        let before = pair.scalar.cut_points(&vec![0x55; 1 << 18]).collect::<Vec<_>>();
        assert_eq!(before, [1 << 18], "{preset}: no place of the run may qualify");
        let mut found = std::collections::BTreeSet::new();
        for place in (0..6 * lane).step_by(lane / 16 - 1) {
            let mut data = vec![0x55; 1 << 18];
            data[500 + place..][..400].copy_from_slice(&random(place as u64, 400));
            pair.assert_on(&data);
            found.insert(pair.scalar.last_cut(&data).unwrap() / lane);
        }
        assert!(found.len() >= 6, "{preset}: cut-points in lanes {found:?}");
    }
}

#[cfg(unix)]
#[test]
fn no_kernel_of_a_preset_reads_a_byte_outside() {
    let mut fenced = fence::Fenced::new();
    for &preset in Preset::ALL {
        for &kernel in preset.kernels() {
            for params in preset_params(preset) {
                let pair = Pair::new(&params, kernel);
                for len in (0..300).step_by(7).chain([1031, 1328, 2000, 4095, 33_000, 65_535]) {
                    let data = random(len as u64, len);
                    pair.assert_on(fenced.at_end(&data));
                    pair.assert_on(fenced.at_start(&data));
                }
            }
        }
    }
}

#[test]
fn a_preset_runs_on_its_kernels_and_no_other() {
    for &preset in Preset::ALL {
        let params = preset.params();
        for &kernel in Kernel::ALL {
            let runs = kernel == Kernel::Auto || preset.kernels().contains(&kernel);
            assert_eq!(Chunker::with_kernel(&params, kernel).is_ok(), runs, "{preset} {kernel}");
        }
        assert_eq!(Chunker::new(&params).unwrap().kernel(), preset.kernels()[0]);
    }
    let refusal = Chunker::with_kernel(&Preset::Borg.params(), Kernel::Ssse3).unwrap_err();
    let expected = "kernel 'ssse3' cannot run borg here, usable: interleaved, scalar";
    assert_eq!(refusal.to_string(), expected);
}

#[test]
fn every_required_kernel_is_one_and_runs_here() {
    let required = env::var("ONEFOLD_REQUIRE_KERNELS").unwrap_or_default();
    for name in required.split(',').filter(|name| !name.is_empty()) {
        let kernel: Kernel = name.parse().unwrap();
        let runs =
            |&algorithm: &Algorithm| Chunker::with_kernel(&params(algorithm), kernel).is_ok();
        assert!(Algorithm::ALL.iter().any(runs), "ONEFOLD_REQUIRE_KERNELS: no {kernel} here");
    }
}

#[test]
fn a_kernel_of_another_architecture_is_refused() {
    let foreign = if cfg!(target_arch = "aarch64") { Kernel::Avx2 } else { Kernel::Neon };
    for &algorithm in Algorithm::ALL {
        let refusal = Chunker::with_kernel(&params(algorithm), foreign).unwrap_err().to_string();
        assert!(refusal.starts_with(&format!("kernel '{foreign}' cannot run {algorithm}")));
    }
}

fn params(algorithm: Algorithm) -> Params {
    Params::for_mean(algorithm, 8192).unwrap()
}
