//! Lines over a number that grows by factors, and such plots as a picture of their own.

use std::ops::Range;

use anyhow::Result;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::page::Figure;
use super::plot::{
    Area, BELOW, COLOURS, GRID, INK, LARGE, LEFT, LIMIT, code, draw_unit, escaped, font, role, svg,
    tick_text,
};

/// What the colours that stand for roles look like in a picture of its own: those of a light page.
const SHOWN: [&str; COLOURS] =
    ["#1f6fb4", "#d9640a", "#2a8f3c", "#c22f3a", "#7d55b5", "#8a5a44", "#cc4f9e", "#0b8a9c"];
const SHOWN_INK: &str = "#1c1e21";
const SHOWN_GRID: &str = "#e1e4e7";
const SHOWN_PAPER: &str = "#fdfdfb";

/// Points that are joined, from left to right.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Which of the page's colours it has, below 8.
    pub colour: usize,
    /// Where it goes, above 0 on each axis that grows by factors.
    pub points: Vec<(f64, f64)>,
}

/// How the values of curves are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0, by steps.
    Linear,
    /// By factors.
    Logarithmic,
}

/// Curves over numbers that grow by factors; `across` and `unit` name the axes. Points that the
/// scales cannot show are left out.
pub fn curves(
    label: &str,
    across: &str,
    unit: &str,
    scale: Scale,
    curves: &[Curve],
) -> Result<String> {
    let is_shown =
        |&(x, y): &(f64, f64)| x > 0.0 && y.is_finite() && (scale == Scale::Linear || y > 0.0);
    let shown: Vec<Curve> = curves
        .iter()
        .map(|curve| Curve {
            colour: curve.colour,
            points: curve.points.iter().copied().filter(is_shown).collect(),
        })
        .collect();
    let points = || shown.iter().flat_map(|curve| &curve.points);
    let numbers = bounds(points().map(|point| point.0)).unwrap_or(1.0..2.0);
    let values = bounds(points().map(|point| point.1));
    svg(LARGE, label, |area| {
        draw_unit(area, unit)?;
        match scale {
            Scale::Linear => {
                let most = values.map_or(1.0, |values| values.end).max(f64::MIN_POSITIVE);
                draw(area, across, numbers, 0.0..1.05 * most, &shown)
            }
            Scale::Logarithmic => {
                let Range { start, end } = values.unwrap_or(1.0..2.0);
                // whole powers of ten, each with its tick
                let start = 10_f64.powf((start.log10() + 1e-9).floor());
                let end = 10_f64.powf((end.log10() - 1e-9).ceil()).max(10.0 * start);
                draw(area, across, numbers, (start..end).log_scale(), &shown)
            }
        }
    })
}

fn bounds(numbers: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let (least, most) =
        numbers.fold((f64::MAX, f64::MIN), |(least, most), one| (least.min(one), most.max(one)));
    (least <= most).then_some(least..most)
}

fn draw<Y>(
    area: &Area,
    across: &str,
    numbers: Range<f64>,
    values: Y,
    curves: &[Curve],
) -> Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let numbers = numbers.start..numbers.end.max(2.0 * numbers.start);
    let mut chart = ChartBuilder::on(area)
        .margin_top(26)
        .margin_right(30)
        .x_label_area_size(BELOW)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(numbers.log_scale(), values)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(GRID.mix(0.0))
        .axis_style(GRID)
        .x_desc(across)
        .x_labels(5)
        .y_labels(6)
        .x_label_formatter(&|number| tick_text(*number))
        .y_label_formatter(&|value| tick_text(*value))
        .label_style(font())
        .draw()?;
    for curve in curves {
        let style = role(Some(curve.colour));
        chart.draw_series([PathElement::new(curve.points.clone(), style.stroke_width(2))])?;
        let dots = curve.points.iter();
        chart.draw_series(dots.map(|&point| Circle::new(point, 3, style.filled())))?;
    }
    Ok(())
}

/// `figures` side by side as one SVG for a document: captions above, one legend for all of them below.
pub fn picture(label: &str, figures: &[Figure]) -> String {
    let (width, height) = LARGE;
    let mut parts = String::new();
    for (place, figure) in figures.iter().enumerate() {
        let left = width as usize * place;
        parts += &format!(
            "<text x=\"{}\" y=\"20\" fill=\"{SHOWN_INK}\" font-weight=\"bold\">{}</text>\n",
            left + 12,
            escaped(&figure.caption)
        );
        let at = format!("<svg x=\"{left}\" y=\"32\" ");
        parts += &figure.svg.replacen("<svg ", &at, 1);
    }
    let bottom = 32 + height + 18;
    let legend = figures.first().map_or(&[][..], |figure| &figure.legend);
    for (place, (name, colour)) in legend.iter().enumerate() {
        let left = 56 + 130 * place;
        parts += &format!(
            "<circle cx=\"{left}\" cy=\"{bottom}\" r=\"5\" fill=\"{}\"/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"{SHOWN_INK}\">{}</text>\n",
            code(Some(*colour)),
            left + 12,
            bottom + 5,
            escaped(name)
        );
    }
    for (colour, shown) in SHOWN.iter().enumerate() {
        parts = parts.replace(&code(Some(colour)), shown);
    }
    let hex = |RGBColor(red, green, blue)| format!("#{red:02X}{green:02X}{blue:02X}");
    for (role, shown) in [(INK, SHOWN_INK), (LIMIT, SHOWN_INK), (GRID, SHOWN_GRID)] {
        parts = parts.replace(&hex(role), shown);
    }
    let (width, height) = (width as usize * figures.len().max(1), bottom + 18);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{SHOWN_PAPER}\"/>\n{parts}</svg>\n",
        escaped(label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::boxes::check_svg;

    fn curve(colour: usize, points: &[(f64, f64)]) -> Curve {
        Curve { colour, points: points.to_vec() }
    }

    #[test]
    fn no_text_is_cut_off_or_under_a_line() {
        for most in [1.0, 10.0, 1000.0] {
            for (least, highest) in [(0.9, 1.0), (12.7, 12_700.0), (3.0, 95_000.0), (0.02, 0.9)] {
                for scale in [Scale::Linear, Scale::Logarithmic] {
                    let one = curve(0, &[(1.0, least), (most, highest)]);
                    check_svg(&curves("", "gateways", "GB/s", scale, &[one]).unwrap());
                }
            }
        }
    }

    #[test]
    fn each_curve_has_its_colour_and_its_points() {
        let all = [curve(0, &[(1.0, 1.0), (2.0, 2.0)]), curve(2, &[(1.0, 3.0), (8.0, 9.0)])];
        let svg = curves("a & b", "n", "u", Scale::Linear, &all).unwrap();
        assert!(svg.contains("aria-label=\"a &amp; b\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("#400000") && svg.contains("#400002"), "{svg}");
    }

    #[test]
    fn what_a_scale_cannot_show_is_left_out() {
        let points = [(1.0, 0.0), (2.0, f64::NAN), (4.0, 3.0), (8.0, 5.0)];
        let count = |scale| {
            let svg = curves("", "n", "u", scale, &[curve(0, &points)]).unwrap();
            svg.matches("<circle").count()
        };
        assert_eq!([count(Scale::Linear), count(Scale::Logarithmic)], [3, 2]);
        for scale in [Scale::Linear, Scale::Logarithmic] {
            curves("", "n", "u", scale, &[]).unwrap();
            curves("", "n", "u", scale, &[curve(0, &[(1.0, 1.0)])]).unwrap();
        }
    }

    #[test]
    fn a_picture_has_the_colours_of_the_light_page_and_no_role() {
        let svg = curves("", "n", "u", Scale::Linear, &[curve(1, &[(1.0, 1.0), (2.0, 2.0)])]);
        let legend = vec![("a<b".to_owned(), 1)];
        let figure = Figure { caption: "c&d".into(), svg: svg.unwrap(), legend };
        let picture = picture("l", &[figure.clone(), figure]);
        assert_eq!(picture.matches("<svg ").count(), 3);
        assert_eq!(picture.matches("c&amp;d").count(), 2);
        assert_eq!(picture.matches("a&lt;b").count(), 1);
        assert!(picture.contains(SHOWN[1]), "{picture}");
        for role in ["#400001", "#101010", "#202020", "#303030"] {
            assert!(!picture.contains(role), "{role}: {picture}");
        }
        let page = include_str!("page.html");
        for (colour, shown) in SHOWN.iter().enumerate() {
            assert!(page.contains(&format!("--c{colour}: {shown};")), "{shown}");
        }
        for (name, shown) in [("ink", SHOWN_INK), ("grid", SHOWN_GRID), ("paper", SHOWN_PAPER)] {
            assert!(page.contains(&format!("--{name}: {shown};")), "{shown}");
        }
    }
}
