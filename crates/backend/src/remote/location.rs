//! Locations of repositories in S3.

use std::fmt;

use object_store::path::Path;

use crate::BackendError;

const SCHEME: &str = "s3://";

/// A bucket and a prefix in it: `s3://BUCKET/PREFIX`, or `s3://BUCKET` for the bucket as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Location {
    bucket: String,
    prefix: String,
}

impl S3Location {
    /// Whether `text` is meant as a location in S3, well-formed or not.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Reads `s3://BUCKET/PREFIX`. Slashes at the end of the prefix are ignored.
    pub fn parse(text: &str) -> Result<Self, BackendError> {
        let bad = |reason| BackendError::BadLocation { text: text.to_owned(), reason };
        let rest = text.strip_prefix(SCHEME).ok_or(bad("it does not start with s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_bucket(bucket) {
            return Err(bad("s3:// is followed by the name of a bucket: a-z, 0-9, '.' and '-'"));
        }
        let prefix = prefix.trim_end_matches('/');
        match Path::parse(prefix) {
            Ok(path) if path.as_ref() == prefix => {}
            _ => return Err(bad("its prefix has an empty part or a character that S3 escapes")),
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The prefix of all names, without a slash at its end; "" for none.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for S3Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        match self.prefix.as_str() {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

/// Whether a bucket can have this name, by the rules that matter for a URL.
fn is_bucket(name: &str) -> bool {
    let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
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
        ] {
            let location = S3Location::parse(text).unwrap();
            assert_eq!((location.bucket(), location.prefix()), (bucket, prefix));
            assert_eq!(location.to_string(), text);
        }
        assert_eq!(S3Location::parse("s3://bucket/a//").unwrap().to_string(), "s3://bucket/a");
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for bad in [
            "bucket/a",
            "s3:/bucket",
            "s3://",
            "s3:///a",
            "s3://ab",
            "s3://Bucket/a",
            "s3://bucket//a",
            "s3://bucket/a/../b",
            "s3://user@bucket/a",
            "s3://bucket:9000/a",
        ] {
            let error = S3Location::parse(bad).unwrap_err();
            assert!(
                matches!(&error, BackendError::BadLocation { text, .. } if text == bad),
                "{error}"
            );
        }
    }
}
