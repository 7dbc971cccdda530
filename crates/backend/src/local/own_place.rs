//! The directories of a user's programs, by the XDG base directory specification.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::geteuid;

/// This program's directory in the one that `variable` names, or else in `below` the home directory; or
/// why there is none.
///
/// The home of another user, such as `sudo` may leave in HOME, is not used: that user could exchange the
/// files there, and could no longer use them.
pub fn own_place(variable: &str, below: &str) -> Result<PathBuf, String> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(named) = set(variable) {
        return Ok(named.join("onefold"));
    }
    let home = set("HOME").ok_or("there is no home directory")?;
    // A home that does not exist yet is created, and belongs to no other user.
    match home.metadata().map(|metadata| metadata.uid()) {
        Ok(owner) if owner != 0 && owner != geteuid().as_raw() => Err(format!(
            "HOME, '{}', belongs to user {owner}, so nothing is stored there; `sudo -H` sets another",
            home.display()
        )),
        _ => Ok(home.join(below).join("onefold")),
    }
}
