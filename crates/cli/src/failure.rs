//! Error messages and hints at the end of the program.

use std::path::Path;

use onefold_backend::BackendError;
use onefold_store::check::Finding;
use onefold_store::{Sighting, StoreError};
use onefold_terminal::{Failure, tell};
use onefold_volume::VolumeError;
use serde::Serialize;
use tracing::error;

use crate::cluster::Unavailable;
use crate::commands::absent::Lack;
use crate::commands::bench::TooSmall;
use crate::commands::moved::MovedToLab;
use crate::console::Console;
use crate::encryption::{NoPassword, NotEncrypted};
use crate::exit::Exit;
use crate::repository::NoRepository;

/// Prints the error, its causes, and a hint.
pub(crate) fn report(error: &anyhow::Error, console: &Console) {
    Failure::of(error, Exit::of(error).code(), hint(error)).say(console);
}

/// Prints the error of wrong arguments as JSON.
pub(crate) fn report_misuse(answer: &clap::Error) {
    Failure::of_misuse(answer, Exit::Fatal.code()).say(&Console::of_json());
}

/// Writes the error, its causes and a hint to the logs of `onefold serve`, as one event.
pub(crate) fn log(error: &anyhow::Error) {
    let (told, hint) = (tell(error).join(": "), hint(error));
    error!(error = told, hint, code = Exit::of(error).code(), "serving ended");
}

/// Prints the contradictions between a repository, its logs and this client's memory. The command
/// continues. `elsewhere` are other locations at which the client has used the repository.
pub(crate) fn alarm(
    findings: &[Finding],
    memory: Option<&Path>,
    elsewhere: &[String],
    console: &Console,
) {
    let forget = memory.map(|path| {
        format!(
            "; if you know the reason, remove '{}', and this client accepts the current state",
            path.display()
        )
    });
    let copy = match elsewhere {
        [] => "a copy has the same id as its original, so changes that this client made in one seem to \
               be missing in the other"
            .to_owned(),
        places => format!(
            "this client has used a repository with this id in '{}' as well; if one of them is a copy \
             of the other, changes in one, such as a repair, seem to be missing in the other, and both \
             may be intact",
            places.join("', '")
        ),
    };
    let hint = Some(format!(
        "find out what changed it, and change nothing until then; to give up a missing snapshot, use \
         `onefold forget` with all digits of its id; to correct missing or wrong log entries, use \
         `onefold check --repair`; restore a key epoch or a client record from a copy{}; {copy}; to \
         keep using a copy, give it its own --state-dir",
        forget.unwrap_or_default()
    ));
    let message = "the repository is not as this client or its logs recorded it: parts of it were \
                   removed or restored, or this client has used a copy of it";
    let causes = findings.iter().map(ToString::to_string).collect();
    Failure::new(Exit::NotAsSeen.code(), message, causes, hint).say(console);
    console.alarm(true);
}

/// Two exit codes that both apply, as programs read them.
#[derive(Serialize)]
struct Both {
    r#type: &'static str,
    code: u8,
    codes: [u8; 2],
}

/// The graver of two exits. If neither is success, both are printed for programs.
pub(crate) fn both(exit: Exit, other: Exit, console: &Console) -> Exit {
    let graver = exit.graver(other);
    if console.is_json() && exit != Exit::Fine && other != Exit::Fine {
        let codes = [exit.code(), other.code()];
        let both = Both { r#type: "exit", code: graver.code(), codes };
        console.line(serde_json::to_string(&both).expect("a text and numbers make JSON"));
    }
    graver
}

const LATER: &str = "a later version of Onefold wrote it: use that version or a later one";

const REPAIR: &str = "restore the pool from a backup, or copy its folder and run `onefold volume check \
                      --repair`, which keeps all that is intact; docs/volumes.md says what it gives up";

const NOT_UPGRADED: &str = "`onefold volume check --repair` repairs lost footers, and `onefold volume scrub` \
                            names the blocks that are lost: write or erase them, or delete the volumes \
                            that have them; then upgrade";

const OF_CLUSTER: &str = "open the pool through its cluster, with a version of Onefold that has clusters; \
                          this one changed nothing but the mark of who opened the pool last";

/// Advice for the user, if there is any.
fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(missing) = error.downcast_ref::<NoRepository>() {
        return Some(missing.hint());
    }
    if error.downcast_ref::<NoPassword>().is_some() {
        return Some(
            "give it by --password-file, --password-command or ONEFOLD_PASSWORD; for a new repository \
             without encryption, use --no-encryption instead"
                .into(),
        );
    }
    if let Some(clear) = error.downcast_ref::<NotEncrypted>() {
        return Some(clear.hint());
    }
    if let Some(moved) = error.downcast_ref::<MovedToLab>() {
        return Some(moved.hint());
    }
    if let Some(lack) = error.downcast_ref::<Lack>() {
        return Some(lack.hint());
    }
    if let Some(unavailable) = error.downcast_ref::<Unavailable>() {
        return Some(unavailable.hint());
    }
    if let Some(small) = error.downcast_ref::<TooSmall>() {
        return Some(small.hint());
    }
    match error.downcast_ref() {
        Some(VolumeError::Backend(BackendError::InUse { .. })) => {
            return Some("one process uses a pool at a time; end `onefold serve`, or wait".into());
        }
        Some(VolumeError::NewerVersion { .. }) => return Some(LATER.into()),
        Some(
            VolumeError::Incomplete { .. }
            | VolumeError::Damaged { .. }
            | VolumeError::HeadMissing { .. },
        ) => return Some(REPAIR.into()),
        Some(VolumeError::NotUpgraded { .. }) => return Some(NOT_UPGRADED.into()),
        Some(VolumeError::OfCluster { .. }) => return Some(OF_CLUSTER.into()),
        Some(VolumeError::NoPool) => {
            return Some("`onefold volume create` creates a pool with its first volume".into());
        }
        _ => {}
    }
    let store = error.downcast_ref::<StoreError>()?;
    if store.is_full() && !matches!(store, StoreError::Unacknowledged { .. }) {
        return Some(match store {
            StoreError::File { path, .. } => format!("free space for {}", of_parent(path)),
            _ => "free space and run it again; stored data are kept and will be reused".into(),
        });
    }
    if let (Some(BackendError::Unreachable { .. }), false) = (store.backend(), is_untold(store)) {
        return Some(
            "run it again when the service can be reached: a backup, copy or prune reuses stored data, \
             and --overwrite if-changed resumes a restore; --retry-for SECONDS waits longer"
                .into(),
        );
    }
    if let Some(BackendError::NoConditionalPut { .. }) = store.backend() {
        return Some(
            "use a service that supports If-None-Match, or do without it by --no-conditional-put; \
             docs/s3.md describes the risks"
                .into(),
        );
    }
    match store.unknown_version() {
        Some(0) => {
            return Some(
                "a program from before version 1 wrote it, and no released version reads it; create a \
                 new repository and back up to that"
                    .into(),
            );
        }
        Some(_) => return Some(LATER.into()),
        None => {}
    }
    if let StoreError::OtherRepository { known, found, .. } = store {
        return Some(advice_on_other(known, *found));
    }
    let advice = match store {
        StoreError::Exists => "back up into it with `onefold backup`, or name another location",
        StoreError::NotEmpty { .. } => "name a location that is empty or does not exist yet",
        StoreError::NoSnapshot { .. } | StoreError::AmbiguousSnapshot { .. } => {
            "`onefold snapshots` lists the snapshots"
        }
        StoreError::KeyInUse { .. } => {
            "open it with another password: `onefold key add` adds one, `onefold key list` shows all"
        }
        StoreError::StrangeRepository { .. } => {
            "if it is yours, append the line that `onefold key add --public-key` printed to the file \
             of the private key; get the line from the machine where that ran, not from the storage \
             host"
        }
        StoreError::UntriedKeys { .. } => {
            "name your key with --key and the first digits of its id; `onefold key remove \
             --unreadable` removes objects that are not keys"
        }
        StoreError::KeyTakenBack { .. } => {
            "anyone with a password can make a new key with `onefold key add --write-only`"
        }
        StoreError::NoKey { .. } => "`onefold key list` lists the keys",
        StoreError::EpochTaken { .. } => {
            "that epoch serves the same purpose; run it again only to begin another one"
        }
        StoreError::Unacknowledged { .. } => {
            "the snapshot can be restored; but until a log names it, its deletion would go unnoticed: \
             run the command again, which reuses the stored data"
        }
        StoreError::HalfWay { .. } => {
            "run it again: it records the snapshots that it made, and continues; `onefold check` notes \
             snapshots that no log names"
        }
        StoreError::Replaced { .. } => {
            "restore the original snapshot from a copy; if there is none, give it up by `onefold forget` \
             with its id"
        }
        StoreError::Disputed { .. } => {
            "one of the two keys is in wrong hands: compare the snapshot with a copy of the repository, \
             and use `onefold key remove` on the client whose object or log entry is false; if only its \
             log entry was false, the snapshot is then accepted again"
        }
        StoreError::RemovalHidden { .. } => {
            "restore it from a copy of the repository, or revoke the key again with --even-damaged: all \
             that was stored with that key so far stays"
        }
        StoreError::UnreadSnapshots { .. } => {
            "restore them from a copy, or `onefold forget` them; or do without them by --even-damaged"
        }
        StoreError::NoPath { .. } => "`onefold ls` lists the content of a snapshot",
        StoreError::Backend(BackendError::InUse { .. }) => "wait until the other process is done",
        StoreError::Forgotten { .. } => {
            "run the backup again; it reuses the stored data until a prune deletes them"
        }
        StoreError::Revoked => "run the backup again; stored data are kept and will be reused",
        StoreError::Vanished { .. } => {
            "run the backup again: it stores the missing data again; `onefold check` shows whether \
             snapshots need them"
        }
        StoreError::DamagedMark { .. } => {
            "make sure that no prune runs anywhere, then delete this object by hand and prune again"
        }
        StoreError::Broken { .. } => {
            "`onefold check` lists what is missing; `onefold forget` with its id removes the snapshot"
        }
        StoreError::MissingChunk { .. }
        | StoreError::WrongChunk { .. }
        | StoreError::Container(_)
        | StoreError::Malformed { .. }
        | StoreError::Envelope { .. } => "`onefold check --read-data` lists all damage",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Whether the command succeeded, and only the record of that is missing.
const fn is_untold(error: &StoreError) -> bool {
    matches!(error, StoreError::Unacknowledged { .. } | StoreError::HalfWay { .. })
}

/// Advice on another repository than those that were used at this location before.
fn advice_on_other(known: &[Sighting], found: Sighting) -> String {
    let in_clear = match !found.is_encrypted && known.iter().any(|one| one.is_encrypted) {
        true => {
            "; unlike the one before, it is not encrypted, so its host can read all backups in it"
        }
        false => "",
    };
    format!(
        "if you know the reason (another disk is mounted there, or the repository was created again), \
         run it again with --accept-repository {}, which is needed once{in_clear}; otherwise an attacker \
         may have exchanged it: enter no password and back up nothing until you know",
        found.id
    )
}

fn of_parent(path: &Path) -> String {
    format!("'{}'", path.parent().unwrap_or(path).display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_unless_they_were_quoted() {
        let error = anyhow::anyhow!("no space").context("cannot put x: no space").context("top");
        assert_eq!(tell(&error), ["top", "cannot put x: no space"]);
    }
}
