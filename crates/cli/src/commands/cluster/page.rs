//! The page of `onefold cluster simulate`.

use anyhow::Result;
use onefold_bench::Record;
use onefold_bench::report::{
    Block, Cell, Column, Curve, Figure, Page, Scale, Section, Table, curves, picture,
};
use onefold_cluster::routing::Routing;
use onefold_cluster::simulate::Point;

use super::paper::beside;
use super::simulate::{Series, of_linear};

/// What is plotted over the number of gateways.
struct Plot {
    caption: &'static str,
    unit: &'static str,
    scale: Scale,
    value: fn(&Point) -> f64,
}

const PLOTS: [Plot; 6] = [
    Plot {
        caption: "Throughput",
        unit: "GB/s",
        scale: Scale::Logarithmic,
        value: |point| point.bytes_per_second / 1e9,
    },
    Plot {
        caption: "99 of 100 writes take at most",
        unit: "µs",
        scale: Scale::Logarithmic,
        value: |point| point.p99_us,
    },
    Plot {
        caption: "Hops to the holder, mean",
        unit: "hops",
        scale: Scale::Linear,
        value: |point| point.hops,
    },
    Plot {
        caption: "Half of the writes take at most",
        unit: "µs",
        scale: Scale::Logarithmic,
        value: |point| point.p50_us,
    },
    Plot {
        caption: "Messages about the index, each hop counted",
        unit: "for each page",
        scale: Scale::Linear,
        value: |point| point.messages_per_page,
    },
    Plot {
        caption: "Their part of the links",
        unit: "%",
        scale: Scale::Linear,
        value: |point| 100.0 * point.index_link_share,
    },
];

/// The first plots, of which a picture is made.
const PICTURED: usize = 3;

/// The page of a record.
pub(super) fn of(record: &Record<Vec<Series>>) -> Result<Page> {
    let header = &record.header;
    let mut sections = Vec::new();
    for group in groups(&record.results) {
        sections.extend(sections_of(group)?);
    }
    Ok(Page {
        title: "Gateways, simulated".into(),
        lead: vec![
            "Simulated by discrete events, not measured: how throughput and latency of writes grow \
             with gateways that spread the index of fingerprints over themselves. Each part says \
             which of its figures were measured, derived or assumed."
                .into(),
            "Throughput is that with as many writes in flight as each gateway may have. Latencies \
             are those of writes that come by chance at a share of it."
                .into(),
            format!("{}, {}, commit {}", header.command_line, header.date, header.commit.id),
        ],
        sections,
    })
}

/// The series of each workload and times, side by side.
fn groups(results: &[Series]) -> impl Iterator<Item = &[Series]> {
    results.chunk_by(|a, b| a.workload == b.workload && a.times == b.times)
}

fn sections_of(group: &[Series]) -> Result<Vec<Section>> {
    let Series { workload, times, load, .. } = &group[0];
    let mut sections = vec![Section {
        heading: format!("{}, times of {}", workload.name, times.name),
        text: vec![
            format!(
                "{} pages of {} bytes, of which {:.1} % are duplicates; the commonest content is \
                 {:.2} % of all. Latencies at {load} of the throughput.",
                workload.pages,
                workload.page_bytes,
                100.0 * workload.duplicates,
                100.0 * workload.hottest,
            ),
            format!("Where the figures are from. {}.", times.sources.join("; ")),
        ],
        blocks: vec![Block::Figures(figures(group)?), Block::Table(table(group))],
        ..Section::default()
    }];
    if times.name == "streamdedup" {
        sections.extend(group.iter().filter_map(section_beside));
    }
    Ok(sections)
}

fn figures(group: &[Series]) -> Result<Vec<Figure>> {
    let colour = |name: &str| Routing::ALL.iter().position(|routing| routing.name() == name);
    let legend: Vec<(String, usize)> = group
        .iter()
        .filter_map(|series| Some((series.routing.clone(), colour(&series.routing)?)))
        .collect();
    let figure = |plot: &Plot| {
        let lines: Vec<Curve> = group
            .iter()
            .zip(&legend)
            .map(|(series, (_, colour))| {
                let points = series.points.iter();
                let points = points.map(|point| (point.gateways as f64, (plot.value)(point)));
                Curve { colour: *colour, points: points.collect() }
            })
            .collect();
        let svg = curves(plot.caption, "gateways", plot.unit, plot.scale, &lines)?;
        Ok(Figure { caption: plot.caption.into(), svg, legend: legend.clone() })
    };
    PLOTS.iter().map(figure).collect()
}

fn table(group: &[Series]) -> Table {
    let columns = vec![
        Column::text("routing", "how requests travel"),
        Column::number("gateways", "how many there are"),
        Column::number("GB/s", "with as many writes in flight as each gateway may have"),
        Column::number("of linear", "as a share of one gateway's throughput times their number"),
        Column::text("busiest", "the unit that is busiest then"),
        Column::number("busy %", "the part of the time in which it is busy"),
        Column::number("mean µs", "of a write"),
        Column::number("p50 µs", "of a write"),
        Column::number("p99 µs", "of a write"),
        Column::number("hops", "to the holder, mean"),
        Column::number("most hops", "of any page"),
        Column::number("messages", "for each page, each hop counted"),
        Column::number("bytes", "of messages, for each page"),
        Column::number("of links %", "what messages take of them at the highest throughput"),
    ];
    let row = |series: &Series, point: &Point| {
        vec![
            Cell::text(&series.routing),
            Cell::number(point.gateways as f64, 0),
            Cell::number(point.bytes_per_second / 1e9, 2),
            Cell::number(of_linear(&series.points, point), 3),
            Cell::text(&point.busiest),
            Cell::number(100.0 * point.busiest_share, 0),
            Cell::number(point.mean_us, 1),
            Cell::number(point.p50_us, 1),
            Cell::number(point.p99_us, 1),
            Cell::number(point.hops, 2),
            Cell::number(f64::from(point.most_hops), 0),
            Cell::number(point.messages_per_page, 2),
            Cell::number(point.index_bytes_per_page, 1),
            Cell::number(100.0 * point.index_link_share, 2),
        ]
    };
    let rows = group.iter().flat_map(|one| one.points.iter().map(move |point| row(one, point)));
    Table { columns, rows: rows.collect() }
}

/// What the paper reports, if there are one node and ten.
fn section_beside(series: &Series) -> Option<Section> {
    let rows = beside(&series.points);
    if rows.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("what", "of the paper"),
        Column::text("reported", "in the paper's text, measured on FPGAs"),
        Column::text("source", "in StreamDedup (ACM TRETS, 2026)"),
        Column::text("simulated", "here"),
    ];
    let rows = rows.into_iter().map(|one| {
        vec![
            Cell::text(one.claim),
            Cell::text(one.reported),
            Cell::text(one.source),
            Cell::text(one.simulated),
        ]
    });
    Some(Section {
        heading: format!("Beside StreamDedup's figures 13 and 14: {}", series.routing),
        is_part: true,
        text: vec![
            "The paper's prototype measured, this simulated with figures of the paper. The points \
             of its plots are not in its text, so only what the text says stands here."
                .into(),
        ],
        blocks: vec![Block::Table(Table { columns, rows: rows.collect() })],
    })
}

/// The first plots of the first workload and times, for a document.
pub(super) fn picture_of(results: &[Series]) -> Result<String> {
    let Some(group) = groups(results).next() else {
        return Ok(picture("nothing was simulated", &[]));
    };
    let Series { workload, times, .. } = &group[0];
    let mut figures = figures(group)?;
    figures.truncate(PICTURED);
    let label = format!("Simulated by gateways: {}, times of {}", workload.name, times.name);
    Ok(picture(&label, &figures))
}
