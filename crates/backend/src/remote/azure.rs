//! Containers of Azure Blob Storage.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use super::RemoteOptions;
use super::service::{Dial, Service};
use crate::{BucketLocation, Cause};

/// The variables of Azure's own command, of its libraries and of restic.
const ACCOUNT: [&str; 3] =
    ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME"];
const KEY: [&str; 4] = [
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_ACCOUNT_KEY",
];
const SIGNATURE: [&str; 3] =
    ["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", "AZURE_ACCOUNT_SAS"];
const ENDPOINT: [&str; 3] =
    ["AZURE_STORAGE_BLOB_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"];
const FORCE_LOGIN: [&str; 2] = ["AZURE_FORCE_CLI_CREDENTIAL", "AZURE_USE_AZURE_CLI"];

/// The domain of Azure's services, unless a variable names that of another cloud.
const SUFFIX: &str = "core.windows.net";

/// What the settings say of an account.
#[derive(Debug, Default, PartialEq, Eq)]
struct Account {
    name: Option<String>,
    key: Option<String>,
    signature: Option<String>,
    endpoint: Option<String>,
}

impl Account {
    /// From a connection string, and what other variables say, which go before it.
    fn of(options: &RemoteOptions) -> Self {
        let set = |names: &[&str]| options.setting(names).map(str::to_owned);
        let connection = set(&["AZURE_STORAGE_CONNECTION_STRING"]);
        let connected = connection.as_deref().map(Self::in_connection_string).unwrap_or_default();
        let name = set(&ACCOUNT).or(connected.name);
        let default_endpoint = || {
            let suffix = set(&["AZURE_ENDPOINT_SUFFIX"]).unwrap_or_else(|| SUFFIX.to_owned());
            name.as_ref().map(|name| format!("https://{name}.blob.{suffix}"))
        };
        let endpoint = options.endpoint.clone().or_else(|| set(&ENDPOINT));
        Self {
            endpoint: endpoint.or(connected.endpoint).or_else(default_endpoint),
            key: set(&KEY).or(connected.key),
            signature: set(&SIGNATURE).or(connected.signature),
            name,
        }
    }

    /// From `AccountName=…;AccountKey=…;…`.
    fn in_connection_string(text: &str) -> Self {
        let pairs: Vec<_> = text.split(';').filter_map(|pair| pair.split_once('=')).collect();
        let value = |wanted: &str| {
            let mut named =
                pairs.iter().filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
            named.next().map(|(_, value)| value.trim().to_owned())
        };
        let name = value("AccountName");
        let at_suffix = || {
            let scheme = value("DefaultEndpointsProtocol").unwrap_or_else(|| "https".to_owned());
            Some(format!("{scheme}://{}.blob.{}", name.as_ref()?, value("EndpointSuffix")?))
        };
        Self {
            endpoint: value("BlobEndpoint").or_else(at_suffix),
            key: value("AccountKey"),
            signature: value("SharedAccessSignature"),
            name,
        }
    }
}

/// The URL of the account, if the settings name one.
pub(super) fn endpoint(options: &RemoteOptions) -> Option<String> {
    Account::of(options).endpoint
}

/// Opens a container.
pub(super) fn open(location: &BucketLocation, dial: &Dial<'_>) -> Result<Service, Cause> {
    let options = dial.options;
    let account = Account::of(options);
    let (Some(name), Some(endpoint)) = (account.name, account.endpoint) else {
        return Err("no variable names the storage account; set AZURE_STORAGE_ACCOUNT and \
                    AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING"
            .into());
    };
    let mut builder = MicrosoftAzureBuilder::new();
    for (variable, value) in
        options.settings.iter().filter(|(variable, _)| !variable.starts_with("AWS_"))
    {
        // What is for other programs is passed over.
        if let Ok(key) = variable.to_ascii_lowercase().parse::<AzureConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let is_forced = options.setting(&FORCE_LOGIN).is_some_and(|value| value != "false");
    builder = match (account.key, account.signature) {
        _ if is_forced => builder.with_credential_type("azure_cli"),
        (Some(key), _) => builder.with_access_key(key),
        (None, Some(signature)) => {
            builder.with_config(AzureConfigKey::SasKey, signature.trim_start_matches('?'))
        }
        (None, None) => builder.with_use_azure_cli(is_logged_in(options)),
    };
    let store = builder
        .with_account(name)
        .with_endpoint(endpoint.trim_end_matches('/').to_owned())
        .with_container_name(location.bucket())
        .with_client_options(dial.client(&endpoint))
        .with_http_connector(dial.connector(&endpoint, false))
        .with_retry(dial.no_retry())
        .build()?;
    // Emulators, and services of older versions, ignore where a listing is to begin.
    Ok(Service { store: Arc::new(store), s3: None, lists_from_anywhere: false })
}

/// Whether the command `az` has a login, and no identity of the machine is set.
fn is_logged_in(options: &RemoteOptions) -> bool {
    let folder = options.setting(&["AZURE_CONFIG_DIR"]).map(PathBuf::from);
    let folder = folder.or_else(|| Some(std::env::home_dir()?.join(".azure")));
    options.setting(&["IDENTITY_ENDPOINT"]).is_none()
        && folder.is_some_and(|folder| folder.join("azureProfile.json").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(settings: &[(&str, &str)]) -> Account {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Account::of(&RemoteOptions {
            settings: settings.collect(),
            ..RemoteOptions::from_environment()
        })
    }

    #[test]
    fn an_account_has_the_names_that_its_tools_give_it() {
        let amazonless = |name: &str, endpoint: &str| {
            (Some(name.to_owned()), Some("k".to_owned()), Some(endpoint.to_owned()))
        };
        for (settings, expected) in [
            (
                &[("AZURE_STORAGE_ACCOUNT", "a"), ("AZURE_STORAGE_KEY", "k")] as &[_],
                amazonless("a", "https://a.blob.core.windows.net"),
            ),
            (
                &[
                    ("AZURE_ACCOUNT_NAME", "a"),
                    ("AZURE_ACCOUNT_KEY", "k"),
                    ("AZURE_ENDPOINT_SUFFIX", "core.chinacloudapi.cn"),
                ],
                amazonless("a", "https://a.blob.core.chinacloudapi.cn"),
            ),
            (
                &[(
                    "AZURE_STORAGE_CONNECTION_STRING",
                    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k;EndpointSuffix=x.net",
                )],
                amazonless("a", "https://a.blob.x.net"),
            ),
            (
                &[(
                    "AZURE_STORAGE_CONNECTION_STRING",
                    "AccountName=a;AccountKey=k;BlobEndpoint=http://127.0.0.1:10000/a;",
                )],
                amazonless("a", "http://127.0.0.1:10000/a"),
            ),
        ] {
            let Account { name, key, endpoint, .. } = account(settings);
            assert_eq!((name, key, endpoint), expected, "{settings:?}");
        }
    }

    #[test]
    fn a_key_keeps_the_equals_signs_at_its_end() {
        let text = "AccountName=a;AccountKey=c2VjcmV0Cg==;SharedAccessSignature=sv=1&sig=x%3D";
        let found = Account::in_connection_string(text);
        assert_eq!(found.key.as_deref(), Some("c2VjcmV0Cg=="));
        assert_eq!(found.signature.as_deref(), Some("sv=1&sig=x%3D"));
        assert_eq!(found.endpoint, None);
    }
}
