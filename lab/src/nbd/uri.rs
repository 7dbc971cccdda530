//! Where an export is, as the NBD project writes it: `nbd://HOST[:PORT]/EXPORT` or
//! `nbd+unix:///EXPORT?socket=PATH`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

/// The port of the protocol.
const PORT: u16 = 10809;

/// An export of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Of the server.
    pub place: Place,
    /// Its name, perhaps empty.
    pub export: String,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host, by name or address, and a port.
    Tcp(String, u16),
    /// A socket.
    Unix(PathBuf),
}

impl FromStr for Uri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text).with_context(|| {
            format!(
                "'{text}' is no address of an export, expected nbd://HOST[:PORT]/EXPORT or \
                 nbd+unix:///EXPORT?socket=PATH"
            )
        })
    }
}

impl Uri {
    fn read(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once("://").context("no '://' in it")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decoded(export)?;
        let place = match scheme {
            "nbd" => {
                ensure!(query.is_empty(), "nothing is known of '{query}'");
                tcp(authority)?
            }
            "nbd+unix" => {
                ensure!(authority.is_empty(), "a socket has no host '{authority}'");
                let path = query.strip_prefix("socket=").context("no '?socket=' in it")?;
                Place::Unix(decoded(path)?.into())
            }
            "nbds" | "nbds+unix" => bail!("TLS is not spoken here"),
            other => bail!("nothing is known of '{other}'"),
        };
        Ok(Self { place, export })
    }
}

fn tcp(authority: &str) -> Result<Place> {
    // the colons of an address of version 6 are in brackets
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().with_context(|| format!("'{port}' is no port"))?)
        }
        _ => (authority, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ensure!(!host.is_empty(), "no host in it");
    Ok(Place::Tcp(host.to_owned(), port))
}

/// Percent signs with two digits stand for a byte.
fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.context("a '%' without two digits")?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).context("no UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_other_clients_read_them() {
        let tcp = |host: &str, port| Place::Tcp(host.into(), port);
        for (text, place, export) in [
            ("nbd://localhost", tcp("localhost", 10809), ""),
            ("nbd://localhost/", tcp("localhost", 10809), ""),
            ("nbd://10.0.0.1:99/a/b", tcp("10.0.0.1", 99), "a/b"),
            ("nbd://[::1]/disk", tcp("::1", 10809), "disk"),
            ("nbd://[::1]:7/disk", tcp("::1", 7), "disk"),
            ("nbd+unix:///disk?socket=/run/x", Place::Unix("/run/x".into()), "disk"),
            ("nbd+unix:///a%20b?socket=/tmp/%25", Place::Unix("/tmp/%".into()), "a b"),
        ] {
            assert_eq!(text.parse::<Uri>().unwrap(), Uri { place, export: export.into() });
        }
    }

    #[test]
    fn what_is_none_is_refused_with_the_reason() {
        for (text, reason) in [
            ("disk", "no '://'"),
            ("nbds://localhost/disk", "TLS"),
            ("http://localhost/disk", "'http'"),
            ("nbd:///disk", "no host"),
            ("nbd://localhost:port/disk", "'port' is no port"),
            ("nbd+unix:///disk", "no '?socket='"),
            ("nbd+unix://host/disk?socket=x", "'host'"),
            ("nbd://localhost/%4", "two digits"),
            ("nbd://localhost/%ff", "UTF-8"),
        ] {
            let error = format!("{:#}", text.parse::<Uri>().unwrap_err());
            assert!(error.contains("expected nbd://HOST"), "{error}");
            assert!(error.contains(reason), "{reason}: {error}");
        }
    }
}
