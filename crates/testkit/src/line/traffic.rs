use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Fault;
use super::message::Head;

/// The kind of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The method of HTTP, or `LIST` for a GET that lists names.
    pub method: String,
    /// The first component of the path below the repository; empty where there is none.
    pub folder: String,
}

/// What passed over a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from clients to the server, heads included.
    pub sent_bytes: u64,
    /// Bytes from the server to clients, heads included.
    pub received_bytes: u64,
    /// Connections that clients opened.
    pub connections: u64,
    /// How many requests of each kind clients sent.
    pub requests: BTreeMap<Request, u64>,
    /// The most requests that waited for the end of their answers at one moment.
    pub peak_under_way: u64,
    /// How many requests had each fault.
    pub faults: BTreeMap<Fault, u64>,
}

impl Traffic {
    /// How many requests of all kinds clients sent.
    pub fn request_count(&self) -> u64 {
        self.requests.values().sum()
    }
}

#[derive(Debug)]
pub(super) struct Counter {
    repository_depth: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    traffic: Traffic,
    under_way: u64,
    /// Requests since the line started, which [`Counter::take`] does not reset.
    all_requests: u64,
}

impl Counter {
    pub(super) fn new(repository_depth: usize) -> Self {
        Self { repository_depth, inner: Mutex::default() }
    }

    pub(super) fn connect(&self) {
        self.lock().traffic.connections += 1;
    }

    pub(super) fn send(&self, len: usize) {
        self.lock().traffic.sent_bytes += len as u64;
    }

    pub(super) fn receive(&self, len: usize) {
        self.lock().traffic.received_bytes += len as u64;
    }

    /// Counts a request and returns its number, from 0.
    pub(super) fn begin(&self, head: &Head) -> u64 {
        let request = request(head, self.repository_depth);
        let mut inner = self.lock();
        *inner.traffic.requests.entry(request).or_default() += 1;
        inner.under_way += 1;
        inner.traffic.peak_under_way = inner.traffic.peak_under_way.max(inner.under_way);
        inner.all_requests += 1;
        inner.all_requests - 1
    }

    pub(super) fn note(&self, fault: Fault) {
        *self.lock().traffic.faults.entry(fault).or_default() += 1;
    }

    /// Counts a request as answered, or as lost with its connection.
    pub(super) fn end(&self) {
        self.lock().under_way -= 1;
    }

    pub(super) fn take(&self) -> Traffic {
        let mut inner = self.lock();
        let next = Traffic { peak_under_way: inner.under_way, ..Traffic::default() };
        std::mem::replace(&mut inner.traffic, next)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn request(head: &Head, depth: usize) -> Request {
    let (path, query) = head.target().split_once('?').unwrap_or((head.target(), ""));
    let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix="));
    let is_list = head.method() == "GET" && (prefix.is_some() || query.contains("list-type="));
    let method = if is_list { "LIST" } else { head.method() };
    // A listing names the bucket in its path, and the rest in its prefix.
    let prefix = prefix.unwrap_or_default().replace("%2F", "/").replace("%2f", "/");
    let whole = if is_list { format!("{path}/{prefix}") } else { path.to_owned() };
    let folder = whole.split('/').filter(|component| !component.is_empty()).nth(depth);
    Request { method: method.to_owned(), folder: folder.unwrap_or_default().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str, depth: usize) -> (String, String) {
        let head = Head { lines: vec![line.to_owned()] };
        let Request { method, folder } = request(&head, depth);
        (method, folder)
    }

    #[test]
    fn a_request_is_known_by_its_method_and_its_folder_below_the_repository() {
        for (line, depth, method, folder) in [
            ("GET /bucket/of/containers/ab/abcd HTTP/1.1", 2, "GET", "containers"),
            ("PUT /bucket/snapshots/x?partNumber=1 HTTP/1.1", 1, "PUT", "snapshots"),
            ("HEAD /bucket/config HTTP/1.1", 1, "HEAD", "config"),
            ("GET /bucket?list-type=2&prefix=of%2Flogs%2F HTTP/1.1", 2, "LIST", "logs"),
            ("GET /bucket/?list-type=2 HTTP/1.1", 1, "LIST", ""),
            ("DELETE /bucket HTTP/1.1", 1, "DELETE", ""),
        ] {
            assert_eq!(kind(line, depth), (method.into(), folder.into()), "{line}");
        }
    }

    #[test]
    fn the_peak_is_of_requests_at_once_and_starts_anew_with_those_under_way() {
        let counter = Counter::new(1);
        let head = Head { lines: vec!["GET /bucket/x HTTP/1.1".into()] };
        assert_eq!((counter.begin(&head), counter.begin(&head)), (0, 1));
        counter.end();
        assert_eq!(counter.begin(&head), 2);
        let first = counter.take();
        assert_eq!((first.request_count(), first.peak_under_way), (3, 2));
        counter.end();
        assert_eq!(counter.begin(&head), 3);
        assert_eq!(counter.take().peak_under_way, 2);
        counter.end();
        counter.end();
        assert_eq!(counter.take().peak_under_way, 2, "two were under way as it began");
        assert_eq!(counter.take().peak_under_way, 0);
    }
}
