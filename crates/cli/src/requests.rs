//! The number of requests to services, printed at the end of a command, so that users can compute the
//! cost.

use std::fmt;

use indicatif::HumanBytes;
use onefold_backend::{Requests, Usage};
use serde::Serialize;

use crate::console::Console;

/// A service that a command reached, and its counters of requests.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The repository and its endpoint, as messages name them.
    pub(crate) place: String,
    pub(crate) usage: Usage,
}

/// The requests to one service as programs read them: one JSON object on standard error.
#[derive(Serialize)]
struct Told<'a> {
    r#type: &'static str,
    repository: &'a str,
    get: u64,
    head: u64,
    list: u64,
    put: u64,
    delete: u64,
    multipart: u64,
    sent_bytes: u64,
    received_bytes: u64,
    retries: u64,
    hedges: u64,
}

/// Prints the requests to each service, for programs and with --verbose.
pub(crate) fn tell(console: &Console) {
    for Service { place, usage } in console.services() {
        let requests = usage.requests();
        if !console.is_json() {
            console.detail(format_args!("{place}: {}", Sentence(&requests)));
        } else if !console.is_quiet() {
            let told = Told::new(&place, &requests);
            console.line(serde_json::to_string(&told).expect("texts and numbers make JSON"));
        }
    }
}

impl<'a> Told<'a> {
    const fn new(repository: &'a str, requests: &Requests) -> Self {
        let Requests { get, head, list, put, delete, multipart, .. } = *requests;
        let Requests { sent_bytes, received_bytes, retries, hedges, .. } = *requests;
        Self {
            r#type: "requests",
            repository,
            get,
            head,
            list,
            put,
            delete,
            multipart,
            sent_bytes,
            received_bytes,
            retries,
            hedges,
        }
    }
}

/// Requests in a line of text.
struct Sentence<'a>(&'a Requests);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requests { get, head, list, put, delete, multipart, .. } = *self.0;
        let Requests { sent_bytes, received_bytes, retries, hedges, .. } = *self.0;
        write!(
            f,
            "{get} GET, {head} HEAD, {list} LIST, {put} PUT, {delete} DELETE and {multipart} multipart \
             requests, {retries} of them retries and {hedges} hedges; {} sent, {} received",
            HumanBytes(sent_bytes),
            HumanBytes(received_bytes)
        )
    }
}
