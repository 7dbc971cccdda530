//! A server of one device on a Unix socket, perhaps in a control group.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use onefold_lab::nbd::{Client, Place, Uri};
use rustix::fs::Advice;
use rustix::process::{Pid, Signal};

use crate::measuring::limited::Limited;
use crate::measuring::measure::{self, Usage};
use crate::measuring::process;

/// How long a server may take for a reply: it may have hundreds of millions of pages to open.
pub(super) const PATIENCE: Duration = Duration::from_secs(2 * 3600);

/// How long a server may take until it listens.
const LISTENING: Duration = Duration::from_secs(600);

/// A server, which is killed when it is dropped.
pub(super) struct Served {
    child: Child,
    begun: Instant,
    socket: PathBuf,
    export: &'static str,
    has_ended: bool,
}

/// Why a server is gone before it was told to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended(pub(super) ExitStatus);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server ended by itself: {}", self.0)?;
        // as the kernel kills where a group has no more memory
        let is_killed = self.0.signal() == Some(Signal::KILL.as_raw());
        if is_killed { write!(f, ", perhaps for want of memory") } else { Ok(()) }
    }
}

impl std::error::Error for Ended {}

impl Served {
    /// Starts `program`, which serves `export` on `socket`, in `group` if there is one.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        (socket, export): (PathBuf, &'static str),
        group: Option<&Limited>,
    ) -> Result<Self> {
        if socket.exists() {
            fs::remove_file(&socket).with_context(|| socket.display().to_string())?;
        }
        let mut command = match group {
            Some(group) => group.command(program, arguments),
            None => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
        };
        let begun = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{command:?}"))?;
        Ok(Self { child, begun, socket, export, has_ended: false })
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn address(&self) -> Uri {
        Uri { place: Place::Unix(self.socket.clone()), export: self.export.into() }
    }

    /// The address as fio takes it.
    pub(super) fn uri(&self) -> String {
        format!("nbd+unix:///{}?socket={}", self.export, self.socket.display())
    }

    /// Connects as soon as the server listens.
    pub(super) fn connect(&mut self) -> Result<Client> {
        let asked = Instant::now();
        loop {
            self.ensure_running()?;
            let error = match Client::connect_with(&self.address(), PATIENCE) {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
            let is_early =
                matches!(cause, Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused));
            if !is_early || asked.elapsed() > LISTENING {
                return self.explained(Err(error));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Connects, fills `data` with what is at `offset`, and returns the time from the start of the process to the
    /// reply.
    pub(super) fn open(&mut self, offset: u64, data: &mut [u8]) -> Result<(Client, Duration)> {
        let mut client = self.connect()?;
        let read = client.read(offset, data);
        let time = self.begun.elapsed();
        self.explained(read)?;
        Ok((client, time))
    }

    /// `result`, or if that is an error because the server ended, [`Ended`].
    pub(super) fn explained<T>(&mut self, result: Result<T>) -> Result<T> {
        const REAPED: Duration = Duration::from_millis(500);
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // connections end a little before the process does
        let seen = Instant::now();
        while seen.elapsed() < REAPED {
            self.ensure_running()?;
            thread::sleep(Duration::from_millis(10));
        }
        Err(error)
    }

    /// Fails with [`Ended`] if the server has ended.
    pub(super) fn ensure_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                self.has_ended = true;
                Err(Ended(status).into())
            }
        }
    }

    /// The most memory that it had resident by now.
    pub(super) fn peak(&self) -> Result<u64> {
        process::peak_resident(self.process())
    }

    /// Tells the server to end, and returns how long that took and what it used in all.
    pub(super) fn end(mut self) -> Result<(Duration, Usage)> {
        self.ensure_running()?;
        let told = Instant::now();
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let (status, usage) = measure::reap(&self.child, self.begun)?;
        self.has_ended = true;
        if !status.success() {
            bail!(Ended(status));
        }
        Ok((told.elapsed(), usage))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Makes the files below `folder` durable and drops them from the kernel's cache, so that the next read is
/// from the disk and counts to the group that reads.
pub(super) fn forget(folder: &Path) -> Result<()> {
    let place = || folder.display().to_string();
    for entry in fs::read_dir(folder).with_context(place)? {
        let entry = entry.with_context(place)?;
        let (path, kind) = (entry.path(), entry.file_type().with_context(place)?);
        if kind.is_dir() {
            forget(&path)?;
        } else if kind.is_file() {
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Served {
        let arguments = ["-c".to_owned(), script.to_owned()];
        let place = (PathBuf::from("/nowhere/socket"), "");
        Served::start(Path::new("sh"), &arguments, place, None).unwrap()
    }

    #[test]
    fn a_server_that_ends_is_the_reason_of_what_fails() {
        let mut server = shell("exit 3");
        let error = server.connect().err().unwrap();
        assert_eq!(error.downcast_ref::<Ended>().unwrap().0.code(), Some(3));
        let mut killed = shell("kill -9 $$");
        let error = killed.explained::<()>(Err(anyhow::anyhow!("gone"))).unwrap_err();
        assert!(error.downcast_ref::<Ended>().unwrap().to_string().ends_with("want of memory"));
    }

    #[test]
    fn an_end_that_was_asked_for_is_none_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let server = shell(&format!(
            "trap 'exit 0' TERM; : > {}; while :; do sleep 0.01; done",
            ready.display()
        ));
        while !ready.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        let (_, usage) = server.end().unwrap();
        assert!(usage.peak_rss > 0);
    }

    #[test]
    fn files_are_the_same_after_they_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), [7; 10_000]).unwrap();
        forget(folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join("inner/file")).unwrap(), [7; 10_000]);
    }
}
