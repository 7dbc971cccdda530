//! What must end, whoever waits for whom in it.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Nothing that is run here takes a tenth of it, unless threads wait for each other.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `run` in a thread with as much stack as a main thread has. Panics if it does not end, which
/// would hang the test, and as it does if it panics.
pub fn expect_end<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    let running = thread::Builder::new().stack_size(8 << 20).spawn(move || {
        let result = run();
        let _ = done.send(());
        result
    });
    if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        panic!("{what} hangs");
    }
    running.unwrap().join().unwrap_or_else(|panic| resume_unwind(panic))
}
