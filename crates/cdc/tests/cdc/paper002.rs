//! The means and deviations that "A Thorough Investigation" reports for random data.

use crate::rand_rows::{Row, measure, rows};

/// So many that the mean of an exponential distribution is 0.41 % from its own, one deviation,
/// and its deviation 0.6 %; the seed is fixed.
const CHUNKS: usize = 60_000;

/// The larger sizes take minutes: `cargo run --release --example paper002_table` has them.
#[test]
fn rows_up_to_2_kib_come_out_as_reported() {
    let rows: Vec<_> = rows().into_iter().filter(|row| row.target <= 2048).collect();
    let half = rows.len().div_ceil(2);
    let failures = |rows: &[Row]| -> Vec<_> {
        rows.iter()
            .filter_map(|row| {
                let (mean, deviation) = measure(&row.params, CHUNKS);
                let is_as_reported = (mean / row.mean - 1.0).abs() < 0.01
                    && (deviation / row.deviation - 1.0).abs() < 0.03;
                let Row { name, target, .. } = row;
                (!is_as_reported).then(|| {
                    let expected = (row.mean, row.deviation);
                    let instead = row.instead.unwrap_or("as reported");
                    format!(
                        "{name} {target}: {mean:.1} {deviation:.1}, expected {expected:?} {instead}"
                    )
                })
            })
            .collect()
    };
    let failures = std::thread::scope(|scope| {
        let other = scope.spawn(|| failures(&rows[half..]));
        let mut all = failures(&rows[..half]);
        all.extend(other.join().unwrap());
        all
    });
    assert!(failures.is_empty(), "{failures:#?}");
}
