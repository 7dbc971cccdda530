//! The mount of a file.

#[cfg(target_os = "linux")]
use std::fs;
use std::fs::File;

#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::MountId;

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: a number that no later mount of this boot gets. The older
/// `STATX_MNT_ID` is of no use here, since the next mount may get the number of one that ended.
#[cfg(target_os = "linux")]
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The mount on which `file` is, if the kernel tells.
#[cfg(target_os = "linux")]
pub(super) fn mount_of(file: &File) -> Option<MountId> {
    let boot = boot_id(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)?;
    let found = statx(file, "", AtFlags::EMPTY_PATH, UNIQUE).ok()?;
    let is_told = found.stx_mask & UNIQUE.bits() != 0;
    is_told.then_some(MountId { boot, number: found.stx_mnt_id })
}

/// Other systems do not tell.
#[cfg(not(target_os = "linux"))]
pub(super) fn mount_of(_: &File) -> Option<MountId> {
    None
}

/// The bytes of a UUID that is not zero.
#[cfg(target_os = "linux")]
fn boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|one| *one != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32 && number != 0).then(|| number.to_be_bytes())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_sixteen_bytes_or_none() {
        let id = boot_id("0c4e3b52-8b1d-4a77-9d0e-5f60718293a4\n").unwrap();
        assert_eq!((id[0], id[15]), (0x0c, 0xa4));
        for text in ["", "0c4e3b52", "00000000-0000-0000-0000-000000000000", "not an id at all"] {
            assert_eq!(boot_id(text), None, "{text}");
        }
    }

    #[test]
    fn files_of_one_file_system_are_on_one_mount() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        let [one, other] = [directory.path(), &below].map(|path| File::open(path).unwrap());
        assert_eq!(mount_of(&one), mount_of(&other));
        if let Some(here) = mount_of(&one) {
            let proc = mount_of(&File::open("/proc/self/status").unwrap()).unwrap();
            assert_eq!(here.boot, proc.boot);
            assert_ne!(here.number, proc.number);
        }
    }
}
