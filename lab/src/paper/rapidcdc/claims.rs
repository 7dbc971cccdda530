//! What is claimed of real data.

use super::real::{Real, chunking_share, hit_shares};
use super::{FF, RWT};
use crate::paper::finding::{Claim, Finding, range};
use crate::paper::session::Session;

/// Of figures, one of each dataset, where the least is, and at which dedup ratio; then `why`.
fn where_least(real: &[Real], figures: &[f64], why: &str) -> String {
    debug_assert_eq!(real.len(), figures.len());
    let least = real.iter().zip(figures).min_by(|a, b| a.1.total_cmp(b.1));
    least.map_or(String::new(), |(one, _)| one.because("least", why))
}

/// The same of the largest.
fn where_most(real: &[Real], figures: &[f64], why: &str) -> String {
    debug_assert_eq!(real.len(), figures.len());
    let most = real.iter().zip(figures).max_by(|a, b| a.1.total_cmp(b.1));
    most.map_or(String::new(), |(one, _)| one.because("most", why))
}

/// Judged on the dataset for Debian, from which the paper has its figure, and on no other.
fn first_is_right(
    claim: &Claim,
    shares: impl IntoIterator<Item = (&'static str, Option<f64>)>,
) -> Finding {
    match shares.into_iter().find(|(theirs, _)| *theirs == "Debian") {
        Some((_, Some(share))) => claim.found(
            share > 90.0,
            format!("{share:.2} %"),
            "versions here differ more from one another",
        ),
        Some((_, None)) => claim.not_measured("no chunk of the dataset for Debian had hints"),
        None => claim.not_measured("no Debian data"),
    }
}

pub(super) fn claims(session: &mut Session, real: &[Real]) {
    let each = |value: &dyn Fn(&Real) -> Option<f64>| -> Vec<f64> {
        real.iter().filter_map(value).collect()
    };
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);

    let claim = Claim {
        place: "Figure 1",
        claim: "chunking takes most of the processor's time",
        reported: "more than 60 %",
        measured_by: "Rabin 4/8/12, scalar: chunking alone over chunking with BLAKE3 and look-ups",
    };
    let shares = each(&|one| Some(chunking_share(one.standard(), "alone")));
    session.finding(claim.found(
        least(&shares) > 60.0,
        format!("{} %", range(&shares)),
        &where_least(real, &shares, "BLAKE3 and look-ups are the rest"),
    ));
    let claim = Claim {
        place: "Figure 2",
        claim: "RapidCDC takes chunking's part down",
        reported: "significantly",
        measured_by: "the same with FF, less than without on every dataset",
    };
    let rapid = each(&|one| Some(chunking_share(one.standard(), FF)));
    let not_less = |one: &&Real| {
        let share = |way| chunking_share(one.standard(), way);
        share(FF) >= share("alone")
    };
    let with_ratio =
        |one: &Real| format!("{}, dedup ratio {:.2}", one.name(), one.standard().ratio());
    let not_on: Vec<String> = real.iter().filter(not_less).map(with_ratio).collect();
    session.finding(claim.found(
        rapid.iter().zip(&shares).all(|(rapid, regular)| rapid < regular),
        format!("{} %", range(&rapid)),
        &format!("not on {}", not_on.join(", ")),
    ));

    let claim = Claim {
        place: "Figure 3",
        claim: "most duplicates follow a duplicate",
        reported: "less than 5, at most 10 % of chunks are duplicates that do not",
        measured_by: "chunks of Rabin 4/8/12: duplicates less those in LQ sequences, in percent of \
                      all",
    };
    let gap = each(&|one| {
        let locality = one.localities.last()?;
        Some(locality.percent(locality.duplicates - locality.in_sequences()))
    });
    session.finding(claim.found(
        most(&gap) <= 10.0,
        format!("{} %", range(&gap)),
        &where_most(real, &gap, "changes lie apart there, all over the files"),
    ));
    let claim = Claim {
        place: "Figure 4",
        claim: "few of them lie in short sequences",
        reported: "a small part in those of 8 and fewer, more than half in those above 64 for some",
        measured_by: "part in sequences of more than 8; few: above 70 % on half of the data",
    };
    let longer = each(&|one| Some(one.localities.last()?.longer(8)));
    session.finding(claim.found(
        onefold_bench::Summary::of(longer.iter().copied()).median > 70.0,
        format!("{} %", range(&longer)),
        &where_least(
            real,
            &longer,
            "there many places change between versions, or files are small",
        ),
    ));

    let claim = Claim {
        place: "Figure 13",
        claim: "FF's speed-up comes close to the dedup ratio",
        reported: "close, up to ratios of 40",
        measured_by: "speed-up over the ratio, Rabin, scalar; close: 0.7 and more",
    };
    let close = each(&|one| Some(one.standard().speed_up(FF)? / one.standard().ratio()));
    session.finding(claim.found(
        least(&close) >= 0.7,
        format!("{} times the ratio", range(&close)),
        &where_least(real, &close, "a jump costs a look-up, and what is no duplicate is sought"),
    ));
    let claim = Claim {
        place: "Figure 13",
        claim: "on real data FF does not cost dedup ratio",
        reported: "no compromise",
        measured_by: "loss of FF; none: within 1 %",
    };
    let loss = each(&|one| one.standard().loss(FF));
    session.finding(claim.found(
        most(&loss) < 1.0,
        format!("{} %", range(&loss)),
        &where_most(
            real,
            &loss,
            "behind each change FF takes lengths that no longer fit, and makes chunks that nobody \
             has",
        ),
    ));
    let claim = Claim {
        place: "Figure 14",
        claim: "the first of a list is right nearly always",
        reported: "99.18 % on Debian",
        measured_by: "FF+RWT with lists of 4 on the dataset for Debian; holds above 90 %",
    };
    let first = real.iter().map(|one| (one.theirs, hit_shares(&one.runs[&4]).first().copied()));
    session.finding(first_is_right(&claim, first));
    let claim = Claim {
        place: "Figure 15",
        claim: "longer lists are faster, by little",
        reported: "visibly, not worth their space beyond 2",
        measured_by: "FF+RWT, lists of 4 over lists of 1; holds from 0.95 to 1.5",
    };
    let gain = each(&|one| Some(one.runs[&4].speed_up(RWT)? / one.runs[&1].speed_up(RWT)?));
    let reason = if least(&gain) <= 0.95 {
        where_least(real, &gain, "a longer list also costs a test for each of its wrong hints")
    } else {
        where_most(real, &gain, "later hints of a list are right there, too")
    };
    session.finding(claim.found(
        least(&gain) > 0.95 && most(&gain) < 1.5,
        format!("{}×", range(&gain)),
        &reason,
    ));
    let claim = Claim {
        place: "Figure 16",
        claim: "chunking with fingerprinting becomes about twice as fast",
        reported: "around 2×, less on data with few duplicates",
        measured_by: "end to end, FF over the regular algorithm, Rabin scalar, BLAKE3 for SHA-1",
    };
    let whole = each(&|one| one.standard().whole_speed_up(FF));
    let ratios = each(&|one| Some(one.standard().ratio()));
    let reason = format!(
        "chunking is {} % of the time here, which is all that can be saved, at dedup ratios of {}",
        range(&shares),
        range(&ratios)
    );
    session.finding(claim.ratio(2.0, &whole, &reason));
    let claim = Claim {
        place: "Figure 17",
        claim: "RapidCDC comes close to the ideal with cut-points known before",
        reported: "close at high ratios; 2.3× the regular one with Nodejs",
        measured_by: "end to end from memory, FF over the ideal on the data with the highest ratio; \
                      close: 0.7 and more",
    };
    let best = real.iter().max_by(|a, b| a.standard().ratio().total_cmp(&b.standard().ratio()));
    let near = best.and_then(|one| {
        Some((one, one.standard().whole_speed_up(FF)? / one.standard().whole_speed_up("ideal")?))
    });
    session.finding(match near {
        Some((one, share)) => claim.found(
            share >= 0.7,
            format!("{share:.2} of the ideal on {}", one.name()),
            "fingerprints are faster here than SHA-1, and what is left of chunking weighs more",
        ),
        None => claim.not_measured("nothing was timed end to end"),
    });
    let claim = Claim {
        place: "Figure 18",
        claim: "chunking scales with threads",
        reported: "almost linearly, to tens of GB/s",
        measured_by: "FF, a file a thread, wall time; almost: 1.6 and more for two threads",
    };
    let gains: Vec<f64> = real
        .iter()
        .filter_map(|one| {
            let at = |count| one.threads.iter().find(|(n, _)| *n == count).map(|(_, rate)| *rate);
            Some(at(2)? / at(1)?)
        })
        .collect();
    session.finding(if gains.is_empty() {
        claim.not_measured("needs two cores and two files")
    } else {
        let reason = "the later versions need what the earlier ones teach, which two threads learn \
                      at once";
        claim.found(least(&gains) >= 1.6, format!("{}× for two", range(&gains)), reason)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Verdict;

    #[test]
    fn the_first_hint_is_judged_on_debian_alone() {
        let claim = Claim { place: "Figure 14", claim: "", reported: "", measured_by: "" };
        let verdict = |shares: &[(&'static str, Option<f64>)]| {
            first_is_right(&claim, shares.iter().copied()).verdict
        };
        assert_eq!(verdict(&[("Redis", Some(99.0)), ("Debian", Some(91.0))]), Verdict::Holds);
        assert_eq!(verdict(&[("Redis", Some(99.0)), ("Debian", Some(89.0))]), Verdict::Differs);
        assert_eq!(verdict(&[("Redis", Some(99.0))]), Verdict::NotMeasured);
        assert_eq!(verdict(&[("Debian", None)]), Verdict::NotMeasured);
    }
}
