//! Prints the rows for random data of "A Thorough Investigation", appendix B, as reported and as
//! found, and fails if a mean is 1 % or a deviation 3 % away.
//!
//!     cargo run --release -p onefold-cdc --example paper002_table [chunks, default 400000]

#[path = "../tests/cdc/rand_rows.rs"]
mod rand_rows;

use std::process::ExitCode;

use rand_rows::{measure, rows};

fn main() -> ExitCode {
    let chunks = std::env::args().nth(1).map_or(400_000, |n| n.parse().expect("a number"));
    println!("{chunks} chunks a row; mean and deviation in bytes\n");
    println!("| algorithm | target | reported | found | mean | deviation | |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    let mut all_as_reported = true;
    for row in rows() {
        let (mean, deviation) = measure(&row.params, chunks);
        let off = 100.0 * (mean / row.mean - 1.0);
        let deviation_off = 100.0 * (deviation / row.deviation - 1.0);
        let is_as_reported = off.abs() < 1.0 && deviation_off.abs() < 3.0;
        all_as_reported &= is_as_reported;
        println!(
            "| {} | {} | {:.0} / {:.0} | {mean:.1} / {deviation:.1} | {off:+.2} % | \
             {deviation_off:+.2} % | {}{} |",
            row.name,
            row.target,
            row.mean,
            row.deviation,
            if is_as_reported { "" } else { "**off** " },
            row.instead.unwrap_or(""),
        );
    }
    if all_as_reported { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
