//! Ours.

use std::process::Command;

use super::{PASSWORD, Phase, Place, Tool, VERSIONS_KEPT, command};

pub(super) fn phase(tool: Tool, phase: Phase, place: &Place, is_encrypted: bool) -> Vec<Command> {
    let mut onefold = command(tool.program(), place);
    onefold.env("ONEFOLD_REPOSITORY", &place.repository);
    if is_encrypted {
        onefold.env("ONEFOLD_PASSWORD", PASSWORD);
    }
    match phase {
        Phase::First | Phase::Unchanged | Phase::Changed | Phase::Version => {
            onefold.arg("backup").arg(&place.source);
            if !place.repository.exists() {
                onefold.arg("--init").args((!is_encrypted).then_some("--no-encryption"));
            }
        }
        Phase::Prune => {
            onefold.args(["forget", "--prune", "--keep-last"]).arg(VERSIONS_KEPT.to_string());
        }
        Phase::Restore => {
            onefold.args(["restore", "latest", "--target"]).arg(&place.target);
        }
    }
    vec![onefold]
}
