//! The threads of a gateway.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::gateway::Gateway;
use super::lease::RENEWAL;

/// How often a gateway looks around.
const LOOK: Duration = Duration::from_millis(500);

/// Renews a gateway's lease, keeps to the quota and looks around, each on a thread, until it is dropped.
pub struct Running {
    end: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts the threads of `gateway`.
    ///
    /// # Panics
    /// If no thread can be started.
    pub fn start(gateway: &Arc<Gateway>) -> Self {
        let mut running = Self::renewing(gateway);
        let polled = Arc::clone(gateway);
        running.repeat("gateway-poll", LOOK, move || polled.poll());
        running
    }

    /// Starts only the threads that renew the lease and keep to the quota: for a command that is short.
    ///
    /// # Panics
    /// If no thread can be started.
    pub fn renewing(gateway: &Arc<Gateway>) -> Self {
        let mut running = Self { end: Arc::default(), threads: Vec::new() };
        let renewed = Arc::clone(gateway);
        running.repeat("gateway-renew", RENEWAL, move || renewed.renew());
        let kept = Arc::clone(gateway);
        running.repeat("gateway-room", RENEWAL, move || kept.keep_room());
        running
    }

    fn repeat(&mut self, name: &str, every: Duration, call: impl Fn() + Send + 'static) {
        let end = Arc::clone(&self.end);
        let run = move || {
            loop {
                let (is_over, changed) = &*end;
                let guard = is_over.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = changed.wait_timeout_while(guard, every, |is_over| !*is_over);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    return;
                }
                call();
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads.push(thread.expect("the system has a thread left"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.1.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !thread::panicking() {
                panic!("a thread of the gateway panicked");
            }
        }
    }
}
