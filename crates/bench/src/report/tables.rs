//! The tables of the page about `onefold bench run`.

use super::page::{Cell, Column, Table};
use crate::run::{Entry, Results, Timing, Work};

/// All that was found and timed, a row for each chunker and mean.
pub(super) fn numbers(results: &Results) -> Table {
    let has_spread = has_spread(results);
    let mut columns = vec![
        Column::text("algorithm", "the rule"),
        Column::number("asked", "the mean chunk size that was asked for, in bytes"),
        Column::number("mean", "the mean chunk size that was reached, in bytes"),
        Column::number("deviation", "standard deviation of the sizes, in bytes"),
        Column::number("min", "no chunk is shorter but the last, in bytes"),
        Column::number("median", "half of the chunks are no longer, in bytes"),
        Column::number("p99", "of a hundred chunks one is longer, in bytes"),
        Column::number("max", "no chunk is longer, in bytes"),
        Column::number("chunks", "how many there are"),
        Column::number("dedup ratio", "bytes divided by those of distinct chunks"),
        Column::number("savings %", "the part that need not be kept"),
        Column::number("ratio without zeros", "the dedup ratio but for chunks of zeros"),
        Column::number("zeros %", "the share of the bytes in chunks of zeros only"),
        Column::number("scanned", "bytes that the rule looks at, a byte; vectors read more"),
        Column::text("kernel", "the fastest of those that were measured"),
        Column::number("cut GB/s", "cutting alone, median"),
    ];
    columns.extend(has_spread.then(|| Column::number("± %", "median distance from that median")));
    columns.extend([
        Column::number("fingerprint GB/s", "BLAKE3 of the chunks alone, median"),
        Column::number("both GB/s", "cutting and fingerprinting, median"),
    ]);
    Table { columns, rows: results.entries.iter().map(|entry| row(entry, has_spread)).collect() }
}

fn row(entry: &Entry, has_spread: bool) -> Vec<Cell> {
    let findings = &entry.findings;
    let metrics = &findings.metrics;
    let cut = entry.fastest(Work::Cut);
    let speed = |timing: Option<&Timing>| {
        Cell::number(timing.and_then(Timing::bytes_per_second).map(|speed| speed / 1e9), 2)
    };
    let quantile = |pick: fn(&crate::Quantiles) -> u64| {
        Cell::number(findings.sizes.quantiles.as_ref().map(|one| pick(one) as f64), 0)
    };
    let mut row = vec![
        Cell::text(&entry.algorithm),
        Cell::number(entry.wanted_mean as f64, 0),
        Cell::number(metrics.mean, 0),
        Cell::number(metrics.deviation, 0),
        Cell::number(entry.min as f64, 0),
        quantile(|one| one.median),
        quantile(|one| one.p99),
        Cell::number(entry.max as f64, 0),
        Cell::number(metrics.chunks as f64, 0),
        Cell::number(metrics.dedup_ratio(), 4),
        Cell::number(100.0 * metrics.space_savings(), 2),
        Cell::number(findings.dedup_ratio_without_zeros(), 4),
        Cell::number(100.0 * findings.zeros.bytes as f64 / metrics.bytes.max(1) as f64, 2),
        Cell::number(findings.scanned_per_byte(), 3),
        Cell::text(cut.map_or("", |timing| &timing.kernel)),
        speed(cut),
    ];
    let spread = cut.and_then(Timing::spread);
    row.extend(has_spread.then(|| Cell::number(spread.map(|spread| 100.0 * spread), 1)));
    row.extend([
        speed(entry.fastest(Work::Fingerprint)),
        speed(entry.fastest(Work::CutAndFingerprint)),
    ]);
    row
}

/// Whether anything was timed more than once.
pub(super) fn has_spread(results: &Results) -> bool {
    results.entries.iter().flat_map(|entry| &entry.timings).any(|timing| timing.spread().is_some())
}

/// What the CPU counted while each kernel cut, a byte of data.
pub(super) fn counts(entries: &[&Entry]) -> Table {
    let columns = vec![
        Column::text("algorithm", "the rule"),
        Column::text("kernel", "what computes the cut-points"),
        Column::number("instructions", "completed, in this process, a byte"),
        Column::number("branches", "among them, a byte"),
        Column::number("branch misses", "predicted wrongly, a byte"),
        Column::number("L1 read misses", "reads that the first cache did not have, a byte"),
        Column::number("cache misses", "accesses that no cache had, a byte"),
    ];
    let mut rows = Vec::new();
    for entry in entries {
        for timing in entry.timings.iter().filter(|one| one.work == Work::Cut) {
            let Some(counts) = timing.counts else { continue };
            let a_byte = |count: Option<u64>| {
                Cell::number(count.map(|count| count as f64 / timing.bytes as f64), 4)
            };
            rows.push(vec![
                Cell::text(&entry.algorithm),
                Cell::text(&timing.kernel),
                a_byte(Some(counts.instructions)),
                a_byte(counts.branches),
                a_byte(counts.branch_misses),
                a_byte(counts.l1d_read_misses),
                a_byte(counts.cache_misses),
            ]);
        }
    }
    Table { columns, rows }
}
