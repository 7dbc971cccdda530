//! Buckets of S3 services.

use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum, S3ConditionalPut};
use object_store::client::HttpConnector;

use super::RemoteOptions;
use super::leftovers::Lister;
use super::service::{Dial, Service};
use crate::{BucketLocation, Cause};

/// A bucket, for operations that the common interface of services does not have.
#[derive(Debug)]
pub(super) struct S3 {
    pub(super) store: AmazonS3,
    pub(super) lister: Lister,
}

/// The URL of the service, unless it is Amazon's.
pub(super) fn endpoint(location: &BucketLocation, options: &RemoteOptions) -> Option<String> {
    let named = location.endpoint().or(options.endpoint.as_deref());
    // The variable for S3 alone goes before the one for all services.
    let set = || options.setting(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
    named.or_else(set).map(str::to_owned)
}

/// Opens a bucket.
pub(super) fn open(location: &BucketLocation, dial: &Dial<'_>) -> Result<Service, Cause> {
    let options = dial.options;
    if needs_profile(options) {
        return Err("AWS_PROFILE names a profile, which is not read, and no other variable names \
                    credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            .into());
    }
    let endpoint = endpoint(location, options);
    // The signature already has the digest, which buckets with Object Lock require.
    let mut builder = AmazonS3Builder::new().with_checksum_algorithm(Checksum::SHA256);
    for (name, value) in options.settings.iter().filter(|(name, _)| name.starts_with("AWS_")) {
        // What is for other programs is passed over.
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(endpoint) = &endpoint {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    let url = bucket_url(&builder, location.bucket());
    let connector = dial.connector(&url, options.conditional_put);
    let client = dial.client(endpoint.as_deref().unwrap_or_default());
    let lister = Lister {
        client: connector.connect(&client)?,
        unsigned: is_set(&builder, AmazonS3ConfigKey::SkipSignature).then_some(url),
    };
    let store = builder
        .with_client_options(client)
        .with_http_connector(connector)
        .with_retry(dial.no_retry())
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_disable_bulk_delete(true)
        .with_bucket_name(location.bucket())
        .build()?;
    Ok(Service {
        store: Arc::new(store.clone()),
        s3: Some(S3 { store, lister }),
        lists_from_anywhere: true,
    })
}

/// Whether the user seems to rely on a profile for credentials.
fn needs_profile(options: &RemoteOptions) -> bool {
    let others = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_SKIP_SIGNATURE",
    ];
    options.setting(&["AWS_PROFILE"]).is_some() && options.setting(&others).is_none()
}

/// Whether a setting is on, in the words that `object_store` takes for it.
fn is_set(builder: &AmazonS3Builder, key: AmazonS3ConfigKey) -> bool {
    let value = builder.get_config_value(&key).map(|value| value.to_ascii_lowercase());
    matches!(value.as_deref(), Some("1" | "true" | "on" | "yes" | "y"))
}

/// The URL of a bucket, as `object_store` forms it.
fn bucket_url(builder: &AmazonS3Builder, bucket: &str) -> String {
    let value = |key| builder.get_config_value(&key);
    let endpoint = value(AmazonS3ConfigKey::S3Endpoint).or(value(AmazonS3ConfigKey::Endpoint));
    let region = value(AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
    match (endpoint, is_set(builder, AmazonS3ConfigKey::VirtualHostedStyleRequest)) {
        (Some(endpoint), true) => endpoint,
        (Some(endpoint), false) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
        (None, true) => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        (None, false) => format!("https://s3.{region}.amazonaws.com/{bucket}"),
    }
}
