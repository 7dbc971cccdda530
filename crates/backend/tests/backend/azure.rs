//! Objects in an emulator of Azure Blob Storage, over a way that is reliable and over one that is not.

use std::time::Duration;

use bytes::Bytes;
use onefold_backend::{
    BackendError, BucketLocation, ErrorKind, Objects, RemoteObjects, RemoteOptions, RetryPolicy,
    Retrying,
};
use onefold_testkit::AzureServer;
use onefold_testkit::s3::{Outage, Proxy, Rules};

use crate::places::{MISHAPS, NO_MISHAPS, POLICY, conform, conform_over_mishaps};

fn options(url: &str) -> RemoteOptions {
    let settings = [
        ("AZURE_STORAGE_ACCOUNT", AzureServer::ACCOUNT),
        ("AZURE_STORAGE_KEY", AzureServer::KEY),
        ("AZURE_STORAGE_BLOB_ENDPOINT", url),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    RemoteOptions { settings, ..RemoteOptions::from_environment() }
}

/// A part of the container, of which no other test knows.
fn open_at(url: &str, prefix: &str) -> RemoteObjects {
    let location = BucketLocation::parse(&format!("az://bucket/{prefix}")).unwrap();
    RemoteObjects::open(&location, &options(url)).unwrap()
}

#[test]
fn objects_in_azure_conform() {
    let Some(server) = AzureServer::start() else { return };
    conform(|prefix| open_at(&server.url(), prefix));
}

#[test]
fn objects_in_azure_conform_over_a_way_that_loses_every_fourth_request() {
    let Some(server) = AzureServer::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, MISHAPS);
    let url = AzureServer::url_at(&proxy.url());
    conform_over_mishaps(&proxy, |prefix| open_at(&url, prefix));
}

#[test]
fn requests_to_azure_are_counted_by_their_kinds() {
    let Some(server) = AzureServer::start() else { return };
    let options = options(&server.url());
    let location = BucketLocation::parse("azure:bucket:/counted").unwrap();
    let remote = RemoteObjects::open(&location, &options).unwrap();
    remote.put("a/b", "1".into()).unwrap();
    assert_eq!(remote.get("a/b").unwrap(), "1");
    assert_eq!(remote.size("a/b").unwrap(), 1);
    assert_eq!(remote.list("a/").unwrap().len(), 1);
    remote.delete("a/b").unwrap();
    let requests = options.usage.requests();
    // The probe is put twice.
    assert_eq!((requests.put, requests.get, requests.head), (3, 1, 1), "{requests:?}");
    assert_eq!((requests.list, requests.delete, requests.multipart), (1, 1, 0), "{requests:?}");
}

#[test]
fn an_azure_that_puts_over_what_is_there_is_refused() {
    let Some(server) = AzureServer::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::RefusedConditions, NO_MISHAPS);
    let remote = open_at(&AzureServer::url_at(&proxy.url()), "unable");
    let error = remote.put("a", "1".into()).unwrap_err();
    assert!(matches!(error, BackendError::NoConditionalPut { .. }), "{error:?}");
    assert!(!error.may_retry());
}

#[test]
fn what_is_wrong_with_azure_is_said() {
    let Some(server) = AzureServer::start() else { return };
    let location = BucketLocation::parse("az://absent/a").unwrap();
    let remote = RemoteObjects::open(&location, &options(&server.url())).unwrap();
    let error = remote.put("a", "1".into()).unwrap_err();
    let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(text.contains(&format!("az://absent/a at {}", server.url())), "{text}");
    assert!(text.contains("ContainerNotFound") && !error.may_retry(), "{text}");

    let mut wrong = options(&server.url());
    wrong.settings[1].1 = "d3Jvbmc=".into();
    let location = BucketLocation::parse("az://bucket/a").unwrap();
    let error = RemoteObjects::open(&location, &wrong).unwrap().list("").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");

    wrong.settings.clear();
    let error = RemoteObjects::open(&location, &wrong).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("set AZURE_STORAGE_ACCOUNT"), "{cause}");
}

#[test]
fn an_azure_that_is_gone_is_out_of_reach() {
    let Some(server) = AzureServer::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, NO_MISHAPS);
    let url = AzureServer::url_at(&proxy.url());
    let policy = RetryPolicy { total: Duration::from_millis(300), ..POLICY };
    let objects = Retrying::new(open_at(&url, "outage"), &url, policy);
    objects.put("a", Bytes::from(vec![1; 100_000])).unwrap();
    for outage in [Outage::Gone, Outage::Unavailable] {
        proxy.begin_outage(outage, 0);
        let remote = Retrying::new(open_at(&url, "outage"), &url, policy);
        assert_eq!(remote.get("a").unwrap_err().kind(), ErrorKind::Unreachable);
        proxy.end_outage();
        assert_eq!(open_at(&url, "outage").get("a").unwrap(), vec![1; 100_000]);
    }
}
