//! Objects as in Google Cloud Storage: the requests that its client makes, answered by the server of S3, which
//! takes Google's conditions for its own.

use std::time::Duration;

use onefold_backend::{
    BackendError, BucketLocation, ErrorKind, Objects, RemoteObjects, RemoteOptions, RetryPolicy,
    Retrying,
};
use onefold_testkit::s3::{Outage, Proxy, Rules, S3Server};

use crate::places::{MISHAPS, NO_MISHAPS, POLICY, conform, conform_over_mishaps};

fn options(url: &str) -> RemoteOptions {
    let settings = vec![("STORAGE_EMULATOR_HOST".to_owned(), url.to_owned())];
    RemoteOptions { settings, ..RemoteOptions::from_environment() }
}

/// A part of the bucket, of which no other test knows.
fn open_at(url: &str, prefix: &str) -> RemoteObjects {
    let location = BucketLocation::parse(&format!("gs://bucket/{prefix}")).unwrap();
    RemoteObjects::open(&location, &options(url)).unwrap()
}

#[test]
fn objects_of_google_conform() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, NO_MISHAPS);
    conform(|prefix| open_at(&proxy.url(), prefix));
}

#[test]
fn objects_of_google_conform_over_a_way_that_loses_every_fourth_request() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, MISHAPS);
    conform_over_mishaps(&proxy, |prefix| open_at(&proxy.url(), prefix));
}

#[test]
fn a_google_that_puts_over_what_is_there_is_refused() {
    let Some(server) = S3Server::start() else { return };
    for (rules, prefix) in [(Rules::NoConditions, "careless"), (Rules::RefusedConditions, "unable")]
    {
        let proxy = Proxy::start(server.address(), rules, NO_MISHAPS);
        let error = open_at(&proxy.url(), prefix).put("a", "1".into()).unwrap_err();
        assert!(matches!(error, BackendError::NoConditionalPut { .. }), "{error:?}");
    }
}

#[test]
fn a_google_that_is_gone_is_out_of_reach() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, NO_MISHAPS);
    let policy = RetryPolicy { total: Duration::from_millis(300), ..POLICY };
    let objects = Retrying::new(open_at(&proxy.url(), "outage"), &proxy.url(), policy);
    objects.put("a", "1".into()).unwrap();
    proxy.begin_outage(Outage::Gone, 0);
    assert_eq!(objects.get("a").unwrap_err().kind(), ErrorKind::Unreachable);
    proxy.end_outage();
    assert_eq!(open_at(&proxy.url(), "outage").get("a").unwrap(), "1");
}

#[test]
fn credentials_that_cannot_be_read_are_named() {
    let mut options = options("http://127.0.0.1:9");
    options.settings = vec![("GOOGLE_APPLICATION_CREDENTIALS".into(), "/nowhere/key.json".into())];
    let location = BucketLocation::parse("gs:bucket:/a").unwrap();
    let error = RemoteObjects::open(&location, &options).unwrap_err();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    assert!(text.contains("gs://bucket/a") && text.contains("/nowhere/key.json"), "{text}");
}
