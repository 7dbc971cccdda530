//! What is claimed of savings and sizes on real data.

use super::cuts::{CODE, Found, WINDOWS};
use super::{NAMES, TARGETS};
use crate::paper::finding::{Claim, Finding, range};
use crate::paper::session::Session;

pub(super) fn claims(session: &mut Session, found: &[Found]) {
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
}
