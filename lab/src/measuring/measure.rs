//! Runs a program and reads off what it used.

use std::io;
use std::ops::AddAssign;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// What one run of a program used, its own children included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// From just before it was started until it was reaped.
    pub(crate) wall: Duration,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// The most memory resident at once, in bytes.
    ///
    /// Linux counts the moment between fork and exec to the child, so this is never below what the
    /// calling process had resident at its own peak: keep the caller small.
    pub(crate) peak_rss: u64,
}

/// One run after another.
impl AddAssign for Usage {
    fn add_assign(&mut self, next: Self) {
        self.wall += next.wall;
        self.user += next.user;
        self.system += next.system;
        self.peak_rss = self.peak_rss.max(next.peak_rss);
    }
}

/// Runs `command` to its end, and says how it ended.
pub(crate) fn run(command: &mut Command) -> io::Result<(ExitStatus, Usage)> {
    let start = Instant::now();
    let child = command.spawn()?;
    reap(&child, start)
}

/// Waits for the end of a child that was started at `start`, and says how it ended. The `child` must not be
/// waited for afterwards: its id may be another's.
pub(crate) fn reap(child: &Child, start: Instant) -> io::Result<(ExitStatus, Usage)> {
    let (status, usage) = wait4(child.id())?;
    let usage = Usage {
        wall: start.elapsed(),
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        peak_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0) * MAXRSS_UNIT,
    };
    Ok((status, usage))
}

/// Bytes in one unit of `ru_maxrss`.
const MAXRSS_UNIT: u64 = if cfg!(target_vendor = "apple") { 1 } else { 1024 };

/// Reaps the child `id`. Its `Child` must not be waited for afterwards: the id may be another's.
fn wait4(id: u32) -> io::Result<(ExitStatus, libc::rusage)> {
    let pid = libc::pid_t::try_from(id).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: `rusage` is made of integers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals of the types that wait4 writes.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if reaped == pid {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_program_s() {
        let (status, _) = run(Command::new("sh").args(["-c", "exit 7"])).unwrap();
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn time_in_use_is_told_from_time_asleep() {
        let (_, asleep) = run(Command::new("sleep").arg("0.2")).unwrap();
        assert!(asleep.wall >= Duration::from_millis(200), "{asleep:?}");
        assert!(asleep.user + asleep.system < Duration::from_millis(150), "{asleep:?}");
        assert!(asleep.peak_rss > 0, "{asleep:?}");
    }

    #[test]
    fn memory_is_counted_in_bytes() {
        // A shell variable of 64 MiB.
        let script = "x=$(head -c 67108864 /dev/zero | tr '\\0' a); echo ${#x} > /dev/null";
        let (status, usage) = run(Command::new("sh").args(["-c", script])).unwrap();
        assert!(status.success());
        assert!((64 << 20..2 << 30).contains(&usage.peak_rss), "{usage:?}");
    }
}
