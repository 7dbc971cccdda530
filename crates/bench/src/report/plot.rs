//! Plots as SVG, at a width that a phone can show.
//!
//! The colours in them stand for roles; the page gives each its colour in light and in dark.

use std::ops::Range;

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Text.
pub(super) const INK: RGBColor = RGBColor(0x10, 0x10, 0x10);
/// Axes, and lines to guide the eye.
pub(super) const GRID: RGBColor = RGBColor(0x20, 0x20, 0x20);
/// A bound.
pub(super) const LIMIT: RGBColor = RGBColor(0x30, 0x30, 0x30);
/// Whatever has no colour of its own.
const PLAIN: RGBColor = RGBColor(0x50, 0x50, 0x50);

/// How many colours a page has. Each stands for one name on the whole page, so that a plot has no
/// more lines than can be told apart.
pub(super) const COLOURS: usize = 8;

/// Pixels around what the axes enclose, with room for ticks and units.
pub(super) const TOP: u32 = 26;
pub(super) const BELOW: u32 = 42;
pub(super) const LEFT: u32 = 56;

const WIDTH: u32 = 360;
/// The least room for the longest bar, in pixels.
const SHORTEST: u32 = 130;

/// Of lines, in pixels: in a plot of their own, and in one of many.
pub(super) const LARGE: (u32, u32) = (WIDTH, 270);
pub(super) const SMALL: (u32, u32) = (240, 180);
/// A font of 15 has letters of 12 pixels.
const FONT: (&str, u32) = ("sans-serif", 15);
const SMALL_FONT: (&str, u32) = ("sans-serif", 13);
/// How wide a letter of [`FONT`] is in the mean of a word, in pixels, in a wide font.
pub(super) const LETTER: f64 = 7.3;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A bar that lies.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands before it; of bars in a row with the same label the first has it.
    pub label: String,
    /// How long it is.
    pub value: f64,
    /// Which of the page's colours it has, below 8.
    pub colour: Option<usize>,
    /// What stands at the right end of its row.
    pub note: String,
}

/// Points that are joined.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Which of the page's colours it has, below 8.
    pub(super) colour: Option<usize>,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether the points themselves are shown.
    pub(super) has_dots: bool,
}

pub(super) fn role(colour: Option<usize>) -> RGBColor {
    colour.map_or(PLAIN, |colour| RGBColor(0x40, 0, (colour % COLOURS) as u8))
}

/// As it stands in an SVG.
pub(super) fn code(colour: Option<usize>) -> String {
    let RGBColor(red, green, blue) = role(colour);
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Draws on an empty area of so many pixels; `label` says to who cannot see it what it is.
pub(super) fn svg(
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
    let label = escaped(label);
    Ok(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1))
}

/// Text as it stands in an element or an attribute.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

pub(super) fn font() -> TextStyle<'static> {
    FONT.into_font().color(&INK)
}

/// The pixels that the longest of `texts` takes.
fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> u32 {
    (LETTER * texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64) as u32
}

/// Writes the unit of the vertical axis above it.
pub(super) fn draw_unit(area: &Area, unit: &str) -> Result<()> {
    area.draw(&Text::new(unit.to_owned(), (2, 4), font())).context("a unit")
}

/// Bars one below the other from 0 on, and a line at `limit` under its name.
pub fn bars(label: &str, unit: &str, bars: &[Bar], limit: Option<(&str, f64)>) -> Result<String> {
    let longest = bars.iter().map(|bar| bar.value).chain(limit.map(|(_, value)| value));
    let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
    let count = bars.len();
    let names = 8 + widest(bars.iter().map(|bar| &bar.label[..]));
    let notes = 12 + widest(bars.iter().map(|bar| &bar.note[..]));
    // long names and notes leave the bars their room
    let width = WIDTH.max(names + notes + SHORTEST);
    let height = 64 + 20 * count as u32;
    svg((width, height), label, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(22)
            .margin_left(names)
            .margin_right(notes)
            .x_label_area_size(BELOW)
            // the first bar is at the top
            .build_cartesian_2d(0.0..1.02 * longest, count as f64..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .axis_style(GRID)
            .x_desc(unit)
            .x_labels(((width - names - notes) / 60) as usize)
            .x_label_formatter(&|value| tick_text(*value))
            .label_style(font())
            .draw()?;
        chart.draw_series(bars.iter().enumerate().map(|(i, bar)| {
            let corners = [(0.0, i as f64 + 0.15), (bar.value, i as f64 + 0.85)];
            Rectangle::new(corners, role(bar.colour).filled())
        }))?;
        if let Some((name, value)) = limit {
            let ends = [(value, 0.0), (value, count as f64)];
            chart.draw_series([PathElement::new(ends, LIMIT.stroke_width(2))])?;
            let style = FONT.into_font().color(&LIMIT).pos(Pos::new(HPos::Center, VPos::Bottom));
            let half = widest([name].into_iter()) as i32 / 2;
            let (x, y) = chart.backend_coord(&(value, 0.0));
            let place = (x.clamp(half, width as i32 - half), y - 4);
            area.draw(&Text::new(name.to_owned(), place, style))?;
        }
        let style = font().pos(Pos::new(HPos::Right, VPos::Center));
        let mut before = None;
        for (i, bar) in bars.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(0.0, i as f64 + 0.5));
            if before.replace(&bar.label) != Some(&bar.label) {
                area.draw(&Text::new(bar.label.clone(), (x - 6, y), style.clone()))?;
            }
            area.draw(&Text::new(bar.note.clone(), (width as i32 - 2, y), style.clone()))?;
        }
        Ok(())
    })
}

/// Lines over sizes in bytes on a logarithmic scale; `size` is that of the picture, in pixels.
pub(super) fn lines(
    size: (u32, u32),
    label: &str,
    unit: &str,
    lines: &[Line],
    (sizes, values): (Range<f64>, Range<f64>),
) -> Result<String> {
    svg(size, label, |area| {
        draw_unit(area, unit)?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_right(30)
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(sizes.log_scale().base(2.0), values)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .axis_style(GRID)
            .x_desc("chunk size")
            .x_labels((size.0 / 72) as usize)
            .y_labels((size.1 / 45) as usize)
            .x_label_formatter(&|size| size_text(*size))
            .y_label_formatter(&|value| tick_text(*value))
            .label_style(font())
            .draw()?;
        for line in lines {
            let style = role(line.colour).stroke_width(2);
            chart.draw_series([PathElement::new(line.points.clone(), style)])?;
            if line.has_dots {
                let dots = line.points.iter();
                let style = role(line.colour).filled();
                chart.draw_series(dots.map(|&point| Circle::new(point, 3, style)))?;
            }
        }
        Ok(())
    })
}

/// Small: shares from one size to the next, over `sizes` on a logarithmic scale.
pub(super) fn histogram(
    label: &str,
    colour: Option<usize>,
    bins: &[(Range<f64>, f64)],
    sizes: Range<f64>,
) -> Result<String> {
    let most = bins.iter().map(|(_, share)| *share).fold(f64::MIN_POSITIVE, f64::max);
    svg((SMALL.0, 110), label, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(4)
            .margin_right(26)
            .margin_left(20)
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
            .label_style(SMALL_FONT.into_font().color(&INK))
            .draw()?;
        chart.draw_series(bins.iter().map(|(size, share)| {
            Rectangle::new([(size.start, 0.0), (size.end, *share)], role(colour).filled())
        }))?;
        Ok(())
    })
}

/// At most three decimals, and only those that say something.
pub(super) fn tick_text(value: f64) -> String {
    format!("{}", (1000.0 * value).round() / 1000.0)
}

/// From a power of two to another, around `sizes`.
pub(super) fn sizes_of(sizes: impl Iterator<Item = f64>) -> Range<f64> {
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
    use crate::report::boxes::check_svg;

    #[test]
    fn every_bar_is_there_and_the_limit() {
        let bar = |label: &str, value, series| Bar {
            label: label.into(),
            value,
            colour: Some(series),
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
    fn no_text_is_cut_off_or_under_a_line() {
        let bar = |label: &str, value| Bar {
            label: label.into(),
            value,
            colour: None,
            note: format!("avx512-vbmi {value:.2}"),
        };
        for longest in [0.3, 1.0, 7.77, 26.0, 4096.0] {
            let all = ["seqcdc-inc", "ram", "a name that is longer than all the others"];
            let all = all.map(|label| bar(label, longest));
            for limit in [0.02, 0.5, 1.0, 3.0].map(|share| share * longest) {
                check_svg(&bars("", "GB/s", &all, Some(("memory", limit))).unwrap());
            }
        }
        for (from, to) in [(500.0, 3e6), (8192.0, 8192.0), (4e3, 130e3), (700.0, 1.3e5)] {
            let points = vec![(from, 1.0), (to, 1.003)];
            let line = Line { colour: None, points, has_dots: true };
            for values in [0.0..1.0, 0.99..1.01, 1.0..12.5, 100.0..2000.0] {
                for size in [LARGE, SMALL] {
                    let axes = (sizes_of([from, to].into_iter()), values.clone());
                    check_svg(
                        &lines(size, "", "dedup ratio", std::slice::from_ref(&line), axes).unwrap(),
                    );
                }
            }
            check_svg(&histogram("", None, &[(from..to, 1.0)], from..2.0 * to).unwrap());
        }
    }

    #[test]
    fn nothing_can_be_drawn_too() {
        bars("", "", &[], None).unwrap();
        lines(LARGE, "", "", &[], (1.0..2.0, 0.0..1.0)).unwrap();
        histogram("", None, &[], 1.0..2.0).unwrap();
    }
}
