//! How many files a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files this process may have open, at most 131,072 that are of use: as many as the system
/// lets anyone ask for, where that is more than it has now.
pub fn most_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Without it a pool opens files again more often.
    let most = setrlimit(Resource::Nofile, raised).map_or(limit.current, |()| limit.maximum);
    most.unwrap_or(u64::MAX).min(1 << 17) as usize
}
