//! The plot of figure 15, as an SVG that stands alone: thousands of operations a second of each
//! trace, on a logarithmic scale.

use std::fmt::Write;

use super::table::median;
use super::traces::{HASHES, Sample, TRACES, of as samples_of};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 60.0;
const COLOURS: [&str; 2] = ["#0072b2", "#d55e00"];

/// Medians over the rounds, with the deduplication ratio below each trace.
pub(crate) fn of(samples: &[Sample]) -> String {
    let medians = |value: fn(&Sample) -> f64, trace: &str, hash: &str| {
        median(samples_of(samples, trace, hash).into_iter().map(value).collect())
    };
    let kiops = |trace: &str, hash: &str| medians(|one| one.replayed.kiops, trace, hash);
    let most = TRACES.iter().flat_map(|trace| HASHES.map(|hash| kiops(trace, hash)));
    let most = most.flatten().fold(10.0, f64::max).log10().ceil() as i32;
    let y = |value: f64| {
        let share = value.max(1.0).log10() / f64::from(most);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Thousands of operations a second by trace\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    let mut put = |part: String| writeln!(svg, "{part}").expect("a string takes all");
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    put(format!("<text x=\"{}\" y=\"18\">kIOPS</text>", LEFT - 40.0));
    for power in 0..=most {
        let (at, value) = (y(10f64.powi(power)), 10f64.powi(power));
        put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
        let (x, below) = (LEFT - 6.0, at + 4.0);
        put(format!("<text x=\"{x}\" y=\"{below:.1}\" text-anchor=\"end\">{value}</text>"));
    }
    let step = (right - LEFT) / TRACES.len() as f64;
    let width = step / 4.0;
    for (place, trace) in TRACES.iter().enumerate() {
        let middle = LEFT + step * (place as f64 + 0.5);
        for (bar, hash) in HASHES.iter().enumerate() {
            let Some(value) = kiops(trace, hash) else { continue };
            let (x, top) = (middle + (bar as f64 - 1.0) * width, y(value));
            put(format!(
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                width - 4.0,
                bottom - top,
                COLOURS[bar]
            ));
            put(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{value:.0}\
                 </text>",
                x + width / 2.0 - 2.0,
                top - 4.0
            ));
        }
        let ratio = medians(|one| one.replayed.dedup_ratio, trace, HASHES[0]);
        let ratio = ratio.map_or(String::new(), |ratio| format!("dedup ratio {ratio:.1}"));
        for (line, text) in [*trace, &ratio].into_iter().enumerate() {
            let below = bottom + 18.0 + 18.0 * line as f64;
            put(format!(
                "<text x=\"{middle:.1}\" y=\"{below}\" text-anchor=\"middle\">{text}</text>"
            ));
        }
    }
    for (at, hash) in HASHES.iter().enumerate() {
        let below = TOP + 16.0 + 20.0 * at as f64;
        let (x, colour) = (right + 14.0, COLOURS[at]);
        put(format!("<text x=\"{x}\" y=\"{below}\" fill=\"{colour}\">{hash}</text>"));
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measuring::traces::{Latency, Replayed};

    #[test]
    fn every_trace_has_a_bar_for_each_fingerprint() {
        let latency = Latency { count: 1, mean_us: 1.0, p50_us: 1.0, p99_us: 1.0, max_us: 1.0 };
        let sample = |trace: &str, hash: &str, kiops| Sample {
            trace: trace.into(),
            fingerprint: hash.into(),
            round: 1,
            replayed: Replayed {
                operations: 1,
                seconds: 1.0,
                kiops,
                depth: 16,
                page_bytes: 4096,
                initialised_pages: 0,
                read_pages: 0,
                written_pages: 1,
                new_pages: 1,
                known_pages: 0,
                dedup_ratio: 2.5,
                compression_ratio: 2.0,
                reads: latency,
                writes: latency,
            },
            user_seconds: 1.0,
            system_seconds: 1.0,
            peak_rss_bytes: 1,
        };
        let turns = TRACES.iter().flat_map(|trace| HASHES.map(|hash| (*trace, hash)));
        let samples: Vec<_> = turns
            .zip(1..)
            .map(|((trace, hash), n)| sample(trace, hash, 55.0 * f64::from(n)))
            .collect();
        let svg = of(&samples);
        assert_eq!(svg.matches("<rect").count(), 1 + TRACES.len() * HASHES.len());
        assert_eq!(svg.matches("dedup ratio 2.5").count(), TRACES.len());
        // the axis ends at a power of ten that is not below the highest bar
        assert!(svg.contains(">1000</text>") && !svg.contains(">10000</text>"), "{svg}");
        // less than a thousand a second is shown as nothing, not as a bar upside down
        assert!(!of(&[sample("web", "blake3", 0.1)]).contains("height=\"-"));
    }
}
