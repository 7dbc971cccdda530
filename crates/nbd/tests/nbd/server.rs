//! A server for one test.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onefold_block::Operation;
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
    refused: Arc<Mutex<Vec<Option<Operation>>>>,
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
        let refused = Arc::new(Mutex::new(Vec::new()));
        let (ends, refusals) = (ended.clone(), refused.clone());
        let on_event = move |event: Event<'_>| match event {
            Event::Ended { error, .. } => {
                ends.lock().unwrap().push(error.map(|error| error.to_string()));
            }
            Event::Refused { operation, .. } => {
                refusals.lock().unwrap().push(operation);
            }
            _ => {}
        };
        let config = Config { on_event: Arc::new(on_event), ..config };
        Lab {
            server: Server::start(config).unwrap(),
            device,
            socket,
            ended,
            refused,
            _folder: folder,
        }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        client::unix(&self.socket)
    }

    /// A client that is served the device, with all that can be agreed on.
    pub(crate) fn client(&self) -> Client {
        Client::served(self.connect(), "disk")
    }

    /// What the requests asked for that were refused and came to no device.
    pub(crate) fn refused(&self) -> Vec<Option<Operation>> {
        self.refused.lock().unwrap().clone()
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
