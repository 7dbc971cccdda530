//! Ratios for people: how many times, with three digits that count.

use indicatif::HumanCount;

/// `1.23x`, `45.6x`, `789x`, `52,163x`: whole from a hundred on, and never an exponent.
pub fn times(ratio: f64) -> String {
    match ratio {
        // rounding must not add a digit
        _ if ratio < 9.995 => format!("{ratio:.2}x"),
        _ if ratio < 99.95 => format!("{ratio:.1}x"),
        _ => format!("{}x", HumanCount(ratio.round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count_and_large_ratios_are_whole() {
        for (ratio, shown) in [
            (0.0, "0.00x"),
            (1.0, "1.00x"),
            (9.994, "9.99x"),
            (9.996, "10.0x"),
            (99.94, "99.9x"),
            (99.96, "100x"),
            (999.6, "1,000x"),
            (52_162.82, "52,163x"),
        ] {
            assert_eq!(times(ratio), shown);
        }
    }
}
