//! Time-outs for silence: an answer may last as long as bytes come.
//!
//! The client tells nobody how much of a request it has sent, so a request may take time in proportion
//! to its length before its answer begins.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Bytes of a request that have as much time as a silence: at 60 s half a megabit a second.
const SENT_IN_A_SILENCE: usize = 4 << 20;

/// A client whose requests fail once no byte came for a time.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) client: HttpClient,
    pub(super) silence: Duration,
}

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let to_send = request.body().content_length() as f64 / SENT_IN_A_SILENCE as f64;
        let patience = self.silence.mul_f64(1.0 + to_send);
        let answer = timeout(patience, self.client.execute(request)).await;
        let (head, body) = answer.map_err(|_| silent(patience))??.into_parts();
        let body = WatchedBody { body, silence: self.silence, end: Box::pin(sleep(self.silence)) };
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

/// No byte came for so long.
#[derive(Debug)]
struct Silent(Duration);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no byte came for {:.1} s", self.0.as_secs_f64())
    }
}

impl std::error::Error for Silent {}

fn silent(silence: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, Silent(silence))
}

/// The body of an answer, which fails once no byte came for a time.
struct WatchedBody {
    body: HttpResponseBody,
    silence: Duration,
    end: Pin<Box<Sleep>>,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        // What has come counts, however long nobody asked for it.
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let end = Instant::now() + self.silence;
            self.end.as_mut().reset(end);
            return Poll::Ready(frame);
        }
        let silence = self.silence;
        self.end.as_mut().poll(context).map(|()| Some(Err(silent(silence))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
