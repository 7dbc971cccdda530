//! Locations of clusters.

use std::fmt;

use crate::BackendError;

const SCHEME: &str = "ceph:";

/// The longest name of a pool or a namespace, in bytes. Ceph allows namespaces of 256.
const LONGEST: usize = 128;

/// A pool of Ceph and a namespace in it: `ceph:META/NAMESPACE`, or `ceph:META` for the namespace
/// without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CephLocation {
    pool: String,
    namespace: String,
}

impl CephLocation {
    /// Whether `text` is meant as a location in Ceph, well-formed or not.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Reads `ceph:META[/NAMESPACE]`. Both names have 1 to 128 of the characters a-z, A-Z, 0-9, '.', '-'
    /// and '_'.
    pub fn parse(text: &str) -> Result<Self, BackendError> {
        let bad = |reason| BackendError::BadLocation { text: text.to_owned(), reason };
        let rest = text.strip_prefix(SCHEME).ok_or(bad("it does not start with ceph:"))?;
        let (pool, namespace) = match rest.split_once('/') {
            Some((pool, namespace)) => (pool, Some(namespace)),
            None => (rest, None),
        };
        if !is_name(pool) {
            return Err(bad(
                "ceph: is followed by the name of a pool: 1 to 128 of a-z, A-Z, 0-9, '.', '-', '_'",
            ));
        }
        if namespace.is_some_and(|name| !is_name(name)) {
            return Err(bad(
                "its pool is followed by a namespace: 1 to 128 of a-z, A-Z, 0-9, '.', '-', '_'",
            ));
        }
        Ok(Self { pool: pool.to_owned(), namespace: namespace.unwrap_or_default().to_owned() })
    }

    /// The pool's name.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The namespace; "" for the one without a name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl fmt::Display for CephLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.pool)?;
        match self.namespace.as_str() {
            "" => Ok(()),
            namespace => write!(f, "/{namespace}"),
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_shown_as_they_are_read() {
        for (text, pool, namespace) in [
            ("ceph:meta", "meta", ""),
            ("ceph:.mgr/Team_A", ".mgr", "Team_A"),
            ("ceph:one-fold.meta/a.b-c", "one-fold.meta", "a.b-c"),
        ] {
            let location = CephLocation::parse(text).unwrap();
            assert_eq!((location.pool(), location.namespace()), (pool, namespace));
            assert_eq!(location.to_string(), text);
            assert!(CephLocation::is_meant_by(text));
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let longest = "n".repeat(LONGEST);
        CephLocation::parse(&format!("ceph:{longest}/{longest}")).unwrap();
        for bad in [
            "meta",
            "rados:meta",
            "ceph:",
            "ceph:/a",
            "ceph:meta/",
            "ceph://meta",
            "ceph:meta/a/b",
            "ceph:me ta",
            "ceph:meta/a\0",
            "ceph:meta/\u{1}",
            "ceph:m\u{e9}ta",
            &format!("ceph:{longest}n"),
            &format!("ceph:meta/{longest}n"),
        ] {
            let error = CephLocation::parse(bad).unwrap_err();
            assert!(
                matches!(&error, BackendError::BadLocation { text, .. } if text == bad),
                "{error}"
            );
        }
    }
}
