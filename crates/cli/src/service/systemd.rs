//! Sockets that systemd passes to a service (`LISTEN_FDS`), and notifications to systemd when the service
//! is ready and when it stops (`NOTIFY_SOCKET`). See sd_listen_fds(3) and sd_notify(3).

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, Result, ensure};
use rustix::io::{FdFlags, fcntl_setfd};

/// The number of the first file descriptor that systemd passes.
const FIRST: RawFd = 3;

/// The maximum number of sockets that are accepted.
const MOST: usize = 1024;

/// The sockets that systemd passed to this process. Call it once.
///
/// # Errors
///
/// `LISTEN_FDS` is not a number, or more than the open files.
pub(crate) fn inherited_sockets() -> Result<Vec<OwnedFd>> {
    let count = count_for(env::var_os("LISTEN_PID"), env::var_os("LISTEN_FDS"), std::process::id());
    let numbers = FIRST..FIRST + count? as RawFd;
    // check all of them before taking the first: an error must not close a file of other code
    for number in numbers.clone() {
        // SAFETY: it is borrowed for this one call, which fails if it is not open.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_setfd(file, FdFlags::CLOEXEC)
            .with_context(|| format!("LISTEN_FDS says that file {number} is open"))?;
    }
    // SAFETY: LISTEN_PID names this process, so these files were opened for it to own, and they are
    // open, as the loop above found. Nothing else here knows their numbers.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect())
}

/// How many files the environment says were passed to process `own`.
fn count_for(pid: Option<OsString>, count: Option<OsString>, own: u32) -> Result<usize> {
    let text = |value: &OsString| value.to_str().and_then(|text| text.parse::<u64>().ok());
    // what was meant for a parent is none of ours
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(0) };
    if text(&pid) != Some(own.into()) {
        return Ok(0);
    }
    let found = text(&count).filter(|count| *count <= MOST as u64);
    let shown = count.to_string_lossy();
    let expected = || format!("LISTEN_FDS is '{shown}', expected a number up to {MOST}");
    Ok(found.with_context(expected)? as usize)
}

/// The socket on which systemd receives notifications of this service.
pub(crate) struct Supervisor(Option<(UnixDatagram, SocketAddr)>);

impl Supervisor {
    /// The socket that `NOTIFY_SOCKET` names, if any.
    pub(crate) fn of_environment() -> Result<Self> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Self(None));
        };
        let known = || format!("NOTIFY_SOCKET is '{}'", name.display());
        let address = address_of(&name).with_context(known)?;
        let socket = UnixDatagram::unbound().with_context(known)?;
        Ok(Self(Some((socket, address))))
    }

    /// Notifies that the service is ready.
    pub(crate) fn tell_ready(&self) -> Result<()> {
        self.tell("READY=1")
    }

    /// Notifies that the service is stopping.
    pub(crate) fn tell_stopping(&self) -> Result<()> {
        self.tell("STOPPING=1")
    }

    fn tell(&self, news: &str) -> Result<()> {
        let Some((socket, address)) = &self.0 else { return Ok(()) };
        let sent = socket.send_to_addr(news.as_bytes(), address);
        sent.with_context(|| format!("cannot notify systemd of {news}"))?;
        Ok(())
    }
}

/// A path, or an abstract name after an `@`.
fn address_of(name: &OsStr) -> Result<SocketAddr> {
    match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => Ok(SocketAddr::from_abstract_name(name)?),
        path => {
            ensure!(path.starts_with(b"/"), "expected an absolute path, or a name after an @");
            Ok(SocketAddr::from_pathname(name)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_only_by_the_process_that_they_are_for() {
        let count = |pid: Option<&str>, count: Option<&str>| {
            count_for(pid.map(Into::into), count.map(Into::into), 77).ok()
        };
        assert_eq!(count(Some("77"), Some("2")), Some(2));
        assert_eq!(count(Some("78"), Some("2")), Some(0));
        assert_eq!(count(None, Some("2")), Some(0));
        assert_eq!(count(Some("77"), None), Some(0));
        assert_eq!(count(Some(""), Some("2")), Some(0));
        for wrong in ["", "-1", "two", "1025", "99999999999999999999"] {
            assert_eq!(count(Some("77"), Some(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn news_arrive_at_paths_and_at_abstract_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("@onefold-test-{}", std::process::id());
        for name in [path.as_os_str(), OsStr::new(&abstract_name)] {
            let address = address_of(name).unwrap();
            let listener = UnixDatagram::bind_addr(&address).unwrap();
            let supervisor = Supervisor(Some((UnixDatagram::unbound().unwrap(), address)));
            supervisor.tell_ready().unwrap();
            let mut bytes = [0; 100];
            let len = listener.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..len], b"READY=1");
        }
        assert!(address_of(OsStr::new("relative")).is_err());
        Supervisor(None).tell_stopping().unwrap();
    }
}
