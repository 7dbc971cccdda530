//! What all services have in common when a bucket is opened.

use std::num::NonZero;
use std::sync::Arc;

use object_store::{ClientOptions, ObjectStore, RetryConfig};
use reqwest::Url;
use tokio::sync::Semaphore;

use super::answers::CheckedConnector;
use super::client::Wire;
use super::hedge::Queues;
use super::s3::S3;
use super::{CONNECT_TIMEOUT, RemoteOptions, azure, google, s3};
use crate::{BucketLocation, BucketService, Cause};

/// The default maximum number of requests in flight; more requests wait.
const MAX_REQUESTS: usize = 64;

/// A bucket of a service.
pub(super) struct Service {
    pub(super) store: Arc<dyn ObjectStore>,
    /// The same again, for what only S3 has.
    pub(super) s3: Option<S3>,
    /// Whether listings can begin anywhere.
    pub(super) lists_from_anywhere: bool,
}

/// Opens the bucket at `location`, and sends nothing.
pub(super) fn open(
    location: &BucketLocation,
    options: &RemoteOptions,
    queues: &Queues,
) -> Result<Service, Cause> {
    let dial = Dial { options, queues };
    match location.service() {
        BucketService::S3 => s3::open(location, &dial),
        BucketService::Azure => azure::open(location, &dial),
        BucketService::Google => google::open(location, &dial),
    }
}

/// The URL of the service, unless it is the only one of its kind.
pub(super) fn endpoint(location: &BucketLocation, options: &RemoteOptions) -> Option<String> {
    match location.service() {
        BucketService::S3 => s3::endpoint(location, options),
        BucketService::Azure => azure::endpoint(options),
        BucketService::Google => google::endpoint(options),
    }
}

/// How the client of a bucket connects.
pub(super) struct Dial<'a> {
    pub(super) options: &'a RemoteOptions,
    queues: &'a Queues,
}

impl Dial<'_> {
    /// What makes clients for the service at `url`. With `completes_on_condition`, uploads in parts must not
    /// replace an object.
    pub(super) fn connector(&self, url: &str, completes_on_condition: bool) -> CheckedConnector {
        let options = self.options;
        let wire = Wire {
            silence: options.silence,
            upload: options.upload_limit.clone(),
            download: options.download_limit.clone(),
            completes_on_condition,
            usage: options.usage.clone(),
            bucket: Url::parse(url).ok(),
        };
        let most = options.connections.map_or(MAX_REQUESTS, NonZero::get);
        let permits = Arc::new(Semaphore::new(most));
        CheckedConnector { wire, queues: self.queues.clone(), permits }
    }

    /// Options of a client for the service at `url`: plain HTTP only if the URL says so.
    pub(super) fn client(&self, url: &str) -> ClientOptions {
        ClientOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_allow_http(url.starts_with("http://"))
    }

    /// No retries: [`Retrying`](crate::Retrying) makes them.
    pub(super) fn no_retry(&self) -> RetryConfig {
        RetryConfig { max_retries: 0, ..RetryConfig::default() }
    }
}
