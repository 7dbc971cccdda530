//! On random data the mean is what the parameters aim at.

use onefold_cdc::{Algorithm, Params, cut_points};
use onefold_testkit::random;

use crate::support::sizes;

const LEN: usize = 8 << 20;

fn mean(params: Params) -> f64 {
    LEN as f64 / cut_points(&params, &random(20, LEN)).unwrap().len() as f64
}

/// Lengths deviate from their mean by at most its own size (the geometric distribution's
/// deviation, the widest here), so the mean of n chunks by 1 / √n of it; four times that is
/// exceeded once in 16,000.
fn assert_mean(params: Params, expected: f64) {
    let tolerance = 4.0 * expected / (LEN as f64 / expected).sqrt();
    let found = mean(params);
    assert!((found - expected).abs() < tolerance, "{params:?}: mean {found}, not {expected}");
}

/// The mean if position p is accepted with probability `accept(p)` and max by force.
fn mean_of_first_accepted(params: Params, accept: impl Fn(usize) -> f64) -> f64 {
    let (min, max) = (params.sizes.min(), params.sizes.max());
    let mut longer = 1.0;
    let mut mean = min as f64;
    for p in min..max {
        longer *= 1.0 - accept(p);
        mean += longer;
    }
    mean
}

#[test]
fn hashes_lose_only_what_max_cuts_off() {
    for algorithm in [
        Algorithm::Rabin,
        Algorithm::Crc,
        Algorithm::Buzhash,
        Algorithm::Gear,
        Algorithm::Gear32,
        Algorithm::Gear16,
        Algorithm::GearAes,
    ] {
        for (min, avg, max) in [(256, 1000, 4000), (64, 777, 1000), (500, 512, 2000)] {
            let params = Params::new(algorithm, sizes(min, avg, max));
            let chance = 1.0 / (avg - min + 1) as f64;
            assert_mean(params, mean_of_first_accepted(params, |_| chance));
        }
        // without a max in reach, exactly avg
        assert_mean(Params::new(algorithm, sizes(256, 1024, 1 << 20)), 1024.0);
    }
}

#[test]
fn fastcdc_has_the_mean_of_its_two_thresholds() {
    for level in 0..=3 {
        let params = Params { level, ..Params::for_mean(Algorithm::FastCdc, 1024).unwrap() };
        let chance = 1.0 / (1024 - 256 + 1) as f64;
        let factor = f64::from(1 << level);
        let expected = mean_of_first_accepted(params, |p| {
            if p < 1024 { chance / factor } else { chance * factor }
        });
        assert_mean(params, expected);
        if level > 0 {
            let stated = factor * (1.0 - (-1.0 / factor).exp()) + (-1.0 / factor).exp() / factor;
            let simple = 256.0 + stated * 768.0;
            assert!((simple / expected - 1.0).abs() < 0.01, "{level}: {simple}, {expected}");
        }
    }
}

#[test]
fn ae_has_the_mean_of_the_investigations_table() {
    for algorithm in [Algorithm::AeMax, Algorithm::AeMin] {
        for avg in [512, 770, 1024, 2048, 4096, 8192] {
            let found = mean(Params::for_mean(algorithm, avg).unwrap());
            assert!((found / avg as f64 - 1.0).abs() < 0.03, "{algorithm} {avg}: {found}");
        }
    }
}

#[test]
fn ram_has_the_mean_that_its_window_is_derived_from() {
    for avg in [200, 300, 512, 1024, 4096, 8192] {
        let params = Params::new(Algorithm::Ram, sizes(1, avg, 1 << 20));
        assert_mean(params, avg as f64);
    }
}

#[test]
fn mincdc_has_the_mean_of_its_bounds() {
    for (min, max) in [(64_usize, 128), (800, 1224), (6000, 10_000), (4, 4)] {
        let avg = min.midpoint(max);
        assert_mean(Params::new(Algorithm::MinCdc, sizes(min, avg, max)), avg as f64);
    }
    // ranges of neighbours overlap
    for (min, max, excess) in [(512, 1536, 1.024), (1, 2047, 1.15)] {
        let params = Params::new(Algorithm::MinCdc, sizes(min, 1024, max));
        assert_mean(params, 1024.0 * excess);
    }
}

/// At max the last backup before it ends the chunk; what lies behind it has lost once and makes the
/// next chunk longer, where it is longer than min.
#[test]
fn tttd_loses_what_lies_behind_the_last_backup() {
    for (min, avg, max) in [(256, 1000, 4000), (500, 777, 1000), (256, 1024, 1 << 20)] {
        let params = Params::new(Algorithm::Tttd, sizes(min, avg, max));
        let chance = 1.0 / (avg - min + 1) as f64;
        let whole = mean_of_first_accepted(params, |_| chance);
        // of the positions that the main divisor does not take, the backup takes these
        let backup = chance / (1.0 - chance);
        let forced = (1.0 - chance).powi((max - min + 1) as i32);
        let mut lost = 0.0;
        for behind in 0..=max - min {
            lost += behind as f64 * backup * (1.0 - backup).powi(behind as i32);
        }
        assert_mean(params, whole - forced * lost);
    }
}

/// The horizon is a whole number, in steps of e^(1 / 128) of the mean.
#[test]
fn maxp_has_the_mean_that_its_horizon_is_derived_from() {
    for avg in [100, 512, 1024, 4096, 8192] {
        let found = mean(Params::new(Algorithm::Maxp, sizes(1, avg, 1 << 20)));
        assert!((found / avg as f64 - 0.99).abs() < 0.04, "{avg}: {found}");
    }
    // with a min that passes over maxima, and a max that cuts some chunks off
    for avg in [4096, 8192] {
        let found = mean(Params::for_mean(Algorithm::Maxp, avg).unwrap());
        assert!((found / avg as f64 - 0.98).abs() < 0.08, "{avg}: {found}");
    }
}

#[test]
fn seqcdc_has_the_mean_that_its_jumps_are_derived_from() {
    for algorithm in [Algorithm::SeqInc, Algorithm::SeqDec] {
        for avg in [512, 1024, 4096, 8192] {
            let found = mean(Params::new(algorithm, sizes(avg / 2, avg, 1 << 20)));
            assert!((found / avg as f64 - 1.0).abs() < 0.03, "{algorithm} {avg}: {found}");
        }
    }
}

#[test]
fn mii_and_pci_have_a_mean_near_the_one_asked_for() {
    for avg in [512, 1024, 4096, 8192] {
        let found = mean(Params::for_mean(Algorithm::Pci, avg).unwrap()) / avg as f64;
        assert!((found - 1.0).abs() < 0.2, "{avg}: {found}");
    }
    for (avg, expected) in [(1024, 1.13), (8192, 1.0)] {
        let found = mean(Params::for_mean(Algorithm::Mii, avg).unwrap()) / avg as f64;
        assert!((found - expected).abs() < 0.1, "{avg}: {found}");
    }
}

#[test]
fn untrained_divisors_cut_random_data_at_the_mean() {
    for avg in [256, 512, 1024] {
        let params = Params::new(Algorithm::Bfbc, sizes(1, avg, 1 << 20));
        assert_mean(params, avg as f64);
    }
}
