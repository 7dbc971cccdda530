//! Pages a second over shares of known pages, and what calls of one page take, as an SVG that stands
//! alone: what StreamDedup's figures 10 to 12 show.

use std::fmt::Write;

use super::{Results, Throughput, Work, median, write_of};

const WIDTH: f64 = 720.0;
const PANEL: f64 = 240.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const GAP: f64 = 90.0;

/// Share of known pages, from the most.
const SHARES: [f64; 4] = [1.0, 0.8, 0.5, 0.0];

/// Whether the table has filters and is full, its name, its colour.
const TABLES: [(bool, bool, &str, &str); 4] = [
    (true, false, "half full", "#0072b2"),
    (true, true, "full", "#d55e00"),
    (false, false, "half full, no filters", "#56b4e9"),
    (false, true, "full, no filters", "#e69f00"),
];

/// What is called with one page, and its name.
const CALLS: [(Work, &str); 5] = [
    (write_of(1.0, 1), "write, known"),
    (write_of(0.0, 1), "write, new"),
    (Work::Read, "read"),
    (Work::Erase { is_reclaimed: false }, "erase"),
    (Work::Erase { is_reclaimed: true }, "erase, reclaimed"),
];

/// Whether new pages are compressed, its name, its colour.
const KEPT: [(bool, &str, &str); 2] =
    [(true, "compressed", "#009e73"), (false, "as they are", "#cc79a7")];

/// Name and colour of one thread, and of two.
const THREADS: [(&str, &str); 2] = [("one thread", "#0072b2"), ("two threads", "#e69f00")];

/// Bars in groups, over a name each.
struct Panel {
    title: String,
    /// Name, colour of each bar of a group.
    bars: Vec<(&'static str, &'static str)>,
    groups: Vec<(String, Vec<f64>)>,
}

/// Writes a second by share of known pages and by table, with compression and without, what single
/// calls take, and writes by two threads.
pub fn plot(results: &Results) -> String {
    let mut panels = vec![writes(results, KEPT[0]), writes(results, KEPT[1]), calls(results)];
    panels.extend((!results.together.is_empty()).then(|| threads(results)));
    let height = TOP + panels.len() as f64 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Writes a second by share of known pages, and what calls take\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut put = |part: String| writeln!(svg, "{part}").expect("a string takes all");
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + number as f64 * (PANEL + GAP);
        // two of the same bars have one legend
        if number != 1 {
            legend(panel, top - 48.0, &mut put);
        }
        draw(panel, top, &mut put);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Thousands of writes a second.
fn writes(results: &Results, (compresses, name, _): (bool, &str, &str)) -> Panel {
    let speed = |share: f64, filters: bool, full: bool| {
        let is_it = |one: &&Throughput| {
            one.compresses == compresses
                && matches!(one.work, Work::Write { duplicates, is_full, has_filters, .. }
                    if (duplicates, is_full, has_filters) == (share, full, filters))
        };
        // the first has as many writes a call as the plan has where nothing else is said
        results.throughput.iter().find(is_it).map_or(0.0, |one| one.per_second() / 1e3)
    };
    let group = |share: f64| {
        let speeds = TABLES.map(|(filters, full, ..)| speed(share, filters, full));
        (format!("{} % known", 100.0 * share), speeds.into())
    };
    Panel {
        title: format!("thousand writes a second; new pages are kept {name}"),
        bars: TABLES.map(|(.., name, colour)| (name, colour)).into(),
        groups: SHARES.map(group).into(),
    }
}

/// Microseconds of calls of one page.
fn calls(results: &Results) -> Panel {
    let p50 = |work: Work, compresses: bool| {
        let is_it = |one: &&Throughput| one.work == work && one.compresses == compresses;
        let all = results.throughput.iter().find(is_it).map(|one| &one.latencies[..]);
        let all = all.unwrap_or_default();
        if all.is_empty() { 0.0 } else { median(all.iter().map(|one| one.p50_us)) }
    };
    let group = |(work, name): (Work, &str)| {
        (name.to_owned(), KEPT.map(|(compresses, ..)| p50(work, compresses)).into())
    };
    Panel {
        title: "µs that half of the calls of one page take at most, each after the other".into(),
        bars: KEPT.map(|(_, name, colour)| (name, colour)).into(),
        groups: CALLS.map(group).into(),
    }
}

/// Thousands of writes a second by one thread and by two.
fn threads(results: &Results) -> Panel {
    let speed = |is_it: &dyn Fn(&Work) -> bool, compresses: bool| {
        let is_it = |one: &&Throughput| one.compresses == compresses && is_it(&one.work);
        results.throughput.iter().find(is_it).map_or(0.0, |one| one.per_second() / 1e3)
    };
    let group = |(name, share, compresses): (&str, f64, bool)| {
        let alone = |work: &Work| {
            matches!(work, Work::Write { duplicates, is_full: false, has_filters: true, .. }
                if *duplicates == share)
        };
        let both = |work: &Work| *work == Work::WriteTogether { duplicates: share };
        (name.to_owned(), vec![speed(&alone, compresses), speed(&both, compresses)])
    };
    let groups =
        [("known", 1.0, true), ("new, compressed", 0.0, true), ("new, as they are", 0.0, false)];
    Panel {
        title: "thousand writes a second by threads on a CPU each".into(),
        bars: THREADS.into(),
        groups: groups.map(group).into(),
    }
}

fn legend(panel: &Panel, top: f64, put: &mut impl FnMut(String)) {
    for (number, (name, colour)) in panel.bars.iter().enumerate() {
        let at = LEFT + 160.0 * number as f64;
        put(format!("<rect x=\"{at}\" y=\"{top}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"));
        put(format!("<text x=\"{}\" y=\"{}\">{name}</text>", at + 18.0, top + 11.0));
    }
}

/// The bars, from `top` on.
fn draw(panel: &Panel, top: f64, put: &mut impl FnMut(String)) {
    let all = panel.groups.iter().flat_map(|(_, values)| values);
    let most = all.fold(1.0, |most: f64, one| most.max(*one));
    // a round number for each line
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| 5.0 * step >= most).unwrap_or(most);
    let bottom = top + PANEL;
    let y = |value: f64| bottom - value / (5.0 * step) * PANEL;
    put(format!("<text x=\"{LEFT}\" y=\"{}\">{}</text>", top - 12.0, panel.title));
    for line in 0..=5 {
        let (value, right) = (f64::from(line) * step, WIDTH - RIGHT);
        put(format!("<path d=\"M{LEFT} {:.1}H{right}\" stroke=\"#ddd\"/>", y(value)));
        put(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y(value) + 4.0,
            // no more digits than the step has
            (value * 1e3).round() / 1e3
        ));
    }
    let group = (WIDTH - LEFT - RIGHT) / panel.groups.len() as f64;
    for (at, (name, values)) in panel.groups.iter().enumerate() {
        let left = LEFT + at as f64 * group;
        put(format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            left + group / 2.0,
            bottom + 18.0,
        ));
        let width = 0.8 * group / values.len() as f64;
        for (number, ((_, colour), value)) in panel.bars.iter().zip(values).enumerate() {
            let left = left + 0.1 * group + number as f64 * width;
            put(format!(
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                y(*value),
                width - 2.0,
                bottom - y(*value)
            ));
            // bars too low to be seen have a number, too
            put(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text>",
                left + width / 2.0 - 1.0,
                y(*value) - 3.0,
                short(*value)
            ));
        }
    }
}

/// Two digits or more.
fn short(value: f64) -> String {
    match value {
        value if value >= 10.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
