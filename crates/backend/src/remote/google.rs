//! Buckets of Google Cloud Storage.

use std::sync::Arc;

use object_store::gcp::GoogleCloudStorageBuilder;

use super::RemoteOptions;
use super::service::{Dial, Service};
use crate::{BucketLocation, Cause};

const DEFAULT: &str = "https://storage.googleapis.com";

/// The variable by which Google's libraries find an emulator, which checks no credentials.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

/// The URL of the service, unless it is Google's own.
pub(super) fn endpoint(options: &RemoteOptions) -> Option<String> {
    let set =
        options.endpoint.as_deref().or_else(|| options.setting(&[EMULATOR, "GOOGLE_BASE_URL"]));
    // A variable for an emulator may have a host and a port only.
    set.map(|url| match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    })
}

/// Opens a bucket.
pub(super) fn open(location: &BucketLocation, dial: &Dial<'_>) -> Result<Service, Cause> {
    let options = dial.options;
    let endpoint = endpoint(options).unwrap_or_else(|| DEFAULT.to_owned());
    let mut builder = GoogleCloudStorageBuilder::new();
    for (variable, value) in
        options.settings.iter().filter(|(variable, _)| variable.starts_with("GOOGLE_"))
    {
        // What is for other programs is passed over.
        if let Ok(key) = variable.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(token) = options.setting(&["GOOGLE_ACCESS_TOKEN"]) {
        builder = builder.with_bearer_token(token);
    } else if options.setting(&[EMULATOR]).is_some() {
        builder = builder.with_bearer_token("emulator");
    }
    let store = builder
        .with_base_url(endpoint.trim_end_matches('/'))
        .with_bucket_name(location.bucket())
        .with_client_options(dial.client(&endpoint))
        .with_http_connector(dial.connector(&endpoint, false))
        .with_retry(dial.no_retry())
        .build()?;
    Ok(Service { store: Arc::new(store), s3: None, lists_from_anywhere: true })
}
