//! The means and deviations that "A Thorough Investigation" reports for random data.

use std::io::{self, Read};

use onefold_cdc::{Algorithm, ChunkSizes, Divisors, Params, cut_points};
use onefold_testkit::{SplitMix64, random};

use crate::rand_rows::{self, Row, rows};

/// So many that the mean of an exponential distribution is 0.41 % from its own, one deviation,
/// and its deviation 0.6 %; the seed is fixed.
const CHUNKS: usize = 60_000;

/// The larger sizes take minutes: `cargo lab paper investigation` has them.
#[test]
fn rows_up_to_2_kib_come_out_as_reported() {
    let rows: Vec<_> =
        rows(&random(80, 64 << 20)).into_iter().filter(|row| row.target <= 2048).collect();
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

fn measure(params: &Params, chunks: usize) -> (f64, f64) {
    rand_rows::measure(params, chunks, Endless(SplitMix64::new(20_240_906)))
}

struct Endless(SplitMix64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (numbers, _) = buffer.as_chunks_mut::<8>();
        for number in &mut *numbers {
            *number = self.0.next_u64().to_le_bytes();
        }
        Ok(8 * numbers.len())
    }
}

/// The paper's BFBC* is trained on the data that it cuts, and so are these, on less: the reported
/// means for targets of 512 to 2048, with its minimum of 2. With 16 pairs and fewer what one pair
/// more changes depends on the sample.
#[test]
fn greedy_divisors_cut_their_sample_at_the_target() {
    let data = random(81, 64 << 20);
    let reported = [(512, 509.0), (770, 765.0), (1024, 1016.0), (2048, 2031.0)];
    for (target, mean) in reported {
        let sizes = ChunkSizes::unbounded(2, target).unwrap();
        let divisors = Some(Divisors::for_mean(&data, sizes).unwrap());
        let params = Params { divisors, ..Params::new(Algorithm::Bfbc, sizes) };
        let found = data.len() as f64 / cut_points(&params, &data).unwrap().len() as f64;
        assert!((found / mean - 1.0_f64).abs() < 0.01, "{target}: {found}");
        assert!((found / target as f64 - 1.0).abs() < 0.01, "{target}: {found}");
    }
}

/// The paper takes three divisors and a minimum 128 bytes below the target. Its means, such as
/// 22,019 and a deviation of 21,604 for 512, are those of the three pairs that 10 GiB happen to hold
/// most often, 1.1 % more than others; cutting other data with k pairs there is nothing of that.
#[test]
fn the_most_frequent_pairs_cut_other_data_as_often_as_any() {
    for count in [3, 30, 300] {
        let sizes = ChunkSizes::unbounded(512 - 128, 512).unwrap();
        let divisors = Some(Divisors::most_frequent(&random(82, 1 << 20), count).unwrap());
        let params = Params { divisors, ..Params::new(Algorithm::Bfbc, sizes) };
        let wait = 65536.0 / count as f64;
        let chunks = if count == 3 { 10_000 } else { CHUNKS };
        let (mean, deviation) = measure(&params, chunks);
        let tolerance = 4.0 / (chunks as f64).sqrt();
        assert!(((mean - 383.0) / wait - 1.0).abs() < tolerance, "{count}: {mean}");
        assert!((deviation / wait - 1.0).abs() < 2.0 * tolerance, "{count}: {deviation}");
    }
}
