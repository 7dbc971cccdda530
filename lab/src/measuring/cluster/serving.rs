//! Which gateway has the shard of a volume, as `onefold cluster status` tells.
//!
//! The gateway that answers a client need not have the volume: it may pass the connection on.

use anyhow::{Context, Result, bail};
use onefold_testkit::ceph::Gateways;
use serde::Deserialize;

/// What is read of `onefold cluster status --json`.
#[derive(Debug, Deserialize)]
struct Status {
    gateways: Vec<Gateway>,
    shards: Vec<Shard>,
}

#[derive(Debug, Deserialize)]
struct Gateway {
    id: String,
    /// Ends with `(process PID)`.
    host: String,
    is_alive: bool,
}

#[derive(Debug, Deserialize)]
struct Shard {
    volumes: Vec<String>,
    gateway: Option<String>,
}

impl Status {
    fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).with_context(|| format!("what `cluster status` says: {text}"))
    }

    /// The process that has `volume`.
    fn process_of(&self, volume: &str) -> Option<u32> {
        let has = |shard: &&Shard| shard.volumes.iter().any(|one| one == volume);
        let id = self.shards.iter().find(has)?.gateway.as_ref()?;
        self.gateways.iter().find(|one| one.id == *id)?.process()
    }
}

impl Gateway {
    fn process(&self) -> Option<u32> {
        self.host.strip_suffix(')')?.rsplit_once("(process ")?.1.parse().ok()
    }
}

/// The number, below `count`, of the gateway that has `volume`.
///
/// # Errors
///
/// If none of them has it.
pub(super) fn serving(gateways: &Gateways, count: usize, volume: &str) -> Result<usize> {
    let text = gateways.status(&["--json"]);
    let process = Status::parse(&text)?.process_of(volume);
    let found = process
        .and_then(|process| (0..count).find(|number| gateways.process(*number) == Some(process)));
    match found {
        Some(number) => Ok(number),
        None => bail!("no gateway of this campaign has {volume}: {text}"),
    }
}

/// Whether gateway `number` has a lease that it renews.
///
/// # Errors
///
/// If the status cannot be read.
pub(super) fn is_alive(gateways: &Gateways, number: usize) -> Result<bool> {
    let Some(process) = gateways.process(number) else { return Ok(false) };
    let status = Status::parse(&gateways.status(&["--json"]))?;
    Ok(status.gateways.iter().any(|one| one.is_alive && one.process() == Some(process)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_has_a_volume_is_found_by_the_lease_that_its_shard_names() {
        let text = r#"{"gateways": [
            {"id": "a", "host": "one (process 17)", "is_alive": false, "shards": 0},
            {"id": "b", "host": "two (2) (process 18)", "is_alive": true, "shards": 1}],
            "shards": [
            {"id": "1", "volumes": ["x", "y"], "gateway": "b", "wanted": null},
            {"id": "2", "volumes": ["z"], "gateway": null},
            {"id": "3", "volumes": ["lost"], "gateway": "c"}]}"#;
        let status = Status::parse(text).unwrap();
        assert_eq!(status.gateways[0].process(), Some(17));
        assert_eq!(status.process_of("y"), Some(18));
        for volume in ["z", "lost", "absent"] {
            assert_eq!(status.process_of(volume), None, "{volume}");
        }
    }
}
