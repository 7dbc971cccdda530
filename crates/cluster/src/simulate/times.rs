//! How long steps take, and where the figures are from.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest that a step may take, in microseconds.
const LONGEST_US: f64 = 1e9;
/// The most pages that a write may have, and writes that a gateway may have in flight.
const MOST: u32 = 1 << 16;
/// The most servers of a unit.
const MOST_SERVERS: u32 = 4096;

/// Equal servers of a gateway that do some of its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// For people.
    pub name: String,
    /// How many work at once.
    pub servers: u32,
}

/// What one server of a unit does for one page or message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Which of the units does it.
    pub unit: usize,
    /// How long it takes, in microseconds.
    pub us: f64,
}

/// How long everything takes, of one gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// For people.
    pub name: String,
    /// What has servers.
    pub units: Vec<Unit>,
    /// Of a page, whatever becomes of it.
    pub fingerprint: Step,
    /// Of a fingerprint, where its hints are held.
    pub look_up: Step,
    /// Of a new page.
    pub compress: Step,
    /// Of a new page, in storage that each gateway has as much of.
    pub store: Step,
    /// Of a message that comes from another gateway, the cost of having sent it included.
    pub message: Step,
    /// After everything else of a write, without occupying anything.
    pub commit_us: f64,
    /// From one gateway to the next, beside the time on the link.
    pub hop_us: f64,
    /// Of a gateway's link, which carries what clients write and what is sent about the index.
    pub link_bytes_per_second: f64,
    /// Pages of a write; look-ups that go the same way share a message.
    pub batch: u32,
    /// Writes that a gateway has in flight, until they are stored, when throughput is measured.
    pub window: u32,
    /// Of a message, beside what it says of pages.
    pub message_bytes: u32,
    /// Of each fingerprint that is asked for or told.
    pub request_bytes: u32,
    /// Of each answer.
    pub answer_bytes: u32,
    /// Whether hints are told when a page is durable; if not, asking for an unknown fingerprint
    /// enters it.
    pub tells_hints: bool,
    /// Hints of known pages that a gateway keeps, to ask for them once; 0 for none.
    pub kept_hints: u32,
    /// Where each figure is from, and which are assumptions.
    pub sources: Vec<String>,
}

/// Which of the times makes no sense.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{name} is {value}, expected {expected}")]
pub struct TimesError {
    name: &'static str,
    value: f64,
    expected: String,
}

impl Times {
    /// StreamDedup's nodes: an FPGA with 64 fingerprint cores, 8 look-up engines and 6 compressors.
    pub fn streamdedup() -> Self {
        let unit = |name: &str, servers| Unit { name: name.into(), servers };
        Self {
            name: "streamdedup".into(),
            units: vec![
                unit("fingerprint cores", 64),
                unit("look-up engines", 8),
                unit("compressors", 6),
            ],
            fingerprint: Step { unit: 0, us: 15.5 },
            look_up: Step { unit: 1, us: 2.3 },
            compress: Step { unit: 2, us: 2.2 },
            store: Step { unit: 2, us: 0.0 },
            message: Step { unit: 1, us: 0.0 },
            commit_us: 0.0,
            hop_us: 1.6,
            link_bytes_per_second: 12.8e9,
            batch: 1,
            window: 160,
            message_bytes: 0,
            request_bytes: 64,
            answer_bytes: 64,
            tells_hints: false,
            kept_hints: 0,
            sources: [
                "fingerprint: section 5.1, 15.5 µs for one SHA3; 64 cores, section 5",
                "look-up: derived from section 5.1, where 6 engines without filters reach 10.6 GB/s \
                 of new pages; 8 engines, section 5",
                "compression: derived from section 5.2, where 6 cores reach 11.15 GB/s together; what \
                 one adds to the latency is not said there, and is left out",
                "storage: none, as in section 5, which measures the delay before it",
                "link: section 5, client data and messages together at 12.8 GB/s",
                "hop: derived from section 5.3, where a read takes less than 10 µs on one node and \
                 less than 16.5 on ten, which are at most four hops there and back",
                "bytes of a message: assumed, one word of 512 bits, the width of its data path",
                "writes in flight: assumed, 160 of a page each",
            ]
            .map(String::from)
            .to_vec(),
        }
    }

    /// Onefold's gateways in software, each with two cores and a third of what three OSDs store.
    pub fn onefold() -> Self {
        let unit = |name: &str, servers| Unit { name: name.into(), servers };
        Self {
            name: "onefold".into(),
            units: vec![unit("cores", 2), unit("storage", 1)],
            fingerprint: Step { unit: 0, us: 1.24 },
            look_up: Step { unit: 0, us: 0.062 },
            compress: Step { unit: 0, us: 5.7 },
            store: Step { unit: 1, us: 17.5 },
            message: Step { unit: 0, us: 5.0 },
            commit_us: 2700.0,
            hop_us: 30.0,
            link_bytes_per_second: 12.5e9,
            batch: 64,
            window: 16,
            message_bytes: 100,
            request_bytes: 32,
            answer_bytes: 24,
            tells_hints: true,
            kept_hints: 0,
            sources: [
                "fingerprint, with map and counts: measured, docs/records/2026-11-23-engine.json, \
                 calls of 64 known pages, 1.30 µs a page, less the look-up",
                "look-up: measured, docs/records/2026-11-23-table.json, 16.1 million known a second \
                 in batches",
                "compression: measured, docs/records/2026-11-23-engine.json, 7.0 µs a new page less \
                 1.3 a known one",
                "storage: tried by hand on Ceph 16.2 with three OSDs on one machine, without a \
                 record: 117 MB/s of whole objects, three copies; pages of which half is left",
                "commit: tried there, without a record: 2.7 ms for a guarded append of 4 KiB",
                "cores: two, as many as the machine of these records has",
                "message: assumed, 5 µs of a core for a message by RPC over TLS",
                "hop and link: assumed, 30 µs and 100 Gbit/s",
                "bytes of a message: assumed, 100, and 32 a fingerprint, 24 an answer",
                "writes in flight until they are stored: assumed, 16 of 64 pages each",
            ]
            .map(String::from)
            .to_vec(),
        }
    }

    /// Steps by name.
    fn steps(&self) -> [(&'static str, Step); 5] {
        [
            ("the time of a fingerprint", self.fingerprint),
            ("the time of a look-up", self.look_up),
            ("the time of a compression", self.compress),
            ("the time of storing a page", self.store),
            ("the time of a message", self.message),
        ]
    }

    /// # Errors
    ///
    /// The first figure that makes no sense, by name.
    pub(super) fn validate(&self) -> Result<(), TimesError> {
        let within = |name, value: f64, least: f64, most: f64| {
            // no number is within anything
            match (least..=most).contains(&value) {
                true => Ok(()),
                false => Err(TimesError { name, value, expected: format!("{least} to {most}") }),
            }
        };
        for (name, step) in self.steps() {
            within(name, step.us, 0.0, LONGEST_US)?;
            within("the number of a unit", step.unit as f64, 0.0, self.units.len() as f64 - 1.0)?;
        }
        for unit in &self.units {
            within("servers of a unit", f64::from(unit.servers), 1.0, f64::from(MOST_SERVERS))?;
        }
        within("the time of a commit", self.commit_us, 0.0, LONGEST_US)?;
        within("the time of a hop", self.hop_us, 0.0, LONGEST_US)?;
        within("bytes a second of a link", self.link_bytes_per_second, 1e3, 1e15)?;
        within("pages of a write", f64::from(self.batch), 1.0, f64::from(MOST))?;
        within("writes in flight", f64::from(self.window), 1.0, f64::from(MOST))?;
        within("hints that are kept", f64::from(self.kept_hints), 0.0, f64::from(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_make_no_sense_are_named() {
        let good = Times::onefold();
        good.validate().unwrap();
        Times::streamdedup().validate().unwrap();
        let step = |us| Step { unit: 0, us };
        for (bad, expected) in [
            (Times { hop_us: -1.0, ..good.clone() }, "the time of a hop is -1, expected 0 to"),
            (Times { look_up: step(f64::NAN), ..good.clone() }, "the time of a look-up is NaN"),
            (Times { batch: 0, ..good.clone() }, "pages of a write is 0, expected 1 to 65536"),
            (Times { window: 1 << 20, ..good.clone() }, "writes in flight is 1048576"),
            (Times { link_bytes_per_second: 0.0, ..good.clone() }, "bytes a second of a link is 0"),
            (Times { units: Vec::new(), ..good.clone() }, "the number of a unit is 0"),
            (
                Times { units: vec![Unit { name: "none".into(), servers: 0 }; 2], ..good.clone() },
                "servers of a unit is 0",
            ),
        ] {
            let error = bad.validate().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
