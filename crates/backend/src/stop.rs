//! Ending calls that wait for a service.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[cfg(feature = "remote")]
use tokio::sync::watch;

/// Ends waiting calls; clones share the state.
///
/// When a stop is requested, pauses between retries end immediately, and nothing is retried. Requests in
/// flight may continue for a grace period, so that an ending backup can still withdraw its intent. Then they
/// are aborted, and later requests fail immediately with
/// [`BackendError::Interrupted`](crate::BackendError::Interrupted).
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    /// Notifies pausing threads.
    changed: Condvar,
    /// Notifies requests in flight.
    #[cfg(feature = "remote")]
    told: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// When requests in flight are aborted after a requested stop.
    asked: Option<Instant>,
    /// When requests in flight are aborted without a requested stop.
    limit: Option<Instant>,
}

#[cfg(feature = "remote")]
impl State {
    /// When requests in flight are aborted.
    fn end(&self) -> Option<Instant> {
        self.asked.into_iter().chain(self.limit).min()
    }

    fn is_over(&self) -> bool {
        self.end().is_some_and(|end| end <= Instant::now())
    }
}

impl Stop {
    /// Requests a stop: ends pauses now, and requests in flight after `grace`. Of several calls the earliest
    /// end applies.
    pub fn ask(&self, grace: Duration) {
        let end = Instant::now() + grace;
        self.change(|state| state.asked = Some(state.asked.map_or(end, |before| before.min(end))));
    }

    /// Whether a stop was requested.
    pub fn is_asked(&self) -> bool {
        self.state().asked.is_some()
    }

    /// Returns after `pause`, or when a stop is requested.
    pub fn sleep(&self, pause: Duration) {
        let is_waiting = |state: &mut State| state.asked.is_none();
        let waited = self.0.changed.wait_timeout_while(self.state(), pause, is_waiting);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Aborts requests after `left`, without a requested stop; never, if `None`.
    pub(crate) fn limit(&self, left: Option<Duration>) {
        let limit = left.map(|left| Instant::now() + left);
        self.change(|state| state.limit = limit);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.changed.notify_all();
        #[cfg(feature = "remote")]
        self.0.told.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "remote")]
impl Stop {
    /// The result of `what`, or none if it is aborted.
    pub(crate) async fn unless_broken_off<F: Future>(&self, what: F) -> Option<F::Output> {
        use futures::future::{Either, select};

        if self.state().is_over() {
            return None;
        }
        let (what, end) = (std::pin::pin!(what), std::pin::pin!(self.end()));
        // Poll the answer first, so that it is used if it has arrived.
        match select(what, end).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Completes when requests in flight must be aborted.
    async fn end(&self) {
        let mut told = self.0.told.subscribe();
        loop {
            let end = self.state().end();
            let changed = told.changed();
            match end {
                Some(end) if end <= Instant::now() => return,
                // After either of them, read the state again.
                Some(end) => drop(tokio::time::timeout_at(end.into(), changed).await),
                None => drop(changed.await),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_when_the_stop_is_asked_for() {
        let stop = Stop::default();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| stop.sleep(Duration::from_secs(600)));
            stop.ask(Duration::ZERO);
        });
        stop.sleep(Duration::from_secs(600));
        assert!(stop.is_asked() && start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn of_several_ends_the_earliest_counts() {
        let stop = Stop::default();
        let end = || stop.state().asked.unwrap();
        stop.ask(Duration::from_secs(100));
        let first = end();
        stop.ask(Duration::from_secs(200));
        assert_eq!(end(), first);
        stop.ask(Duration::ZERO);
        assert!(end() < first);
    }

    #[cfg(feature = "remote")]
    mod requests {
        use super::*;

        fn wait(stop: &Stop) -> Option<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let long = async { tokio::time::sleep(Duration::from_secs(600)).await };
            runtime.unwrap().block_on(stop.unless_broken_off(long))
        }

        #[test]
        fn a_request_under_way_is_broken_off_by_whatever_comes_first() {
            let long = Duration::from_secs(600);
            let ways: [fn(&Stop); 4] = [
                |stop| stop.ask(Duration::from_millis(50)),
                |stop| stop.limit(Some(Duration::from_millis(50))),
                |stop| {
                    stop.limit(Some(Duration::from_secs(600)));
                    stop.ask(Duration::ZERO);
                },
                |stop| {
                    stop.ask(Duration::from_secs(600));
                    stop.limit(Some(Duration::ZERO));
                },
            ];
            for way in ways {
                let (stop, start) = (Stop::default(), Instant::now());
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| wait(&stop));
                    std::thread::sleep(Duration::from_millis(20));
                    way(&stop);
                    assert_eq!(waiting.join().unwrap(), None);
                });
                assert!(start.elapsed() < long / 10);
            }
        }

        #[test]
        fn a_limit_that_is_taken_back_breaks_nothing_off() {
            let stop = Stop::default();
            stop.limit(Some(Duration::ZERO));
            stop.limit(None);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let short = async { tokio::time::sleep(Duration::from_millis(20)).await };
            assert_eq!(runtime.unwrap().block_on(stop.unless_broken_off(short)), Some(()));
        }
    }
}
