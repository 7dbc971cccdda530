//! VectorCDC, figures 1 and 5 to 8: space savings that vectors leave alone, throughput by algorithm,
//! speed-ups by instruction set, and the ablation by phase.

use std::collections::BTreeMap;

use anyhow::Result;
use onefold_bench::{Contender, Dataset, Metrics};
use onefold_cdc::research::TwoStage;
use onefold_cdc::{Algorithm, Chunker, Kernel, Params};

use super::finding::{Claim, Finding, Table, range};
use super::ram_phases::RamPhases;
use super::session::Session;

/// The paper's chunk size.
const MEAN: usize = 8 << 10;

/// Our datasets, and those of the paper that they stand for.
const DATASETS: [(&str, &str); 5] =
    [("vm", "DEB"), ("roots", "DEV"), ("kernel", "LNX"), ("redis", "RDS"), ("postgres", "TPCC")];

const HASHED: [Algorithm; 5] =
    [Algorithm::Rabin, Algorithm::Crc, Algorithm::Gear, Algorithm::Tttd, Algorithm::FastCdc];

const HASHLESS: [Algorithm; 4] =
    [Algorithm::AeMax, Algorithm::Ram, Algorithm::Maxp, Algorithm::SeqInc];

/// What was found on one dataset.
struct Found {
    dataset: String,
    /// GB/s of the thread's time, in the median, by contender.
    speeds: BTreeMap<String, f64>,
    /// Space savings in percent, by algorithm.
    savings: BTreeMap<&'static str, f64>,
    /// Of every vector kernel.
    vectors: Vec<Beside>,
    /// Mean chunks in bytes, by algorithm.
    means: BTreeMap<&'static str, f64>,
}

/// A vector kernel beside the scalar rule.
struct Beside {
    /// Algorithm and kernel.
    name: String,
    /// Space savings in percent, of the kernel and of the scalar rule; none if they cut at the
    /// same places.
    apart: Option<[f64; 2]>,
}

impl Found {
    fn ratio(&self, fast: &str, slow: &str) -> Option<f64> {
        Some(self.speeds.get(fast)? / self.speeds.get(slow)?)
    }

    /// The mean chunk in bytes; of those that found none, 0.
    fn mean(&self, algorithm: Algorithm) -> f64 {
        self.means.get(algorithm.name()).copied().unwrap_or(0.0)
    }

    /// For a sentence.
    fn means_of(&self, algorithms: impl IntoIterator<Item = Algorithm>) -> String {
        let means =
            algorithms.into_iter().map(|one| format!("{:.0} bytes by {one}", self.mean(one)));
        means.collect::<Vec<_>>().join(", ")
    }

    /// The fastest of an algorithm's kernels.
    fn best(&self, algorithm: Algorithm) -> Option<f64> {
        let prefix = format!("{algorithm}, ");
        let speeds = self.speeds.iter().filter(|(name, _)| name.starts_with(&prefix));
        speeds.map(|(_, &speed)| speed).max_by(f64::total_cmp)
    }
}

pub(super) fn measure(session: &mut Session) -> Result<()> {
    let mut on_random = None;
    session.part("Figure 1", |session| on_random_bytes(session, &mut on_random))?;

    let mut found = Vec::new();
    let outcome = cut_datasets(session, &mut found);
    tables(session, &found);
    if found.is_empty() {
        // the claims about speed can be put to random bytes, those about savings cannot
        found.extend(on_random);
    } else {
        figure_5(session, &found);
    }
    figure_6(session, &found);
    figure_7(session, &found);
    figure_8(session, &found);
    not_measured(session);
    outcome
}

fn on_random_bytes(session: &mut Session, found: &mut Option<Found>) -> Result<()> {
    let random = session.random(session.effort().random_bytes);
    let on_random = cut(session, &random)?;
    figure_1(session, found.insert(on_random));
    Ok(())
}

/// What is found before the session is stopped stays in `found`.
fn cut_datasets(session: &mut Session, found: &mut Vec<Found>) -> Result<()> {
    for (name, theirs) in DATASETS {
        session.part(&format!("Figures 5 to 8 on {name}"), |session| {
            cut_dataset(session, name, theirs, found)
        })?;
    }
    Ok(())
}

fn cut_dataset(
    session: &mut Session,
    name: &str,
    theirs: &str,
    found: &mut Vec<Found>,
) -> Result<()> {
    let Some(dataset) = session.load(name, session.effort().bytes)? else { return Ok(()) };
    let of_dataset = cut(session, &dataset)?;
    found.push(Found { dataset: format!("{} (for {theirs})", dataset.name()), ..of_dataset });
    Ok(())
}

/// Cuts a dataset by every algorithm of the paper, on every kernel and in two stages.
fn cut(session: &mut Session, dataset: &Dataset) -> Result<Found> {
    let data = dataset.bytes();
    let mut contenders = Vec::new();
    let mut kernels = Vec::new();
    for algorithm in HASHED.into_iter().chain(HASHLESS) {
        let params = Params::for_mean(algorithm, MEAN)?;
        let scalar = format!("{algorithm}, scalar");
        for &kernel in Kernel::usable(algorithm).iter().rev() {
            let chunker = Chunker::with_kernel(&params, kernel)?;
            let name = format!("{algorithm}, {kernel}");
            // that they cut alike is a claim, and compared below
            if kernel != Kernel::Scalar {
                kernels.push((name.clone(), scalar.clone()));
            }
            contenders.push(Contender::new(name, move |found| {
                found.extend(chunker.cut_points(data));
            }));
        }
    }
    for algorithm in [Algorithm::Crc, Algorithm::Gear, Algorithm::FastCdc] {
        let two_stage = TwoStage::new(&Params::for_mean(algorithm, MEAN)?)?;
        let contender = Contender::new(format!("ss-{algorithm}"), move |found| {
            found.extend(two_stage.cut_points(data));
        });
        contenders.push(contender.equal_to(format!("{algorithm}, scalar")));
    }
    let ram = Params::for_mean(Algorithm::Ram, MEAN)?;
    for (search, scan) in [(false, false), (true, false), (false, true), (true, true)] {
        let phases = RamPhases::new(&ram, search, scan)?;
        let contender = Contender::new(phases.name(), move |found| phases.cut(data, found));
        contenders.push(contender.equal_to("ram, scalar"));
    }

    let outcomes = session.measure(dataset.name(), data.len() as u64, contenders)?;
    let mut speeds = BTreeMap::new();
    let mut savings = BTreeMap::new();
    let mut means = BTreeMap::new();
    for outcome in &outcomes {
        let seconds = outcome.thread_seconds().median;
        speeds.insert(outcome.name.clone(), data.len() as f64 / seconds / 1e9);
        let of_scalar = |&&algorithm: &&Algorithm| outcome.name == format!("{algorithm}, scalar");
        if let Some(algorithm) = HASHED.iter().chain(&HASHLESS).find(of_scalar) {
            session.step(&format!("{}: duplicates by {algorithm}", dataset.name()))?;
            let metrics = Metrics::of(data, outcome.cut_points.iter().copied());
            savings.insert(algorithm.name(), 100.0 * metrics.space_savings());
            means.insert(algorithm.name(), metrics.mean);
        }
    }
    let fixed = Chunker::new(&Params::for_mean(Algorithm::Fixed, MEAN)?)?;
    let metrics = Metrics::of(data, fixed.cut_points(data));
    savings.insert(Algorithm::Fixed.name(), 100.0 * metrics.space_savings());
    let points_of = |name: &str| {
        outcomes.iter().find(|outcome| outcome.name == name).map(|outcome| &outcome.cut_points[..])
    };
    let vectors = kernels.into_iter().filter_map(|(name, scalar)| {
        let (kernel, model) = (points_of(&name)?, points_of(&scalar)?);
        Some(beside(name, data, kernel, model))
    });
    let vectors = vectors.collect();
    Ok(Found { dataset: dataset.name().to_owned(), speeds, savings, vectors, means })
}

fn beside(name: String, data: &[u8], kernel: &[usize], model: &[usize]) -> Beside {
    let savings =
        |points: &[usize]| 100.0 * Metrics::of(data, points.iter().copied()).space_savings();
    Beside { name, apart: (kernel != model).then(|| [kernel, model].map(savings)) }
}

fn tables(session: &mut Session, found: &[Found]) {
    if found.is_empty() {
        return;
    }
    let mut columns = vec!["algorithm"];
    columns.extend(found.iter().map(|one| one.dataset.as_str()));
    let mut table = Table::new("Figure 5", "space savings at 8 KiB, in percent", &columns);
    for name in found[0].savings.keys() {
        let cells = found.iter().map(|one| format!("{:.2}", one.savings[name]));
        table.row([(*name).to_owned()].into_iter().chain(cells));
    }
    session.table(table);
    let mut table = Table::new("Figures 6 to 8", "chunking at 8 KiB, in GB/s", &columns);
    for name in found[0].speeds.keys() {
        let cells = found.iter().map(|one| format!("{:.2}", one.speeds[name]));
        table.row([name.clone()].into_iter().chain(cells));
    }
    session.table(table);
}

/// Ratios of two contenders on each dataset.
fn ratios(found: &[Found], fast: &str, slow: &str) -> Vec<f64> {
    found.iter().filter_map(|one| one.ratio(fast, slow)).collect()
}

/// Ratios of the fastest kernel of one algorithm to another contender.
fn best_over(found: &[Found], fast: Algorithm, slow: &str) -> Vec<f64> {
    found.iter().filter_map(|one| Some(one.best(fast)? / one.speeds.get(slow)?)).collect()
}

const TWO_STAGES: &str = "four streams in plain instructions, or a vector kernel where the rule has \
                          one, in place of gathers; see crates/cdc/src/research/two_stage.rs";

const SS_GEAR: &str = "the scalar rule walks Gear's hash by one instruction a byte and skips the \
                       minimum; two stages hash every byte, and Gear has no vector kernel";

const SS_CRC: &str = "the scalar rule skips the minimum; two stages hash every byte";

const LESS_TO_GAIN: &str = "the faster it is without vectors, the less there is to gain, until \
                            memory is the limit";

/// GB/s in the paper's figure 6, of those that others are compared with.
const THEIRS: [(&str, f64); 7] = [
    ("fastcdc, scalar", 2.0),
    ("gear, scalar", 0.95),
    ("crc, scalar", 0.4),
    ("ae-max, scalar", 1.5),
    (RAM_NATIVE, 1.5),
    ("ss-gear", 1.2),
    ("ss-crc", 0.53),
];

/// Why somebody's gain over `slow` is less than the paper's: `slow` is faster here, and `why`, or it
/// is not, and then the other is to blame.
fn less_than_theirs(found: &[Found], slow: &str, why: &str) -> String {
    let here: Vec<f64> = found.iter().filter_map(|one| one.speeds.get(slow).copied()).collect();
    let theirs = THEIRS.iter().find(|(name, _)| *name == slow);
    let (Some((_, theirs)), false) = (theirs, here.is_empty()) else {
        return "another CPU and other data".to_owned();
    };
    let speeds = format!("{slow} reaches {} GB/s here, {theirs} in figure 6", range(&here));
    if onefold_bench::Summary::of(here).median > *theirs {
        format!("{speeds}: {why}")
    } else {
        format!("{speeds}, so it is the other that is slower here")
    }
}

fn figure_1(session: &mut Session, random: &Found) {
    let random = std::slice::from_ref(random);
    for (claim, reported, fast, slow) in [
        (
            Claim {
                place: "Figure 1",
                claim: "SS-CRC over CRC on random bytes",
                reported: "1.59×",
                measured_by: "CRC in two stages and its scalar rule, 8 KiB",
            },
            1.59,
            "ss-crc",
            "crc, scalar",
        ),
        (
            Claim {
                place: "Figure 1",
                claim: "SS-Gear over Gear on random bytes",
                reported: "1.18×",
                measured_by: "Gear in two stages and its scalar rule, 8 KiB",
            },
            1.18,
            "ss-gear",
            "gear, scalar",
        ),
    ] {
        let why = if fast == "ss-gear" { SS_GEAR } else { SS_CRC };
        let reason = less_than_theirs(random, slow, why);
        session.finding(claim.ratio(reported, &ratios(random, fast, slow), &reason));
    }
}

/// Kernels that cut alike save alike.
fn equal_savings(found: &[Found]) -> Finding {
    let claim = Claim {
        place: "Figure 5",
        claim: "vectors change no space savings",
        reported: "equal",
        measured_by: "cut-points of every vector kernel beside the scalar rule's, on each dataset; \
                      where they differ, the space savings of both, which are to be equal",
    };
    let kernels: Vec<(&Found, &Beside)> =
        found.iter().flat_map(|one| one.vectors.iter().map(move |kernel| (one, kernel))).collect();
    if kernels.is_empty() {
        return claim.not_measured("no vector kernel runs on this CPU");
    }
    let mut text = format!("{} kernels on {} datasets", found[0].vectors.len(), found.len());
    let mut holds = true;
    for (one, kernel) in kernels {
        if let Some([of_kernel, of_scalar]) = kernel.apart {
            holds &= of_kernel == of_scalar;
            let (name, dataset) = (&kernel.name, &one.dataset);
            text += &format!("; {name} cuts {dataset} otherwise, {of_kernel} % for {of_scalar} %");
        }
    }
    claim.found(holds, text, "a vector kernel is wrong")
}

fn figure_5(session: &mut Session, found: &[Found]) {
    session.finding(equal_savings(found));

    let points = |one: &Found, algorithm: Algorithm| one.savings[algorithm.name()];
    let best_hashed = |one: &Found| {
        HASHED.into_iter().map(|algorithm| points(one, algorithm)).fold(0.0, f64::max)
    };
    let claim = Claim {
        place: "Section 5.1",
        claim: "RAM and AE save within 6 points of the best hash-based algorithm",
        reported: "at most 6 behind",
        measured_by: "space savings of the tables above, by BLAKE3",
    };
    let behind: Vec<f64> = found
        .iter()
        .map(|one| {
            let hashless = points(one, Algorithm::Ram).min(points(one, Algorithm::AeMax));
            best_hashed(one) - hashless
        })
        .collect();
    let most = behind.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let worst = found.iter().zip(&behind).max_by(|a, b| a.1.total_cmp(b.1)).map(|(one, _)| one);
    let reason = worst.map_or(String::new(), |one| {
        let best = HASHED.into_iter().max_by(|&a, &b| points(one, a).total_cmp(&points(one, b)));
        let named = [Some(Algorithm::Ram), Some(Algorithm::AeMax), best].into_iter().flatten();
        format!("most on {}; equal parameters give means of {}", one.dataset, one.means_of(named))
    });
    session.finding(claim.found(most <= 6.0, format!("{} points behind", range(&behind)), &reason));

    let claim = Claim {
        place: "Section 5.1",
        claim: "hash-based algorithms save about alike",
        reported: "close to each other",
        measured_by: "the same; FastCDC, Gear, CRC, Rabin and TTTD; close: within 5 points",
    };
    let spread: Vec<f64> = found
        .iter()
        .map(|one| {
            let least = HASHED.into_iter().map(|algorithm| points(one, algorithm));
            best_hashed(one) - least.fold(f64::INFINITY, f64::min)
        })
        .collect();
    let most = spread.iter().copied().fold(0.0, f64::max);
    let widest = found.iter().zip(&spread).max_by(|a, b| a.1.total_cmp(b.1)).map(|(one, _)| one);
    session.finding(claim.found(
        most <= 5.0,
        format!("{} points apart", range(&spread)),
        &widest.map_or(String::new(), |one| {
            let means = one.means_of(HASHED);
            format!("widest on {}; equal parameters give means of {means}", one.dataset)
        }),
    ));

    let claim = Claim {
        place: "Table 1",
        claim: "content-defined chunks save more than fixed ones where bytes shift",
        reported: "up to 50 points more",
        measured_by: "the best of them, less chunks of 8 KiB",
    };
    let more: Vec<f64> =
        found.iter().map(|one| best_hashed(one) - points(one, Algorithm::Fixed)).collect();
    let most = more.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    session.finding(claim.found(
        most > 10.0,
        format!("{} points more", range(&more)),
        "in images of file systems and databases, data lie on blocks, where fixed chunks do well",
    ));
}

fn figure_6(session: &mut Session, found: &[Found]) {
    for (algorithm, name, least, reported) in [
        (Algorithm::FastCdc, "FastCDC, scalar", 2.0, "2 GB/s"),
        (Algorithm::Gear, "Gear, scalar", 0.95, "0.95 GB/s"),
        (Algorithm::Crc, "CRC, scalar", 0.4, "0.4 GB/s"),
        (Algorithm::AeMax, "AE, scalar", 1.5, "1.5 to 1.6 GB/s"),
    ] {
        let speeds: Vec<f64> = found
            .iter()
            .filter_map(|one| one.speeds.get(&format!("{algorithm}, scalar")).copied())
            .collect();
        speed(session, name, reported, least, &speeds, "thread time, whole buffers, 8 KiB");
    }
    let native = RAM_NATIVE;
    let speeds: Vec<f64> = found.iter().filter_map(|one| one.speeds.get(native).copied()).collect();
    let by = "RAM byte by byte, held back from vectors, which the paper's compiler may have found";
    speed(session, "RAM without vectors", "1.5 to 1.6 GB/s", 1.5, &speeds, by);
    for (name, least, reported) in [("ss-gear", 1.2, "1.2 GB/s"), ("ss-crc", 0.53, "0.53 GB/s")] {
        let speeds: Vec<f64> =
            found.iter().filter_map(|one| one.speeds.get(name).copied()).collect();
        speed(session, name, reported, least, &speeds, "two stages");
    }
    let speeds: Vec<f64> = found.iter().filter_map(|one| one.best(Algorithm::Ram)).collect();
    speed(session, "VRAM, widest vectors", "24 to 26 GB/s", 24.0, &speeds, "RAM's fastest kernel");

    let widest = "RAM's fastest kernel over the other";
    for (claim, reported_text, reported, slow, why) in [
        ("VRAM over SS-Gear", "21×", 21.0, "ss-gear", TWO_STAGES),
        ("VRAM over SS-CRC", "46×", 46.0, "ss-crc", TWO_STAGES),
        (
            "VRAM over FastCDC",
            "12×",
            12.0,
            "fastcdc, scalar",
            "its scalar rule prefetches what lies behind the minimum",
        ),
        ("VRAM over RAM", "16×", 16.0, RAM_NATIVE, LESS_TO_GAIN),
    ] {
        let claim =
            Claim { place: "Figure 6", claim, reported: reported_text, measured_by: widest };
        let reason = less_than_theirs(found, slow, why);
        session.finding(claim.ratio(reported, &best_over(found, Algorithm::Ram, slow), &reason));
    }
    for (claim, reported_text, reported, fast, slow, why) in [
        ("SS-CRC over CRC", "1.3×", 1.3, "ss-crc", "crc, scalar", SS_CRC),
        ("SS-Gear over Gear", "1.2×", 1.2, "ss-gear", "gear, scalar", SS_GEAR),
    ] {
        let measured_by = "two stages over the scalar rule";
        let claim = Claim { place: "Figure 6c", claim, reported: reported_text, measured_by };
        let reason = less_than_theirs(found, slow, why);
        session.finding(claim.ratio(reported, &ratios(found, fast, slow), &reason));
    }
    let claim = Claim {
        place: "Section 5.2",
        claim: "FastCDC gains nothing from SS-CDC, whose first stage skips no minimum",
        reported: "no speed-up",
        measured_by: "FastCDC in two stages over its scalar rule; nothing: below 1.1",
    };
    let gains = ratios(found, "ss-fastcdc", "fastcdc, scalar");
    session.finding(if gains.is_empty() {
        claim.not_measured("no dataset that it could be measured on")
    } else {
        let is_nothing = gains.iter().all(|&gain| gain < 1.1);
        claim.found(is_nothing, format!("{}×", range(&gains)), TWO_STAGES)
    });
}

/// A figure in GB/s, which another CPU is to reach.
fn speed(
    session: &mut Session,
    claim: &'static str,
    reported: &'static str,
    least: f64,
    found: &[f64],
    measured_by: &'static str,
) {
    let claim = Claim { place: "Figure 6", claim, reported, measured_by };
    session.finding(claim.speed(least, found, "another CPU and other data"));
}

/// RAM without any vector, as the paper's own scalar code.
const RAM_NATIVE: &str = "RAM, byte by byte";

fn figure_7(session: &mut Session, found: &[Found]) {
    let over_ram = "over RAM byte by byte; the compiler finds vectors for the window of the \
                    scalar rule";
    let over_ae = "over AE's scalar rule";
    for (name, text, reported, fast, slow, measured_by) in [
        ("VAE-128 over AE", "2×", 2.0, "ae-max, sse4.1", "ae-max, scalar", over_ae),
        ("VAE-256 over AE", "3.45×", 3.45, "ae-max, avx2", "ae-max, scalar", over_ae),
        ("VRAM-128 over RAM", "8.7×", 8.7, "ram, sse4.1", RAM_NATIVE, over_ram),
        ("VRAM-256 over RAM", "12.3×", 12.3, "ram, avx2", RAM_NATIVE, over_ram),
        ("VRAM-512 over RAM", "16×", 16.0, "ram, avx512", RAM_NATIVE, over_ram),
    ] {
        let claim = Claim { place: "Figure 7", claim: name, reported: text, measured_by };
        let reason = less_than_theirs(found, slow, LESS_TO_GAIN);
        session.finding(claim.ratio(reported, &ratios(found, fast, slow), &reason));
    }
    let claim = Claim {
        place: "Section 5.2",
        claim: "RAM gains more from vectors than AE",
        reported: "8.7 to 16× against 2 to 3.45×",
        measured_by: "gains of the fastest kernels of both",
    };
    let ram = best_over(found, Algorithm::Ram, RAM_NATIVE);
    let ae = best_over(found, Algorithm::AeMax, "ae-max, scalar");
    if !found.iter().any(|one| !one.vectors.is_empty()) {
        session.finding(claim.not_measured("no vector kernel runs on this CPU"));
        return;
    }
    let holds = ram.iter().zip(&ae).all(|(ram, ae)| ram > ae);
    let text = format!("RAM {}×, AE {}×", range(&ram), range(&ae));
    let reason = "AE finds its extreme in one pass here, as fast as memory: see \
                  crates/cdc/src/ae.rs";
    session.finding(claim.found(holds, text, reason));
}

fn figure_8(session: &mut Session, found: &[Found]) {
    let claim = Claim {
        place: "Figure 8",
        claim: "vectors in both phases beat VRAM-EBS, which has them in the search alone",
        reported: "1.3× on DEB, 2.9× on LNX",
        measured_by: "RAM by phases with vectors of 16 bytes, both over VRAM-EBS",
    };
    let gains = ratios(found, "VRAM-128, 16 bytes", "VRAM-EBS, 16 bytes");
    let reason = "behind a window of 8 KiB the first byte that is large enough is near on these \
                  data";
    session.finding(claim.ratio(1.3, &gains, reason));
    let claim = Claim {
        place: "Figure 8",
        claim: "the longer RAM's chunks, the more the range scan matters",
        reported: "LNX, with chunks 1 KB longer, gains more than DEB",
        measured_by: "the dataset with RAM's longest mean chunk gains the most",
    };
    if found.len() < 2 {
        session.finding(claim.not_measured("needs two datasets"));
        return;
    }
    let by = |value: &dyn Fn(&Found) -> f64| {
        let best = found.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
        best.map_or(String::new(), |one| one.dataset.clone())
    };
    let longest = by(&|one| one.mean(Algorithm::Ram));
    let gains = by(&|one| {
        one.ratio("VRAM-128, 16 bytes", "VRAM-EBS, 16 bytes").unwrap_or(f64::NEG_INFINITY)
    });
    session.finding(claim.found(
        longest == gains,
        format!("longest chunks: {longest}; largest gain: {gains}"),
        "means here are set by runs of zeros too, which RAM cuts at once",
    ));
}

fn not_measured(session: &mut Session) {
    let claim = Claim {
        place: "Figures 6 and 7",
        claim: "the same on an AMD EPYC Rome and an Intel Ice Lake",
        reported: "similar on both",
        measured_by: "",
    };
    session.finding(claim.not_measured("one machine; its CPU is in the record"));
    for (name, theirs) in DATASETS {
        if let Some(reason) = session.why_missing(name) {
            let claim = Claim {
                place: "Figure 5",
                claim: "results on a dataset like theirs",
                reported: theirs,
                measured_by: "",
            };
            session.finding(claim.not_measured(&reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Verdict;

    fn found(kernels: Vec<Beside>) -> Found {
        Found {
            dataset: "data".to_owned(),
            speeds: BTreeMap::new(),
            savings: BTreeMap::new(),
            vectors: kernels,
            means: BTreeMap::new(),
        }
    }

    #[test]
    fn one_kernel_that_saves_otherwise_is_enough() {
        let data = [1, 2, 1, 2, 3, 4];
        let kernel = |points: &[usize]| beside("ram, wide".to_owned(), &data, points, &[2, 4, 6]);
        let verdict = |points: &[usize]| {
            equal_savings(&[found(vec![kernel(&[2, 4, 6])]), found(vec![kernel(points)])]).verdict
        };
        assert_eq!(verdict(&[2, 4, 6]), Verdict::Holds);
        // other places and equal savings, two bytes of six
        assert_eq!(verdict(&[2, 4, 5, 6]), Verdict::Holds);
        assert_eq!(verdict(&[3, 6]), Verdict::Differs);
        let text = equal_savings(&[found(vec![kernel(&[3, 6])])]).found;
        assert!(text.contains("ram, wide cuts data otherwise, 0 % for 33.3"), "{text}");
        assert_eq!(equal_savings(&[found(Vec::new())]).verdict, Verdict::NotMeasured);
        assert_eq!(equal_savings(&[]).verdict, Verdict::NotMeasured);
    }

    #[test]
    fn a_gain_that_is_missing_is_laid_to_whoever_is_to_blame() {
        let reason = |speed| {
            let mut one = found(Vec::new());
            one.speeds.insert("ss-crc".to_owned(), speed);
            less_than_theirs(&[one], "ss-crc", "it has vectors")
        };
        assert_eq!(reason(1.0), "ss-crc reaches 1.00 GB/s here, 0.53 in figure 6: it has vectors");
        assert!(reason(0.5).ends_with("it is the other that is slower here"));
        assert!(!less_than_theirs(&[], "ss-crc", "").is_empty());
    }

    #[test]
    fn a_gain_of_ss_cdc_for_fastcdc_or_its_absence_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let silent = |_: &str| {};
        let effort = crate::paper::Effort::QUICK;
        let verdict = |gain: Option<f64>| {
            let mut session = Session::new(folder.path(), effort, &silent, &|| false);
            let mut one = found(Vec::new());
            if let Some(gain) = gain {
                one.speeds.insert("fastcdc, scalar".to_owned(), 1.0);
                one.speeds.insert("ss-fastcdc".to_owned(), gain);
            }
            figure_6(&mut session, &[one]);
            let result = session.end(crate::paper::Paper::VectorCdc, Ok(()));
            let finding = result.findings.iter().find(|one| one.claim.contains("SS-CDC, whose"));
            finding.unwrap().verdict
        };
        assert_eq!(verdict(Some(1.0)), Verdict::Holds);
        assert_eq!(verdict(Some(1.2)), Verdict::Differs);
        assert_eq!(verdict(None), Verdict::NotMeasured);
    }
}
