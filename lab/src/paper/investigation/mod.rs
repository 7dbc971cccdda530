//! A Thorough Investigation, tables VI to X, figures 5 to 11 and appendix B.
//!
//! As there, data are one stream, chunks have no maximum, and the last chunk is left out.

mod claims;
mod counted;
mod cuts;
mod on_random;
mod throughput;

use anyhow::Result;
use onefold_cdc::{Algorithm, ChunkSizes, Divisors, Params};

use super::finding::Claim;
use super::session::Session;
use cuts::DATASETS;

// The rows that the tests of the chunkers are held to.
#[path = "../../../../crates/cdc/tests/cdc/rand_rows.rs"]
mod rand_rows;

const TARGETS: [usize; 5] = [512, 1024, 2048, 4096, 8192];

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
    session.part("Appendix B, RAND", on_random::rows)?;
    session.part("Section 9.1.1", on_random::old_formula)?;
    let outcome = session.part("Sections 6.2 and 6.3", throughput::measure);
    counted::report(session);
    outcome?;
    let mut found = Vec::new();
    let outcome = cuts::datasets(session, &mut found);
    if !found.is_empty() {
        cuts::tables(session, &found);
        claims::claims(session, &found);
    }
    not_measured(session);
    outcome
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
