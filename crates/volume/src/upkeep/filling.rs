//! The thread that fills the table of fingerprints of a pool that was opened without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::error::VolumeError;
use crate::pool::open::Pool;

/// A thread that enters all pages into the table of fingerprints. Dropping it ends the thread at its
/// next step.
pub struct Filling {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Starts a thread that [fills the index](Self::fill_index). At its end it gives `tell` what is wrong
    /// with containers whose pages could not be entered, unless it was ended before.
    ///
    /// # Panics
    ///
    /// If no thread can be started.
    pub fn start_filling(&self, tell: impl FnOnce(Vec<VolumeError>) + Send + 'static) -> Filling {
        let (pool, is_over) = (self.clone(), Arc::<AtomicBool>::default());
        let asked = Arc::clone(&is_over);
        let run = move || {
            let damage = pool.fill_index(|| !asked.load(Ordering::Relaxed));
            if !asked.load(Ordering::Relaxed) {
                tell(damage);
            }
        };
        let thread = thread::Builder::new().name("filling".into()).spawn(run);
        Filling { is_over, thread: Some(thread.expect("the system has a thread left")) }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the thread that fills the table of fingerprints panicked");
        }
    }
}
