//! Options for places that are reached over a network.

use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use super::RateLimit;
use super::service;
use crate::{BucketLocation, Stop, Usage};

/// The default time without a byte after which a request fails.
const SILENCE: Duration = Duration::from_secs(60);

/// The variables of services, by their beginnings.
const VARIABLES: [&str; 5] =
    ["AWS_", "AZURE_", "GOOGLE_", "IDENTITY_ENDPOINT", "STORAGE_EMULATOR_HOST"];

/// Options for a bucket, or for a directory of another machine.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The service's URL, or `None` for what the location or the settings say. A URL in the location takes
    /// precedence.
    pub endpoint: Option<String>,
    /// Whether puts are conditional on a free name, which the service must support.
    ///
    /// Without it, two writers that concurrently put different bytes under the same name may both succeed.
    pub conditional_put: bool,
    /// The number of requests in flight; if `None`, as many as raise the throughput, up to 64.
    pub connections: Option<NonZero<usize>>,
    /// Time without a byte in either direction after which a request fails.
    pub silence: Duration,
    /// Limits the bytes sent, together with all others that share it.
    pub upload_limit: Option<RateLimit>,
    /// Limits the bytes received, together with all others that share it.
    pub download_limit: Option<RateLimit>,
    /// Counts requests.
    pub usage: Usage,
    /// Aborts requests.
    pub stop: Stop,
    /// The configuration of ssh to read instead of the user's and the system's.
    pub ssh_config: Option<PathBuf>,
    /// A command that speaks SFTP on its standard input and output, to use instead of a connection by SSH; its
    /// words are separated by spaces.
    pub sftp_command: Option<String>,
    /// Credentials, region and the like, by the names of the variables that the tools of each service read:
    /// `AWS_ACCESS_KEY_ID`, `AZURE_STORAGE_ACCOUNT`, `GOOGLE_APPLICATION_CREDENTIALS`.
    pub settings: Vec<(String, String)>,
}

impl RemoteOptions {
    /// Options from the environment variables of the services.
    pub fn from_environment() -> Self {
        let settings: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, value)| {
                VARIABLES.iter().any(|start| name.starts_with(start)) && !value.is_empty()
            })
            .collect();
        Self {
            endpoint: None,
            conditional_put: true,
            connections: None,
            silence: SILENCE,
            upload_limit: None,
            download_limit: None,
            usage: Usage::default(),
            stop: Stop::default(),
            ssh_config: None,
            sftp_command: None,
            settings,
        }
    }

    /// The location and its service, as errors name them, and by which a client knows the place again.
    pub fn place(&self, location: &BucketLocation) -> String {
        match service::endpoint(location, self) {
            Some(endpoint) => {
                format!("{} at {}", location.without_endpoint(), endpoint.trim_end_matches('/'))
            }
            None => location.to_string(),
        }
    }

    /// The value of the first of these variables that is set.
    pub(super) fn setting(&self, wanted: &[&str]) -> Option<&str> {
        let find = |wanted: &&str| self.settings.iter().find(|(name, _)| name == wanted);
        wanted.iter().find_map(find).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secret.
        let names: Vec<_> = self.settings.iter().map(|(name, _)| name).collect();
        f.debug_struct("RemoteOptions")
            .field("endpoint", &self.endpoint)
            .field("conditional_put", &self.conditional_put)
            .field("connections", &self.connections)
            .field("silence", &self.silence)
            .field("upload_limit", &self.upload_limit)
            .field("download_limit", &self.download_limit)
            .field("settings", &names)
            .finish()
    }
}
