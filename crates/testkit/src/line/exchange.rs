//! The requests of one connection whose answers are outstanding.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::message::Head;
use super::{Fault, Shared};

/// A request that the server is to answer, and the fault of the answer.
#[derive(Debug)]
pub(super) struct Exchange {
    /// Counts all requests of the line, from 0.
    pub(super) number: u64,
    pub(super) method: String,
    pub(super) fault: Option<Fault>,
}

#[derive(Debug)]
pub(super) struct Exchanges {
    shared: Arc<Shared>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Oldest first.
    unanswered: VecDeque<Exchange>,
    /// The request whose answer has not arrived in full.
    under_way: Option<u64>,
}

impl Exchanges {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, inner: Mutex::default() }
    }

    /// Counts a request and draws its fault.
    ///
    /// The client has had the answer to its last request by now, or it would not ask again.
    pub(super) fn begin(&self, head: &Head) -> Exchange {
        self.end_last();
        let number = self.shared.counter.begin(head);
        self.lock().under_way = Some(number);
        let faults = *self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = faults.of(number);
        if let Some(fault) = fault {
            self.shared.counter.note(fault);
        }
        Exchange { number, method: head.method().to_owned(), fault }
    }

    /// Expects the server to answer `exchange`.
    pub(super) fn await_answer(&self, exchange: Exchange) {
        self.lock().unanswered.push_back(exchange);
    }

    /// The request that the next answer of the server is for.
    pub(super) fn next_answered(&self) -> Option<Exchange> {
        self.lock().unanswered.pop_front()
    }

    /// Counts the answer to request `number` as arrived, unless that is done.
    pub(super) fn end(&self, number: u64) {
        let mut inner = self.lock();
        if inner.under_way == Some(number) {
            inner.under_way = None;
            self.shared.counter.end();
        }
    }

    fn end_last(&self) {
        if self.lock().under_way.take().is_some() {
            self.shared.counter.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Exchanges {
    /// A request that is under way is lost with its connection.
    fn drop(&mut self) {
        self.end_last();
    }
}
