//! Why a cluster cannot be used, and what the codes of the client library mean.

use std::ffi::c_int;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use crate::rados::Refusal;

/// Why a cluster of Ceph or a pool of it cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CephError {
    /// The client library cannot be loaded.
    #[error(
        "cannot load {library}, the client library of Ceph ({reason}); install the Debian package \
         librados2, or name the folder of a newer one in LD_LIBRARY_PATH"
    )]
    LibraryAbsent {
        /// What the dynamic linker was asked for.
        library: String,
        /// What it said.
        reason: String,
    },
    /// The client library lacks a function.
    #[error(
        "{library} has no function {function}, so it is older than Ceph 16.2; upgrade the package \
         librados2"
    )]
    LibraryTooOld {
        /// The library.
        library: String,
        /// The first function that is missing.
        function: &'static str,
    },
    /// There is no configuration file.
    #[error("there is no configuration file of Ceph: {tried}; name the cluster's ceph.conf")]
    NoConfiguration {
        /// Which files were tried, and why they cannot be read.
        tried: String,
    },
    /// The configuration file or a value of it cannot be used.
    #[error("the configuration of Ceph in {file} cannot be used: {reason}; correct it")]
    BadConfiguration {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A name of a user, a pool or a namespace that Ceph cannot have.
    #[error("{text:?} is not a name in Ceph: it is empty or has a NUL")]
    BadName {
        /// The name as given.
        text: String,
    },
    /// There is no key of the user.
    #[error(
        "there is no key for {user}: {tried}; name a file with its key, or get one: \
         ceph auth get {user} -o FILE"
    )]
    NoKey {
        /// The user, `client.` included.
        user: String,
        /// Which files were tried, and what they lack.
        tried: String,
    },
    /// No monitor answered in time.
    #[error(
        "no monitor of {monitors} answered within {limit:?}; check the address (mon_host in {file}), \
         the network, and that the monitors run"
    )]
    Unreachable {
        /// The addresses of the monitors, as the configuration names them.
        monitors: String,
        /// The configuration file.
        file: String,
        /// How long the client waited.
        limit: Duration,
    },
    /// The cluster refuses the user.
    #[error(
        "the cluster does not let {user} {doing}; compare its key and its capabilities with: \
         ceph auth get {user}"
    )]
    Forbidden {
        /// The user, `client.` included.
        user: String,
        /// What was tried.
        doing: String,
    },
    /// The cluster has no such pool.
    #[error("the cluster has no pool {pool}; create it: ceph osd pool create {pool}")]
    NoPool {
        /// The pool.
        pool: String,
    },
    /// Something else failed.
    #[error("cannot {doing}: {reason}; `ceph status` shows the cluster's state")]
    Failed {
        /// What was tried.
        doing: String,
        /// What the client library said.
        reason: String,
    },
}

/// The names of the files that were tried, and what is wrong with each.
pub(super) fn tried(files: &[(PathBuf, String)]) -> String {
    let each = |(file, reason): &(PathBuf, String)| format!("{} ({reason})", file.display());
    files.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// What the negative `code` of the client library means.
pub(super) fn message(code: c_int) -> String {
    io::Error::from_raw_os_error(-code).to_string()
}

/// Whether `code` says `errno`.
pub(super) fn is(code: c_int, errno: Errno) -> bool {
    -code == errno.raw_os_error()
}

/// Why the engine refused an operation with `code`, if that says that it did. Of any other code it is
/// not known whether the operation was done.
pub(super) fn refusal(code: c_int) -> Option<Refusal> {
    Some(match Errno::from_raw_os_error(-code) {
        Errno::NOENT => Refusal::Absent,
        Errno::EXIST => Refusal::Exists,
        // A compared value; a version that is older, or newer, than the object's.
        Errno::CANCELED | Errno::RANGE | Errno::OVERFLOW => Refusal::Guard,
        Errno::OPNOTSUPP | Errno::INVAL => Refusal::Unsupported,
        // The cluster; a quota.
        Errno::NOSPC | Errno::DQUOT => Refusal::Full,
        // Ceph's code for a client that is blocklisted.
        Errno::SHUTDOWN => Refusal::Fenced,
        Errno::PERM | Errno::ACCESS => Refusal::Forbidden,
        // The object; the message; what one call of the library takes; a name.
        Errno::FBIG | Errno::MSGSIZE | Errno::TOOBIG | Errno::NAMETOOLONG => Refusal::TooLarge,
        Errno::IO => Refusal::Damaged,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_no_refusal_leaves_the_outcome_open() {
        for errno in [Errno::TIMEDOUT, Errno::NOTCONN, Errno::AGAIN, Errno::INTR] {
            assert_eq!(refusal(-errno.raw_os_error()), None);
        }
        assert_eq!(refusal(-125), Some(Refusal::Guard));
        assert_eq!(refusal(-108), Some(Refusal::Fenced));
    }
}
