//! What a GPU is to reach.

use super::{Pages, Rate, Results, Target};

/// What a GPU is to reach, of what was measured.
pub(super) fn targets(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    let pinned = results.transfers.iter().map(|transfer| transfer.pinned_bytes_per_second);
    let bus = pinned.fold(0.0, f64::max);
    for rate in &results.rates {
        let Rate { algorithm, fingerprint, .. } = rate;
        match fingerprint.as_deref() {
            Some(function @ ("blake3" | "sha3-256")) if bus > 0.0 => targets.push(Target {
                what: format!(
                    "{algorithm} and {function} end to end, as a share of the rate of pinned copies"
                ),
                wanted: 0.9,
                found: rate.device_bytes_per_second / bus,
            }),
            None if algorithm == "gear" || algorithm == "rabin" => {
                let (search, cut) =
                    (rate.resident_search_bytes_per_second, rate.resident_cut_bytes_per_second);
                targets.push(Target {
                    what: format!("{algorithm} cuts of what is in the device's memory, GB/s"),
                    wanted: 300.0,
                    found: cut / 1e9,
                });
                targets.push(Target {
                    what: format!("{algorithm} there with minimum and maximum, as a share without"),
                    wanted: 0.9,
                    found: cut / search.max(1.0),
                });
            }
            _ => {}
        }
    }
    if let Some(Pages { bytes_per_second, bound: Some(bound), .. }) = &results.pages {
        targets.push(Target {
            what: "SHA3-256 of pages there, as a share of what its instructions allow".into(),
            wanted: 0.5,
            found: bytes_per_second / bound.bytes_per_second,
        });
    }
    targets
}
