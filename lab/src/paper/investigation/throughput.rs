//! Tables VI and VII, figures 5 and 6: throughput.

use std::collections::BTreeMap;

use anyhow::Result;
use onefold_bench::{Contender, Dataset};
use onefold_cdc::{Algorithm, Chunker, Kernel, Params};

use super::{NAMES, TARGETS, params, rand_rows};
use crate::paper::finding::{Claim, Finding, Table, range};
use crate::paper::session::Session;

/// The target of the figures on throughput.
const THROUGHPUT_TARGET: usize = 2048;

pub(super) fn measure(session: &mut Session) -> Result<()> {
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
    claims(session, &speeds);
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

fn claims(session: &mut Session, speeds: &BTreeMap<String, f64>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Verdict;

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
}
