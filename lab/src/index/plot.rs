//! The plot of look-ups against entries, as an SVG that stands alone.

use std::fmt::Write;

use super::{Kind, Measured};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 45.0;

const LINES: [(Kind, &str, &str); 4] = [
    (Kind::New, "new chunks", "#0072b2"),
    (Kind::KnownStream, "known, in streams", "#009e73"),
    (Kind::KnownRandom, "known, in no order", "#d55e00"),
    (Kind::ExactRandom, "exact, in no order", "#9467bd"),
];

/// Powers of ten from the one at or below `least` to the one at or above `most`.
fn decades(values: impl Iterator<Item = f64> + Clone) -> (i32, i32) {
    let least = values.clone().fold(f64::INFINITY, f64::min).log10().floor() as i32;
    let most = values.fold(1.0, f64::max).log10().ceil() as i32;
    (least.min(most - 1), most)
}

/// Look-ups a second of each kind, over entries; both on logarithmic scales.
pub fn plot(measured: &[Measured]) -> String {
    let speed = |one: &Measured, kind: Kind| {
        let lookups = one.lookups.iter().find(|lookups| lookups.kind == kind)?;
        Some(lookups.count as f64 / lookups.seconds.max(1e-9))
    };
    let speeds = LINES
        .iter()
        .flat_map(|(kind, ..)| measured.iter().filter_map(move |one| speed(one, *kind)));
    let (x_from, x_to) = decades(measured.iter().map(|one| one.entries as f64));
    let (y_from, y_to) = decades(speeds.collect::<Vec<_>>().into_iter());
    let x = |value: f64| {
        let share = (value.log10() - f64::from(x_from)) / f64::from(x_to - x_from);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let y = |value: f64| {
        let share = (value.log10() - f64::from(y_from)) / f64::from(y_to - y_from);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Look-ups a second against entries\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    let mut put = |part: String| writeln!(svg, "{part}").expect("a string takes all");
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for power in x_from..=x_to {
        let at = x(10f64.powi(power));
        put(format!("<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>"));
        put(power_of_ten(at, bottom + 18.0, "middle", power));
    }
    for power in y_from..=y_to {
        let at = y(10f64.powi(power));
        put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
        put(power_of_ten(LEFT - 6.0, at + 4.0, "end", power));
    }
    put(format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">entries</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0
    ));
    put(format!("<text x=\"{}\" y=\"14\">look-ups a second, one thread</text>", LEFT - 45.0));
    for (number, (kind, name, colour)) in LINES.iter().enumerate() {
        let points: Vec<(f64, f64)> = measured
            .iter()
            .filter_map(|one| Some((x(one.entries as f64), y(speed(one, *kind)?))))
            .collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        put(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        ));
        for (x, y) in &points {
            put(format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
        }
        let at = TOP + 20.0 + 22.0 * number as f64;
        put(format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"5\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{at}\">{name}</text>",
            right + 18.0,
            at - 4.0,
            right + 30.0
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

fn power_of_ten(x: f64, y: f64, anchor: &str, power: i32) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">10\
         <tspan dy=\"-5\" font-size=\"10\">{power}</tspan></text>"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Lookups;
    use super::*;

    #[test]
    fn every_kind_has_a_point_for_every_size() {
        let lookups = LINES.map(|(kind, ..)| Lookups {
            kind,
            count: 1000,
            seconds: 0.5,
            missed: 0,
            pages_read: 0,
            disk_bytes: 0,
        });
        let one = |entries| Measured {
            entries,
            seconds_to_grow: 1.0,
            segments: 1,
            filter_bytes: 1,
            sparsity: 0,
            file_bytes: 1,
            peak_bytes: 1,
            lookups: lookups.to_vec(),
        };
        let svg = plot(&[one(1_000), one(30_000), one(1_000_000)]);
        // Four lines of three points, and four in the legend.
        assert_eq!(svg.matches("<circle").count(), 4 * 3 + 4);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
