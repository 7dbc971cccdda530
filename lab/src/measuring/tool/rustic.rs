//! rustic, built from its crate.

use std::process::Command;

use super::{PASSWORD, Phase, Place, Tool, VERSIONS_KEPT, command};

pub(super) fn initialisation(place: &Place) -> Vec<Command> {
    let mut rustic = rustic(place);
    rustic.arg("init");
    vec![rustic]
}

pub(super) fn phase(phase: Phase, place: &Place) -> Vec<Command> {
    let mut rustic = rustic(place);
    match phase {
        Phase::First | Phase::Unchanged | Phase::Changed | Phase::Version => {
            rustic.arg("backup").arg(&place.source)
        }
        // Without the flag it only marks what it would delete a day later.
        Phase::Prune => rustic
            .args(["forget", "--prune", "--instant-delete", "--keep-last"])
            .arg(VERSIONS_KEPT.to_string()),
        Phase::Restore => rustic.args(["restore", "latest"]).arg(&place.target),
    };
    vec![rustic]
}

fn rustic(place: &Place) -> Command {
    let mut rustic = command(Tool::Rustic.program(), place);
    rustic.env("RUSTIC_REPOSITORY", &place.repository).env("RUSTIC_PASSWORD", PASSWORD);
    rustic.env("RUSTIC_NO_PROGRESS", "true");
    rustic
}
