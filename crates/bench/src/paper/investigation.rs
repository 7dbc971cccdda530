//! A Thorough Investigation, tables VI to X, figures 5 to 11 and appendix B.
//!
//! As there, data are one stream, chunks have no maximum, and the last chunk is left out.

use std::collections::BTreeMap;

use anyhow::Result;
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Divisors, Kernel, Params};

use super::counted;
use super::finding::{Claim, Finding, Table, range};
use super::session::Session;
use crate::{Contender, Dataset, Metrics};

// The rows that the tests of the chunkers are held to.
#[path = "../../../cdc/tests/cdc/rand_rows.rs"]
mod rand_rows;

/// Our datasets, and those of the paper that they stand for.
const DATASETS: [(&str, &str); 5] =
    [("kubernetes", CODE), ("typescript", CODE), ("web", "WEB"), ("pdf", "PDF"), ("vm", "LNX")];
const CODE: &str = "CODE";

const TARGETS: [usize; 5] = [512, 1024, 2048, 4096, 8192];

/// The target of the figures on throughput.
const THROUGHPUT_TARGET: usize = 2048;

/// In the order of the paper's tables.
const NAMES: [&str; 12] = [
    "Rabin",
    "Buzhash",
    "Gear",
    "Gear NC-1",
    "Gear NC-2",
    "Gear NC-3",
    "AE",
    "RAM",
    "PCI",
    "MII",
    "BFBC",
    "BFBC*",
];

/// What the paper calls an algorithm, at a target, trained on `data` where that matters.
fn params(name: &str, target: usize, data: &[u8]) -> Result<Params> {
    let algorithm = match name {
        "Rabin" => Algorithm::Rabin,
        "Buzhash" => Algorithm::Buzhash,
        "AE" => Algorithm::AeMax,
        "RAM" => Algorithm::Ram,
        "PCI" => Algorithm::Pci,
        "MII" => Algorithm::Mii,
        "Gear" => Algorithm::Gear,
        "BFBC" | "BFBC*" => return bfbc(name == "BFBC*", target, data),
        _ => Algorithm::FastCdc,
    };
    Ok(rand_rows::experiment(name, algorithm, target, target as f64))
}

/// The original takes the three most frequent pairs and a minimum 128 bytes below the target; with
/// the star, pairs are chosen for the target and there is no minimum.
fn bfbc(star: bool, target: usize, data: &[u8]) -> Result<Params> {
    const TRAINED_ON: usize = 64 << 20;
    let sample = &data[..data.len().min(TRAINED_ON)];
    let (sizes, divisors) = if star {
        let sizes = ChunkSizes::unbounded(2, target)?;
        (sizes, Divisors::for_mean(sample, sizes)?)
    } else {
        (ChunkSizes::unbounded(target - 128, target)?, Divisors::most_frequent(sample, 3)?)
    };
    Ok(Params { divisors: Some(divisors), ..Params::new(Algorithm::Bfbc, sizes) })
}

pub(super) fn measure(session: &mut Session) -> Result<()> {
    session.part("Appendix B, RAND", random_rows)?;
    session.part("Section 9.1.1", old_formula)?;
    let outcome = session.part("Sections 6.2 and 6.3", throughput);
    counted::report(session);
    outcome?;
    let mut found = Vec::new();
    let outcome = datasets(session, &mut found);
    if !found.is_empty() {
        tables(session, &found);
        claims(session, &found);
    }
    not_measured(session);
    outcome
}

// ---- appendix B on random data -----------------------------------------------------------------

/// Random bytes without end.
fn endless() -> impl std::io::Read {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"appendix B");
    hasher.finalize_xof()
}

/// What stands for the claim where the figure to be found is not one that the paper's parameters
/// lead to.
fn own_prediction(name: &str) -> Option<Claim> {
    let (claim, reported, measured_by) = match name {
        "RAM" => (
            "RAM, mean: own prediction",
            "the deviations; the means are our targets up to 1024, and no test of them",
            "parameters made for the paper's mean, on endless random bytes; holds within 1 % and \
             3 %, or four deviations of the sample if that is more",
        ),
        "BFBC*" => (
            "BFBC*, own prediction",
            "not the paper's: 65,536 over the number of divisors, as mean and as deviation",
            "divisors trained on other random bytes; holds within 1 % and 3 % of the prediction, \
             or four deviations of the sample if that is more",
        ),
        _ => return None,
    };
    Some(Claim { place: "Appendix B, RAND", claim, reported, measured_by })
}

/// Tells a row whose figure is our own from those of the paper.
fn row_name(row: &rand_rows::Row) -> String {
    match row.instead {
        Some(by) => format!("{}, own prediction {by}", row.name),
        // elsewhere the paper's mean is its target
        None if row.name == "RAM" && row.mean != row.target as f64 => {
            "RAM, mean: own prediction".to_owned()
        }
        None => row.name.to_owned(),
    }
}

/// Mean and deviation of each row, a finding for each algorithm.
fn random_rows(session: &mut Session) -> Result<()> {
    let chunks = session.effort().chunks;
    // four deviations of the mean of an exponential distribution, and of its deviation
    let noise = 4.0 / (chunks as f64).sqrt();
    let (most, most_deviation) = (noise.max(0.01), (2.0 * noise).max(0.03));
    let sample = Dataset::random(80, session.effort().random_bytes.min(64 << 20));
    let columns = ["algorithm", "target", "mean, reported", "mean", "off", "deviation, reported"];
    let columns = [&columns[..], &["deviation", "off"]].concat();
    let title = format!(
        "mean and deviation on random data in bytes, {chunks} chunks a row; reported: by the \
         paper, or our own prediction where the row says so"
    );
    let mut table = Table::new("Appendix B, table VIII", &title, &columns);
    // by algorithm: rows, largest distances of means and deviations
    let mut worst: BTreeMap<&'static str, (usize, f64, f64)> = BTreeMap::new();
    let mut outcome = Ok(());
    for row in rand_rows::rows(sample.bytes()) {
        outcome = session.step(&format!("{} at {} on random data", row.name, row.target));
        if outcome.is_err() {
            break;
        }
        let (mean, deviation) = rand_rows::measure(&row.params, chunks, endless());
        let off = mean / row.mean - 1.0;
        let deviation_off = deviation / row.deviation - 1.0;
        let name = row_name(&row);
        let percent = |share: f64| format!("{:+.2} %", 100.0 * share);
        table.row([
            name,
            row.target.to_string(),
            format!("{:.0}", row.mean),
            format!("{mean:.1}"),
            percent(off),
            format!("{:.0}", row.deviation),
            format!("{deviation:.1}"),
            percent(deviation_off),
        ]);
        let entry = worst.entry(row.name).or_default();
        *entry = (entry.0 + 1, entry.1.max(off.abs()), entry.2.max(deviation_off.abs()));
    }
    session.table(table);
    for (name, (rows, off, deviation_off)) in worst {
        let claim = own_prediction(name).unwrap_or(Claim {
            place: "Appendix B, RAND",
            claim: name,
            reported: "means and deviations of the table, from 10 GiB",
            measured_by: "the same parameters on endless random bytes; holds within 1 % and 3 %, \
                          or four deviations of the sample if that is more",
        });
        session.finding(claim.found(
            off <= most && deviation_off <= most_deviation,
            format!(
                "{rows} targets, means within {:.2} %, deviations within {:.2} %",
                100.0 * off,
                100.0 * deviation_off
            ),
            "see the rows",
        ));
    }
    outcome?;
    let claim =
        |claim, reported| Claim { place: "Appendix B, RAND", claim, reported, measured_by: "" };
    session.finding(claim("Gear NC at 770 and 5482", "993 / 613 and others").not_measured(
        "there the thresholds of 1024 and 4096 are used with the normal point at the target; ours \
         are made for the target. A unit test in crates/cdc/src/fastcdc.rs reproduces the paper's",
    ));
    session.finding(claim("BFBC", "22,019 at 512 and others").not_measured(
        "order statistics of the three most frequent of 65,536 equally likely pairs in 10 GiB; the \
         mean that the number of pairs gives is tested in crates/cdc/tests/cdc/paper002.rs",
    ));
    Ok(())
}

/// Section 9.1.1: AE by its authors' formula, w = target / (e − 1), misses the target.
fn old_formula(session: &mut Session) -> Result<()> {
    for (target, claim, reported, share) in [
        (512, "AE by its authors' formula is short at 512 bytes", "13 % smaller", 0.13),
        (8192, "AE by its authors' formula is short at 8 KiB", "39 % smaller", 0.39),
    ] {
        session.step(claim)?;
        let horizon = (target as f64 / (std::f64::consts::E - 1.0)).round() as usize;
        // the target of ours that has this horizon
        let (mut low, mut high) = (1, 2 * target);
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            if horizon_of(middle)? <= horizon { low = middle } else { high = middle }
        }
        let params = rand_rows::experiment("AE", Algorithm::AeMax, low, 0.0);
        let (mean, _) = rand_rows::measure(&params, session.effort().chunks.min(50_000), endless());
        let short = 1.0 - mean / target as f64;
        let claim = Claim {
            place: "Section 9.1.1",
            claim,
            reported,
            measured_by: "AE with that horizon on random bytes; holds within 2 points",
        };
        session.finding(claim.found(
            (short - share).abs() < 0.02,
            format!("{:.1} % smaller", 100.0 * short),
            "see crates/cdc/src/ae.rs, Horizon",
        ));
    }
    Ok(())
}

/// Equal bytes are cut just behind the horizon.
fn horizon_of(target: usize) -> Result<usize> {
    let params = rand_rows::experiment("AE", Algorithm::AeMax, target, 0.0);
    let chunker = Chunker::with_kernel(&params, Kernel::Scalar)?;
    let equal = vec![0; 2 * target + 2];
    Ok(chunker.cut_points(&equal).next().unwrap_or(equal.len()) - 1)
}

// ---- table VI, figure 5 and figure 6: throughput ------------------------------------------------

fn throughput(session: &mut Session) -> Result<()> {
    let random = session.random(session.effort().random_bytes);
    let data = random.bytes();
    let code = session.load("kubernetes", session.effort().random_bytes as u64)?;

    let mut contenders = Vec::new();
    for name in NAMES.into_iter().filter(|name| !name.starts_with("Gear NC")) {
        contend(&mut contenders, name, &params(name, THROUGHPUT_TARGET, data)?, data)?;
    }
    for (name, algorithm) in
        [("Gear, 32 bits", Algorithm::Gear32), ("Gear, 16 bits", Algorithm::Gear16)]
    {
        let params = rand_rows::experiment(name, algorithm, THROUGHPUT_TARGET, 0.0);
        contend(&mut contenders, name, &params, data)?;
    }
    let fixed = Params::for_mean(Algorithm::Fixed, THROUGHPUT_TARGET)?;
    contend(&mut contenders, "FSC", &fixed, data)?;
    let outcomes = session.measure(random.name(), data.len() as u64, contenders)?;
    let mut speeds: BTreeMap<String, f64> = BTreeMap::new();
    for outcome in &outcomes {
        let rate = data.len() as f64 / outcome.thread_seconds().median / 1e9;
        speeds.insert(outcome.name.clone(), rate);
    }
    if let Some(code) = &code {
        let data = code.bytes();
        let mut contenders = Vec::new();
        contend(&mut contenders, "BFBC-L", &params("BFBC", THROUGHPUT_TARGET, data)?, data)?;
        for outcome in session.measure(code.name(), data.len() as u64, contenders)? {
            let rate = data.len() as f64 / outcome.thread_seconds().median / 1e9;
            speeds.insert(outcome.name.clone(), rate);
        }
    }
    let mut table = Table::new(
        "Table VI, figure 5",
        "throughput at a target of 2 KiB on random data in GB/s; BFBC-L on source code",
        &["algorithm, kernel", "GB/s"],
    );
    let mut sorted: Vec<(&String, &f64)> = speeds.iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, rate) in sorted {
        table.row([name.clone(), format!("{rate:.3}")]);
    }
    session.table(table);
    throughput_claims(session, &speeds);
    by_target(session, &random)
}

/// On the scalar kernel, and on the fastest if it is another.
fn contend<'a>(
    contenders: &mut Vec<Contender<'a>>,
    name: &str,
    params: &Params,
    data: &'a [u8],
) -> Result<()> {
    let scalar = Chunker::with_kernel(params, Kernel::Scalar)?;
    let fastest = Chunker::new(params)?;
    let model = format!("{name}, scalar");
    contenders.push(Contender::new(&model, move |found| found.extend(scalar.cut_points(data))));
    if fastest.kernel() != Kernel::Scalar {
        let name = format!("{name}, {}", fastest.kernel());
        let contender = Contender::new(name, move |found| found.extend(fastest.cut_points(data)));
        contenders.push(contender.equal_to(model));
    }
    Ok(())
}

fn throughput_claims(session: &mut Session, speeds: &BTreeMap<String, f64>) {
    let scalar = |name: &str| speeds.get(&format!("{name}, scalar")).copied().unwrap_or(f64::NAN);
    let by = "scalar kernels, random data, 2 KiB, thread time; all but Gear NC, which is not timed";
    let claim = |place, claim, reported| Claim { place, claim, reported, measured_by: by };
    let others = ["Rabin", "Buzhash", "PCI"].map(scalar);
    let fastest = timed().max_by(|a, b| scalar(a).total_cmp(&scalar(b))).unwrap_or_default();
    session.finding(
        claim("Section 6.2.1", "Gear is the fastest of the algorithms with a window", "Gear")
            .found(
                others.iter().all(|&other| scalar("Gear") > other),
                format!("Gear {:.2}, others {} GB/s", scalar("Gear"), range(&others)),
                "this CPU or compiler finds more in the others",
            ),
    );
    session.finding(claim("Section 6.2.2", "RAM is faster than AE", "markedly").found(
        scalar("RAM") > scalar("AE"),
        format!("RAM {:.2}, AE {:.2} GB/s", scalar("RAM"), scalar("AE")),
        "AE's scalar rule here looks for the next larger byte in a loop that stays predictable",
    ));
    session.finding(
        claim("Section 6.2.2", "MII is the slow one of the rules by extrema", "poor").found(
            scalar("MII") < scalar("AE") && scalar("MII") < scalar("RAM"),
            format!("MII {:.2} GB/s", scalar("MII")),
            "a branch that cannot be predicted costs less here",
        ),
    );
    session.finding(
        claim("Section 6.2.4", "fixed chunks outperform every algorithm", "2.5 GiB/s and more")
            .found(
                timed().all(|name| scalar(name) < scalar("FSC")),
                format!(
                    "{:.0} GB/s, the next {fastest} with {:.2}",
                    scalar("FSC"),
                    scalar(fastest)
                ),
                "another rule came out as fast, or was timed alone",
            ),
    );
    for finding in vector_claims(speeds) {
        session.finding(finding);
    }
}

/// The names of table VI that are timed.
fn timed() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| !name.starts_with("Gear NC"))
}

/// What is said of Gear by vectors: nothing, where no vector kernel of it runs.
fn vector_claims(speeds: &BTreeMap<String, f64>) -> [Finding; 3] {
    let doubled = Claim {
        place: "Section 6.2.1",
        claim: "vectors double Gear's speed",
        reported: "about 2×, 64 bits by AVX2",
        measured_by: "Gear with 16 bits, the Gear here that has a vector kernel, over its scalar \
                      rule",
    };
    let outperforms = Claim {
        place: "Section 6.3.3",
        claim: "Gear by vectors outperforms every other algorithm",
        reported: "it does",
        measured_by: "Gear with 16 bits by vectors beside the scalar kernels of the others, random \
                      data, 2 KiB, thread time; all but Gear NC, which is not timed",
    };
    let best_served = Claim {
        place: "Section 6.3.3",
        claim: "vectors serve Gear best",
        reported: "no other algorithm had them",
        measured_by: "the fastest kernel of each, random data, 2 KiB; all but Gear NC, which is not \
                      timed",
    };
    let scalar = |name: &str| speeds.get(&format!("{name}, scalar")).copied();
    let by_vectors = |name: &str| {
        let prefix = format!("{name}, ");
        let of_it = speeds.iter().filter(|(found, _)| {
            let kernel = found.strip_prefix(&prefix);
            kernel.is_some_and(|kernel| !kernel.contains(' ') && kernel != "scalar")
        });
        of_it.map(|(_, &speed)| speed).max_by(f64::total_cmp)
    };
    let (Some(gear), Some(slow)) = (by_vectors("Gear, 16 bits"), scalar("Gear, 16 bits")) else {
        return [doubled, outperforms, best_served]
            .map(|claim| claim.not_measured("no vector kernel of Gear with 16 bits runs here"));
    };
    let next = |speed: &dyn Fn(&str) -> Option<f64>| {
        let speeds = timed().filter_map(|name| Some((name, speed(name)?)));
        speeds.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("none", 0.0))
    };
    let (by_scalar, next_scalar) = next(&scalar);
    let (by_any, next_fastest) =
        next(&|name| [by_vectors(name), scalar(name)].into_iter().flatten().max_by(f64::total_cmp));
    [
        doubled.ratio(2.0, &[gear / slow], "a hash of 16 bits gains other than one of 64"),
        outperforms.found(
            gear > next_scalar,
            format!("{gear:.2} GB/s, {by_scalar} {next_scalar:.2}"),
            &format!("the scalar rule of {by_scalar} is faster here, and scans with no hash"),
        ),
        best_served.found(
            gear > next_fastest,
            format!("Gear-16 {gear:.2} GB/s, {by_any} {next_fastest:.2}"),
            &format!("{by_any} is faster still, with vectors of its own where it has them"),
        ),
    ]
}

/// Figure 6 and table VII: the gain of vectors by target.
fn by_target(session: &mut Session, random: &Dataset) -> Result<()> {
    let mut table = Table::new(
        "Table VII, figure 6",
        "Gear with 16 bits on random data by target, in GB/s",
        &["target", "scalar", "fastest kernel", "gain"],
    );
    let mut gains = Vec::new();
    for target in TARGETS {
        let params = rand_rows::experiment("Gear, 16 bits", Algorithm::Gear16, target, 0.0);
        let mut contenders = Vec::new();
        contend(&mut contenders, &format!("Gear-16 at {target}"), &params, random.bytes())?;
        let bytes = random.bytes().len() as u64;
        let outcomes = session.measure(random.name(), bytes, contenders)?;
        let speeds: Vec<f64> =
            outcomes.iter().map(|one| bytes as f64 / one.thread_seconds().median / 1e9).collect();
        let (slow, fast) = (speeds[0], speeds[speeds.len() - 1]);
        // without a vector kernel there is one contender
        if speeds.len() > 1 {
            gains.push(fast / slow);
        }
        let numbers = [slow, fast, fast / slow].map(|number| format!("{number:.2}"));
        table.row([target.to_string()].into_iter().chain(numbers));
    }
    session.table(table);
    let claim = Claim {
        place: "Figure 6",
        claim: "the gain of vectors grows with the target",
        reported: "fewer cut-points, less work outside of the vectors",
        measured_by: "Gear with 16 bits, fastest kernel over scalar, at 512 to 8192",
    };
    session.finding(match &gains[..] {
        [small, .., large] => claim.found(
            large > small,
            format!("{small:.2}× at 512, {large:.2}× at 8192"),
            "a cut-point costs little in this kernel",
        ),
        _ => claim.not_measured("no vector kernel of Gear with 16 bits runs here"),
    });
    Ok(())
}

// ---- table VIII, figures 7 to 11 and table IX: real data ----------------------------------------

/// What an algorithm makes of a dataset at a target.
struct Cut {
    metrics: Metrics,
    /// Chunks shorter than half the target, as a share.
    short: f64,
}

struct Found {
    dataset: &'static str,
    theirs: &'static str,
    /// By name and target.
    cuts: BTreeMap<(&'static str, usize), Cut>,
    /// Space savings of Rabin and Buzhash at 2 KiB by window.
    windows: BTreeMap<(&'static str, usize), f64>,
}

impl Found {
    /// Mean chunks at a target, for a sentence.
    fn means(&self, names: &[&'static str], target: usize) -> String {
        let means = names
            .iter()
            .map(|&name| self.cuts.get(&(name, target)).map_or(f64::NAN, |cut| cut.metrics.mean));
        let means: Vec<String> = means.map(|mean| format!("{mean:.0}")).collect();
        format!("means of {} bytes", means.join(", "))
    }

    fn savings(&self, name: &'static str, target: usize) -> f64 {
        self.cuts.get(&(name, target)).map_or(f64::NAN, |cut| 100.0 * cut.metrics.space_savings())
    }
}

const WINDOWS: [usize; 4] = [16, 32, 64, 128];

fn datasets(session: &mut Session, found: &mut Vec<Found>) -> Result<()> {
    for (name, theirs) in DATASETS {
        session.part(&format!("Figures 7 to 11 on {name}"), |session| {
            cut_dataset(session, name, theirs, found)
        })?;
    }
    Ok(())
}

fn cut_dataset(
    session: &mut Session,
    name: &'static str,
    theirs: &'static str,
    found: &mut Vec<Found>,
) -> Result<()> {
    let Some(dataset) = session.load(name, session.effort().bytes / 2)? else { return Ok(()) };
    let data = dataset.bytes();
    let mut of_dataset =
        Found { dataset: name, theirs, cuts: BTreeMap::new(), windows: BTreeMap::new() };
    for algorithm in NAMES {
        session.step(&format!("{name} by {algorithm}"))?;
        for target in TARGETS {
            let cut = cut(&params(algorithm, target, data)?, target, data)?;
            of_dataset.cuts.insert((algorithm, target), cut);
        }
    }
    for algorithm in ["Rabin", "Buzhash"] {
        session.step(&format!("{name} by {algorithm} and window"))?;
        for window in WINDOWS {
            let sizes = ChunkSizes::unbounded(window, window - 1 + 2048)?;
            let params = Params { window, sizes, ..params(algorithm, 2048, data)? };
            let savings = 100.0 * cut(&params, 2048, data)?.metrics.space_savings();
            of_dataset.windows.insert((algorithm, window), savings);
        }
    }
    found.push(of_dataset);
    Ok(())
}

fn cut(params: &Params, target: usize, data: &[u8]) -> Result<Cut> {
    let chunker = Chunker::new(params)?;
    let mut ends: Vec<usize> = chunker.cut_points(data).collect();
    if ends.len() > 1 {
        ends.pop(); // the last chunk is left out
    }
    let whole = ends.last().copied().unwrap_or(0);
    let starts = [0].into_iter().chain(ends.iter().copied());
    let short = ends.iter().zip(starts).filter(|(end, start)| 2 * (*end - start) < target).count();
    let short = short as f64 / ends.len().max(1) as f64;
    Ok(Cut { metrics: Metrics::of(&data[..whole], ends), short })
}

fn tables(session: &mut Session, found: &[Found]) {
    let targets: Vec<String> = TARGETS.iter().map(|target| format!("{target} B")).collect();
    let mut columns = vec!["algorithm"];
    columns.extend(targets.iter().map(String::as_str));
    for one in found {
        let title =
            |what: &str| format!("{what} on {} (for {}) by target", one.dataset, one.theirs);
        let mut sizes = Table::new(
            "Table VIII, appendix B, figure 8",
            &title("mean / deviation in bytes"),
            &columns,
        );
        let mut savings =
            Table::new("Figures 9 and 11", &title("space savings in percent"), &columns);
        let mut short = Table::new(
            "Figure 7",
            &title("chunks shorter than half the target, in percent,"),
            &columns,
        );
        for name in NAMES {
            let cells = |text: &dyn Fn(&Cut) -> String| -> Vec<String> {
                let cuts = TARGETS.iter().map(|&target| &one.cuts[&(name, target)]);
                [name.to_owned()].into_iter().chain(cuts.map(text)).collect()
            };
            sizes.row(cells(&|cut| {
                format!("{:.0} / {:.0}", cut.metrics.mean, cut.metrics.deviation)
            }));
            savings.row(cells(&|cut| format!("{:.2}", 100.0 * cut.metrics.space_savings())));
            short.row(cells(&|cut| format!("{:.1}", 100.0 * cut.short)));
        }
        session.table(sizes);
        session.table(savings);
        session.table(short);
    }
    let mut columns = vec!["algorithm, window"];
    columns.extend(found.iter().map(|one| one.dataset));
    let mut windows =
        Table::new("Figure 10", "space savings at 2 KiB by window, in percent", &columns);
    for key in found[0].windows.keys() {
        let cells = found.iter().map(|one| format!("{:.2}", one.windows[key]));
        windows.row([format!("{}, {}", key.0, key.1)].into_iter().chain(cells));
    }
    session.table(windows);
}

fn claims(session: &mut Session, found: &[Found]) {
    let savings = "space savings, BLAKE3, one stream, the fastest kernels";
    let each = |value: &dyn Fn(&Found) -> f64| -> Vec<f64> { found.iter().map(value).collect() };
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);

    let claim = Claim {
        place: "Figure 9",
        claim: "savings fall with the target, for every algorithm",
        reported: "generally so",
        measured_by: "less at 8192 than at 512; PCI and MII left out, whose means do not follow \
                      the target",
    };
    let mut exceptions = Vec::new();
    for one in found {
        for name in NAMES.into_iter().filter(|name| !matches!(*name, "PCI" | "MII")) {
            if one.savings(name, 512) < one.savings(name, 8192) {
                exceptions.push(format!("{name} on {}", one.dataset));
            }
        }
    }
    session.finding(claim.found(
        exceptions.is_empty(),
        if exceptions.is_empty() { "so".into() } else { exceptions.join(", ") },
        "a longer minimum or horizon happens to fit the data's blocks",
    ));

    let claim = Claim {
        place: "Section 8.1",
        claim: "Rabin, Buzhash and Gear save alike",
        reported: "minuscule differences",
        measured_by: "largest difference over all targets in points; alike: within 3",
    };
    let apart = each(&|one| {
        let at = |&target: &usize| {
            let three = ["Rabin", "Buzhash", "Gear"].map(|name| one.savings(name, target));
            largest(&three) - three.iter().copied().fold(f64::INFINITY, f64::min)
        };
        largest(&TARGETS.iter().map(at).collect::<Vec<_>>())
    });
    session.finding(claim.found(
        largest(&apart) <= 3.0,
        format!("{} points", range(&apart)),
        &where_most(found, &apart, &["Rabin", "Buzhash", "Gear"], 8192),
    ));

    let claim = Claim {
        place: "Section 8.1",
        claim: "AE is among the best with Rabin, Buzhash and Gear",
        reported: "no considerable differences, AE behind at larger targets",
        measured_by: "AE less the best of them at 512 and at 8192, in points; at 512 within 5",
    };
    let behind = |target| {
        each(&|one| {
            let best = largest(&["Rabin", "Buzhash", "Gear"].map(|name| one.savings(name, target)));
            best - one.savings("AE", target)
        })
    };
    let (near, far) = (behind(512), behind(8192));
    session.finding(claim.found(
        largest(&near) <= 5.0,
        format!("{} points behind at 512, {} at 8192", range(&near), range(&far)),
        &format!(
            "{}; AE finds back into step slowly behind a change: crates/cdc/src/ae.rs, \
             Resynchronisation",
            where_most(found, &near, &["AE", "Rabin", "Gear"], 512)
        ),
    ));

    let code: Vec<&Found> = found.iter().filter(|one| one.theirs == CODE).collect();
    let claim = Claim {
        place: "Section 7.2.2",
        claim: "RAM fails to find cut-points in source code",
        reported: "a mean of 66,846 bytes and a deviation of 1,733,430 for 2048",
        measured_by: "mean over target at 2048; fails: twice the target or more",
    };
    if code.is_empty() {
        session.finding(claim.not_measured("no source code there"));
    } else {
        let means: Vec<f64> =
            code.iter().map(|one| one.cuts[&("RAM", 2048)].metrics.mean / 2048.0).collect();
        session.finding(claim.found(
            means.iter().all(|&mean| mean >= 2.0),
            format!("{}× the target", range(&means)),
            "these trees hold other text: a byte that is larger than a window's comes sooner",
        ));
        let claim = Claim {
            place: "Table IX",
            claim: "BFBC saves less than Rabin on source code",
            reported: "against what BFBC's authors report",
            measured_by: "savings at 512 of Rabin less those of the better of BFBC and BFBC*",
        };
        let less: Vec<f64> = code
            .iter()
            .map(|one| {
                let best = one.savings("BFBC", 512).max(one.savings("BFBC*", 512));
                one.savings("Rabin", 512) - best
            })
            .collect();
        session.finding(claim.found(
            less.iter().all(|&points| points > 0.0),
            format!("{} points", range(&less)),
            &code_means(&code),
        ));
    }

    let claim = Claim {
        place: "Figure 11",
        claim: "normalised chunking costs few savings",
        reported: "at most 2 points from plain Gear",
        measured_by: savings,
    };
    let apart = each(&|one| {
        let mut most = 0.0_f64;
        for target in TARGETS {
            for name in ["Gear NC-1", "Gear NC-2", "Gear NC-3"] {
                most = most.max((one.savings(name, target) - one.savings("Gear", target)).abs());
            }
        }
        most
    });
    session.finding(claim.found(
        largest(&apart) <= 2.0,
        format!("{} points", range(&apart)),
        &where_most(found, &apart, &["Gear", "Gear NC-1", "Gear NC-2", "Gear NC-3"], 2048),
    ));

    let claim = Claim {
        place: "Figure 8",
        claim: "each level of normalisation makes chunks more even",
        reported: "less deviation from NC-1 to NC-3",
        measured_by: "deviation over mean at 2048, per dataset",
    };
    let exceptions: Vec<String> = found
        .iter()
        .filter_map(|one| {
            let spread = ["Gear NC-1", "Gear NC-2", "Gear NC-3"].map(|name| {
                let metrics = &one.cuts[&(name, 2048)].metrics;
                metrics.deviation / metrics.mean
            });
            let falls = spread[0] > spread[1] && spread[1] > spread[2];
            let [first, second, third] = spread;
            let text = format!("{first:.2}, {second:.2}, {third:.2} on {}", one.dataset);
            (!falls).then_some(text)
        })
        .collect();
    let falls = exceptions.is_empty();
    let text = if falls { "so on all datasets".to_owned() } else { exceptions.join("; ") };
    session.finding(claim.found(falls, text, "data there give chunks of their own lengths"));

    let short = ["Rabin", "Gear", "AE", "RAM"]
        .map(|name| each(&|one: &Found| 100.0 * one.cuts[&(name, 2048)].short));
    session.finding(short_chunks(&short));

    let claim = Claim {
        place: "Section 7.2.2",
        claim: "AE's chunks vary least",
        reported: "lowest variance of all",
        measured_by: "deviation over mean at 2048, the least of all algorithms",
    };
    let least: Vec<String> = found
        .iter()
        .map(|one| {
            let spread = |name: &&&str| {
                let metrics = &one.cuts[&(**name, 2048)].metrics;
                metrics.deviation / metrics.mean
            };
            let least = NAMES.iter().min_by(|a, b| spread(a).total_cmp(&spread(b)));
            least.map_or(String::new(), |name| format!("{name} on {}", one.dataset))
        })
        .collect();
    session.finding(claim.found(
        least.iter().all(|text| text.starts_with("AE ")),
        least.join(", "),
        if least.iter().any(|text| text.starts_with("BFBC ")) {
            "frequent pairs come soon behind BFBC's minimum, which lies just below its target"
        } else {
            "on these data another is more even"
        },
    ));

    let claim = Claim {
        place: "Figure 10",
        claim: "the window decides little",
        reported: "no number in the text",
        measured_by: "savings at 2 KiB with windows of 16 to 128; little: within 2 points",
    };
    let apart = each(&|one| {
        let at = |name| {
            let of_it: Vec<f64> = WINDOWS.iter().map(|&w| one.windows[&(name, w)]).collect();
            largest(&of_it) - of_it.iter().copied().fold(f64::INFINITY, f64::min)
        };
        f64::max(at("Rabin"), at("Buzhash"))
    });
    session.finding(claim.found(
        largest(&apart) <= 2.0,
        format!("{} points between windows", range(&apart)),
        &format!("{}; a longer window also makes chunks longer by as much", most_on(found, &apart)),
    ));
    let mean = |key| {
        let sum: f64 = found.iter().map(|one| one.windows[&key]).sum();
        sum / found.len() as f64
    };
    session.finding(best_windows(
        WINDOWS.map(|window| mean(("Rabin", window))),
        WINDOWS.map(|window| mean(("Buzhash", window))),
    ));
}

/// Of figures, one of each dataset, where the most is.
fn most_on(found: &[Found], figures: &[f64]) -> String {
    let most = found.iter().zip(figures).max_by(|a, b| a.1.total_cmp(b.1));
    most.map_or(String::new(), |(one, _)| format!("most on {}", one.dataset))
}

/// The same, and the means that some algorithms reach there at a target.
fn where_most(found: &[Found], figures: &[f64], names: &[&'static str], target: usize) -> String {
    let most = found.iter().zip(figures).max_by(|a, b| a.1.total_cmp(b.1));
    let means = |one: &Found| one.means(names, target);
    most.map_or(String::new(), |(one, _)| {
        format!(
            "{}, where {} at {target} give {}",
            most_on(found, figures),
            names.join(", "),
            means(one)
        )
    })
}

/// Of source code, the means of BFBC and Rabin at 512.
fn code_means(code: &[&Found]) -> String {
    let names = ["Rabin", "BFBC", "BFBC*"];
    let of_each = code.iter().map(|one| format!("{} on {}", one.means(&names, 512), one.dataset));
    let of_each = of_each.collect::<Vec<_>>().join(", ");
    format!("{} at 512 give {of_each}", names.join(", "))
}

/// Of Rabin, Gear, AE and RAM, the percentage of short chunks on each dataset.
fn short_chunks([rabin, gear, ae, ram]: &[Vec<f64>; 4]) -> Finding {
    let claim = Claim {
        place: "Figure 7",
        claim: "windows make many short chunks, AE and RAM none",
        reported: "heavy tails; AE and RAM close to the target",
        measured_by: "chunks shorter than half of 2048 on each dataset: Rabin and Gear above 20 %, \
                      AE and RAM below 1 %",
    };
    let many = rabin.iter().chain(gear).all(|&one| one > 20.0);
    let none = ae.iter().chain(ram).all(|&one| one < 1.0);
    let [rabin, gear, ae, ram] = [rabin, gear, ae, ram].map(|shares| range(shares));
    claim.found(
        many && none,
        format!("Rabin {rabin}, Gear {gear}, AE {ae}, RAM {ram} %"),
        match (many, none) {
            (false, true) => "what is repeated gives chunks of one length, many of them long",
            (true, false) => "AE or RAM meet larger bytes at short distances in these data",
            _ => "neither half holds on these data, which repeat themselves",
        },
    )
}

/// By the mean savings of each of [`WINDOWS`].
fn best_windows(rabin: [f64; 4], buzhash: [f64; 4]) -> Finding {
    let claim = Claim {
        place: "Figure 10",
        claim: "32 bytes are the best window for Rabin, 64 for Buzhash",
        reported: "the best results, and so chosen",
        measured_by: "savings at 2 KiB with windows of 16 to 128, in the mean over the datasets; \
                      none does better",
    };
    let best = |means: [f64; 4]| means.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let of = |means: [f64; 4]| {
        let text: Vec<String> = WINDOWS
            .iter()
            .zip(means)
            .map(|(window, savings)| format!("{savings:.2} % with {window}"))
            .collect();
        text.join(", ")
    };
    claim.found(
        rabin[1] >= best(rabin) && buzhash[2] >= best(buzhash),
        format!("Rabin: {}; Buzhash: {}", of(rabin), of(buzhash)),
        "the longer the window, the later the first cut-point can be: windows change means too, \
         and other data prefer others",
    )
}

fn not_measured(session: &mut Session) {
    let claim = |place, claim, reported| Claim { place, claim, reported, measured_by: "" };
    session
        .finding(claim("Table X", "which algorithm is good at what", "").not_measured(
            "a summary of the other tables, not a measurement: see the claims above",
        ));
    for (name, theirs) in DATASETS {
        if let Some(reason) = session.why_missing(name) {
            session.finding(
                claim("Figure 9", "results on a dataset like theirs", theirs).not_measured(&reason),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Verdict;

    #[test]
    fn short_chunks_of_ram_count_as_those_of_ae_do() {
        let verdict = |shares: [f64; 4]| short_chunks(&shares.map(|share| vec![share])).verdict;
        assert_eq!(verdict([30.0, 30.0, 0.5, 0.5]), Verdict::Holds);
        assert_eq!(verdict([30.0, 30.0, 0.5, 1.5]), Verdict::Differs);
        assert_eq!(verdict([30.0, 30.0, 1.5, 0.5]), Verdict::Differs);
        assert_eq!(verdict([30.0, 10.0, 0.5, 0.5]), Verdict::Differs);
    }

    #[test]
    fn the_windows_that_were_chosen_are_to_be_the_best() {
        let verdict = |rabin, buzhash| best_windows(rabin, buzhash).verdict;
        let (at_32, at_64) = ([1.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 1.0]);
        assert_eq!(verdict(at_32, at_64), Verdict::Holds);
        assert_eq!(verdict(at_64, at_64), Verdict::Differs);
        assert_eq!(verdict(at_32, at_32), Verdict::Differs);
    }

    #[test]
    fn vectors_that_gain_nothing_differ_and_none_at_all_are_not_measured() {
        let verdicts = |speeds: &[(&str, f64)]| {
            let speeds = speeds.iter().map(|&(name, speed)| (name.to_owned(), speed)).collect();
            vector_claims(&speeds).map(|finding| finding.verdict)
        };
        let (slow, fast) = ("Gear, 16 bits, scalar", "Gear, 16 bits, avx2");
        assert_eq!(verdicts(&[(slow, 1.0)]), [Verdict::NotMeasured; 3]);
        let none = verdicts(&[(slow, 2.0), (fast, 1.5), ("RAM, scalar", 1.8)]);
        assert_eq!(none, [Verdict::Differs; 3]);
        let all = verdicts(&[(slow, 1.0), (fast, 2.0), ("RAM, scalar", 1.8)]);
        assert_eq!(all, [Verdict::Holds; 3]);
        let ram = verdicts(&[(slow, 1.0), (fast, 2.0), ("RAM, scalar", 1.8), ("RAM, avx2", 9.0)]);
        assert_eq!(ram, [Verdict::Holds, Verdict::Holds, Verdict::Differs]);
    }

    #[test]
    fn a_figure_that_is_not_the_papers_says_so() {
        for name in ["RAM", "BFBC*"] {
            assert!(own_prediction(name).unwrap().claim.contains("own prediction"));
        }
        let mut own = BTreeMap::<&str, usize>::new();
        for row in rand_rows::rows(Dataset::random(1, 1 << 20).bytes()) {
            if row_name(&row).contains("own prediction") {
                *own.entry(row.name).or_default() += 1;
                assert!(own_prediction(row.name).is_some(), "{}", row.name);
            }
        }
        assert_eq!(own, BTreeMap::from([("BFBC*", 7), ("RAM", 3)]));
    }
}
