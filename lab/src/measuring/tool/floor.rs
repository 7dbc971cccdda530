//! What no backup tool can do without: looking at every entry, and writing every file.

use std::path::PathBuf;
use std::process::Command;

use super::{Phase, Place, command};

/// Packs the source up, so that `restore` can unpack it.
pub(super) fn initialisation(place: &Place) -> Vec<Command> {
    let mut folder = command("mkdir", place);
    folder.arg(&place.repository);
    let mut tar = command("tar", place);
    tar.arg("--sparse").arg("-C").arg(&place.source).arg("-cf").arg(archive(place)).arg(".");
    vec![folder, tar]
}

pub(super) fn phase(phase: Phase, place: &Place) -> Vec<Command> {
    match phase {
        Phase::Unchanged => {
            let mut find = command("find", place);
            find.arg(&place.source).args(["-printf", "%s %T@ %C@ %i\\n"]);
            vec![find]
        }
        Phase::Restore => {
            let mut tar = command("tar", place);
            tar.arg("-C").arg(&place.target).arg("-xf").arg(archive(place));
            vec![tar]
        }
        Phase::First | Phase::Changed | Phase::Version | Phase::Prune => Vec::new(),
    }
}

fn archive(place: &Place) -> PathBuf {
    place.repository.join("all.tar")
}
