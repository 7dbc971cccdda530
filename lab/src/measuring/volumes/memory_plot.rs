//! The plot of memory and of the time to open against pages, as an SVG that stands alone; all scales are
//! logarithmic.

use std::fmt::Write;

use super::memory::{Measured, Sample, middle, of as samples_of, turns};

const WIDTH: f64 = 760.0;
const PANEL: f64 = 260.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 34.0;
const GAP: f64 = 80.0;

const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#9467bd", "#e69f00", "#56b4e9", "#cc79a7", "#444444"];

const MIB: f64 = (1 << 20) as f64;

/// A value against pages, of each server.
struct Panel {
    title: &'static str,
    /// Solid, then dashed.
    values: Vec<fn(&Measured) -> Option<f64>>,
}

fn peak(measured: &Measured) -> Option<f64> {
    Some(measured.peak_rss_bytes? as f64 / MIB)
}

/// The points of one line, by pages.
type Points = Vec<(f64, f64)>;

/// Powers of ten from the one at or below the least value to the one at or above the largest.
fn decades(values: impl Iterator<Item = f64> + Clone) -> (i32, i32) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    if most == 0.0 {
        return (0, 1);
    }
    let (least, most) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (least.min(most - 1), most)
}

/// Medians over the rounds.
pub(crate) fn of(samples: &[Sample]) -> String {
    let panels = [
        Panel { title: "peak resident memory, MiB", values: vec![peak] },
        Panel {
            title: "seconds to open: nothing cached; dashed: again at once",
            values: vec![|one| one.open_cold_seconds, |one| one.open_warm_seconds],
        },
    ];
    let mut servers = Vec::new();
    for (server, _) in turns(samples) {
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    let height = TOP + panels.len() as f64 * (PANEL + GAP) - 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Memory and time to open against pages\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut put = |part: String| writeln!(svg, "{part}").expect("a string takes all");
    let sizes = decades(samples.iter().map(|one| one.pages as f64));
    for (number, panel) in panels.iter().enumerate() {
        let lines = panel.values.iter().flat_map(|value| {
            servers.iter().map(|server| points(samples, server, value)).collect::<Vec<_>>()
        });
        draw(panel, &lines.collect::<Vec<_>>(), servers.len(), sizes, number, &mut put);
    }
    for (number, server) in servers.iter().enumerate() {
        let (x, y) = (WIDTH - RIGHT + 18.0, TOP + 20.0 + 22.0 * number as f64);
        let colour = COLOURS[number % COLOURS.len()];
        put(format!(
            "<circle cx=\"{x}\" cy=\"{}\" r=\"5\" fill=\"{colour}\"/><text x=\"{}\" \
             y=\"{y}\">{}</text>",
            y - 4.0,
            x + 12.0,
            server.replace('&', "&amp;").replace('<', "&lt;")
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

fn points(samples: &[Sample], server: &str, value: &fn(&Measured) -> Option<f64>) -> Points {
    let of_server = turns(samples).into_iter().filter(|(name, _)| *name == server);
    let points = of_server.filter_map(|(server, pages)| {
        Some((pages as f64, middle(&samples_of(samples, server, pages), value)?))
    });
    let mut points: Points = points.collect();
    points.sort_by(|left, right| left.0.total_cmp(&right.0));
    points
}

fn draw(
    panel: &Panel,
    lines: &[Points],
    servers: usize,
    (x_from, x_to): (i32, i32),
    number: usize,
    put: &mut impl FnMut(String),
) {
    let top = TOP + number as f64 * (PANEL + GAP);
    let (right, bottom) = (WIDTH - RIGHT, top + PANEL);
    let (y_from, y_to) = decades(lines.iter().flatten().map(|(_, value)| *value));
    let share =
        |value: f64, from: i32, to: i32| (value.log10() - f64::from(from)) / f64::from(to - from);
    let x = |value: f64| LEFT + share(value, x_from, x_to) * (right - LEFT);
    let y = |value: f64| bottom - share(value, y_from, y_to) * PANEL;
    put(format!("<text x=\"{}\" y=\"{}\">{}</text>", LEFT - 50.0, top - 14.0, panel.title));
    for power in x_from..=x_to {
        let at = x(10f64.powi(power));
        put(format!("<path d=\"M{at:.1} {top}V{bottom}\" stroke=\"#ddd\"/>"));
        put(power_of_ten(at, bottom + 18.0, "middle", power));
    }
    for power in y_from..=y_to {
        let at = y(10f64.powi(power));
        put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
        put(power_of_ten(LEFT - 6.0, at + 4.0, "end", power));
    }
    put(format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">distinct pages</text>",
        (LEFT + right) / 2.0,
        bottom + 36.0
    ));
    for (at, points) in lines.iter().enumerate() {
        let colour = COLOURS[at % servers % COLOURS.len()];
        let dash = if at < servers { "" } else { " stroke-dasharray=\"5 4\"" };
        let path: Vec<String> = points
            .iter()
            .map(|(pages, value)| format!("{:.1},{:.1}", x(*pages), y(*value)))
            .collect();
        put(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
            path.join(" ")
        ));
        for (pages, value) in points {
            put(format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(*pages),
                y(*value)
            ));
        }
    }
}

fn power_of_ten(x: f64, y: f64, anchor: &str, power: i32) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">10\
         <tspan dy=\"-5\" font-size=\"10\">{power}</tspan></text>"
    )
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::sample;
    use super::*;

    #[test]
    fn every_server_has_a_point_for_every_size() {
        let mut samples = Vec::new();
        for (pages, seconds) in [(1_000_000, 0.2), (10_000_000, 2.0), (100_000_000, 25.0)] {
            for server in ["before", "onefold --memory 1GiB"] {
                samples.extend([1, 2].map(|round| sample(server, pages, round, seconds)));
            }
        }
        let svg = of(&samples);
        // two servers, three lines, three sizes, and the legend
        assert_eq!(svg.matches("<polyline").count(), 2 * 3);
        assert_eq!(svg.matches("<circle").count(), 2 * 3 * 3 + 2);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_server_that_never_opened_has_no_point() {
        let mut failed = sample("onefold", 1000, 1, 1.0);
        failed.measured = Measured::default();
        let svg = of(&[failed]);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
