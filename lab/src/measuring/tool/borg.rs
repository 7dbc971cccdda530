//! borg, from Debian.

use std::ffi::OsString;
use std::process::Command;

use super::{PASSWORD, Phase, Place, Tool, VERSIONS_KEPT, command};

pub(super) fn initialisation(place: &Place) -> Vec<Command> {
    let mut borg = borg(place);
    borg.args(["init", "--encryption", "repokey-blake2"]).arg(&place.repository);
    vec![borg]
}

/// `compression` is what borg calls it.
pub(super) fn phase(phase: Phase, place: &Place, compression: &str) -> Vec<Command> {
    let mut borg = borg(place);
    match phase {
        Phase::First | Phase::Unchanged | Phase::Changed | Phase::Version => {
            borg.args(["create", "--compression", compression]);
            // Names must differ.
            borg.arg(archive(place, "{now:%Y-%m-%dT%H:%M:%S.%f}")).arg(&place.source);
        }
        Phase::Prune => {
            borg.args(["prune", "--keep-last"]).arg(VERSIONS_KEPT.to_string());
            borg.arg(&place.repository);
            let mut compact = self::borg(place);
            compact.arg("compact").arg(&place.repository);
            return vec![borg, compact];
        }
        Phase::Restore => {
            let mut shell = command("sh", place);
            settings(&mut shell, place);
            // Borg extracts to where it stands, and has no word for the newest archive.
            shell
                .arg("-ec")
                .arg("name=$(borg list --last 1 --short \"$1\"); exec borg extract \"$1::$name\"");
            shell.arg("restore").arg(&place.repository).current_dir(&place.target);
            return vec![shell];
        }
    }
    vec![borg]
}

fn archive(place: &Place, name: &str) -> OsString {
    let mut archive = place.repository.clone().into_os_string();
    archive.push("::");
    archive.push(name);
    archive
}

fn borg(place: &Place) -> Command {
    let mut borg = command(Tool::Borg.program(), place);
    settings(&mut borg, place);
    borg
}

fn settings(command: &mut Command, place: &Place) {
    command.env("BORG_PASSPHRASE", PASSWORD).env("BORG_BASE_DIR", &place.home);
}
