//! The names of the user and the machine that run the command.

use std::env;

/// This machine's name.
pub(crate) fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The user's name as the environment has it, else the number.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|variable| env::var(variable).ok());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| rustix::process::getuid().as_raw().to_string())
}
