//! restic, built from its Go module.

use std::process::Command;

use super::{PASSWORD, Phase, Place, Tool, VERSIONS_KEPT, command};

pub(super) fn initialisation(place: &Place) -> Vec<Command> {
    let mut restic = restic(place);
    restic.arg("init");
    vec![restic]
}

pub(super) fn phase(phase: Phase, place: &Place) -> Vec<Command> {
    let mut restic = restic(place);
    match phase {
        Phase::First | Phase::Unchanged | Phase::Changed | Phase::Version => {
            restic.arg("backup").arg(&place.source)
        }
        Phase::Prune => {
            restic.args(["forget", "--prune", "--keep-last"]).arg(VERSIONS_KEPT.to_string())
        }
        Phase::Restore => restic.args(["restore", "latest", "--target"]).arg(&place.target),
    };
    vec![restic]
}

fn restic(place: &Place) -> Command {
    let mut restic = command(Tool::Restic.program(), place);
    restic.env("RESTIC_REPOSITORY", &place.repository).env("RESTIC_PASSWORD", PASSWORD);
    restic
}
