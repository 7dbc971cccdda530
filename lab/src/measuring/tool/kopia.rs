//! kopia, built from its Go module.

use std::process::Command;

use super::{PASSWORD, Phase, Place, Tool, VERSIONS_KEPT, command};

/// `compression` is what its policy calls it.
pub(super) fn initialisation(place: &Place, compression: &str) -> Vec<Command> {
    let mut create = kopia(place);
    create.args(["repository", "create", "filesystem", "--path"]).arg(&place.repository);
    let mut policy = keep_latest(place, usize::MAX);
    policy.args(["--compression", compression]);
    for unit in ["hourly", "daily", "weekly", "monthly", "annual"] {
        policy.args([&format!("--keep-{unit}"), "0"]);
    }
    vec![create, policy]
}

pub(super) fn phase(phase: Phase, place: &Place) -> Vec<Command> {
    let mut kopia = kopia(place);
    match phase {
        Phase::First | Phase::Unchanged | Phase::Changed | Phase::Version => {
            kopia.args(["snapshot", "create"]).arg(&place.source)
        }
        // What it retains is a policy, by which each backup forgets as well.
        Phase::Prune => {
            kopia.args(["snapshot", "expire", "--all", "--delete"]);
            let mut maintain = self::kopia(place);
            maintain.args(["maintenance", "run", "--full", "--safety=none"]);
            return vec![keep_latest(place, VERSIONS_KEPT), kopia, maintain];
        }
        Phase::Restore => {
            kopia.args(["restore", "--snapshot-time=latest"]).arg(&place.source).arg(&place.target)
        }
    };
    vec![kopia]
}

fn keep_latest(place: &Place, count: usize) -> Command {
    let mut policy = kopia(place);
    // It counts in 32 bits.
    policy.args(["policy", "set", "--global", "--keep-latest"]);
    policy.arg(count.min(i32::MAX as usize).to_string());
    policy
}

fn kopia(place: &Place) -> Command {
    let mut kopia = command(Tool::Kopia.program(), place);
    kopia
        .env("KOPIA_PASSWORD", PASSWORD)
        .env("KOPIA_CHECK_FOR_UPDATES", "false")
        .env("KOPIA_CONFIG_PATH", place.home.join("kopia.config"))
        .env("KOPIA_CACHE_DIRECTORY", place.home.join("cache"))
        .env("KOPIA_LOG_DIR", place.home.join("log"));
    kopia
}
