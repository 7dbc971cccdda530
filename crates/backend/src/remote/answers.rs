//! Error answers of a service.
//!
//! `object_store` reports the status of an answer only as text. To distinguish an overloaded service from a
//! forbidden request, this module inspects answers before `object_store` does.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::{Client, Wire};
use super::hedge::{Hedged, Queues};

/// The maximum length of an answer's text that is kept.
const MAX_TEXT: usize = 1_000;

/// The service refused a request.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    text: String,
}

impl Refusal {
    /// The error for an answer.
    pub(super) fn error(status: u16, body: &[u8]) -> HttpError {
        let text = String::from_utf8_lossy(body).chars().take(MAX_TEXT).collect();
        HttpError::new(HttpErrorKind::Unknown, Self { status, text })
    }

    /// Whether the request may succeed a little later.
    pub(super) fn is_passing(&self) -> bool {
        match self.status {
            408 | 429 => true,
            // "Your socket connection to the server was not read from or written to within the
            // timeout period."
            400 => self.text.contains("<Code>RequestTimeout</Code>"),
            status => status >= 500 && !self.is_unknown_request(),
        }
    }

    /// Whether the service does not implement the request.
    pub(super) fn is_unknown_request(&self) -> bool {
        self.status == 501 || self.text.contains("<Code>NotImplemented</Code>")
    }

    /// Whether it is hidden from `object_store`, which understands all others.
    fn is_ours(status: u16) -> bool {
        matches!(status, 400 | 408 | 429 | 500..)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the service answered {}: {}", self.status, self.text)
    }
}

impl std::error::Error for Refusal {}

/// Makes clients that turn refusals into errors and hedge slow reads.
#[derive(Debug)]
pub(super) struct CheckedConnector {
    pub(super) wire: Wire,
    pub(super) queues: Queues,
    /// One permit for each request that may be in flight.
    pub(super) permits: Arc<Semaphore>,
}

impl HttpConnector for CheckedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = Client::new(options, self.wire.clone()).map_err(|error| {
            object_store::Error::Generic { store: "S3", source: Box::new(error) }
        })?;
        let (usage, watches_bodies) = (self.wire.usage.clone(), self.wire.download.is_none());
        let service = Hedged::new(client, self.queues.clone(), usage, watches_bodies);
        Ok(HttpClient::new(Checked { service, permits: Arc::clone(&self.permits) }))
    }
}

#[derive(Debug)]
struct Checked {
    service: Hedged<Client>,
    permits: Arc<Semaphore>,
}

#[async_trait]
impl HttpService for Checked {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let answer = self.service.call(request).await?;
        let status = answer.status().as_u16();
        if !Refusal::is_ours(status) {
            return Ok(
                answer.map(|body| HttpResponseBody::new(Permitted { body, _permit: permit }))
            );
        }
        let body = answer.into_body().bytes().await?;
        Err(Refusal::error(status, &body))
    }
}

/// The body of an answer, whose request is in flight until the body is dropped.
struct Permitted {
    body: HttpResponseBody,
    _permit: OwnedSemaphorePermit,
}

impl Body for Permitted {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_passing() {
        let passing = |status, text: &str| Refusal { status, text: text.into() }.is_passing();
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(passing(status, "<Code>SlowDown</Code>"), "{status}");
        }
        assert!(passing(400, "<Error><Code>RequestTimeout</Code></Error>"));
        assert!(!passing(400, "<Error><Code>InvalidRequest</Code></Error>"));
        assert!(!passing(501, ""));
        assert!(!passing(500, "<Error><Code>NotImplemented</Code></Error>"));
    }
}
