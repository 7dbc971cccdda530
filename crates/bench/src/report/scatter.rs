//! Dots over two measures: how fast, and how many duplicates. Each tells what it stands for where
//! the mouse or the focus is, without a script.

use std::ops::Range;

use anyhow::Result;
use plotters::prelude::*;

use super::names::{self, Point, Rect, Segment};
use super::plot::{
    BELOW, GRID, INK, LEFT, LIMIT, TOP, code, draw_unit, escaped, font, svg, tick_text,
};

/// Pixels from the middle of a dot to its border.
pub(super) const RADIUS: f64 = 5.0;
/// Pixels from one line of a tooltip to the next.
const LINE: f64 = 17.0;

const UNIT: &str = "dedup ratio";

/// Something measured twice over.
#[derive(Clone, Debug)]
pub(super) struct Dot {
    pub(super) name: String,
    /// More of its values, in lines of at most thirty letters.
    pub(super) facts: Vec<String>,
    /// Which of the page's colours it has, below 8.
    pub(super) colour: Option<usize>,
    /// GB/s.
    pub(super) speed: f64,
    /// How far the speed spreads either way, as a share of it.
    pub(super) spread: Option<f64>,
    pub(super) ratio: f64,
    /// Whether no other is better in both.
    pub(super) is_best: bool,
    /// Whether it compares with the others; it is hollow otherwise.
    pub(super) compares: bool,
}

/// A dot with its place on the plot.
struct Placed<'a> {
    dot: &'a Dot,
    at: Point,
    whisker: Option<Segment>,
}

/// A plot of `size` pixels, with a line along the best of `dots` and one at `limit`, a speed and its
/// name. Dots beyond twice the limit stand at the border.
pub(super) fn scatter(
    size: (u32, u32),
    label: &str,
    dots: &[Dot],
    limit: Option<(&str, f64)>,
) -> Result<String> {
    let border = limit.map_or(f64::MAX, |(_, speed)| 2.0 * speed);
    let (speeds, ratios) = ranges(dots, limit.map(|(_, speed)| speed), border);
    let at = |dot: &Dot| (dot.speed.min(border), dot.ratio);
    let steps = steps(dots.iter().filter(|dot| dot.is_best).map(at), &speeds, &ratios);
    let mut marks = String::new();
    let drawn = svg(size, label, |area| {
        draw_unit(area, UNIT)?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_right(14)
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(speeds.clone().log_scale().base(2.0), ratios.clone())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID.mix(0.0))
            .axis_style(GRID)
            .x_desc("GB/s, one thread")
            .x_labels(9)
            .y_labels(6)
            .x_label_formatter(&|value| tick_text(*value))
            .y_label_formatter(&|value| tick_text(*value))
            .label_style(font())
            .draw()?;
        chart.draw_series([PathElement::new(steps.clone(), INK.stroke_width(1))])?;
        let bound = limit.map(|(_, speed)| [(speed, ratios.start), (speed, ratios.end)]);
        chart.draw_series(bound.map(|ends| PathElement::new(ends, LIMIT.stroke_width(2))))?;

        let pixel = |point: Point| {
            let (x, y) = chart.backend_coord(&point);
            (f64::from(x), f64::from(y))
        };
        let placed: Vec<Placed> = dots
            .iter()
            .map(|dot| {
                let end = |share: f64| pixel((dot.speed * share, dot.ratio));
                let spread = dot.spread.filter(|_| dot.speed <= border);
                let whisker = spread.map(|spread| (end(1.0 - spread), end(1.0 + spread)));
                Placed { dot, at: pixel(at(dot)), whisker }
            })
            .collect();
        let corners: Vec<Point> = steps.iter().copied().map(pixel).collect();
        let mut lines: Vec<Segment> = corners.windows(2).map(|ends| (ends[0], ends[1])).collect();
        let bound = limit.zip(bound).map(|((name, _), [from, to])| (name, pixel(from), pixel(to)));
        lines.extend(bound.map(|(_, from, to)| (from, to)));
        lines.extend(placed.iter().filter_map(|one| one.whisker));
        marks = marks_of(&placed, &lines, bound.map(|(name, _, top)| (name, top)), size);
        Ok(())
    })?;
    // what is inside can be reached, so that all of it is no single picture
    let drawn = drawn.replacen("role=\"img\"", "role=\"group\"", 1);
    Ok(drawn.replace("</svg>", &format!("{marks}</svg>")))
}

/// The dots, and all names: those of dots where there is room beside `lines`, that of the limit at
/// the top of its line. What shows only where somebody points comes last, over all else.
fn marks_of(
    placed: &[Placed],
    lines: &[Segment],
    limit: Option<(&str, Point)>,
    (width, height): (u32, u32),
) -> String {
    let frame = Rect { left: 0.0, top: 0.0, right: width.into(), bottom: height.into() };
    let (left, top) = (f64::from(LEFT), f64::from(TOP));
    let inside = Rect { left, top, bottom: frame.bottom - f64::from(BELOW), ..frame };
    let unit_end = 8.0 + names::width_of(UNIT);
    let mut marks: String = placed.iter().map(mark).collect();
    marks.extend(limit.map(|(name, top)| names::of_limit(name, top, unit_end, &frame)));
    let named: Vec<(&str, Point, bool)> =
        placed.iter().map(|one| (&one.dot.name[..], one.at, one.dot.is_best)).collect();
    marks.push_str(&names::beside(&named, lines, &inside));
    marks.extend(placed.iter().map(|one| tip(one, &frame)));
    marks
}

/// The axis of speeds begins before the slowest and ends after the fastest by this factor.
const BEYOND: f64 = 1.25;

/// What the axes reach over, if no dot is drawn beyond `border`.
fn ranges(dots: &[Dot], limit: Option<f64>, border: f64) -> (Range<f64>, Range<f64>) {
    let speeds = dots.iter().map(|dot| dot.speed.min(border)).chain(limit);
    let (slowest, fastest) =
        speeds.fold((f64::MAX, f64::MIN_POSITIVE), |(a, b), x| (a.min(x), b.max(x)));
    let ratios = dots.iter().map(|dot| dot.ratio);
    let (least, most) = ratios.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    let space = (0.08 * (most - least)).max(0.005);
    let ratios = (least - space).max(0.0)..most + space;
    (slowest.min(fastest) / BEYOND..BEYOND * fastest, ratios)
}

/// The border of what the best have beaten, from the slowest of them to the fastest.
fn steps(
    best: impl Iterator<Item = Point>,
    speeds: &Range<f64>,
    ratios: &Range<f64>,
) -> Vec<Point> {
    let mut best: Vec<Point> = best.collect();
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut steps = Vec::new();
    let mut from = speeds.start;
    for &(speed, ratio) in &best {
        steps.extend([(from, ratio), (speed, ratio)]);
        from = speed;
    }
    steps.extend(best.last().map(|last| (last.0, ratios.start)));
    steps
}

/// The dot as it is seen.
fn mark(Placed { dot, at: (x, y), whisker }: &Placed) -> String {
    let code = code(dot.colour);
    let look = match dot.compares {
        true => format!(r#"fill="{code}""#),
        false => format!(r#"class="hollow" stroke="{code}" stroke-width="2""#),
    };
    let whisker = whisker.map_or(String::new(), |((from, _), (to, _))| {
        format!(r#"<path class="whisker" d="M{from} {y}H{to}" stroke="{code}" stroke-width="2"/>"#)
    });
    format!(r#"{whisker}<circle cx="{x}" cy="{y}" r="{RADIUS}" {look}/>"#) + "\n"
}

/// What can be pointed at, and shows what `placed` stands for then.
fn tip(Placed { dot, at: (x, y), .. }: &Placed, frame: &Rect) -> String {
    let lines: Vec<String> =
        std::iter::once(&dot.name).chain(&dot.facts).map(|line| escaped(line)).collect();
    let widest = std::iter::once(&dot.name).chain(&dot.facts).map(|line| names::width_of(line));
    let width = 16.0 + widest.fold(0.0, f64::max);
    let height = 8.0 + LINE * lines.len() as f64;
    let left = (x - width / 2.0).clamp(0.0, (frame.right - width).max(0.0));
    let above = y - height - 2.0 * RADIUS;
    let top = if above < frame.top { y + 2.0 * RADIUS } else { above };
    let texts = lines.iter().enumerate().map(|(i, line)| {
        let (x, y) = (left + 8.0, top + LINE * (i + 1) as f64);
        let weight = if i == 0 { r#" font-weight="700""# } else { "" };
        format!(r##"<text x="{x}" y="{y}" font-size="12" fill="#101010"{weight}>{line}</text>"##)
    });
    let texts: String = texts.collect();
    let told = lines.join(", ");
    let hit = 2.0 * RADIUS;
    format!(
        r#"<g class="dot" tabindex="0" role="img" aria-label="{told}"><title>{told}</title>
<circle class="hit" cx="{x}" cy="{y}" r="{hit}"/>
<g class="tip"><rect x="{left}" y="{top}" width="{width}" height="{height}" rx="4"/>{texts}</g></g>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::boxes::check_svg;

    fn dot(name: &str, speed: f64, ratio: f64, is_best: bool) -> Dot {
        Dot {
            name: name.into(),
            facts: vec![format!("ratio {ratio}"), format!("{speed} GB/s")],
            colour: Some(3),
            speed,
            spread: Some(0.1),
            ratio,
            is_best,
            compares: true,
        }
    }

    #[test]
    fn each_dot_can_be_reached_and_tells_what_it_is() {
        let dots =
            [dot("a<b", 1.0, 2.0, true), dot("c", 4.0, 1.5, true), dot("d", 1.0, 1.0, false)];
        let svg = scatter((360, 300), "all", &dots, Some(("memory", 5.0))).unwrap();
        assert_eq!(svg.matches(r#"tabindex="0""#).count(), 3);
        for told in ["a&lt;b, ratio 2, 1 GB/s", "c, ratio 1.5, 4 GB/s"] {
            assert!(
                svg.contains(&format!(r#"aria-label="{told}"><title>{told}</title>"#)),
                "{svg}"
            );
        }
        assert!(svg.starts_with(r#"<svg role="group""#) && svg.contains(">memory</text>"), "{svg}");
    }

    #[test]
    fn no_text_is_cut_off_or_under_a_line() {
        let names = ["seqcdc-inc", "seqcdc-dec", "ram", "fastcdc-2016", "gear-aes", "ae-max"];
        for (seed, limit) in (0..40).zip([0.7, 3.0, 9.0, 21.0].into_iter().cycle()) {
            let mut numbers = onefold_testkit::SplitMix64::new(seed);
            let mut number = || 1.0 + numbers.below(1000) as f64 / 100.0;
            let dots = names.map(|name| dot(name, number(), number(), number() > 6.0));
            for size in [(960, 440), (330, 330)] {
                check_svg(&scatter(size, "", &dots, Some(("memory", limit))).unwrap());
            }
        }
    }

    #[test]
    fn the_line_of_the_best_goes_down_from_one_to_the_next() {
        let best = [(4.0, 1.5), (1.0, 2.0)];
        let expected = [(0.5, 2.0), (1.0, 2.0), (1.0, 1.5), (4.0, 1.5), (4.0, 1.0)];
        assert_eq!(steps(best.into_iter(), &(0.5..8.0), &(1.0..3.0)), expected);
        assert!(steps([].into_iter(), &(0.5..8.0), &(1.0..3.0)).is_empty());
    }

    #[test]
    fn what_does_not_compare_is_hollow_and_what_has_no_spread_has_no_whisker() {
        let odd = Dot { compares: false, spread: None, ..dot("odd", 1.0, 2.0, false) };
        let svg = scatter((360, 300), "", std::slice::from_ref(&odd), None).unwrap();
        assert!(svg.contains(r##"class="hollow" stroke="#400003""##), "{svg}");
        assert!(!svg.contains("whisker"), "{svg}");
        let svg = scatter((360, 300), "", &[Dot { spread: Some(0.1), ..odd }], None).unwrap();
        assert_eq!(svg.matches("whisker").count(), 1);
    }

    #[test]
    fn a_dot_far_beyond_the_limit_stands_at_the_border() {
        let (speeds, _) = ranges(&[dot("fixed", 4000.0, 1.0, true)], Some(20.0), 40.0);
        assert_eq!(speeds, 16.0..50.0);
    }
}
