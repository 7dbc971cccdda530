//! Pages a second over shares of known pages, as an SVG that stands alone: what StreamDedup's
//! figures 11 and 12 show.

use std::fmt::Write;

use super::{Results, Throughput, Work};

const WIDTH: f64 = 720.0;
const PANEL: f64 = 240.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const GAP: f64 = 70.0;

/// Share of known pages, from the most.
const SHARES: [f64; 4] = [1.0, 0.8, 0.5, 0.0];

/// Whether the table has filters and is full, its name, its colour.
const TABLES: [(bool, bool, &str, &str); 4] = [
    (true, false, "half full", "#0072b2"),
    (true, true, "full", "#d55e00"),
    (false, false, "half full, no filters", "#56b4e9"),
    (false, true, "full, no filters", "#e69f00"),
];

/// Writes a second by share of known pages and by table, with compression and without.
pub fn plot(results: &Results) -> String {
    let height = TOP + 2.0 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Writes a second by share of known pages\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut put = |part: String| writeln!(svg, "{part}").expect("a string takes all");
    for (number, (_, _, name, colour)) in TABLES.iter().enumerate() {
        let at = LEFT + 160.0 * number as f64;
        put(format!("<rect x=\"{at}\" y=\"12\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"));
        put(format!("<text x=\"{}\" y=\"23\">{name}</text>", at + 18.0));
    }
    for (number, compresses) in [true, false].into_iter().enumerate() {
        panel(results, compresses, TOP + number as f64 * (PANEL + GAP), &mut put);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The bars with compression or without, from `top` on.
fn panel(results: &Results, compresses: bool, top: f64, put: &mut impl FnMut(String)) {
    let speeds: Vec<Vec<f64>> = SHARES
        .iter()
        .map(|share| TABLES.iter().map(|table| speed(results, compresses, *share, table)).collect())
        .collect();
    let most = speeds.iter().flatten().fold(1.0, |most: f64, one| most.max(*one));
    // a round number of thousands for each line
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| 5.0 * step >= most).unwrap_or(most);
    let bottom = top + PANEL;
    let y = |value: f64| bottom - value / (5.0 * step) * PANEL;
    let title = if compresses { "compressed" } else { "as they are" };
    put(format!(
        "<text x=\"{LEFT}\" y=\"{}\">thousand writes a second; new pages are kept {title}</text>",
        top - 12.0
    ));
    for line in 0..=5 {
        let (value, right) = (f64::from(line) * step, WIDTH - RIGHT);
        put(format!("<path d=\"M{LEFT} {:.1}H{right}\" stroke=\"#ddd\"/>", y(value)));
        put(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y(value) + 4.0,
            value / 1e3
        ));
    }
    let group = (WIDTH - LEFT - RIGHT) / SHARES.len() as f64;
    for (at, (share, speeds)) in SHARES.iter().zip(&speeds).enumerate() {
        let left = LEFT + at as f64 * group;
        put(format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{} % known</text>",
            left + group / 2.0,
            bottom + 18.0,
            100.0 * share
        ));
        for (number, ((_, _, _, colour), speed)) in TABLES.iter().zip(speeds).enumerate() {
            let width = 0.8 * group / TABLES.len() as f64;
            put(format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                left + 0.1 * group + number as f64 * width,
                y(*speed),
                width - 2.0,
                bottom - y(*speed)
            ));
        }
    }
}

/// Writes a second, in calls of as many as the plan has where nothing else is said.
fn speed(
    results: &Results,
    compresses: bool,
    share: f64,
    (filters, full, ..): &(bool, bool, &str, &str),
) -> f64 {
    let is_it = |one: &&Throughput| {
        one.compresses == compresses
            && matches!(one.work, Work::Write { duplicates, is_full, has_filters, .. }
                if duplicates == share && is_full == *full && has_filters == *filters)
    };
    results.throughput.iter().find(is_it).map_or(0.0, Throughput::per_second)
}
