//! Locations in buckets of object services.

use std::fmt;

use object_store::path::Path;

use super::bad;
use crate::BackendError;

/// A kind of object service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BucketService {
    /// Amazon S3, and what speaks its protocol.
    S3,
    /// Azure Blob Storage, whose buckets are called containers.
    Azure,
    /// Google Cloud Storage.
    Google,
}

impl BucketService {
    /// The scheme of its URLs, with what separates it from the bucket.
    const fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3://",
            Self::Azure => "az://",
            Self::Google => "gs://",
        }
    }
}

/// A bucket and a prefix in it: `s3://BUCKET/PREFIX`, or `s3://BUCKET` for the bucket as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketLocation {
    service: BucketService,
    bucket: String,
    prefix: String,
    endpoint: Option<String>,
}

/// A way to write a location: what it begins with, and how the rest is read.
type Form = (&'static str, fn(&str) -> Result<BucketLocation, &'static str>);

/// Longer beginnings come before shorter ones.
const FORMS: [Form; 7] = [
    ("s3://", |rest| in_url(BucketService::S3, rest)),
    ("az://", |rest| in_url(BucketService::Azure, rest)),
    ("azure://", |rest| in_url(BucketService::Azure, rest)),
    ("gs://", |rest| in_url(BucketService::Google, rest)),
    ("s3:", at_host),
    ("azure:", |rest| after_colon(BucketService::Azure, rest)),
    ("gs:", |rest| after_colon(BucketService::Google, rest)),
];

impl BucketLocation {
    /// Whether `text` is meant as a location in a bucket, well-formed or not.
    pub fn is_meant_by(text: &str) -> bool {
        FORMS.iter().any(|(start, _)| text.starts_with(start))
    }

    /// Reads `s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` (also with `azure://`) and `gs://BUCKET/PREFIX`, and
    /// what restic writes: `s3:HOST/BUCKET/PREFIX`, with `http://` or `https://` before the host if wanted,
    /// `azure:CONTAINER:/PREFIX` and `gs:BUCKET:/PREFIX`. Slashes at the end of the prefix are ignored.
    pub fn parse(text: &str) -> Result<Self, BackendError> {
        let form = FORMS.iter().find_map(|(start, read)| Some((text.strip_prefix(start)?, read)));
        let (rest, read) = form.ok_or_else(|| bad(text, "it names no bucket"))?;
        read(rest).map_err(|reason| bad(text, reason))
    }

    fn new(service: BucketService, bucket: &str, prefix: &str) -> Result<Self, &'static str> {
        if !is_bucket(service, bucket) {
            return Err(match service {
                BucketService::Azure => {
                    "expected the name of a container: 3 to 63 of a-z, 0-9 and '-'"
                }
                _ => "expected the name of a bucket: 3 to 63 of a-z, 0-9, '.', '_' and '-'",
            });
        }
        let prefix = prefix.trim_end_matches('/');
        match Path::parse(prefix) {
            Ok(path) if path.as_ref() == prefix => {}
            _ => return Err("its prefix has an empty part or a character that services escape"),
        }
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        Ok(Self { service, bucket, prefix, endpoint: None })
    }

    /// Whose bucket it is.
    pub const fn service(&self) -> BucketService {
        self.service
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The prefix of all names, without a slash at its end; "" for none.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The same in the form that names no service.
    #[cfg(feature = "remote")]
    pub(crate) fn without_endpoint(&self) -> Self {
        Self { endpoint: None, ..self.clone() }
    }

    /// The URL of the service, if the location names one.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }
}

impl fmt::Display for BucketLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Some(endpoint) => write!(f, "s3:{endpoint}/{}", self.bucket)?,
            None => write!(f, "{}{}", self.service.scheme(), self.bucket)?,
        }
        match self.prefix.as_str() {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

/// `BUCKET/PREFIX`.
fn in_url(service: BucketService, rest: &str) -> Result<BucketLocation, &'static str> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    BucketLocation::new(service, bucket, prefix)
}

/// `BUCKET:/PREFIX`, as restic writes it.
fn after_colon(service: BucketService, rest: &str) -> Result<BucketLocation, &'static str> {
    let (bucket, path) = rest
        .split_once(':')
        .ok_or("a colon and a path follow the bucket, as in gs:BUCKET:/PREFIX")?;
    BucketLocation::new(service, bucket, path.strip_prefix('/').unwrap_or(path))
}

/// `HOST/BUCKET/PREFIX`, as restic writes a location in S3.
fn at_host(rest: &str) -> Result<BucketLocation, &'static str> {
    const AMAZON: &str = "https://s3.amazonaws.com";
    let (scheme, rest) = match rest.strip_prefix("http://") {
        Some(rest) => ("http://", rest),
        None => ("https://", rest.strip_prefix("https://").unwrap_or(rest)),
    };
    let (host, rest) = rest.split_once('/').ok_or("s3: is followed by HOST/BUCKET/PREFIX")?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_part) {
        return Err("s3: is followed by the name of a host, and a port if wanted");
    }
    let location = in_url(BucketService::S3, rest)?;
    let endpoint = Some(format!("{scheme}{host}")).filter(|endpoint| endpoint != AMAZON);
    Ok(BucketLocation { endpoint, ..location })
}

/// Whether a bucket can have this name, by the rules that matter for a URL.
fn is_bucket(service: BucketService, name: &str) -> bool {
    let allowed = |byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'-' => true,
        b'.' | b'_' => service != BucketService::Azure,
        _ => false,
    };
    (3..=63).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_shown_as_they_are_read() {
        for (text, bucket, prefix) in [
            ("s3://bucket", "bucket", ""),
            ("s3://my.bucket-1/a", "my.bucket-1", "a"),
            ("s3://bucket/Team A/b.c_d", "bucket", "Team A/b.c_d"),
            ("az://container/a/b", "container", "a/b"),
            ("gs://my_bucket/a", "my_bucket", "a"),
        ] {
            let location = BucketLocation::parse(text).unwrap();
            assert_eq!((location.bucket(), location.prefix()), (bucket, prefix));
            assert_eq!(location.to_string(), text);
        }
        assert_eq!(BucketLocation::parse("s3://bucket/a//").unwrap().to_string(), "s3://bucket/a");
    }

    #[test]
    fn what_restic_writes_is_the_same_place() {
        for (restic, shown) in [
            ("azure:container:/a/b/", "az://container/a/b"),
            ("azure:container:/", "az://container"),
            ("azure:container:a", "az://container/a"),
            ("azure://container/a", "az://container/a"),
            ("gs:bucket:/a", "gs://bucket/a"),
            ("s3:s3.amazonaws.com/bucket/a", "s3://bucket/a"),
            ("s3:https://s3.amazonaws.com/bucket", "s3://bucket"),
            ("s3:host.org/bucket/a", "s3:https://host.org/bucket/a"),
            ("s3:http://[::1]:9000/bucket", "s3:http://[::1]:9000/bucket"),
        ] {
            assert_eq!(BucketLocation::parse(restic).unwrap().to_string(), shown, "{restic}");
        }
        let there = BucketLocation::parse("s3:http://localhost:9000/bucket/a").unwrap();
        assert_eq!(there.endpoint(), Some("http://localhost:9000"));
        assert_eq!((there.bucket(), there.prefix()), ("bucket", "a"));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for bad in [
            "bucket/a",
            "s3:/bucket",
            "s3:bucket",
            "s3:user@host/bucket",
            "s3:ftp://host/bucket",
            "s3://",
            "s3:///a",
            "s3://ab",
            "s3://Bucket/a",
            "s3://bucket//a",
            "s3://bucket/a/../b",
            "s3://user@bucket/a",
            "s3://bucket:9000/a",
            "az://con.tainer/a",
            "azure:container",
            "gs:bucket",
            "gs:bucket://a",
            "gs://",
        ] {
            let error = BucketLocation::parse(bad).unwrap_err();
            assert!(
                matches!(&error, BackendError::BadLocation { text, .. } if text == bad),
                "{error}"
            );
        }
    }
}
