//! Bodies in transfer, in pieces that are counted and may be delayed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpRequestBody};
use tokio::time::{Instant, Sleep, sleep_until};

use super::client::{Wire, http_error};
use super::limit::{self, RateLimit};
use super::silence::{Progress, silent};
use crate::usage::Usage;

/// A connection may have buffered this many bytes of a body without sending them. On a slow connection they
/// can take as long as a silence, with no visible progress.
const MAX_BUFFERED: u64 = 4 << 20;

/// Holds a piece of a body back until a limit lets it pass.
#[derive(Debug)]
struct Gate {
    limit: Option<RateLimit>,
    piece: Option<Bytes>,
    opens: Option<Pin<Box<Sleep>>>,
}

impl Gate {
    const fn new(limit: Option<RateLimit>) -> Self {
        Self { limit, piece: None, opens: None }
    }

    /// Takes the next piece. Returns when it may pass.
    fn hold(&mut self, piece: Bytes) -> Instant {
        let now = Instant::now();
        let limit = self.limit.as_ref();
        let until = limit.map_or(now, |limit| limit.reserve(piece.len(), now.into()).into());
        self.piece = Some(piece);
        self.opens = (until > now).then(|| Box::pin(sleep_until(until)));
        until
    }

    /// The piece that is held, once it may pass; nothing if none is held.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.piece.is_some()
            && let Some(opens) = &mut self.opens
        {
            ready!(opens.as_mut().poll(context));
        }
        Poll::Ready(self.piece.take())
    }
}

/// The body of a request.
pub(super) struct Outgoing {
    body: HttpRequestBody,
    /// What is left of the frame of `body` at hand.
    frame: Bytes,
    /// What is left of the body as a whole, in bytes.
    left: u64,
    len: u64,
    gate: Gate,
    usage: Usage,
    progress: Progress,
    silence: Duration,
}

impl Outgoing {
    pub(super) fn new(body: HttpRequestBody, wire: &Wire, progress: &Progress) -> Self {
        let len = body.content_length() as u64;
        Self {
            body,
            frame: Bytes::new(),
            left: len,
            len,
            gate: Gate::new(wire.upload.clone()),
            usage: wire.usage.clone(),
            progress: progress.clone(),
            silence: wire.silence,
        }
    }

    /// Cuts the next piece off, unless the body has ended.
    fn cut(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, HttpError>> {
        while self.frame.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()? {
                Some(frame) => self.frame = frame.into_data().unwrap_or_default(),
                None => return Poll::Ready(Ok(None)),
            }
        }
        let piece = limit::piece(self.gate.limit.as_ref()).min(self.frame.len());
        Poll::Ready(Ok(Some(self.frame.split_to(piece))))
    }

    /// Takes note of a piece that the connection takes.
    fn note(&mut self, piece: &Bytes) {
        self.usage.send(piece.len());
        self.left = self.left.saturating_sub(piece.len() as u64);
        let unseen = match self.left {
            0 => self.len.min(MAX_BUFFERED) as f64 / MAX_BUFFERED as f64,
            _ => 0.0,
        };
        self.progress.note(Instant::now() + self.silence.mul_f64(unseen));
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        loop {
            if let Some(piece) = ready!(this.gate.poll(context)) {
                this.note(&piece);
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            match ready!(this.cut(context)) {
                Ok(Some(piece)) => {
                    let until = this.gate.hold(piece);
                    this.progress.note(until);
                }
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The body of an answer. It fails once no byte came for a time.
pub(super) struct Incoming {
    body: reqwest::Body,
    gate: Gate,
    usage: Usage,
    silence: Duration,
    end: Pin<Box<Sleep>>,
}

impl Incoming {
    pub(super) fn new(body: reqwest::Body, wire: &Wire) -> Self {
        Self {
            body,
            gate: Gate::new(wire.download.clone()),
            usage: wire.usage.clone(),
            silence: wire.silence,
            end: Box::pin(sleep_until(Instant::now() + wire.silence)),
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        loop {
            if let Some(piece) = ready!(this.gate.poll(context)) {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            // Bytes that have arrived are accepted, however late they are read.
            let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
                let silence = this.silence;
                return this.end.as_mut().poll(context).map(|()| Some(Err(silent(silence))));
            };
            let piece = match frame.transpose() {
                Ok(Some(frame)) => frame.into_data().unwrap_or_default(),
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(http_error(error)))),
            };
            this.usage.receive(piece.len());
            let until = this.gate.hold(piece);
            this.end.as_mut().reset(until + this.silence);
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        if let (Some(piece), Some(exact)) = (&self.gate.piece, hint.exact()) {
            hint = SizeHint::with_exact(exact + piece.len() as u64);
        }
        hint
    }

    fn is_end_stream(&self) -> bool {
        self.gate.piece.is_none() && self.body.is_end_stream()
    }
}
