//! Which copies of log entries count: those that an entry behind them vouches for.
//!
//! Each entry has the check of the one before it, whole as it is stored. So a copy that has the check
//! that the next entry says is the entry itself. The last of a log is read by its name, and so is each
//! entry below a break.

use onefold_seal::Check;

use crate::Repository;
use crate::objects::entry::{At, Fetched};
use crate::repository::bundles::Copies;

/// Takes copies of `entries` into `fetched`, each if the entry behind it is there and has its check.
/// Gives the entries that no other vouches for.
pub(crate) fn take_vouched(
    repository: &Repository,
    copies: &Copies,
    mut entries: Vec<At>,
    fetched: &mut Fetched,
) -> Vec<At> {
    entries.sort_unstable();
    let mut others = Vec::new();
    for at in entries.into_iter().rev() {
        let expected = previous_of_next(repository, at, fetched);
        match copies.get(&at.id()).filter(|copy| expected == Some(Check::of(&[copy]))) {
            Some(copy) => drop(fetched.insert(at, Ok(Some(copy.clone())))),
            None => others.push(at),
        }
    }
    others
}

/// The check that the entry behind `at` says, if that was fetched.
fn previous_of_next(repository: &Repository, at: At, fetched: &Fetched) -> Option<Check> {
    let next = At { sequence: at.sequence.checked_add(1)?, ..at };
    let Some(Ok(Some(bytes))) = fetched.get(&next) else { return None };
    repository.open_entry(next, bytes).ok()?.previous
}
