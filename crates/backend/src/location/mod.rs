//! Locations of repositories, as users write them.

mod bucket;
mod sftp;

pub use bucket::{BucketLocation, BucketService};
pub use sftp::SftpLocation;

use std::path::{Path, PathBuf};

use crate::BackendError;

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A part of a bucket of an object service.
    Bucket(BucketLocation),
    /// A directory of another machine, reached by SFTP.
    Sftp(SftpLocation),
}

impl Location {
    /// Reads a location: a URL, restic's way to write the same, or else a path.
    ///
    /// # Errors
    /// [`BackendError::BadLocation`] if the text begins with an unknown scheme, or what follows a known one
    /// is no location of it. A path whose first part has a colon must begin with `./`.
    pub fn parse(path: &Path) -> Result<Self, BackendError> {
        let Some(text) = path.to_str() else { return Ok(Self::Directory(path.to_owned())) };
        if BucketLocation::is_meant_by(text) {
            return BucketLocation::parse(text).map(Self::Bucket);
        }
        if SftpLocation::is_meant_by(text) {
            return SftpLocation::parse(text).map(Self::Sftp);
        }
        if has_scheme(text) {
            return Err(bad(
                text,
                "the scheme before its colon is not known; expected s3://BUCKET/PREFIX, \
                 az://CONTAINER/PREFIX, gs://BUCKET/PREFIX, sftp:USER@HOST:/PATH, or ./ before the name \
                 of a directory",
            ));
        }
        Ok(Self::Directory(path.to_owned()))
    }
}

/// Whether `text` begins like a URL, or with a scheme of restic's, such as `rest:`.
fn has_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let starts_so = text.starts_with(|first: char| first.is_ascii_alphabetic());
    starts_so && text.split_once(':').is_some_and(|(scheme, _)| scheme.bytes().all(is_part))
}

fn bad(text: &str, reason: &'static str) -> BackendError {
    BackendError::BadLocation { text: text.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Location, BackendError> {
        Location::parse(Path::new(text))
    }

    #[test]
    fn an_unknown_scheme_is_refused_with_those_that_are_known() {
        for text in
            ["rest:http://host/", "b2:bucket:/a", "http://host/a", "C:\\a", "swift:c:/", "a:b"]
        {
            let error = parse(text).unwrap_err().to_string();
            for known in ["s3://", "az://", "gs://", "sftp:", "./"] {
                assert!(error.contains(known) && error.contains("not known"), "{error}");
            }
        }
    }

    #[test]
    fn a_path_with_a_colon_is_a_directory_if_it_begins_as_one() {
        for text in
            ["./a:b", "/a:b", "../s3:x", "a/b:c", "./s3://bucket", "_a:b", "1:a", "plain", "é:a"]
        {
            assert_eq!(parse(text).unwrap(), Location::Directory(text.into()), "{text}");
        }
    }

    /// Texts near locations: pieces that mean something, in any order.
    fn near_locations() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                "s3:",
                "s3://",
                "az://",
                "azure:",
                "azure://",
                "gs:",
                "gs://",
                "sftp:",
                "sftp://",
                "http://",
                "https://",
                "//",
                "/",
                ":",
                "@",
                "[",
                "]",
                "::1",
                "host",
                "user",
                "bucket",
                "22",
                "99999",
                "..",
                ".",
                "~",
                "a b",
                "é",
                "%",
                "?",
                "#",
                "\\",
                "-",
                "\n",
                "s3.amazonaws.com",
            ])
            .prop_map(str::to_owned),
            "[ -~]{0,6}",
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_is_read_is_shown_as_what_is_read_the_same(text in near_locations()) {
            match parse(&text) {
                Ok(Location::Bucket(location)) => {
                    prop_assert_eq!(parse(&location.to_string()).unwrap(), Location::Bucket(location));
                }
                Ok(Location::Sftp(location)) => {
                    prop_assert_eq!(parse(&location.to_string()).unwrap(), Location::Sftp(location));
                }
                Ok(Location::Directory(path)) => prop_assert_eq!(path, PathBuf::from(text)),
                Err(error) => {
                    let is_told = matches!(&error, BackendError::BadLocation { text: told, .. } if *told == text);
                    prop_assert!(is_told, "{error}");
                }
            }
        }
    }
}
