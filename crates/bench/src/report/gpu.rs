//! The page about `onefold bench gpu`.

use super::page::{Block, Cell, Column, Page, Section, Table};
use crate::Record;
use crate::gpu::{Bound, Energy, Pages, Rate, Results, Step, Target, Transfer};

/// A page about one device.
pub fn of_gpu(record: &Record<Results>) -> Page {
    let Record { header, results } = record;
    let of_whom = format!(
        "{} with {}, beside {} threads of {}. Every rate is the best of {} rounds on {} bytes of random data in memory.",
        results.device,
        results.driver,
        results.threads,
        header.machine.cpu_model,
        results.rounds,
        results.bytes,
    );
    let sections = gpu_tables(results).into_iter().map(|(heading, table)| Section {
        heading: heading.into(),
        blocks: vec![Block::Table(table)],
        ..Section::default()
    });
    Page {
        title: "What a GPU gains".into(),
        lead: [of_whom].into_iter().chain(gpu_notes(results)).collect(),
        sections: sections.collect(),
    }
}

/// What a reader of the tables must know, a sentence each.
pub fn gpu_notes(results: &Results) -> Vec<String> {
    let mut notes = vec![format!(
        "All chunks and fingerprints of {} bytes of mixed data were those of the CPU.",
        results.equal_bytes
    )];
    if results.is_cpu {
        notes.push(
            "This device is the CPU in another form: the figures say nothing of a GPU.".into(),
        );
    }
    if let Some(reason) = &results.energy_missing {
        notes.push(format!("The energy was not measured: {reason}."));
    }
    if !results.is_complete {
        notes.push("The measurement was stopped before its end.".into());
    }
    notes
}

/// All that was measured: tables under headings.
pub fn gpu_tables(results: &Results) -> Vec<(&'static str, Table)> {
    let mut tables = vec![
        ("Rates", table(rates(), &results.rates)),
        ("Copies (figures 3 and 6 of Shredder)", table(transfers(), &results.transfers)),
    ];
    for (figure, heading) in [
        (5, "Double buffering (figure 5)"),
        (9, "Segments at work (figure 9)"),
        (11, "Shared memory (figure 11)"),
        (12, "CPU and GPU (figure 12)"),
    ] {
        let of_figure = results.steps.iter().filter(|step| step.figure == figure);
        tables.push((heading, table(steps(), of_figure)));
    }
    tables.push(("SHA3-256 of pages", table(pages(), &results.pages)));
    tables.push(("Energy", table(energy(), &results.energy)));
    tables.push(("Targets", table(targets(), &results.targets)));
    tables.retain(|(_, table)| !table.rows.is_empty());
    tables
}

/// A column, and its cell in the row of a `T`.
type Shown<T> = (Column, Box<dyn Fn(&T) -> Cell>);

fn table<'a, T: 'a>(columns: Vec<Shown<T>>, items: impl IntoIterator<Item = &'a T>) -> Table {
    let row = |item| columns.iter().map(|(_, cell)| cell(item)).collect();
    let rows = items.into_iter().map(row).collect();
    Table { columns: columns.into_iter().map(|(column, _)| column).collect(), rows }
}

fn words<T>(name: &str, explanation: &str, of: fn(&T) -> &str) -> Shown<T>
where
    T: 'static,
{
    (Column::text(name, explanation), Box::new(move |item| Cell::text(of(item))))
}

/// A number with `places` decimal places, if there is a number.
fn number<T, N>(name: &str, explanation: &str, places: usize, of: fn(&T) -> N) -> Shown<T>
where
    T: 'static,
    N: Into<Option<f64>> + 'static,
{
    (Column::number(name, explanation), Box::new(move |item| Cell::number(of(item), places)))
}

/// Bytes a second, where they are known.
fn rate<T, N>(name: &str, explanation: &str, of: fn(&T) -> N) -> Shown<T>
where
    T: 'static,
    N: Into<Option<f64>> + 'static,
{
    let gigabytes = move |item: &T| of(item).into().map(|rate| rate / 1e9);
    (Column::number(name, explanation), Box::new(move |item| Cell::number(gigabytes(item), 2)))
}

fn rates() -> Vec<Shown<Rate>> {
    vec![
        words("algorithm", "the rule", |rate| &rate.algorithm),
        words("fingerprint", "the function, if chunks were fingerprinted", |rate| {
            rate.fingerprint.as_deref().unwrap_or_default()
        }),
        rate(
            "device GB/s",
            "from memory of the host, read by several threads, copies included",
            |rate: &Rate| rate.device_bytes_per_second,
        ),
        rate("stream GB/s", "the same, read by one thread", |rate: &Rate| {
            rate.stream_bytes_per_second
        }),
        rate("1 thread GB/s", "the CPU", |rate: &Rate| rate.cpu_bytes_per_second),
        rate("all threads GB/s", "the CPU", |rate: &Rate| rate.all_threads_bytes_per_second),
        rate(
            "resident search GB/s",
            "data in the device's memory, until candidates are here",
            |rate: &Rate| rate.resident_search_bytes_per_second,
        ),
        rate("resident cut GB/s", "the same until cut-points are", |rate: &Rate| {
            rate.resident_cut_bytes_per_second
        }),
        rate("resident fingerprint GB/s", "the same of fingerprints", |rate: &Rate| {
            rate.resident_fingerprint_bytes_per_second
        }),
    ]
}

fn transfers() -> Vec<Shown<Transfer>> {
    vec![
        number("bytes", "of one copy", 0, |copy: &Transfer| copy.bytes as f64),
        rate("pinned GB/s", "from pinned memory to the device", |copy: &Transfer| {
            copy.pinned_bytes_per_second
        }),
        rate("pageable GB/s", "from ordinary memory", |copy: &Transfer| {
            copy.pageable_bytes_per_second
        }),
        number("pinned ms", "to get the memory", 3, |copy: &Transfer| 1e3 * copy.pinned_seconds),
        number("pageable ms", "to get the memory", 3, |copy: &Transfer| {
            1e3 * copy.pageable_seconds
        }),
    ]
}

fn steps() -> Vec<Shown<Step>> {
    vec![
        words("what", "what was measured", |step| &step.name),
        rate("GB/s", "cut with Rabin, without fingerprints", |step: &Step| step.bytes_per_second),
        number("times", "as fast as the first", 2, |step: &Step| step.ratio),
        number("paper", "the same in the paper, where it tells", 2, |step: &Step| step.paper),
    ]
}

fn pages() -> Vec<Shown<Pages>> {
    fn bound(pages: &Pages, part: fn(&Bound) -> f64) -> Option<f64> {
        pages.bound.as_ref().map(part)
    }
    vec![
        number("page", "bytes", 0, |pages: &Pages| pages.page_bytes as f64),
        rate("GB/s", "pages in the device's memory, without copies", |pages: &Pages| {
            pages.bytes_per_second
        }),
        rate("bound GB/s", "if only the rounds' instructions took time", |pages| {
            bound(pages, |bound| bound.bytes_per_second)
        }),
        number("instructions", "of a round", 0, |pages| {
            bound(pages, |bound| bound.instructions_per_round as f64)
        }),
        number("units", "multiprocessors", 0, |pages| bound(pages, |bound| f64::from(bound.units))),
        number("clock GHz", "the highest", 2, |pages| {
            bound(pages, |bound| bound.clock_hz as f64 / 1e9)
        }),
    ]
}

fn energy() -> Vec<Shown<Energy>> {
    vec![
        words("algorithm", "the rule", |energy| &energy.algorithm),
        words("fingerprint", "the function", |energy| &energy.fingerprint),
        number(
            "J/GB",
            "what the device used, idle power included, for what it cut",
            2,
            |energy: &Energy| energy.joules / (energy.bytes as f64 / 1e9),
        ),
        number("W", "the mean", 1, |energy: &Energy| energy.joules / energy.seconds),
        number("seconds", "how long it ran", 2, |energy: &Energy| energy.seconds),
    ]
}

fn targets() -> Vec<Shown<Target>> {
    vec![
        words("target", "what was aimed at", |target| &target.what),
        number("wanted", "at least", 2, |target: &Target| target.wanted),
        number("found", "what was measured", 2, |target: &Target| target.found),
        words(
            "met",
            "whether it was reached",
            |target: &Target| {
                if target.is_met() { "yes" } else { "no" }
            },
        ),
    ]
}
