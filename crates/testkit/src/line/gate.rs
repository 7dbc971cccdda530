//! Whether a line delivers, is silent, or is gone; and the connections that a line drops as it goes.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// The two sockets of a connection.
///
/// The last owner closes them. Nobody duplicates them, so that a reset is sent when they close.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    is_reset: AtomicBool,
}

impl Ends {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> Self {
        Self { client, server, is_reset: AtomicBool::new(false) }
    }

    /// Ends the connection in order, for both sides, unless it is reset.
    pub(super) fn close(&self) {
        // Each fails only if the other side has closed it already.
        let _ = self.server.shutdown(Shutdown::Both);
        if !self.is_reset.load(Ordering::SeqCst) {
            let _ = self.client.shutdown(Shutdown::Both);
        }
    }

    /// Makes the client see a reset once all owners have let go.
    pub(super) fn reset(&self) {
        self.is_reset.store(true, Ordering::SeqCst);
        // Where this fails the client sees an orderly end, which is a fault as well.
        let _ = rustix::net::sockopt::set_socket_linger(&self.client, Some(Default::default()));
        let _ = self.client.shutdown(Shutdown::Read);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    Silent,
    Vanished,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    is_listening: bool,
    connections: Vec<Weak<Ends>>,
}

#[derive(Debug, Default)]
pub(super) struct Gate {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn open(&self) {
        self.set(State::Open);
    }

    pub(super) fn go_silent(&self) {
        self.set(State::Silent);
    }

    /// Drops every connection, and returns once the thread that listens at `address` has ended.
    pub(super) fn vanish(&self, address: SocketAddr) {
        let mut inner = self.lock();
        inner.state = State::Vanished;
        inner.connections.drain(..).filter_map(|ends| ends.upgrade()).for_each(|ends| ends.close());
        self.changed.notify_all();
        while inner.is_listening {
            // Wakes the listener, which then looks at the state.
            drop(TcpStream::connect(address));
            inner = self.wait(inner);
        }
    }

    pub(super) fn has_vanished(&self) -> bool {
        self.lock().state == State::Vanished
    }

    pub(super) fn is_listening(&self) -> bool {
        self.lock().is_listening
    }

    pub(super) fn listen(&self) {
        self.lock().is_listening = true;
    }

    pub(super) fn end_listening(&self) {
        self.lock().is_listening = false;
        self.changed.notify_all();
    }

    /// Waits while the line is silent; true if it delivers.
    pub(super) fn wait_open(&self) -> bool {
        let mut inner = self.lock();
        while inner.state == State::Silent {
            inner = self.wait(inner);
        }
        inner.state == State::Open
    }

    /// Remembers a connection; false if the line has vanished meanwhile.
    pub(super) fn register(&self, ends: &Arc<Ends>) -> bool {
        let mut inner = self.lock();
        inner.connections.retain(|ends| ends.strong_count() > 0);
        inner.connections.push(Arc::downgrade(ends));
        inner.state != State::Vanished
    }

    fn set(&self, state: State) {
        self.lock().state = state;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner)
    }
}
