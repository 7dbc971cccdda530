//! The thread that notes how far a pool was acknowledged, beside those that flush.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::VolumeError;
use crate::pool::open::Pool;

/// How often the last acknowledged frame is noted. After a kill, damage to frames that came later may
/// pass for the end of the journal.
const EVERY: Duration = Duration::from_millis(100);

/// A thread that notes how far a pool was acknowledged, ten times a second while that changes. Dropping
/// it notes the last frame and ends the thread.
pub struct Noting {
    /// Dropping it wakes the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Starts a thread that [notes](Self::note_acknowledged) how far changes were acknowledged. It
    /// calls `tell` with the first error after each success.
    ///
    /// # Panics
    ///
    /// If no thread can be started.
    pub fn start_noting(&self, tell: impl Fn(VolumeError) + Send + 'static) -> Noting {
        let (pool, (end, is_ended)) = (self.clone(), mpsc::channel::<()>());
        let run = move || {
            let mut has_failed = false;
            loop {
                let waited = is_ended.recv_timeout(EVERY);
                match pool.note_acknowledged() {
                    Ok(()) => has_failed = false,
                    Err(error) if !has_failed => {
                        has_failed = true;
                        tell(error);
                    }
                    Err(_) => {}
                }
                if waited != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("noting".into()).spawn(run);
        Noting { end: Some(end), thread: Some(thread.expect("the system has a thread left")) }
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the thread that notes what was acknowledged panicked");
        }
    }
}
