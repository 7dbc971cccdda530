//! A server for one test.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onefold_nbd::{Config, Event, Export, Listen, Server, ServerError};

use crate::client::{self, Client};
use crate::device::Watched;

pub(crate) const MIB: u64 = 1 << 20;

/// A server of one or more devices, and where it listens.
pub(crate) struct Lab {
    pub(crate) server: Server,
    pub(crate) device: Arc<Watched>,
    pub(crate) socket: PathBuf,
    ended: Arc<Mutex<Vec<Option<String>>>>,
    _folder: tempfile::TempDir,
}

impl Lab {
    /// Serves a device of a mebibyte as "disk".
    pub(crate) fn new() -> Lab {
        Lab::with(Watched::new(MIB), |config| config)
    }

    /// Serves `device` as "disk", and what else `change` makes of the configuration.
    pub(crate) fn with(device: Watched, change: impl FnOnce(Config) -> Config) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let device = Arc::new(device);
        let export = Export::new("disk", device.clone());
        let config = change(Config::new(vec![Listen::Unix(socket.clone())], vec![export]));
        let ended = Arc::new(Mutex::new(Vec::new()));
        let log = ended.clone();
        let on_event = move |event: Event<'_>| {
            if let Event::Ended { error, .. } = event {
                log.lock().unwrap().push(error.map(|error| error.to_string()));
            }
        };
        let config = Config { on_event: Arc::new(on_event), ..config };
        Lab { server: Server::start(config).unwrap(), device, socket, ended, _folder: folder }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        client::unix(&self.socket)
    }

    /// A client that is served the device, with all that can be agreed on.
    pub(crate) fn client(&self) -> Client {
        Client::served(self.connect(), "disk")
    }

    /// How the server ended, and then each connection that had not; in words, if badly.
    pub(crate) fn shut_down(
        self,
        patience: Duration,
    ) -> (Result<(), ServerError>, Vec<Option<String>>) {
        let ended = self.server.shutdown(patience);
        (ended, self.ended.lock().unwrap().drain(..).collect())
    }

    /// How the next connection ended; in words, if it ended badly.
    pub(crate) fn next_end(&self) -> Option<String> {
        eventually("a connection ends", || self.ended.lock().unwrap().pop())
    }
}

/// What `get` gives, once it does.
pub(crate) fn eventually<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = get() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
