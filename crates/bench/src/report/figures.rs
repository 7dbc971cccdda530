//! The figures of the page about `onefold bench run`.

use std::ops::Range;

use anyhow::Result;
use onefold_cdc::Kernel;

use super::front::{Basis, Standing, speed};
use super::page::{Block, Figure, Folded, WideFigure};
use super::plot::{Bar, COLOURS, LARGE, Line, SMALL, bars, histogram, lines, sizes_of};
use super::scatter::{Dot, scatter};
use crate::run::{Entry, Results, Timing, Work};

/// Of the first figure, in pixels: on a screen, and on a phone.
const WIDE: (u32, u32) = (960, 440);
const NARROW: (u32, u32) = (330, 330);

/// The chunkers that have a colour, which is the same on the whole page; all others are grey.
pub(super) struct Palette(Vec<String>);

impl Palette {
    /// Of the first of `names`, those that matter most.
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut coloured: Vec<String> = Vec::new();
        for name in names {
            if coloured.len() < COLOURS && !coloured.iter().any(|other| other == name) {
                coloured.push(name.to_owned());
            }
        }
        Self(coloured)
    }

    fn colour(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|coloured| coloured == name)
    }
}

/// `16 KiB`.
pub(super) fn mean_text(mean: usize) -> String {
    match mean {
        ..1024 => format!("{mean} bytes"),
        _ => format!("{} KiB", (100.0 * mean as f64 / 1024.0).round() / 100.0),
    }
}

/// GB/s with as many places as say something.
pub(super) fn speed_text(speed: f64) -> String {
    if speed < 100.0 { format!("{speed:.2}") } else { format!("{speed:.0}") }
}

/// Duplicates against speed, with the line of the best.
pub(super) fn front(
    results: &Results,
    standings: &[Standing],
    mean: &str,
    palette: &Palette,
) -> Result<WideFigure> {
    let limit = results.read_limit.bytes_per_second().map(|speed| speed / 1e9);
    let dots: Vec<Dot> = standings.iter().filter_map(|one| dot(one, palette)).collect();
    let mut caption = format!(
        "Duplicates against speed at a mean of {mean}: further up finds more, further right is \
         faster. The line joins the best: no chunker that is as fast finds more. A dot shows its \
         values where the mouse or, by Tab, the focus is."
    );
    if dots.iter().any(|dot| !dot.compares) {
        caption.push_str(" Hollow dots reached another mean, and do not compare.");
    }
    if let Some(limit) = limit {
        caption.push_str(" The dashed line is how fast memory can be read.");
        if dots.iter().any(|dot| dot.speed > 2.0 * limit) {
            caption.push_str(" What is more than twice as fast stands at twice that.");
        }
    }
    let limit = limit.map(|speed| ("memory", speed));
    let label = format!("Duplicates against speed at a mean of {mean}");
    Ok(WideFigure {
        caption,
        wide: scatter(WIDE, &label, &dots, limit)?,
        narrow: scatter(NARROW, &label, &dots, limit)?,
    })
}

fn dot(standing: &Standing, palette: &Palette) -> Option<Dot> {
    let &Standing { name, basis, ratio, speed, is_best } = standing;
    let speed = speed?;
    let mean_of = |entry: &Entry| entry.findings.metrics.mean;
    let (timing, from) = match basis {
        Basis::Reached(entry) => (entry.fastest(Work::Cut), format!("mean {:.0}", mean_of(entry))),
        Basis::Missed(entry) => {
            (entry.fastest(Work::Cut), format!("at another mean, {:.0}", mean_of(entry)))
        }
        Basis::Between(below, above, _) => {
            (None, format!("between means {:.0} and {:.0}", mean_of(below), mean_of(above)))
        }
    };
    let spread = timing.and_then(Timing::spread);
    let shown = spread.map_or(String::new(), |spread| format!(" ± {:.1} %", 100.0 * spread));
    let kernel = timing.map_or(String::new(), |timing| format!(", {}", timing.kernel));
    Some(Dot {
        name: name.to_owned(),
        facts: vec![
            format!("dedup ratio {ratio:.4}"),
            format!("{} GB/s{shown}{kernel}", speed_text(speed)),
            format!("{from} bytes"),
        ],
        colour: palette.colour(name),
        speed,
        spread,
        ratio,
        is_best,
        compares: basis.compares(),
    })
}

/// Duplicates alone, where nothing was timed.
pub(super) fn ratios(standings: &[Standing], mean: &str, palette: &Palette) -> Result<Figure> {
    let mut all: Vec<Bar> = standings
        .iter()
        .filter(|one| one.basis.compares())
        .map(|one| Bar {
            label: one.name.to_owned(),
            value: one.ratio,
            colour: palette.colour(one.name),
            note: format!("{:.3}", one.ratio),
        })
        .collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    let caption = format!(
        "Duplicates at a mean of {mean}. No speed at this mean is known. Chunkers that reached \
         another mean are left out."
    );
    let svg = bars(&caption, "dedup ratio", &all, None)?;
    Ok(Figure { caption, svg, ..Figure::default() })
}

/// How fast each chunker cuts.
pub(super) fn throughput(
    results: &Results,
    entries: &[&Entry],
    mean: &str,
    palette: &Palette,
) -> Result<Figure> {
    let limit = results.read_limit.bytes_per_second().map(|speed| speed / 1e9);
    let bar = |entry: &&Entry| {
        let value = speed(entry)?;
        Some(Bar {
            label: entry.algorithm.clone(),
            value,
            colour: palette.colour(&entry.algorithm),
            note: speed_text(value),
        })
    };
    let mut all: Vec<Bar> = entries.iter().filter_map(bar).collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    let mut caption = format!("Cutting at {mean}: GB a second, one thread, fastest kernel.");
    if let Some(limit) = limit {
        caption.push_str(" The dashed line is how fast memory can be read.");
        // who hardly reads is beyond any scale, and would take all of it
        let most = 2.0 * limit;
        for bar in all.iter_mut().filter(|bar| bar.value > most) {
            bar.value = most;
        }
        if all.iter().any(|bar| bar.value == most) {
            caption.push_str(" Bars that are longer than twice that end there.");
        }
    }
    let svg = bars(&caption, "GB/s", &all, limit.map(|value| ("memory", value)))?;
    Ok(Figure { caption, svg, ..Figure::default() })
}

/// How much faster kernels are than the scalar one; `None` if no other was timed.
pub(super) fn speed_ups(entries: &[&Entry], mean: &str) -> Result<Option<Figure>> {
    let is_other = |(kernel, _): &(&str, f64)| *kernel != Kernel::Scalar.name();
    let bars_of = |entry: &&Entry| {
        let bar = |(kernel, factor)| Bar {
            label: entry.algorithm.clone(),
            value: factor,
            // colours stand for chunkers
            colour: None,
            note: format!("{kernel} {factor:.1}"),
        };
        entry.speed_ups().into_iter().filter(is_other).map(bar).collect::<Vec<_>>()
    };
    let all: Vec<Bar> = entries.iter().flat_map(bars_of).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let caption = format!("Kernels at {mean}: how many times as fast as the scalar one.");
    let svg = bars(&caption, "times as fast as scalar", &all, Some(("scalar", 1.0)))?;
    Ok(Some(Figure { caption, svg, ..Figure::default() }))
}

/// Duplicates against the mean that was reached, over all means.
pub(super) fn curve(results: &Results, palette: &Palette) -> Result<Lines> {
    let mut all: Vec<(&str, Line)> = Vec::new();
    for entry in &results.entries {
        let metrics = &entry.findings.metrics;
        let (name, point) = (&entry.algorithm[..], (metrics.mean, metrics.dedup_ratio()));
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, line)) => line.points.push(point),
            None => {
                let colour = palette.colour(name);
                all.push((name, Line { colour, points: vec![point], has_dots: true }));
            }
        }
    }
    for (_, line) in &mut all {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let ratios = all.iter().flat_map(|(_, line)| &line.points).map(|point| point.1);
    let values = around(ratios);
    let caption = "Deduplication ratio against the mean chunk size that was reached.";
    coloured_lines(caption, "dedup ratio", all, values)
}

/// A little more than `values` take.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let space = (0.05 * (most - least)).max(0.005);
    (least - space).max(0.0)..most + space
}

/// The shares of the chunks up to each size.
pub(super) fn cumulative(entries: &[&Entry], mean: &str, palette: &Palette) -> Result<Lines> {
    let line = |entry: &&Entry| {
        let sizes = &entry.findings.sizes;
        let mut before = 0.0;
        let points = sizes.bins.iter().zip(sizes.cumulative()).flat_map(|(bin, (_, share))| {
            let rises_from = std::mem::replace(&mut before, share);
            [(bin.from as f64, rises_from), (bin.below as f64, share)]
        });
        let colour = palette.colour(&entry.algorithm);
        Line { colour, points: points.collect(), has_dots: false }
    };
    let all = entries.iter().map(|entry| (&entry.algorithm[..], line(entry))).collect();
    let caption = format!("Share of the chunks up to each size, at a target mean of {mean}.");
    coloured_lines(&caption, "share of chunks", all, 0.0..1.0)
}

/// Lines that can be told apart, and what is folded away for it.
pub(super) struct Lines {
    pub(super) figure: Figure,
    pub(super) rest: Option<Block>,
}

/// The lines that have a colour in one plot, each of the rest in a plot of its own.
fn coloured_lines(
    caption: &str,
    unit: &str,
    all: Vec<(&str, Line)>,
    values: Range<f64>,
) -> Result<Lines> {
    let sizes = sizes_of(all.iter().flat_map(|(_, line)| &line.points).map(|point| point.0));
    let axes = (sizes, values);
    let (shown, rest): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, line)| line.colour.is_some());
    let named = shown.iter().filter_map(|(name, line)| Some(((*name).to_owned(), line.colour?)));
    let mut legend: Vec<(String, usize)> = named.collect();
    legend.sort_by_key(|(_, colour)| *colour);
    let shown: Vec<Line> = shown.into_iter().map(|(_, line)| line).collect();
    let svg = lines(LARGE, caption, unit, &shown, axes.clone())?;
    let alone = |(name, line): (&str, Line)| {
        let svg = lines(SMALL, &format!("{name}: {caption}"), unit, &[line], axes.clone())?;
        Ok(Figure { caption: name.to_owned(), svg, ..Figure::default() })
    };
    let rest: Vec<Figure> = rest.into_iter().map(alone).collect::<Result<_>>()?;
    let folded = |rest: Vec<Figure>| Folded {
        summary: format!("{} more chunkers: {unit}", rest.len()),
        text: vec![caption.to_owned()],
        blocks: vec![Block::SmallFigures(rest)],
    };
    Ok(Lines {
        figure: Figure { caption: caption.to_owned(), svg, legend },
        rest: (!rest.is_empty()).then(|| Block::Folded(folded(rest))),
    })
}

/// How many of the chunks have which size, of each chunker.
pub(super) fn histograms(entries: &[&Entry], palette: &Palette) -> Result<Vec<Figure>> {
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
        let caption = format!(
            "{}: mean {:.0}, deviation {:.0}",
            entry.algorithm, metrics.mean, metrics.deviation
        );
        let colour = palette.colour(&entry.algorithm);
        let svg = histogram(&caption, colour, &shares, sizes.clone())?;
        Ok(Figure { caption, svg, ..Figure::default() })
    };
    entries.iter().map(figure).collect()
}
