//! What is said of an error before the program ends.

use std::path::Path;

use onefold_backend::BackendError;
use onefold_store::check::Finding;
use onefold_store::{Sighting, StoreError};
use onefold_volume::VolumeError;
use serde::Serialize;
use tracing::error;

use crate::args::Misuse;
use crate::commands::bench::TooSmall;
use crate::commands::moved::MovedToLab;
use crate::console::Console;
use crate::encryption::{NoPassword, NotEncrypted};
use crate::exit::Exit;
use crate::repository::NoRepository;

/// An error as programs read it: one JSON object on standard error.
#[derive(Serialize)]
struct Failure {
    r#type: &'static str,
    code: u8,
    message: String,
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Says what went wrong, why, and what can be done about it.
pub(crate) fn report(error: &anyhow::Error, console: &Console) {
    let mut told = tell(error);
    let hint = hint(error);
    let message = told.remove(0);
    let code = Exit::of(error).code();
    say(Failure { r#type: "error", code, message, causes: told, hint }, console);
}

/// Says to programs what is wrong with the arguments.
pub(crate) fn report_misuse(answer: &clap::Error) {
    let Misuse { message, hint } = Misuse::of(answer);
    let code = Exit::Fatal.code();
    say(Failure { r#type: "error", code, message, causes: Vec::new(), hint }, &Console::of_json());
}

/// Writes what went wrong, why, and what can be done about it into the logs of `onefold serve`, as one
/// event.
pub(crate) fn log(error: &anyhow::Error) {
    let (told, hint) = (tell(error).join(": "), hint(error));
    error!(error = told, hint, code = Exit::of(error).code(), "serving ended");
}

/// Says what contradicts the logs of a repository, or what was seen of them, and goes on.
/// `elsewhere` are other locations at which the repository was seen.
pub(crate) fn alarm(
    findings: &[Finding],
    memory: Option<&Path>,
    elsewhere: &[String],
    console: &Console,
) {
    let forget = memory.map(|path| {
        format!("; if you know why, remove '{}', and this client believes it", path.display())
    });
    let copy = match elsewhere {
        [] => "a copy has the id of its original, so what this client did in one seems to be missing in \
               the other"
            .to_owned(),
        places => format!(
            "this client has used a repository with this id in '{}' as well; if one of them is a copy \
             of the other, what was done in one, such as a repair, seems to be missing in the other, \
             and both may be whole",
            places.join("', '")
        ),
    };
    let failure = Failure {
        r#type: "error",
        code: Exit::NotAsSeen.code(),
        message:
            "the repository is not what it was: somebody removed or brought back parts of it, \
                  or this client has worked on a copy of it"
                .into(),
        causes: findings.iter().map(ToString::to_string).collect(),
        hint: Some(format!(
            "find out who changed it, and keep it as it is until then; `onefold forget` with all \
             digits of its id gives up a snapshot that is missing, `onefold check --repair` settles \
             what is missing or wrong in logs; a key epoch, or a word on a client, has to be put back \
             from a copy{}; {copy}; open a copy that you go on with by a --state-dir of its own",
            forget.unwrap_or_default()
        )),
    };
    say(failure, console);
    console.alarm(true);
}

/// Two ways to end at once, as programs read them.
#[derive(Serialize)]
struct Both {
    r#type: &'static str,
    code: u8,
    codes: [u8; 2],
}

/// The graver of two ways to end, of which both are said to programs if each says something.
pub(crate) fn both(exit: Exit, other: Exit, console: &Console) -> Exit {
    let graver = exit.graver(other);
    if console.is_json() && exit != Exit::Fine && other != Exit::Fine {
        let codes = [exit.code(), other.code()];
        let both = Both { r#type: "exit", code: graver.code(), codes };
        console.line(serde_json::to_string(&both).expect("a text and numbers make JSON"));
    }
    graver
}

fn say(failure: Failure, console: &Console) {
    if console.is_json() {
        console.line(serde_json::to_string(&failure).expect("texts and a number make JSON"));
        return;
    }
    console.line(format_args!("error: {}", failure.message));
    for cause in failure.causes {
        console.line(format_args!("  caused by: {cause}"));
    }
    if let Some(hint) = failure.hint {
        console.line(format_args!("hint: {hint}"));
    }
}

/// The error, then its causes; those that an error before them quotes are left out.
fn tell(error: &anyhow::Error) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !told.iter().any(|before| before.contains(&text)) {
            told.push(text);
        }
    }
    told
}

const LATER: &str = "a later Onefold wrote it: use that one, or a later one still";

const REPAIR: &str = "copy the pool's folder, or restore it from a backup; `onefold volume check --repair` \
                      goes on with what is whole, and docs/volumes.md says what it gives up";

/// A way out, where one is known.
fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(missing) = error.downcast_ref::<NoRepository>() {
        return Some(missing.hint());
    }
    if error.downcast_ref::<NoPassword>().is_some() {
        return Some(
            "give it by --password-file, --password-command or ONEFOLD_PASSWORD; a new repository \
             without encryption takes --no-encryption instead"
                .into(),
        );
    }
    if let Some(clear) = error.downcast_ref::<NotEncrypted>() {
        return Some(clear.hint());
    }
    if let Some(moved) = error.downcast_ref::<MovedToLab>() {
        return Some(moved.hint());
    }
    if let Some(small) = error.downcast_ref::<TooSmall>() {
        return Some(small.hint());
    }
    match error.downcast_ref() {
        Some(VolumeError::Backend(BackendError::InUse { .. })) => {
            return Some("one process has a pool at a time; end `onefold serve`, or wait".into());
        }
        Some(VolumeError::NewerVersion { .. }) => return Some(LATER.into()),
        Some(
            VolumeError::Incomplete { .. }
            | VolumeError::Damaged { .. }
            | VolumeError::HeadMissing { .. },
        ) => return Some(REPAIR.into()),
        Some(VolumeError::NoPool) => {
            return Some("`onefold volume create` makes a pool with its first volume".into());
        }
        _ => {}
    }
    let store = error.downcast_ref::<StoreError>()?;
    if store.is_full() && !matches!(store, StoreError::Unacknowledged { .. }) {
        return Some(match store {
            StoreError::File { path, .. } => format!("free space for {}", of_parent(path)),
            _ => "free space and run it again; what was stored is kept and will be reused".into(),
        });
    }
    if let (Some(BackendError::Unreachable { .. }), false) = (store.backend(), is_untold(store)) {
        return Some(
            "run it again when the service can be reached: a backup, copy or prune uses again what was \
             stored, and a restore goes on with --overwrite if-changed; --s3-retry-for SECONDS waits \
             longer"
                .into(),
        );
    }
    if let Some(BackendError::NoConditionalPut { .. }) = store.backend() {
        return Some(
            "use a service that honours If-None-Match, or go on without it by \
             --s3-no-conditional-put; docs/s3.md says what that risks"
                .into(),
        );
    }
    match store.unknown_version() {
        Some(0) => {
            return Some(
                "a program from before version 1 wrote it, while the format still changed: none \
                 since reads it; make a new repository and back up to that"
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
        StoreError::Exists => "back up into it with `onefold backup`, or name another place",
        StoreError::NotEmpty { .. } => "name a place that is empty or does not exist yet",
        StoreError::NoSnapshot { .. } | StoreError::AmbiguousSnapshot { .. } => {
            "`onefold snapshots` lists what there is"
        }
        StoreError::KeyInUse { .. } => {
            "open it with another password: `onefold key add` adds one, `onefold key list` shows all"
        }
        StoreError::StrangeRepository { .. } => {
            "if it is yours, put the line that `onefold key add --public-key` prints behind the \
             private key; let it come from the machine where that was run, not from the host"
        }
        StoreError::UntriedKeys { .. } => {
            "name your key with --key and the first digits of its id; `onefold key remove \
             --unreadable` removes what is no key"
        }
        StoreError::KeyTakenBack { .. } => {
            "whoever has a password makes a new key by `onefold key add --write-only`"
        }
        StoreError::NoKey { .. } => "`onefold key list` lists the keys",
        StoreError::EpochTaken { .. } => "it did what was asked for; run it again to go on from it",
        StoreError::Unacknowledged { .. } => {
            "it can be restored as it is; until a log names it, nobody misses it if it is taken away: \
             run the command again, which reuses what is there"
        }
        StoreError::HalfWay { .. } => {
            "run it again: it tells of what it made, and goes on; `onefold check` notes a snapshot of \
             which no log tells"
        }
        StoreError::Replaced { .. } => {
            "put the snapshot that was there back from a copy; if there is none, `onefold forget` with \
             its id gives it up"
        }
        StoreError::Disputed { .. } => {
            "one of the two keys is in wrong hands: compare what is there with a copy of the repository, \
             and `onefold key remove` the client that put what is not its own; where it only named \
             the snapshot, that brings it back"
        }
        StoreError::RemovalHidden { .. } => {
            "put it back from a copy of the repository; --even-damaged takes the key back anew, and all \
             that was put with it until now stays"
        }
        StoreError::UnreadSnapshots { .. } => {
            "put them back from a copy, or `onefold forget` them; or go on without them by \
             --even-damaged"
        }
        StoreError::NoPath { .. } => "`onefold ls` lists what a snapshot holds",
        StoreError::Backend(BackendError::InUse { .. }) => "wait until the other process is done",
        StoreError::Forgotten { .. } => {
            "run the backup again; what it stored will be reused until a prune deletes it"
        }
        StoreError::Revoked => "run the backup again; what it stored is kept and will be reused",
        StoreError::Vanished { .. } => {
            "run the backup again: it stores anew what is gone; and `onefold check` tells whether \
             snapshots need it"
        }
        StoreError::DamagedMark { .. } => {
            "when no prune runs anywhere, delete this object by hand and prune again"
        }
        StoreError::Broken { .. } => {
            "`onefold check` tells what is missing; `onefold forget` with its id takes the snapshot \
             away"
        }
        StoreError::MissingChunk { .. }
        | StoreError::WrongChunk { .. }
        | StoreError::Container(_)
        | StoreError::Malformed { .. }
        | StoreError::Envelope { .. } => "`onefold check --read-data` tells how much is damaged",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Whether the command did what it was asked for, and only what tells of it is missing.
const fn is_untold(error: &StoreError) -> bool {
    matches!(error, StoreError::Unacknowledged { .. } | StoreError::HalfWay { .. })
}

/// What to do about a repository that is not one of those that were there before.
fn advice_on_other(known: &[Sighting], found: Sighting) -> String {
    let in_clear = match !found.is_encrypted && known.iter().any(|one| one.is_encrypted) {
        true => {
            "; it is not encrypted, as one before it was, so its host reads what is backed up to it"
        }
        false => "",
    };
    format!(
        "if you know why (another disk is mounted there, or the repository was made anew), run it \
         again with --accept-repository {}, which is needed once{in_clear}; if not, somebody may have \
         exchanged it: give it no password and back up nothing to it until you know",
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
