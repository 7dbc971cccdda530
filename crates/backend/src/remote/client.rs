//! The HTTP client. It sends and receives bodies in pieces, so that they can be counted, rate-limited and
//! timed out.

use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::header::{HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use reqwest::redirect::Policy;
use reqwest::{Method, Url};
use tokio::time::Instant;

use super::CONNECT_TIMEOUT;
use super::limit::RateLimit;
use super::silence::Progress;
use super::streams::{Incoming, Outgoing};
use crate::usage::{RequestKind, Usage};

/// The state that all requests to a service share.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    /// Time without a byte in either direction after which a request fails.
    pub(super) silence: Duration,
    pub(super) upload: Option<RateLimit>,
    pub(super) download: Option<RateLimit>,
    /// Whether an upload in parts must not replace an object.
    pub(super) completes_on_condition: bool,
    pub(super) usage: Usage,
    /// The URL of the bucket. Requests to its host are counted; those to other hosts, which provide
    /// credentials, are not.
    pub(super) bucket: Option<Url>,
}

impl Wire {
    /// The same for a request to `url`, which counts if it is the bucket's service that is asked.
    fn to(&self, url: &Url) -> Self {
        let is_elsewhere = |bucket: &Url| {
            (bucket.host(), bucket.port_or_known_default())
                != (url.host(), url.port_or_known_default())
        };
        let usage = match self.bucket.as_ref().is_some_and(is_elsewhere) {
            true => Usage::default(),
            false => self.usage.clone(),
        };
        Self { usage, ..self.clone() }
    }

    /// Counts a request. Its head is sent without delay; later pieces wait for it.
    fn note_request(&self, request: &HttpRequest) {
        let query = request.uri().query().unwrap_or_default();
        self.usage.request(kind(request.method(), query));
        // Only requests that resume a body have a condition.
        if request.headers().contains_key(IF_MATCH) {
            self.usage.retry(1);
        }
        let head = request.uri().path().len() + query.len() + len(request.headers());
        self.usage.send(head);
        reserve(self.upload.as_ref(), head);
    }

    fn note_answer(&self, head: &HeaderMap) {
        let head = len(head);
        self.usage.receive(head);
        reserve(self.download.as_ref(), head);
    }
}

/// A client whose requests are counted, keep to limits, and fail after a time of silence.
#[derive(Debug)]
pub(super) struct Client {
    client: reqwest::Client,
    wire: Wire,
}

impl Client {
    /// Of `options` only count whether plain HTTP is allowed, and the time to make a connection.
    pub(super) fn new(options: &ClientOptions, wire: Wire) -> Result<Self, reqwest::Error> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .user_agent(concat!("onefold/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect_timeout(options))
            // With HTTP/2 all requests would share one connection, and with it the rate and the losses
            // of one flow of TCP.
            .http1_only()
            // A redirect could hand signed requests and their bodies to another host.
            .redirect(Policy::none())
            .referer(false)
            .https_only(allow_http.as_deref() != Some("true"))
            .build()?;
        Ok(Self { client, wire })
    }
}

/// Time to make a connection: shorter for an instance's credentials, which may not be there.
fn connect_timeout(options: &ClientOptions) -> Duration {
    let set = options.get_config_value(&ClientConfigKey::ConnectTimeout);
    let set = set.and_then(|set| set.parse::<SignedDuration>().ok());
    set.map_or(CONNECT_TIMEOUT, SignedDuration::unsigned_abs)
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if self.wire.completes_on_condition && completes_upload(&request) {
            // object_store has no way to ask for it. The signature is not of this header.
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let url = request.uri().to_string();
        let url: Url =
            url.parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let wire = self.wire.to(&url);
        wire.note_request(&request);
        let progress = Progress::begin(wire.silence);
        let request = for_reqwest(request, url, &wire, &progress);
        let mut answer = progress.watch(self.client.execute(request)).await?.map_err(http_error)?;
        wire.note_answer(answer.headers());
        let (status, head) = (answer.status(), std::mem::take(answer.headers_mut()));
        let body = Incoming::new(answer.into(), &wire);
        let mut given = HttpResponse::new(HttpResponseBody::new(body));
        (*given.status_mut(), *given.headers_mut()) = (status, head);
        Ok(given)
    }
}

/// The request as the library for HTTP takes it.
fn for_reqwest(
    request: HttpRequest,
    url: Url,
    wire: &Wire,
    progress: &Progress,
) -> reqwest::Request {
    let (head, body) = request.into_parts();
    let mut request = reqwest::Request::new(head.method, url);
    *request.headers_mut() = head.headers;
    *request.body_mut() = Some(match body.content_length() {
        0 => reqwest::Body::default(),
        _ => reqwest::Body::wrap(Outgoing::new(body, wire, progress)),
    });
    request
}

/// An error of the HTTP library. Kind Unknown means that the request could not be made, kind Connect that
/// nothing of it was sent.
pub(super) fn http_error(error: reqwest::Error) -> HttpError {
    let kind = match () {
        // A connection that took too long is both.
        () if error.is_connect() => HttpErrorKind::Connect,
        () if error.is_timeout() => HttpErrorKind::Timeout,
        () if error.is_builder() || error.is_redirect() => HttpErrorKind::Unknown,
        () => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, error.without_url())
}

/// Whether a request makes an object of the parts that were sent.
fn completes_upload(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::POST && has(query, "uploadId")
}

/// Whether a query names `wanted`.
fn has(query: &str, wanted: &str) -> bool {
    query.split('&').any(|pair| pair.split('=').next() == Some(wanted))
}

/// What a request with this method and query does.
fn kind(method: &Method, query: &str) -> RequestKind {
    let asks_for = |wanted| has(query, wanted);
    // What Azure is asked to do with a container.
    let does = |wanted| query.split('&').any(|pair| pair.strip_prefix("comp=") == Some(wanted));
    match *method {
        Method::GET if asks_for("list-type") || asks_for("uploads") || does("list") => {
            RequestKind::List
        }
        Method::POST if does("batch") => RequestKind::Delete,
        Method::HEAD => RequestKind::Head,
        Method::PUT if !asks_for("uploadId") => RequestKind::Put,
        Method::DELETE => RequestKind::Delete,
        Method::PUT | Method::POST => RequestKind::Multipart,
        _ => RequestKind::Get,
    }
}

/// The bytes that a head takes.
fn len(head: &HeaderMap) -> usize {
    // A colon, a space and the end of the line.
    head.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// Reserves bandwidth for `bytes` that pass together.
fn reserve(limit: Option<&RateLimit>, bytes: usize) {
    if let Some(limit) = limit {
        limit.reserve(bytes, Instant::now().into_std());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_connect_is_what_the_options_say() {
        for seconds in [1, 10, 90] {
            let time = Duration::from_secs(seconds);
            let options = ClientOptions::new().with_connect_timeout(time);
            assert_eq!(connect_timeout(&options), time);
        }
    }

    #[test]
    fn requests_are_told_apart_by_what_services_charge_for() {
        for (method, query, expected) in [
            (Method::GET, "", RequestKind::Get),
            (Method::GET, "list-type=2&prefix=uploads", RequestKind::List),
            (Method::GET, "uploads&prefix=a", RequestKind::List),
            (Method::HEAD, "", RequestKind::Head),
            (Method::PUT, "", RequestKind::Put),
            (Method::PUT, "partNumber=1&uploadId=x", RequestKind::Multipart),
            (Method::POST, "uploads", RequestKind::Multipart),
            (Method::POST, "uploadId=x", RequestKind::Multipart),
            (Method::DELETE, "uploadId=x", RequestKind::Delete),
            (Method::GET, "restype=container&comp=list", RequestKind::List),
            (Method::POST, "restype=container&comp=batch", RequestKind::Delete),
            (Method::DELETE, "", RequestKind::Delete),
        ] {
            assert_eq!(kind(&method, query), expected, "{method} {query}");
        }
    }
}
