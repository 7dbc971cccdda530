//! The plot of figure 18, as an SVG that stands alone: on the left the bandwidth of ingest, on the
//! right the share of an image that crosses the network, both over similarity.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::similarity::Sample;

const PANEL: f64 = 300.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;

/// A line of a panel.
struct Line {
    name: &'static str,
    colour: &'static str,
    /// Similarity in percent, and what is plotted.
    points: Vec<(f64, f64)>,
}

/// Medians over the rounds.
pub(crate) fn of(samples: &[Sample]) -> String {
    let line = |name, colour, is_remote, of: fn(&Sample) -> f64| Line {
        name,
        colour,
        points: medians(samples.iter().filter(|one| one.is_remote == is_remote), of),
    };
    let bandwidth = |one: &Sample| one.image_bytes as f64 / 1e6 / one.seconds;
    let sent = |one: &Sample| 100.0 * one.sent_bytes as f64 / one.image_bytes as f64;
    let replaced = |one: &Sample| 100.0 * one.replaced_bytes as f64 / one.image_bytes as f64;
    let panels = [
        (
            "ingest, MB/s",
            vec![
                line("to a folder", "#0072b2", false, bandwidth),
                line("to S3 on loopback", "#d55e00", true, bandwidth),
            ],
        ),
        (
            "sent, % of the image",
            vec![line("sent", "#d55e00", true, sent), line("replaced", "#888888", true, replaced)],
        ),
    ];
    let (width, height) = (2.0 * (LEFT + PANEL) + 40.0, TOP + HEIGHT + 60.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Backup of images by similarity\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (at, (title, lines)) in panels.iter().enumerate() {
        panel(&mut svg, LEFT + at as f64 * (LEFT + PANEL), title, lines);
    }
    svg.push_str("</svg>\n");
    svg
}

fn medians<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    of: fn(&Sample) -> f64,
) -> Vec<(f64, f64)> {
    let mut by_similarity: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        by_similarity.entry(sample.similarity_percent).or_default().push(of(sample));
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
    };
    by_similarity.into_iter().map(|(percent, all)| (percent as f64, median(all))).collect()
}

fn panel(svg: &mut String, left: f64, title: &str, lines: &[Line]) {
    let most = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(1.0, f64::max);
    let step = round_step(most / 4.0);
    let top = (most / step).ceil() * step;
    let x = |percent: f64| left + percent / 100.0 * PANEL;
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / top);
    let mut put = |part: String| writeln!(svg, "{part}").expect("a string takes all");
    put(format!("<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>", TOP - 18.0));
    let mut value = 0.0;
    while value <= top {
        let at = y(value);
        put(format!("<path d=\"M{left} {at:.1}h{PANEL}\" stroke=\"#ddd\"/>"));
        let label = left - 6.0;
        put(format!(
            "<text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            at + 4.0
        ));
        value += step;
    }
    for percent in [0, 25, 50, 75, 100] {
        let (at, below) = (x(f64::from(percent)), TOP + HEIGHT + 18.0);
        put(format!("<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{percent}</text>"));
    }
    let (middle, below) = (left + PANEL / 2.0, TOP + HEIGHT + 40.0);
    put(format!(
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">segments alike, %</text>"
    ));
    for (at, line) in lines.iter().enumerate() {
        let points: Vec<String> =
            line.points.iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py))).collect();
        let Line { name, colour, .. } = line;
        put(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        ));
        let (from, below) = (left + 8.0, TOP + 16.0 + 16.0 * at as f64);
        put(format!("<text x=\"{from}\" y=\"{below}\" fill=\"{colour}\">{name}</text>"));
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_not_too_small() {
        assert_eq!(
            [0.9, 1.0, 1.1, 3.0, 30.0, 51.0].map(round_step),
            [1.0, 1.0, 2.0, 5.0, 50.0, 100.0]
        );
    }

    #[test]
    fn each_similarity_has_the_median_of_its_rounds() {
        let sample = |similarity_percent, round, seconds| Sample {
            similarity_percent,
            round,
            is_remote: true,
            image_bytes: 1 << 20,
            replaced_bytes: 0,
            seconds,
            user_seconds: 0.0,
            system_seconds: 0.0,
            sent_bytes: 0,
            received_bytes: 0,
        };
        let samples =
            [sample(50, 1, 3.0), sample(50, 2, 1.0), sample(90, 1, 7.0), sample(50, 3, 2.0)];
        let found = medians(samples.iter(), |one| one.seconds);
        assert_eq!(found, [(50.0, 2.0), (90.0, 7.0)]);
        assert!(of(&samples).starts_with("<svg "));
    }
}
