//! The page about `onefold bench run`: first which chunkers are the best, then all the rest.

use anyhow::Result;

use super::figures::{self, Palette, mean_text, speed_text};
use super::front::{Standing, has_duplicates, standings};
use super::page::{Block, Choice, Folded, Page, Section};
use super::tables::{counts, has_spread, numbers};
use crate::equal_mean::Borders;
use crate::record::Record;
use crate::run::{Entry, Results, Work};

/// What was measured on each dataset.
pub fn of_run(record: &Record<Vec<Results>>) -> Result<Page> {
    // data without duplicates tell nothing of who finds them, and come last
    let (telling, random): (Vec<_>, Vec<_>) =
        record.results.iter().partition(|results| has_duplicates(results));
    let palette = palette(if telling.is_empty() { &random } else { &telling });
    let mut lead: Vec<String> = telling.iter().filter_map(|results| headline(results)).collect();
    if telling.is_empty() {
        lead.push(NO_DUPLICATES_AT_ALL.into());
    }
    let mut sections = Vec::new();
    for results in telling.into_iter().chain(random) {
        sections.extend(dataset(results, &palette)?);
    }
    sections.push(origin(record));
    let mut names: Vec<&str> = record.results.iter().map(|one| &one.dataset.name[..]).collect();
    names.dedup();
    Ok(Page { title: format!("Chunkers on {}", names.join(", ")), lead, sections })
}

const NO_DUPLICATES_AT_ALL: &str = "No chunker reaches a dedup ratio of 1.005 on what was cut of these data, as with random bytes. So \
     they cannot tell which one finds more, and no chunker is named the best here: only speeds and \
     sizes compare. Measure data that you store, such as several versions of a folder.";

const NO_DUPLICATES: &str = "No chunker reaches a dedup ratio of 1.005 on what was cut of these data, as with random bytes. So \
     they cannot tell which one finds more, and only speeds and sizes compare.";

/// The best at the mean that is shown first.
fn headline(results: &Results) -> Option<String> {
    let mean = *means(results).get(shown(results))?;
    let standings = standings(results, mean);
    let mut best: Vec<String> = standings
        .iter()
        .filter_map(|one| {
            let speed = speed_text(one.speed.filter(|_| one.is_best)?);
            Some(format!("{} (ratio {:.2}, {speed} GB/s)", one.name, one.ratio))
        })
        .collect();
    let last = best.pop()?;
    let count =
        |is_so: &dyn Fn(&Standing<'_>) -> bool| standings.iter().filter(|one| is_so(one)).count();
    let compared = count(&|one| one.basis.compares() && one.speed.is_some());
    let best = match (best.is_empty(), compared) {
        (true, 1) => format!("only {last} compares."),
        (true, _) => format!("{last} is the best. No chunker that is as fast finds more."),
        (false, _) => format!(
            "these are the best, from the most duplicates to the highest speed: {} and {last}. No \
             chunker that is as fast finds more.",
            best.join(", ")
        ),
    };
    let place = format!("{} at a mean of {}", results.dataset.name, mean_text(mean));
    let missed = count(&|one| !one.basis.compares());
    let untimed = count(&|one| one.basis.compares() && one.speed.is_none());
    let left_out = |why: &str, number: usize| match number {
        0 => String::new(),
        number => format!(" Left out because they {why}: {number}."),
    };
    let missed = left_out("reached another mean", missed);
    let untimed = left_out("have no speed at this mean", untimed);
    Some(format!("On {place}, {best}{missed}{untimed}"))
}

/// Colours for the best, then for those that find the most.
fn palette(all: &[&Results]) -> Palette {
    let at = |results: &&&'_ Results| -> Vec<(bool, String)> {
        let means = means(results);
        let first = means.get(shown(results)).copied();
        let order = first.into_iter().chain(means.into_iter().filter(|mean| Some(*mean) != first));
        let named = order.flat_map(|mean| {
            let mut standings = standings(results, mean);
            standings.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
            standings.into_iter().map(|one| (one.is_best, one.name.to_owned())).collect::<Vec<_>>()
        });
        named.collect()
    };
    let named: Vec<(bool, String)> = all.iter().flat_map(|results| at(&results)).collect();
    let best = named.iter().filter(|(is_best, _)| *is_best);
    Palette::of(best.chain(&named).map(|(_, name)| &name[..]))
}

/// The means that were asked for, the smallest first.
fn means(results: &Results) -> Vec<usize> {
    let mut means: Vec<usize> = results.entries.iter().map(|entry| entry.wanted_mean).collect();
    means.sort();
    means.dedup();
    means
}

/// Which of the means is shown first: the one in the middle.
fn shown(results: &Results) -> usize {
    means(results).len().saturating_sub(1) / 2
}

fn dataset(results: &Results, palette: &Palette) -> Result<Vec<Section>> {
    let mut text = vec![extent(results)];
    text.extend((!has_duplicates(results)).then(|| NO_DUPLICATES.to_owned()));
    text.extend(cautions(results));
    let means = means(results);
    let options = means.iter().map(|&mean| Ok((mean_text(mean), at_mean(results, mean, palette)?)));
    let options = options.collect::<Result<Vec<_>>>()?;
    let mut blocks = Vec::new();
    if !options.is_empty() {
        let label = "Mean chunk size".into();
        blocks.push(Block::Choice(Choice { label, options, first: shown(results) }));
    }
    blocks.push(Block::Folded(Folded {
        summary: "How this was measured".into(),
        text: circumstances(results),
        blocks: Vec::new(),
    }));
    let mut sections = vec![Section {
        heading: match results.borders {
            Borders::Stream => results.dataset.name.clone(),
            Borders::Files => format!("{}, each file by itself", results.dataset.name),
        },
        is_part: false,
        text,
        blocks,
    }];
    if means.len() > 1 {
        let curve = figures::curve(results, palette)?;
        sections.push(Section {
            heading: "All means".into(),
            is_part: true,
            blocks: [Block::Figures(vec![curve.figure])].into_iter().chain(curve.rest).collect(),
            ..Section::default()
        });
    }
    sections.push(Section {
        heading: "All numbers".into(),
        is_part: true,
        text: vec!["A click on a column's head sorts by it.".into()],
        blocks: vec![Block::Table(numbers(results))],
    });
    Ok(sections)
}

/// What was found and timed at one of the means.
fn at_mean(results: &Results, wanted: usize, palette: &Palette) -> Result<Vec<Block>> {
    let mean = mean_text(wanted);
    let entries: Vec<&Entry> =
        results.entries.iter().filter(|entry| entry.wanted_mean == wanted).collect();
    let is_timed = entries.iter().any(|entry| entry.fastest(Work::Cut).is_some());
    let standings = standings(results, wanted);
    let mut blocks = Vec::new();
    let mut small = Vec::new();
    let has_speed = standings.iter().any(|one| one.speed.is_some());
    match (has_duplicates(results), has_speed) {
        (true, true) => {
            let front = figures::front(results, &standings, &mean, palette)?;
            blocks.push(Block::WideFigure(front));
        }
        (true, false) => small.push(figures::ratios(&standings, &mean, palette)?),
        (false, _) => {}
    }
    if is_timed {
        small.push(figures::throughput(results, &entries, &mean, palette)?);
    }
    let cumulative = figures::cumulative(&entries, &mean, palette)?;
    small.push(cumulative.figure);
    blocks.push(Block::Figures(small));
    blocks.extend(cumulative.rest);
    blocks.push(Block::Folded(Folded {
        summary: "Chunk sizes".into(),
        text: vec![
            "How many of the chunks have which size; bins are an eighth of an octave wide.".into(),
        ],
        blocks: vec![Block::SmallFigures(figures::histograms(&entries, palette)?)],
    }));
    if let Some(kernels) = figures::speed_ups(&entries, &mean)? {
        blocks.push(Block::Folded(Folded {
            summary: "Kernels".into(),
            text: Vec::new(),
            blocks: vec![Block::Figures(vec![kernels])],
        }));
    }
    if entries.iter().any(|entry| entry.timings.iter().any(|one| one.counts.is_some())) {
        blocks.push(Block::Folded(Folded {
            summary: "What the CPU counted".into(),
            text: vec!["A byte of data, of one run.".into()],
            blocks: vec![Block::Table(counts(&entries))],
        }));
    }
    Ok(blocks)
}

fn extent(Results { dataset, borders, .. }: &Results) -> String {
    let borders = match borders {
        Borders::Stream => "cut as one stream",
        Borders::Files => "each cut by itself",
    };
    let files = if dataset.files == 1 { "file" } else { "files" };
    let [bytes, number] = [dataset.bytes, dataset.files].map(grouped);
    format!("{bytes} bytes in {number} {files}, {borders}.")
}

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let (first, rest) = digits.split_at((digits.len() - 1) % 3 + 1);
    rest.as_bytes().chunks(3).fold(first.to_owned(), |text, group| {
        text + "," + std::str::from_utf8(group).expect("digits are ASCII")
    })
}

/// What a reader must know before any figure.
fn cautions(results: &Results) -> Vec<String> {
    let mut text = Vec::new();
    if !results.is_complete {
        text.push("The measurement was stopped before its end; this is what it had.".into());
    }
    for one in &results.unreadable {
        text.push(format!("Missing, because it could not be read: {}: {}", one.path, one.reason));
    }
    if results.entries.iter().any(|entry| entry.findings.one_in > 1) {
        text.push("Distinct chunks were too many to remember; their number is estimated.".into());
    }
    let is_timed = results.entries.iter().any(|entry| entry.fastest(Work::Cut).is_some());
    if is_timed && !has_spread(results) {
        text.push("Each was timed once: one round has no spread, so none is shown.".into());
    }
    if let Some(first) = results.noise.first() {
        let more = results.noise.len() - 1;
        text.push(format!("The machine was noisy: {first}; {more} more such reasons."));
    }
    text
}

fn circumstances(results: &Results) -> Vec<String> {
    let Results { dataset, sample, .. } = results;
    let mut text = vec![format!("The digest of the data is {}.", dataset.digest)];
    text.push(match sample.stretches {
        1 => "Duplicates and sizes are of all data, and so is the speed, from memory.".into(),
        stretches => format!(
            "Duplicates and sizes are of all data, the speed of a sample of {} bytes from \
             {stretches} places, from memory.",
            sample.bytes
        ),
    });
    if has_spread(results) {
        text.push(
            "A speed is the median of all rounds; its spread is the median distance from it."
                .into(),
        );
    }
    if results.equalised {
        text.push("Parameters were sought with which each reaches the mean asked for.".into());
        let missed: Vec<String> = results
            .entries
            .iter()
            .filter(|entry| entry.misses_mean())
            .map(|entry| format!("{} at {}", entry.algorithm, entry.wanted_mean))
            .collect();
        if !missed.is_empty() {
            text.push(format!(
                "These miss it on all of the data by more than 5 %; the first figure computes them from \
                 two measured means beside it, or shows them hollow: {}.",
                missed.join(", ")
            ));
        }
    } else {
        text.push(
            "If a chunker misses its mean by more than 5 %, its dot in the first figure is computed \
             from its two nearest means; without two it is hollow and does not compare. Measure \
             with --equalise-mean to have all reach that mean."
                .into(),
        );
    }
    text.extend(results.missing.iter().map(|missing| format!("Not measured: {missing}.")));
    text
}

/// Where, when and by what all of it was measured.
fn origin(record: &Record<Vec<Results>>) -> Section {
    let header = &record.header;
    let machine = &header.machine;
    let dirty = if header.commit.dirty { ", changed since" } else { "" };
    Section {
        heading: "Machine and program".into(),
        text: vec![
            format!(
                "{}; {} cores, {:.0} GiB; {}; {}",
                machine.cpu_model,
                machine.cores,
                machine.memory_bytes as f64 / f64::from(1 << 30),
                machine.kernel_version,
                header.rustc_version,
            ),
            format!("{}; commit {}{dirty}", header.date, header.commit.id),
            header.command_line.clone(),
        ],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use onefold_cdc::Scheme;

    use super::*;
    use crate::Header;
    use crate::report::boxes::check_svg;
    use crate::report::made_up::{entry, results};

    fn html(results: Vec<Results>) -> String {
        let header = Header::here(Path::new("x.json"), "a command".into(), "in memory").unwrap();
        of_run(&Record { header, results }).unwrap().html().unwrap()
    }

    /// Every chunker at two means, each with another ratio and speed.
    fn everything() -> Results {
        let one = |(i, scheme): (usize, Scheme)| {
            let (ratio, speed) = (2.0 + (i * 7 % 27) as f64 / 9.0, 0.3e9 * 1.2_f64.powi(i as i32));
            let reached = |mean: usize| mean + i * mean / 100;
            let at = |mean: usize| entry(scheme.name(), mean, reached(mean), ratio, speed);
            [at(8 << 10), at(64 << 10)]
        };
        results(Scheme::all().enumerate().flat_map(one).collect())
    }

    /// As random bytes have it: no chunker finds anything.
    fn random() -> Results {
        let names = ["ram", "gear"];
        let mut random = results(names.map(|name| entry(name, 8192, 8192, 1.0, 1e9)).to_vec());
        random.dataset.name = "noise".into();
        random
    }

    fn svgs(html: &str) -> impl Iterator<Item = &str> {
        html.split("<svg ").skip(1).map(|part| part.split("</svg>").next().unwrap())
    }

    #[test]
    fn the_first_picture_is_of_duplicates_and_speed_and_each_chunker_has_a_dot() {
        let html = html(vec![everything()]);
        let first = svgs(&html).next().unwrap();
        assert!(first.contains("Duplicates against speed at a mean of 8 KiB"), "{first}");
        assert_eq!(first.matches(r#"class="dot" tabindex="0""#).count(), Scheme::all().count());
        assert!(html.find("<svg") < html.find("<table"));
    }

    #[test]
    fn each_mean_has_its_pictures_and_is_chosen_without_a_script() {
        let html = html(vec![everything()]);
        for mean in ["8 KiB", "64 KiB"] {
            let picture = format!("\"Duplicates against speed at a mean of {mean}\"");
            // for a screen and for a phone
            assert_eq!(html.matches(&picture).count(), 2, "{mean}");
            assert!(html.contains(&format!(">{mean}</label>")), "{mean}");
        }
        assert_eq!(html.matches(r#"<input type="radio""#).count(), 2);
        assert_eq!(html.matches(" checked>").count(), 1);
    }

    #[test]
    fn a_colour_stands_for_one_name_and_a_name_has_one_colour() {
        let html = html(vec![everything(), everything()]);
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut meet = |code, name| {
            assert_eq!(*names.entry(code).or_insert(name), name, "{code}");
        };
        for button in html.split(" data-code=\"").skip(1) {
            let (code, rest) = button.split_once('"').unwrap();
            meet(code, rest.split_once("</i>").unwrap().1.split('<').next().unwrap());
        }
        // the dots are drawn in the order in which they can be reached
        for svg in svgs(&html).filter(|svg| svg.contains("class=\"dot\"")) {
            let marks = svg.split("<circle ").filter(|part| part.contains(r#" r="5" "#));
            let dots = svg.split("class=\"dot\"").skip(1);
            for (mark, dot) in marks.zip(dots) {
                let mark = mark.split("/>").next().unwrap();
                let Some(code) = mark.find("#4000") else { continue };
                let name = dot.split_once("aria-label=\"").unwrap().1.split(',').next().unwrap();
                meet(&mark[code..code + 7], name);
            }
        }
        let count = names.len();
        let mut distinct: Vec<&str> = names.into_values().collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!((distinct.len(), count), (8, 8), "{distinct:?}");
        // kernels are no chunkers
        let kernels = svgs(&html).filter(|svg| svg.contains("times as fast as scalar"));
        assert!(kernels.map(|svg| svg.matches("#4000").count()).eq([0, 0, 0, 0]));
    }

    #[test]
    fn a_plot_has_at_most_eight_lines_and_the_rest_is_folded_away() {
        let html = html(vec![everything()]);
        let plots: Vec<&str> = svgs(&html).filter(|svg| svg.contains("chunk size")).collect();
        let lines = |svg: &&str| {
            let thick = svg.split("<polyline").filter(|line| line.contains(r#"stroke-width="2""#));
            thick.count()
        };
        assert_eq!(plots.iter().map(lines).max(), Some(8));
        assert_eq!(plots.iter().filter(|svg| lines(svg) == 8).count(), 3);
        // at each mean and over all, each of the others by itself
        let others = Scheme::all().count() - 8;
        assert_eq!(html.matches(&format!("<summary>{others} more chunkers")).count(), 3);
        assert_eq!(plots.iter().filter(|svg| lines(svg) == 1).count(), 3 * others);
    }

    #[test]
    fn no_text_of_any_picture_is_cut_off_or_under_a_line() {
        for page in [html(vec![everything()]), html(vec![random()])] {
            for svg in svgs(&page) {
                check_svg(&format!("<svg {svg}</svg>"));
            }
        }
    }

    #[test]
    fn random_bytes_are_no_headline() {
        let both = html(vec![random(), everything()]);
        let lead = both.split("</header>").next().unwrap();
        assert!(lead.contains("made up at a mean of 8 KiB, these are the best"), "{lead}");
        assert!(!lead.contains("noise at"), "{lead}");
        // they come last, and have no picture of the best
        assert!(both.find("<h2>made up</h2>") < both.find("<h2>noise</h2>"));
        let noise = both.split("<h2>noise</h2>").nth(1).unwrap();
        assert!(noise.contains("as with random bytes") && !noise.contains("Duplicates against"));

        let alone = html(vec![random()]);
        let lead = alone.split("</header>").next().unwrap();
        assert!(lead.contains("no chunker is named the best here"), "{lead}");
        assert!(!alone.contains("class=\"dot\"") && alone.contains("Cutting at 8 KiB"));
    }

    #[test]
    fn one_round_has_no_spread() {
        let several = html(vec![everything()]);
        assert!(several.contains('±') && several.contains("class=\"whisker\""));
        assert!(!several.contains("one round has no spread"));
        let mut once = everything();
        for timing in once.entries.iter_mut().flat_map(|entry| &mut entry.timings) {
            timing.samples.truncate(1);
        }
        once.read_limit.samples.truncate(1);
        let once = html(vec![once]);
        assert!(!once.contains('±') && !once.contains("class=\"whisker\""));
        assert!(once.contains("one round has no spread"));
    }

    #[test]
    fn without_times_the_first_picture_is_of_duplicates_alone() {
        let mut untimed = everything();
        untimed.entries.iter_mut().for_each(|entry| entry.timings.clear());
        untimed.read_limit.samples.clear();
        let html = html(vec![untimed]);
        let first = svgs(&html).next().unwrap();
        assert!(
            first.contains("Duplicates at a mean of 8 KiB. No speed at this mean is known"),
            "{first}"
        );
        assert!(!html.contains("these are the best"));
    }

    #[test]
    fn a_mean_at_which_no_speed_is_known_has_duplicates_alone() {
        let mut entries =
            vec![entry("ram", 8192, 7000, 3.0, 1e9), entry("ram", 16384, 14000, 2.0, 1e9)];
        // as after an interruption: the speed at 8 KiB would be computed from both
        entries[1].timings.clear();
        let html = html(vec![results(entries)]);
        let first = svgs(&html).next().unwrap();
        assert!(first.contains("No speed at this mean is known"), "{first}");
    }

    #[test]
    fn numbers_have_commas_between_thousands() {
        let texts = [0, 12, 123, 1234, 123_456, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "12", "123", "1,234", "123,456", "1,234,567"]);
    }
}
