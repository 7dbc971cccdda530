//! Counts with the right form of what was counted.

use indicatif::HumanCount;

/// `1 file`, `2,000 files`.
pub fn count(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", HumanCount(number), if number == 1 { one } else { several })
}

/// [`count`] of files.
pub fn files(number: u64) -> String {
    count(number, "file", "files")
}

/// [`count`] of directories.
pub fn directories(number: u64) -> String {
    count(number, "directory", "directories")
}

/// [`count`] of patterns.
pub fn patterns(number: u64) -> String {
    count(number, "pattern", "patterns")
}

/// [`count`] of links, devices, pipes and sockets.
pub fn others(number: u64) -> String {
    count(number, "other", "others")
}
