//! Plots as SVG, at a width that a phone can show.
//!
//! The colours in them stand for roles; the page gives each its colour in light and in dark.

use std::ops::Range;

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Text and axes.
const INK: RGBColor = RGBColor(0x10, 0x10, 0x10);
/// Lines to guide the eye.
const GRID: RGBColor = RGBColor(0x20, 0x20, 0x20);
/// A bound.
const LIMIT: RGBColor = RGBColor(0x30, 0x30, 0x30);
/// How many series can be told apart.
pub(super) const SERIES: usize = 24;

const WIDTH: u32 = 480;
const FONT: (&str, u32) = ("sans-serif", 13);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A bar that lies.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands before it; of bars with the same label the first has it.
    pub label: String,
    /// How long it is.
    pub value: f64,
    /// The number of its series.
    pub series: usize,
    /// What stands behind it.
    pub note: String,
}

/// Points that are joined.
#[derive(Clone, Debug)]
pub struct Line {
    /// The number of its series.
    pub series: usize,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether the points themselves are shown.
    pub has_dots: bool,
}

fn colour(series: usize) -> RGBColor {
    RGBColor(0x40, 0, (series % SERIES) as u8)
}

/// Draws on an empty area of so many pixels; `label` says to who cannot see it what it is.
fn svg(
    (width, height): (u32, u32),
    label: &str,
    draw: impl FnOnce(&Area) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        draw(&area)?;
        area.present().context("a plot")?;
    }
    let label = label.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    Ok(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1))
}

fn font() -> TextStyle<'static> {
    FONT.into_font().color(&INK)
}

/// Bars one below the other from 0 on, and a line at `limit` under its name.
pub fn bars(label: &str, unit: &str, bars: &[Bar], limit: Option<(&str, f64)>) -> Result<String> {
    let longest = bars.iter().map(|bar| bar.value).chain(limit.map(|(_, value)| value));
    let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
    let count = bars.len();
    let height = 60 + 22 * count as u32;
    svg((WIDTH, height), label, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(18)
            .margin_right(8)
            .x_label_area_size(38)
            .y_label_area_size(92)
            .build_cartesian_2d(0.0..1.18 * longest, (0..count).into_segmented())?;
        // the first bar is at the top
        let bar_of = |place: &SegmentValue<usize>| match place {
            SegmentValue::CenterOf(i) if *i < count => Some(&bars[count - 1 - i]),
            _ => None,
        };
        let label_of = |place: &SegmentValue<usize>| {
            let Some(bar) = bar_of(place) else { return String::new() };
            let before = bars.iter().position(|other| other.label == bar.label);
            let is_first = before.is_some_and(|first| std::ptr::eq(&bars[first], bar));
            if is_first { bar.label.clone() } else { String::new() }
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .axis_style(GRID)
            .x_desc(unit)
            .x_labels(6)
            .y_labels(count)
            .y_label_formatter(&label_of)
            .label_style(font())
            .draw()?;
        chart.draw_series(bars.iter().rev().enumerate().map(|(i, bar)| {
            let corners = [(0.0, SegmentValue::Exact(i)), (bar.value, SegmentValue::Exact(i + 1))];
            let mut shape = Rectangle::new(corners, colour(bar.series).filled());
            shape.set_margin(3, 3, 0, 0);
            shape
        }))?;
        if let Some((name, value)) = limit {
            let ends = [(value, SegmentValue::Exact(0)), (value, SegmentValue::Exact(count))];
            chart.draw_series([PathElement::new(ends, LIMIT.stroke_width(2))])?;
            let style = FONT.into_font().color(&LIMIT).pos(Pos::new(HPos::Right, VPos::Bottom));
            chart.draw_series([EmptyElement::at((value, SegmentValue::Exact(count)))
                + Text::new(name.to_owned(), (0, -3), style)])?;
        }
        let style = font().pos(Pos::new(HPos::Left, VPos::Center));
        chart.draw_series(bars.iter().rev().enumerate().map(|(i, bar)| {
            EmptyElement::at((bar.value, SegmentValue::CenterOf(i)))
                + Text::new(bar.note.clone(), (4, 0), style.clone())
        }))?;
        Ok(())
    })
}

/// Lines over sizes in bytes, which are on a logarithmic scale.
pub fn lines(label: &str, unit: &str, lines: &[Line], values: Range<f64>) -> Result<String> {
    let sizes = sizes_of(lines.iter().flat_map(|line| &line.points).map(|point| point.0));
    svg((WIDTH, 300), label, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(8)
            .margin_right(20)
            .x_label_area_size(38)
            .y_label_area_size(58)
            .build_cartesian_2d(sizes.log_scale().base(2.0), values)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .axis_style(GRID)
            .x_desc("chunk size")
            .y_desc(unit)
            .x_labels(7)
            .y_labels(6)
            .x_label_formatter(&|size| size_text(*size))
            .label_style(font())
            .draw()?;
        for line in lines {
            let style = colour(line.series).stroke_width(2);
            chart.draw_series([PathElement::new(line.points.clone(), style)])?;
            if line.has_dots {
                let dots = line.points.iter();
                let style = colour(line.series).filled();
                chart.draw_series(dots.map(|&point| Circle::new(point, 3, style)))?;
            }
        }
        Ok(())
    })
}

/// Small: shares from one size to the next, over `sizes` on a logarithmic scale.
pub fn histogram(
    label: &str,
    series: usize,
    bins: &[(Range<f64>, f64)],
    sizes: Range<f64>,
) -> Result<String> {
    let most = bins.iter().map(|(_, share)| *share).fold(f64::MIN_POSITIVE, f64::max);
    svg((WIDTH / 2, 110), label, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(4)
            .margin_right(14)
            .margin_left(8)
            .x_label_area_size(22)
            .build_cartesian_2d(sizes.log_scale().base(2.0), 0.0..1.05 * most)?;
        chart
            .configure_mesh()
            .disable_y_axis()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .axis_style(GRID)
            .x_labels(4)
            .x_label_formatter(&|size| size_text(*size))
            .label_style((FONT.0, 11).into_font().color(&INK))
            .draw()?;
        chart.draw_series(bins.iter().map(|(size, share)| {
            Rectangle::new([(size.start, 0.0), (size.end, *share)], colour(series).filled())
        }))?;
        Ok(())
    })
}

/// From a power of two to another, around `sizes`.
fn sizes_of(sizes: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) =
        sizes.fold((f64::MAX, 1.0_f64), |(least, most), size| (least.min(size), most.max(size)));
    let least = least.min(most).max(1.0);
    least.log2().floor().exp2()..(most.log2() + 1e-9).ceil().exp2()
}

/// `64 B`, `8 KiB`, `2 MiB`.
fn size_text(size: f64) -> String {
    let (factor, unit) = match size {
        ..1024.0 => (1.0, "B"),
        ..1_048_576.0 => (1024.0, "KiB"),
        _ => (1_048_576.0, "MiB"),
    };
    format!("{} {unit}", (10.0 * size / factor).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_there_and_the_limit() {
        let bar = |label: &str, value, series| Bar {
            label: label.into(),
            value,
            series,
            note: format!("{value}!"),
        };
        let all = [bar("one", 1.0, 0), bar("one", 0.5, 1), bar("t<o", 2.0, 2)];
        let svg = bars("speed & more", "GB/s", &all, Some(("memory", 3.0))).unwrap();
        for part in ["aria-label=\"speed &amp; more\"", "1!", "0.5!", "2!", "memory", "t&lt;o"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        for series in 0..3 {
            assert!(svg.contains(&format!("fill=\"#40000{series}\"")), "{series}: {svg}");
        }
        assert!(svg.contains("stroke=\"#303030\""), "{svg}");
    }

    #[test]
    fn axes_reach_over_all_sizes() {
        assert_eq!(sizes_of([5000.0, 9000.0].into_iter()), 4096.0..16384.0);
        assert_eq!(sizes_of([1.0].into_iter()), 1.0..2.0);
        assert_eq!(sizes_of([].into_iter()), 1.0..2.0);
        let texts = [512.0, 8192.0, 1_572_864.0].map(size_text);
        assert_eq!(texts, ["512 B", "8 KiB", "1.5 MiB"]);
    }

    #[test]
    fn nothing_can_be_drawn_too() {
        bars("", "", &[], None).unwrap();
        lines("", "", &[], 0.0..1.0).unwrap();
        histogram("", 0, &[], 1.0..2.0).unwrap();
    }
}
