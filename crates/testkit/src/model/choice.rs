use super::hash::Numbers;

/// Table II of the investigation up to 1024, avg − 256 from 2048 on, lines in between.
pub(super) fn ae_horizon(avg: usize) -> usize {
    let horizon = match avg {
        0..=512 => avg * 348 / 512,
        513..=770 => 348 + (avg - 512) * (563 - 348) / (770 - 512),
        771..=1024 => 563 + (avg - 770) * (793 - 563) / (1024 - 770),
        1025..=2048 => 793 + (avg - 1024) * (1792 - 793) / 1024,
        _ => avg - 256,
    };
    horizon.max(1)
}

/// The last window, counting up, whose mean does not exceed `avg`.
pub(super) fn ram_window(avg: usize) -> usize {
    let mean = |window: usize| {
        let at_most = |m: i32| (f64::from(m + 1) / 256.0).powi(window as i32);
        let wait = |m: i32| (at_most(m) - at_most(m - 1)) * 256.0 / f64::from(256 - m);
        // no byte is below 0, even if the window is empty
        window as f64 + at_most(0) + (1..256).map(wait).sum::<f64>()
    };
    // the wait is at most 256
    (avg.saturating_sub(256)..).take_while(|&window| mean(window) <= avg as f64).last().unwrap_or(0)
}

/// The last horizon, counting up, for which the density of local maxima in random data makes for
/// chunks of at most `mean` bytes.
pub(super) fn maxp_horizon(mean: usize) -> usize {
    let density = |horizon: i32| -> f64 {
        (0..256).map(|m| (f64::from(m) / 256.0).powi(2 * horizon) / 256.0).sum()
    };
    (0..).take_while(|&horizon| 1.0 / density(horizon) <= mean as f64).last().unwrap_or(0) as usize
}

/// The interval from 1 to 16 that comes nearest to the mean.
pub(super) fn mii_interval(min: usize, avg: usize) -> usize {
    let distance = |interval: &usize| {
        let from = min.saturating_sub(*interval) as f64;
        (from + RISING[interval - 1] - avg as f64).abs()
    };
    (1..=16).min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("a number")
}

/// After how many random bytes the first 1, 2, … 16 rise, in the mean.
const RISING: [f64; 16] = [
    1.0,
    2.7236100544173554,
    7.990389797950468,
    30.576678928943775,
    149.1834335272174,
    887.5987871168944,
    6232.473030147326,
    50460.50681577444,
    463006.8015268259,
    4750787.197701785,
    53933548.67462061,
    671564404.7212744,
    9105498713.194382,
    133611550782.67592,
    2110694426468.8066,
    35732918091256.15,
];

/// Window and threshold that come nearest to the mean.
pub(super) fn pci_window(min: usize, avg: usize) -> (usize, u32) {
    let distance = |(window, _, mean): &(usize, u32, usize)| {
        (min.saturating_sub(*window) + mean).abs_diff(avg)
    };
    let (window, threshold, _) = SET_BITS.into_iter().min_by_key(distance).expect("an entry");
    (window, threshold)
}

/// Window, bits set in it, and after how many random bytes they first are, in the mean.
const SET_BITS: [(usize, u32, usize); 37] = [
    (1, 0, 1),
    (1, 5, 2),
    (1, 6, 7),
    (2, 11, 13),
    (4, 20, 20),
    (4, 21, 35),
    (8, 39, 60),
    (16, 73, 87),
    (16, 74, 114),
    (32, 140, 146),
    (32, 142, 209),
    (32, 143, 256),
    (32, 144, 317),
    (32, 145, 398),
    (58, 253, 507),
    (48, 213, 602),
    (40, 181, 762),
    (48, 215, 899),
    (34, 157, 1019),
    (48, 217, 1412),
    (48, 218, 1793),
    (61, 273, 2087),
    (48, 220, 2980),
    (39, 183, 4300),
    (56, 256, 5414),
    (48, 223, 7030),
    (57, 262, 8740),
    (48, 225, 13_121),
    (48, 226, 18_318),
    (48, 227, 25_550),
    (48, 228, 36_359),
    (48, 229, 52_457),
    (48, 230, 76_469),
    (48, 231, 111_677),
    (48, 232, 167_640),
    (48, 233, 254_240),
    (48, 234, 386_577),
];

/// L, T and J of SeqCDC for chunks with `spread` positions from min to the mean.
pub(super) fn seqcdc_sequence(spread: usize) -> (usize, usize, usize) {
    let known = [
        (5, 50, 879.3010327, 8.2935865),
        (4, 8, 152.7204878, 9.2035181),
        (3, 2, 34.7617434, 8.9810364),
        (2, 1, 9.0708661, 5.0236220),
        (1, 1, 2.0078431, 1.0),
    ];
    let fits = |&(_, _, compared, _): &(_, _, f64, _)| compared <= spread as f64;
    let (rises, trigger, compared, jumps) = known.into_iter().find(fits).unwrap_or(known[4]);
    (rises, trigger, ((spread as f64 - compared).max(0.0) / jumps).floor() as usize)
}

/// Which pairs are drawn, by the number that has the first byte in the upper half.
pub(super) fn drawn_divisors(numbers: &mut Numbers, spread: usize) -> Vec<bool> {
    if spread == 1 {
        return vec![true; 65536];
    }
    let mut missing = ((65536.0 / spread as f64).round() as usize).max(1);
    let mut drawn = vec![false; 65536];
    while missing > 0 {
        let number = numbers.next().expect("there is no end of numbers");
        let is_known = &mut drawn[(number % 65536) as usize];
        missing -= usize::from(!*is_known);
        *is_known = true;
    }
    drawn
}
