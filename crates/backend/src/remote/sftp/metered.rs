//! A stream whose bytes are counted and keep to limits, and which notes when bytes moved.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::Usage;
use crate::remote::limit::{self, RateLimit};
use crate::remote::silence::Progress;

/// What all streams to one host share.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) upload: Option<RateLimit>,
    pub(super) download: Option<RateLimit>,
    pub(super) usage: Usage,
    pub(super) progress: Progress,
}

/// A stream with a meter.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Meter,
    /// When the limits let the next bytes pass.
    writes: Option<Pin<Box<Sleep>>>,
    reads: Option<Pin<Box<Sleep>>>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Meter) -> Self {
        Self { stream, meter, writes: None, reads: None }
    }
}

/// Completes once the limit lets bytes pass.
fn poll_gate(gate: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
    if let Some(opens) = gate {
        ready!(opens.as_mut().poll(context));
        *gate = None;
    }
    Poll::Ready(())
}

/// Closes a gate for as long as `bytes` take under `limit`. Returns when it opens.
fn close_gate(
    gate: &mut Option<Pin<Box<Sleep>>>,
    limit: Option<&RateLimit>,
    bytes: usize,
) -> Instant {
    let now = Instant::now();
    let until = limit.map_or(now, |limit| limit.reserve(bytes, now.into()).into());
    *gate = (until > now).then(|| Box::pin(sleep_until(until)));
    until
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(poll_gate(&mut this.reads, context));
        let meter = &this.meter;
        let most = limit::piece(meter.download.as_ref()).min(buffer.remaining());
        let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut this.stream).poll_read(context, &mut piece))?;
        let count = piece.filled().len();
        buffer.advance(count);
        meter.usage.receive(count);
        let until = close_gate(&mut this.reads, meter.download.as_ref(), count);
        meter.progress.note(until);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(poll_gate(&mut this.writes, context));
        let meter = &this.meter;
        let most = limit::piece(meter.upload.as_ref()).min(bytes.len());
        let count = ready!(Pin::new(&mut this.stream).poll_write(context, &bytes[..most]))?;
        meter.usage.send(count);
        let until = close_gate(&mut this.writes, meter.upload.as_ref(), count);
        meter.progress.note(until);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
