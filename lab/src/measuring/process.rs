//! What the kernel knows of a running process.

use std::fs;

use anyhow::{Context, Result};

/// What a process has taken of the processor, in seconds, in user mode and in the kernel.
pub(crate) fn cpu_time(process: u32) -> Result<(f64, f64)> {
    let (place, text) = read(process, "stat")?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let (user, system) =
        cpu_ticks(&text).with_context(|| format!("{place}: no times in {text}"))?;
    Ok((user as f64 / ticks, system as f64 / ticks))
}

/// The most memory that a process had resident at once since it became the program that it is, in bytes.
pub(crate) fn peak_resident(process: u32) -> Result<u64> {
    let (place, text) = read(process, "status")?;
    let kib = number(&text, "VmHWM").with_context(|| format!("{place}: no VmHWM"))?;
    Ok(kib * 1024)
}

/// Bytes that a process caused to be read from a disk: what the kernel's cache had is not among them.
pub(crate) fn disk_read(process: u32) -> Result<u64> {
    let (place, text) = read(process, "io")?;
    number(&text, "read_bytes").with_context(|| format!("{place}: no read_bytes"))
}

/// Where a file of a process lies in /proc, and what it holds.
fn read(process: u32, file: &str) -> Result<(String, String)> {
    let place = format!("/proc/{process}/{file}");
    let text = fs::read_to_string(&place).with_context(|| place.clone())?;
    Ok((place, text))
}

/// The number of the line `key: NUMBER`, whatever its unit.
fn number(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Fields 14 and 15; the second, a name in brackets, may have spaces.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_a_name_of_any_kind() {
        let stat = "77 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 123 45 0 0 20 0 1";
        assert_eq!(cpu_ticks(stat), Some((123, 45)));
        assert_eq!(cpu_ticks("77 (a) S 1"), None);
        let (user, system) = cpu_time(std::process::id()).unwrap();
        assert!(user + system < 10_000.0);
    }

    #[test]
    fn a_number_is_that_of_its_own_line() {
        let text = "VmHWM2:\t 1 kB\nrchar: 7\nVmHWM:\t  20 kB\nread_bytes: x\n";
        assert_eq!(number(text, "VmHWM"), Some(20));
        assert_eq!(number(text, "rchar"), Some(7));
        assert_eq!((number(text, "read_bytes"), number(text, "char")), (None, None));
    }

    #[test]
    fn the_peak_does_not_fall_when_memory_is_freed() {
        let large = vec![1_u8; 64 << 20];
        assert_eq!(large.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
        drop(large);
        assert!(peak_resident(std::process::id()).unwrap() > 64 << 20);
        assert!(disk_read(std::process::id()).is_ok());
    }
}
