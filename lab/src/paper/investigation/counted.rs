//! A Thorough Investigation, tables VI and VII: what the CPU counts for each byte that is cut.

use onefold_bench::Counts;

use crate::paper::finding::{Claim, Table};
use crate::paper::session::{Measurement, Session};

/// Table and claims of all that was counted so far, or why nothing was.
pub(super) fn report(session: &mut Session) {
    let counted: Vec<Counted> = session.measurements().iter().filter_map(Counted::of).collect();
    if counted.is_empty() {
        let claim = Claim {
            place: "Tables VI and VII",
            claim: "instructions, branches and misses a byte",
            reported: "30 and more for Rabin and PCI; 15 % of MII's branches are mispredicted",
            measured_by: "",
        };
        return session.finding(claim.not_measured(&session.why_uncounted()));
    }
    session.table(table(&counted));
    claims(session, &counted);
}

/// What was counted of one contender.
struct Counted {
    dataset: String,
    name: String,
    bytes: f64,
    counts: Counts,
}

impl Counted {
    fn of(measurement: &Measurement) -> Option<Self> {
        Some(Self {
            dataset: measurement.dataset.clone(),
            name: measurement.name.clone(),
            bytes: measurement.bytes as f64,
            counts: measurement.counts?,
        })
    }

    fn instructions(&self) -> f64 {
        self.counts.instructions as f64 / self.bytes
    }

    /// Branches that were predicted wrongly, of all, in percent.
    fn mispredicted(&self) -> Option<f64> {
        let Counts { branches, branch_misses, .. } = self.counts;
        Some(100.0 * branch_misses? as f64 / branches? as f64)
    }
}

fn table(counted: &[Counted]) -> Table {
    let columns = [
        "algorithm, kernel",
        "data",
        "instructions",
        "branches",
        "branch misses",
        "reads not in L1",
        "accesses in no cache",
    ];
    let title = "counted in one run, for each byte cut, without the kernel of the system";
    let mut table = Table::new("Tables VI and VII", title, &columns);
    for one in counted {
        let Counts { branches, branch_misses, l1d_read_misses, cache_misses, .. } = one.counts;
        let rest = [branches, branch_misses, l1d_read_misses, cache_misses];
        let cells = rest.map(|count| match count {
            Some(count) => format!("{:.4}", count as f64 / one.bytes),
            None => "not counted here".to_owned(),
        });
        let first = [one.name.clone(), one.dataset.clone(), format!("{:.3}", one.instructions())];
        table.row(first.into_iter().chain(cells));
    }
    table
}

fn claims(session: &mut Session, counted: &[Counted]) {
    let scalar = |name: &str| {
        let name = format!("{name}, scalar");
        counted.iter().find(|one| one.name == name && one.dataset.starts_with("random"))
    };
    let by = "counted in one run of the scalar kernels, random data, 2 KiB";
    let claim = Claim {
        place: "Section 6.2.1",
        claim: "Gear needs fewer instructions a byte than Rabin, Buzhash and PCI",
        reported: "Rabin and PCI above 30, Buzhash just below, Gear few",
        measured_by: by,
    };
    let others = ["Rabin", "Buzhash", "PCI"].map(|name| Some(scalar(name)?.instructions()));
    session.finding(match (scalar("Gear"), others) {
        (Some(gear), [Some(rabin), Some(buzhash), Some(pci)]) => {
            let gear = gear.instructions();
            claim.found(
                [rabin, buzhash, pci].iter().all(|&other| gear < other),
                format!("Gear {gear:.2}, Rabin {rabin:.2}, Buzhash {buzhash:.2}, PCI {pci:.2}"),
                "another's rule takes fewer instructions here than Gear's",
            )
        }
        _ => claim.not_measured("they were not all counted"),
    });

    let claim = Claim {
        place: "Section 6.2.2",
        claim: "MII's branches are the worst predicted of all",
        reported: "15 % of them wrongly",
        measured_by: by,
    };
    let share = |name: &'static str| Some((name, scalar(name)?.mispredicted()?));
    let shares: Vec<(&str, f64)> =
        ["MII", "Rabin", "Buzhash", "Gear", "AE", "RAM", "PCI", "BFBC", "BFBC*"]
            .into_iter()
            .filter_map(share)
            .collect();
    let worst = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    session.finding(match (shares.first(), worst) {
        (Some(("MII", of_mii)), Some((worst, most))) => claim.found(
            *worst == "MII",
            format!("MII {of_mii:.1} %, the worst is {worst} with {most:.1} %"),
            "this CPU predicts MII's branch better, or the compiler made none of it",
        ),
        _ => claim.not_measured("this CPU does not count branches, or not those of MII"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::session::tests::TINY;
    use crate::paper::{Finding, Paper, Verdict};

    fn counted(name: &str, instructions: u64, branch_misses: Option<u64>) -> Counted {
        let counts = Counts {
            instructions,
            branches: Some(1000),
            branch_misses,
            l1d_read_misses: None,
            cache_misses: Some(1),
        };
        let (dataset, name) = ("random-1".to_owned(), format!("{name}, scalar"));
        Counted { dataset, name, bytes: 1000.0, counts }
    }

    fn findings(counted: &[Counted]) -> Vec<Finding> {
        let silent = |_: &str| {};
        let mut session = Session::new("nowhere".as_ref(), TINY, &silent, &|| false);
        claims(&mut session, counted);
        session.end(Paper::Investigation, Ok(())).findings
    }

    #[test]
    fn the_fewest_instructions_and_the_worst_branches_are_told_apart() {
        let verdicts = |gear, mii| {
            let all = [
                counted("Gear", gear, Some(1)),
                counted("Rabin", 30_000, Some(100)),
                counted("Buzhash", 29_000, Some(1)),
                counted("PCI", 31_000, None),
                counted("MII", 3000, mii),
            ];
            findings(&all).iter().map(|finding| finding.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(8000, Some(150)), [Verdict::Holds, Verdict::Holds]);
        assert_eq!(verdicts(30_000, Some(90)), [Verdict::Differs, Verdict::Differs]);
        assert_eq!(verdicts(8000, None), [Verdict::Holds, Verdict::NotMeasured]);
        let none = findings(&[]);
        assert!(none.iter().all(|finding| finding.verdict == Verdict::NotMeasured));
    }

    #[test]
    fn counts_are_for_each_byte_and_missing_ones_are_named() {
        let table = table(&[counted("Gear", 8000, Some(5))]);
        let expected =
            ["Gear, scalar", "random-1", "8.000", "1.0000", "0.0050", "not counted here", "0.0010"];
        assert_eq!(table.rows, [expected]);
    }

    /// As on most virtual machines, or with counters on any other.
    #[test]
    fn what_a_machine_does_not_count_is_said_with_the_reason() {
        let silent = |_: &str| {};
        let mut session = Session::new("nowhere".as_ref(), TINY, &silent, &|| false);
        let work =
            onefold_bench::Contender::new("Gear, scalar", |found: &mut Vec<usize>| found.push(1));
        session.measure("random-1", 1, vec![work]).unwrap();
        let counted = session.measurements()[0].counts.is_some();
        let reason = session.why_uncounted();
        report(&mut session);
        let result = session.end(Paper::Investigation, Ok(()));
        assert_eq!(result.tables.len(), usize::from(counted));
        if !counted {
            assert_eq!(result.findings[0].verdict, Verdict::NotMeasured);
            assert!(!reason.is_empty() && result.findings[0].reason == reason);
        }
    }
}
