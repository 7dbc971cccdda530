//! The HTTP endpoint for programs that collect metrics.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::Service;
use super::metrics::Metrics;

/// The maximum number of connections; further ones wait to be accepted.
pub(crate) const CONNECTIONS: usize = 8;
/// How long receiving the head of a request may take.
const HEAD: Duration = Duration::from_secs(5);
/// How long a connection may last; it has one request.
const WHOLE: Duration = Duration::from_secs(30);
/// The longest head of a request, and the bytes read or written per call.
const BUFFER: usize = 16 << 10;
/// How long to wait before accepting again after a lack of resources.
const PAUSE: Duration = Duration::from_millis(100);

/// The path of the metrics.
const PATH: &str = "/metrics";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Service {
    /// Listens on `address`. Clients wait until [`tell`](Self::tell) serves metrics.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<TcpListener> {
        let bound = self.runtime().block_on(TcpListener::bind(address));
        bound.with_context(|| format!("cannot listen on {address}"))
    }

    /// Serves `metrics` to clients of `listener`.
    pub(crate) fn tell(&self, listener: TcpListener, metrics: Arc<Metrics>) {
        self.runtime().spawn(listen(listener, metrics));
    }
}

async fn listen(listener: TcpListener, metrics: Arc<Metrics>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = room.clone().acquire_owned().await.expect("never closed");
        match listener.accept().await {
            Ok((stream, peer)) => {
                let metrics = Arc::clone(&metrics);
                // Released when the page is computed, even if its reader has left.
                let permit = Arc::new(permit);
                tokio::spawn(async move {
                    match timeout(WHOLE, converse(stream, metrics, permit)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => debug!(%peer, %error, "a reader of metrics disconnected"),
                        Err(_) => debug!(%peer, "a reader of metrics took too long"),
                    }
                });
            }
            Err(error) => {
                warn!(%error, "a reader of metrics could not be accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(
    stream: TcpStream,
    metrics: Arc<Metrics>,
    permit: Arc<OwnedSemaphorePermit>,
) -> hyper::Result<()> {
    let answer =
        service_fn(move |request| answer(request, Arc::clone(&metrics), Arc::clone(&permit)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

async fn answer(
    request: Request<Incoming>,
    metrics: Arc<Metrics>,
    permit: Arc<OwnedSemaphorePermit>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() != PATH {
        return Ok(said(StatusCode::NOT_FOUND, "the metrics are at /metrics\n".into()));
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refusal = said(StatusCode::METHOD_NOT_ALLOWED, "they can be read\n".into());
        refusal.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("a value"));
        return Ok(refusal);
    }
    // the pool may be busy
    let make = move || {
        let text = metrics.text();
        drop(permit);
        text
    };
    match spawn_blocking(make).await {
        Ok(text) => {
            let mut page = said(StatusCode::OK, text);
            page.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS.parse().expect("a value"));
            Ok(page)
        }
        Err(error) => {
            warn!(%error, "metrics could not be computed");
            Ok(said(StatusCode::INTERNAL_SERVER_ERROR, "the server's log says why\n".into()))
        }
    }
}

fn said(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, "text/plain".parse().expect("a value"));
    response
}
