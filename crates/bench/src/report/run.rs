//! The page about `onefold bench run`.

use std::ops::Range;

use anyhow::Result;

use super::page::{Block, Cell, Column, Figure, Page, Section, Table};
use super::plot::{Bar, Line, bars, histogram, lines};
use crate::equal_mean::Borders;
use crate::record::Record;
use crate::run::{Entry, Results, Timing, Work};
use onefold_cdc::{Kernel, Scheme};

/// What was measured on each dataset.
pub fn of_run(record: &Record<Vec<Results>>) -> Result<Page> {
    let header = &record.header;
    let machine = &header.machine;
    let dirty = if header.commit.dirty { ", changed since" } else { "" };
    let mut sections = Vec::new();
    for results in &record.results {
        sections.extend(dataset(results)?);
    }
    let mut names: Vec<&str> = record.results.iter().map(|one| &one.dataset.name[..]).collect();
    names.dedup();
    Ok(Page {
        title: format!("Chunkers on {}", names.join(", ")),
        lead: vec![
            format!(
                "{}; {} cores, {:.0} GiB; {}; {}",
                machine.cpu_model,
                machine.cores,
                machine.memory_bytes as f64 / f64::from(1 << 30),
                machine.kernel_version,
                header.rustc_version,
            ),
            format!("{}; commit {}{dirty}", header.date, header.commit.id),
            header.command_line.clone(),
        ],
        sections,
    })
}

fn dataset(results: &Results) -> Result<Vec<Section>> {
    let mut sections = vec![Section {
        heading: match results.borders {
            Borders::Stream => results.dataset.name.clone(),
            Borders::Files => format!("{}, each file by itself", results.dataset.name),
        },
        text: circumstances(results),
        ..Section::default()
    }];
    if let Some(shown) = shown_mean(results) {
        let entries: Vec<&Entry> =
            results.entries.iter().filter(|entry| entry.wanted_mean == shown).collect();
        let mean = format!("{} KiB", shown as f64 / 1024.0);
        sections.push(Section {
            heading: "At a glance".into(),
            is_part: true,
            blocks: vec![Block::Figures(glance(results, &entries, &mean)?)],
            ..Section::default()
        });
        sections.push(Section {
            heading: "All numbers".into(),
            is_part: true,
            text: vec!["A click on a column's head sorts by it.".into()],
            blocks: vec![Block::Table(numbers(results))],
        });
        sections.push(Section {
            heading: format!("Chunk sizes, asked for {mean}"),
            is_part: true,
            text: vec![
                "How many of the chunks have which size; bins are an eighth of an octave wide."
                    .into(),
            ],
            blocks: vec![Block::SmallFigures(histograms(&entries)?)],
        });
        if entries.iter().any(|entry| entry.timings.iter().any(|one| one.counts.is_some())) {
            sections.push(Section {
                heading: format!("What the CPU counted, asked for {mean}"),
                is_part: true,
                text: vec!["A byte of data, of one run.".into()],
                blocks: vec![Block::Table(counts(&entries))],
            });
        }
    }
    Ok(sections)
}

fn circumstances(results: &Results) -> Vec<String> {
    let Results { dataset, sample, .. } = results;
    let borders = match results.borders {
        Borders::Stream => "cut as one stream",
        Borders::Files => "each cut by itself",
    };
    let mut text = vec![format!(
        "{} bytes in {} files, {borders}; {}.",
        dataset.bytes, dataset.files, dataset.digest
    )];
    if !results.is_complete {
        text.push("The measurement was stopped before its end; this is what it had.".into());
    }
    for one in &results.unreadable {
        text.push(format!("Missing, because it could not be read: {}: {}", one.path, one.reason));
    }
    text.push(match sample.stretches {
        1 => "Duplicates and sizes are of all data, and so is the speed, from memory.".into(),
        stretches => format!(
            "Duplicates and sizes are of all data, the speed of a sample of {} bytes from \
             {stretches} places, from memory.",
            sample.bytes
        ),
    });
    if results.equalised {
        text.push("Parameters were sought with which each reaches the mean asked for.".into());
        let missed: Vec<String> = results
            .entries
            .iter()
            .filter(|entry| entry.misses_mean())
            .map(|entry| format!("{} at {}", entry.algorithm, entry.wanted_mean))
            .collect();
        if !missed.is_empty() {
            text.push(format!(
                "These miss it on all of the data by more than 5 %, and do not compare: {}.",
                missed.join(", ")
            ));
        }
    } else {
        text.push(
            "Chunkers reach other means than were asked for; duplicates found at different means \
             do not compare. See the curve, or measure with --equalise-mean."
                .into(),
        );
    }
    if results.entries.iter().any(|entry| entry.findings.one_in > 1) {
        text.push("Distinct chunks were too many to remember; their number is estimated.".into());
    }
    if let Some(first) = results.noise.first() {
        let more = results.noise.len() - 1;
        text.push(format!("The machine was noisy: {first}; {more} more such reasons."));
    }
    text.extend(results.missing.iter().map(|missing| format!("Not measured: {missing}.")));
    text
}

/// The mean in the middle of those that were asked for.
fn shown_mean(results: &Results) -> Option<usize> {
    let mut means: Vec<usize> = results.entries.iter().map(|entry| entry.wanted_mean).collect();
    means.sort();
    means.dedup();
    means.get(means.len().saturating_sub(1) / 2).copied()
}

/// Each algorithm keeps its number on all plots.
fn series(algorithm: &str) -> usize {
    let listed = Scheme::all().position(|listed| listed.name() == algorithm);
    listed.unwrap_or(Scheme::all().count())
}

fn glance(results: &Results, entries: &[&Entry], mean: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let is_timed = entries.iter().any(|entry| entry.fastest(Work::Cut).is_some());
    if is_timed {
        figures.push(throughput(results, entries, mean)?);
    }
    figures.push(curve(results)?);
    figures.push(cumulative(entries, mean)?);
    if is_timed {
        figures.extend(speed_ups(entries, mean)?);
    }
    Ok(figures)
}

fn throughput(results: &Results, entries: &[&Entry], mean: &str) -> Result<Figure> {
    let limit = results.read_limit.bytes_per_second().map(|speed| speed / 1e9);
    let mut all: Vec<Bar> = entries
        .iter()
        .filter_map(|entry| {
            let timing = entry.fastest(Work::Cut)?;
            let value = timing.bytes_per_second()? / 1e9;
            Some(Bar {
                label: entry.algorithm.clone(),
                value,
                series: series(&entry.algorithm),
                note: format!("{value:.2}"),
            })
        })
        .collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    // who hardly reads is beyond any scale, and would take all of it
    let mut caption = format!(
        "Cutting at {mean}: GB a second, one thread, fastest kernel; the line is how fast memory \
         can be read."
    );
    if let Some(limit) = limit {
        let most = 2.0 * limit;
        for bar in all.iter_mut().filter(|bar| bar.value > most) {
            bar.value = most;
        }
        if all.iter().any(|bar| bar.value == most) {
            caption.push_str(" Bars that are longer than twice that end there.");
        }
    }
    let svg = bars(&caption, "GB/s", &all, limit.map(|value| ("memory", value)))?;
    Ok(Figure { caption, svg, legend: Vec::new() })
}

fn curve(results: &Results) -> Result<Figure> {
    let mut all: Vec<Line> = Vec::new();
    for entry in &results.entries {
        let metrics = &entry.findings.metrics;
        let point = (metrics.mean, metrics.dedup_ratio());
        let series = series(&entry.algorithm);
        match all.iter_mut().find(|line| line.series == series) {
            Some(line) => line.points.push(point),
            None => all.push(Line { series, points: vec![point], has_dots: true }),
        }
    }
    for line in &mut all {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let caption = "Deduplication ratio against the mean chunk size that was reached.".to_owned();
    let ratios = all.iter().flat_map(|line| &line.points).map(|point| point.1);
    let svg = lines(&caption, "dedup ratio", &all, around(ratios))?;
    Ok(Figure { caption, svg, legend: legend(all.iter().map(|line| line.series)) })
}

/// A little more than `values` take.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let space = (0.05 * (most - least)).max(0.005);
    (least - space).max(0.0)..most + space
}

fn legend(series: impl Iterator<Item = usize>) -> Vec<(String, usize)> {
    series.filter_map(|one| Some((Scheme::all().nth(one)?.name().to_owned(), one))).collect()
}

fn speed_ups(entries: &[&Entry], mean: &str) -> Result<Option<Figure>> {
    let number = |kernel: &str| Kernel::ALL.iter().position(|known| known.name() == kernel);
    let mut all = Vec::new();
    let mut used = Vec::new();
    for entry in entries {
        for (kernel, factor) in entry.speed_ups() {
            let Some(series) = number(kernel).filter(|_| kernel != Kernel::Scalar.name()) else {
                continue;
            };
            used.push((kernel.to_owned(), series));
            all.push(Bar {
                label: entry.algorithm.clone(),
                value: factor,
                series,
                note: format!("{factor:.1}"),
            });
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    used.sort_by_key(|(_, series)| *series);
    used.dedup();
    let caption = format!("Kernels at {mean}: how many times as fast as the scalar one.");
    let svg = bars(&caption, "times as fast as scalar", &all, Some(("scalar", 1.0)))?;
    Ok(Some(Figure { caption, svg, legend: used }))
}

fn cumulative(entries: &[&Entry], mean: &str) -> Result<Figure> {
    let all: Vec<Line> = entries
        .iter()
        .map(|entry| {
            let sizes = &entry.findings.sizes;
            let mut before = 0.0;
            let points = sizes.bins.iter().zip(sizes.cumulative()).flat_map(|(bin, (_, share))| {
                let rises_from = std::mem::replace(&mut before, share);
                [(bin.from as f64, rises_from), (bin.below as f64, share)]
            });
            Line { series: series(&entry.algorithm), points: points.collect(), has_dots: false }
        })
        .collect();
    let caption = format!("Share of the chunks that are no longer, asked for {mean}.");
    let svg = lines(&caption, "share of chunks", &all, 0.0..1.0)?;
    Ok(Figure { caption, svg, legend: legend(all.iter().map(|line| line.series)) })
}

fn histograms(entries: &[&Entry]) -> Result<Vec<Figure>> {
    let bins = || entries.iter().flat_map(|entry| &entry.findings.sizes.bins);
    // chunks shorter than what 1 of 1000 are would squeeze all others
    let common = entries.iter().filter_map(|entry| entry.findings.sizes.quantiles);
    let least = common.map(|quantiles| quantiles.p1).min().unwrap_or(1) as f64;
    let most = bins().map(|bin| bin.below).max().unwrap_or(2) as f64;
    let sizes = least.log2().floor().exp2()..most.log2().ceil().exp2();
    let figure = |entry: &&Entry| {
        let chunks = entry.findings.metrics.chunks as f64;
        let shares: Vec<(Range<f64>, f64)> = entry
            .findings
            .sizes
            .bins
            .iter()
            .filter(|bin| bin.from as f64 >= sizes.start)
            .map(|bin| (bin.from as f64..bin.below as f64, bin.chunks as f64 / chunks))
            .collect();
        let metrics = &entry.findings.metrics;
        let caption =
            format!("{}: {:.0} ± {:.0} bytes", entry.algorithm, metrics.mean, metrics.deviation);
        let svg = histogram(&caption, series(&entry.algorithm), &shares, sizes.clone())?;
        Ok(Figure { caption, svg, legend: Vec::new() })
    };
    entries.iter().map(figure).collect()
}

fn numbers(results: &Results) -> Table {
    let columns = vec![
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
        Column::number("zeros %", "the part of the bytes in chunks of nothing but zeros"),
        Column::number("scanned", "bytes that the rule looks at, a byte; vectors read more"),
        Column::text("kernel", "the fastest of those that were measured"),
        Column::number("cut GB/s", "cutting alone, median"),
        Column::number("± %", "median distance from that median"),
        Column::number("fingerprint GB/s", "BLAKE3 of the chunks alone, median"),
        Column::number("both GB/s", "cutting and fingerprinting, median"),
    ];
    Table { columns, rows: results.entries.iter().map(row).collect() }
}

fn row(entry: &Entry) -> Vec<Cell> {
    let findings = &entry.findings;
    let metrics = &findings.metrics;
    let cut = entry.fastest(Work::Cut);
    let speed = |timing: Option<&Timing>| {
        Cell::number(timing.and_then(Timing::bytes_per_second).map(|speed| speed / 1e9), 2)
    };
    let quantile = |pick: fn(&crate::Quantiles) -> u64| {
        Cell::number(findings.sizes.quantiles.as_ref().map(|one| pick(one) as f64), 0)
    };
    vec![
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
        Cell::number(cut.and_then(Timing::seconds).map(|one| 100.0 * one.spread()), 1),
        speed(entry.fastest(Work::Fingerprint)),
        speed(entry.fastest(Work::CutAndFingerprint)),
    ]
}

fn counts(entries: &[&Entry]) -> Table {
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
