//! What the times that a file system gives its files are worth: whose clock they follow, and how
//! finely.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::source;
use crate::tree::{Entry, Time};

/// File systems whose `ctime` follows this machine's clock, by what statfs(2) calls their type.
///
/// A file system that is missing here costs reads, one that is here wrongly costs changes.
#[cfg(any(test, target_os = "linux"))]
const LOCAL: [u64; 18] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0xf2f5_2010, // F2FS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlay: the times of the file systems below it
    0xf15f,      // eCryptfs: the same
    0x3153_464a, // JFS
    0x5265_4973, // ReiserFS
    0x3434,      // NILFS2
    0x2405_1905, // UBIFS
    0x1501_3346, // UDF
    0x482b,      // HFS+
    0x7366_746e, // NTFS, by the driver ntfs3
    0x7371_7368, // SquashFS
];

/// FAT and exFAT.
#[cfg(any(test, target_os = "linux"))]
const FAT: [u64; 2] = [0x4d44, 0x2011_bab0];

/// What the times of a file system are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamps {
    /// They follow this machine's clock.
    Local,
    /// They follow this machine's clock in steps of up to two seconds. `ctime` is a copy of `mtime`,
    /// or, before Linux 5.19, the time at which the file was made.
    Fat,
    /// They follow the clock of a server, or it is not known which.
    Foreign,
}

impl Stamps {
    /// Those of the file system that holds the file at `path`, links not followed.
    fn of(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::fstatfs(source::find(path, OFlags::empty())?)?;
        // The type has 32 bits, whatever the length of the field.
        #[cfg(target_os = "linux")]
        let stamps = Self::of_kind(found.f_type as u64 & 0xffff_ffff);
        #[cfg(not(target_os = "linux"))]
        let stamps = Self::of_name(&found.f_fstypename.map(|letter| letter as u8));
        Ok(stamps)
    }

    /// Those of a file system by the name that macOS gives its type.
    #[cfg(any(test, not(target_os = "linux")))]
    fn of_name(name: &[u8]) -> Self {
        match name.split(|letter| *letter == 0).next() {
            Some(b"apfs" | b"hfs") => Self::Local,
            Some(b"msdos" | b"exfat") => Self::Fat,
            _ => Self::Foreign,
        }
    }

    #[cfg(any(test, target_os = "linux"))]
    fn of_kind(kind: u64) -> Self {
        if FAT.contains(&kind) {
            Self::Fat
        } else if LOCAL.contains(&kind) {
            Self::Local
        } else {
            Self::Foreign
        }
    }
}

/// What a reader knows of file systems, by device number: it asks each once.
#[derive(Default)]
pub(super) struct KnownStamps(HashMap<u64, Stamps>);

impl KnownStamps {
    /// Those of the file that `path` gives, which is on `device`. A file that cannot be asked is distrusted,
    /// so it is read, and whatever is wrong with it is met there.
    pub(super) fn of(&mut self, device: u64, path: impl FnOnce() -> PathBuf) -> Stamps {
        if let Some(known) = self.0.get(&device) {
            return *known;
        }
        match Stamps::of(&path()) {
            Ok(stamps) => *self.0.entry(device).or_insert(stamps),
            Err(_) => Stamps::Foreign,
        }
    }
}

/// Whether `entry` last changed so long before the backup that recorded it began, at `begun`, that
/// every later change has given the file another time.
///
/// Three things can make a change that came after the file was read bear the time of one that came
/// before, and each has its margin:
/// - The kernel's clock for files ticks every 10 ms at the slowest.
/// - A file system may keep whole seconds only, which the nanoseconds of its `ctime` show, or, as
///   FAT, every second one.
/// - `begun` was read from this machine's clock and the file's time from the server's. A client that
///   is ahead takes what has just changed for old.
pub(super) fn is_settled(entry: &Entry, begun: Time, stamps: Stamps) -> bool {
    const TICK: i128 = 10_000_000;
    const COARSE: i128 = 2_000_000_000;
    const CLOCKS_APART: i128 = 24 * 3600 * 1_000_000_000;
    let nanoseconds = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    let (ctime, mtime) = (nanoseconds(entry.meta.ctime), nanoseconds(entry.meta.mtime));
    let changed = match stamps {
        Stamps::Fat => ctime.max(mtime),
        Stamps::Local | Stamps::Foreign => ctime,
    };
    let is_coarse = stamps == Stamps::Fat || entry.meta.ctime.nanos == 0;
    let step = if is_coarse { COARSE } else { 0 };
    let skew = if stamps == Stamps::Foreign { CLOCKS_APART } else { 0 };
    changed < nanoseconds(begun) - (TICK + step + skew)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Meta, Node};

    const BEGUN: Time = Time { secs: 1_000_000, nanos: 5_000_000 };

    /// A file that changed so many nanoseconds before the backup began.
    fn changed(before: i128) -> Entry {
        let at = i128::from(BEGUN.secs) * 1_000_000_000 + i128::from(BEGUN.nanos) - before;
        let (secs, nanos) = (at.div_euclid(1_000_000_000), at.rem_euclid(1_000_000_000));
        let ctime = Time { secs: secs as i64, nanos: nanos as u32 };
        let meta = Meta { ctime, ..Meta::default() };
        Entry { name: b"file".to_vec(), meta, node: Node::Fifo }
    }

    #[test]
    fn a_name_of_macos_says_whose_clock_the_times_follow() {
        let padded = |name: &str| {
            let mut bytes = [0; 16];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            Stamps::of_name(&bytes)
        };
        assert_eq!(["apfs", "hfs"].map(padded), [Stamps::Local; 2]);
        assert_eq!(["msdos", "exfat"].map(padded), [Stamps::Fat; 2]);
        assert_eq!(["nfs", "smbfs", "apfs2", ""].map(padded), [Stamps::Foreign; 4]);
    }

    #[test]
    fn a_file_is_settled_once_the_clock_has_ticked_since_it_changed() {
        let is_settled = |before| is_settled(&changed(before), BEGUN, Stamps::Local);
        assert!(is_settled(10_000_001));
        assert!(!is_settled(10_000_000), "within a tick before");
        assert!(!is_settled(-1_000_000), "while the backup ran");
        assert!(!is_settled(2_005_000_000), "in the two seconds from a whole one");
        assert!(is_settled(3_005_000_000));
    }

    #[test]
    fn a_file_of_a_server_is_settled_even_by_a_clock_that_is_a_day_behind() {
        const HOUR: i128 = 3600 * 1_000_000_000;
        let is_settled = |before| is_settled(&changed(before), BEGUN, Stamps::Foreign);
        assert!(!is_settled(HOUR), "just changed, where this machine is an hour ahead");
        assert!(!is_settled(24 * HOUR + 10_000_000));
        assert!(is_settled(24 * HOUR + 10_000_001));
        assert!(!is_settled(24 * HOUR + 2_005_000_000), "the server keeps whole seconds");
        assert!(is_settled(24 * HOUR + 3_005_000_000));
    }

    #[test]
    fn a_file_on_fat_is_settled_two_seconds_after_its_mtime() {
        // Before Linux 5.19 its ctime is when it was made, to 10 ms.
        let made = changed(3_600_010_000_000);
        let written = |secs| {
            let mtime = Time { secs, nanos: 0 };
            Entry { meta: Meta { mtime, ..made.meta.clone() }, ..made.clone() }
        };
        assert!(is_settled(&written(BEGUN.secs - 2), BEGUN, Stamps::Local));
        assert!(!is_settled(&written(BEGUN.secs - 2), BEGUN, Stamps::Fat));
        assert!(is_settled(&written(BEGUN.secs - 4), BEGUN, Stamps::Fat));
        // Its ctime is a copy of its mtime since.
        assert!(!is_settled(&changed(2_005_000_000), BEGUN, Stamps::Fat));
    }

    #[test]
    fn only_what_is_known_to_follow_this_machines_clock_is_trusted_to() {
        for network in [0x6969_u64, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x6573_5546, 0xc3_6400] {
            assert_eq!(Stamps::of_kind(network), Stamps::Foreign, "{network:#x}");
        }
        assert_eq!(Stamps::of_kind(0xef53), Stamps::Local);
        assert_eq!(Stamps::of_kind(0x4d44), Stamps::Fat);
        assert_eq!(Stamps::of(Path::new("/proc/version")).unwrap(), Stamps::Foreign);
        let mut known = KnownStamps::default();
        assert_eq!(known.of(1, || "/there/is/no/such/file".into()), Stamps::Foreign);
        assert!(known.0.is_empty(), "what could not be asked is asked again");
        assert_eq!(known.of(1, || "/proc/version".into()), Stamps::Foreign);
        assert_eq!(known.0.len(), 1);
    }
}
