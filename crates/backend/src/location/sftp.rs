//! Locations on other machines, reached by SFTP.

use std::fmt;

use super::bad;
use crate::BackendError;

const URL: &str = "sftp://";
const SHORT: &str = "sftp:";

/// The longest path. Servers take 4,096 bytes with the names of objects behind it.
const MAX_PATH: usize = 2_048;

/// A directory of a host: `sftp:USER@HOST:/PATH`, or `sftp://USER@HOST:PORT//PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SftpLocation {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
}

impl SftpLocation {
    /// Whether `text` is meant as a location by SFTP, well-formed or not.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SHORT)
    }

    /// Reads `sftp:USER@HOST:PATH` and `sftp://USER@HOST:PORT/PATH`, as restic does. User and port are optional,
    /// and an IPv6 address is in brackets. A path is below the user's home unless it begins with a slash, which
    /// in a URL is a second one: `sftp://HOST//srv/backup`.
    pub fn parse(text: &str) -> Result<Self, BackendError> {
        let read = match text.strip_prefix(URL) {
            Some(rest) => read_url(rest),
            None => match text.strip_prefix(SHORT) {
                Some(rest) => read_short(rest),
                None => Err("it does not start with sftp:"),
            },
        };
        read.map_err(|reason| bad(text, reason))
    }

    fn new(
        user: Option<&str>,
        host: &str,
        port: Option<u16>,
        path: &str,
    ) -> Result<Self, &'static str> {
        if !is_host(host) {
            return Err("expected the name of a host, or an address");
        }
        if user.is_some_and(|user| !is_user(user)) {
            return Err("expected the name of a user before the @");
        }
        let path = match path.strip_prefix("~/") {
            Some(path) if path.starts_with('/') => return Err("its path has an empty part"),
            Some(path) => path,
            None => path,
        };
        let path = match path.trim_end_matches('/') {
            "" if path.starts_with('/') => "/",
            path => path,
        };
        match path {
            "" | "~" => return Err("it names no directory"),
            _ if path.len() > MAX_PATH => return Err("its path is longer than 2048 bytes"),
            _ if path.contains(char::is_control) => return Err("its path has a control character"),
            _ if path.split('/').skip(usize::from(path.starts_with('/'))).any(str::is_empty)
                && path != "/" =>
            {
                return Err("its path has an empty part");
            }
            _ => {}
        }
        let (user, host, path) = (user.map(str::to_owned), host.to_owned(), path.to_owned());
        Ok(Self { user, host, port, path })
    }

    /// The user on the host, if one is named.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host: a name, an address, or an alias in the user's configuration of ssh.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if one is named.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The directory; below the user's home unless it starts with a slash.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for SftpLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.port.is_some() { URL } else { SHORT })?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        let tilde = if self.path.starts_with("~/") { "~/" } else { "" };
        match self.port {
            Some(port) => write!(f, ":{port}/{tilde}{}", self.path),
            None => write!(f, ":{tilde}{}", self.path),
        }
    }
}

/// `USER@HOST:PORT/PATH`.
fn read_url(rest: &str) -> Result<SftpLocation, &'static str> {
    let (authority, path) = rest.split_once('/').ok_or("a path follows the host")?;
    let (user, rest) = read_user(authority);
    if user.is_some_and(|user| user.contains(':')) {
        return Err("a location takes no password; use a key or an agent of ssh");
    }
    let (host, port) = read_host(rest)?;
    let port = match port {
        None => None,
        Some(text) => match text.parse() {
            Ok(port @ 1..) if text.starts_with(|first: char| first.is_ascii_digit()) => Some(port),
            _ => return Err("expected a port from 1 to 65535 after the host"),
        },
    };
    SftpLocation::new(user, host, port, path)
}

/// `USER@HOST:PATH`.
fn read_short(rest: &str) -> Result<SftpLocation, &'static str> {
    // The path may have an @ and colons.
    let start = rest.find('/').unwrap_or(rest.len());
    let (user, after) = match rest[..start].find('@') {
        Some(_) => read_user_before_path(rest),
        None => (None, rest),
    };
    match read_host(after)? {
        (host, Some(path)) => SftpLocation::new(user, host, None, path),
        (_, None) => Err("a colon and a path follow the host, as in sftp:USER@HOST:/PATH"),
    }
}

/// The user before the last `@`, which a user's name may have, too.
fn read_user(text: &str) -> (Option<&str>, &str) {
    text.rsplit_once('@').map_or((None, text), |(user, rest)| (Some(user), rest))
}

/// The same where a path follows: the user ends before the first colon.
fn read_user_before_path(text: &str) -> (Option<&str>, &str) {
    let end = text.find(':').unwrap_or(text.len());
    match text[..end].rfind('@') {
        Some(at) => (Some(&text[..at]), &text[at + 1..]),
        None => (None, text),
    }
}

/// A host, with brackets if it has colons, and what follows the colon after it.
fn read_host(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    let Some(inside) = text.strip_prefix('[') else {
        return Ok(text.split_once(':').map_or((text, None), |(host, rest)| (host, Some(rest))));
    };
    let (host, rest) = inside.split_once(']').ok_or("a bracket before the host is not closed")?;
    if !host.contains(':') {
        return Err("expected an IPv6 address in brackets");
    }
    match rest.strip_prefix(':') {
        None if !rest.is_empty() => Err("expected a colon after the bracket"),
        rest => Ok((host, rest)),
    }
}

/// Whether it may be a host: nothing that a program could take for an option, or a shell for more.
fn is_host(host: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".:_-%".contains(&byte);
    !host.is_empty() && host.len() <= 255 && !host.starts_with('-') && host.bytes().all(is_part)
}

fn is_user(user: &str) -> bool {
    let is_other = |part: char| part.is_control() || part.is_whitespace() || ":/".contains(part);
    !user.is_empty() && user.len() <= 255 && !user.starts_with('-') && !user.contains(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Option<String>, String, Option<u16>, String) {
        let SftpLocation { user, host, port, path } = SftpLocation::parse(text).unwrap();
        (user, host, port, path)
    }

    #[test]
    fn both_ways_to_write_a_location_are_read() {
        let of = |user: Option<&str>, host: &str, port, path: &str| {
            (user.map(str::to_owned), host.to_owned(), port, path.to_owned())
        };
        for (text, expected) in [
            ("sftp:me@host:/srv/a", of(Some("me"), "host", None, "/srv/a")),
            ("sftp:host:/srv/a/", of(None, "host", None, "/srv/a")),
            ("sftp:host:a/b", of(None, "host", None, "a/b")),
            ("sftp:host:~/a", of(None, "host", None, "a")),
            ("sftp:host:/a:b@c", of(None, "host", None, "/a:b@c")),
            ("sftp:me@ad@host:/a", of(Some("me@ad"), "host", None, "/a")),
            ("sftp:me@[::1]:/a", of(Some("me"), "::1", None, "/a")),
            ("sftp://me@host:2222//srv/a", of(Some("me"), "host", Some(2222), "/srv/a")),
            ("sftp://host/a", of(None, "host", None, "a")),
            ("sftp://host/~/a", of(None, "host", None, "a")),
            ("sftp://[fe80::1%eth0]:22//a", of(None, "fe80::1%eth0", Some(22), "/a")),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn locations_are_shown_in_the_shortest_way() {
        for (text, shown) in [
            ("sftp://me@host//srv/a", "sftp:me@host:/srv/a"),
            ("sftp://me@host:22//srv/a", "sftp://me@host:22//srv/a"),
            ("sftp://[::1]:22/a", "sftp://[::1]:22/a"),
            ("sftp:[::1]:~/a", "sftp:[::1]:a"),
        ] {
            assert_eq!(SftpLocation::parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for bad in [
            "sftp:",
            "sftp:host",
            "sftp:host:",
            "sftp:host:~",
            "sftp:@host:/a",
            "sftp:-oProxyCommand=x:/a",
            "sftp:-x@host:/a",
            "sftp:ho st:/a",
            "sftp:[host]:/a",
            "sftp:[::1:/a",
            "sftp:[::1]x:/a",
            "sftp:host:/a//b",
            "sftp:host:/a\nb",
            "sftp://host",
            "sftp://host/",
            "sftp://host:0//a",
            "sftp://host:+1//a",
            "sftp://host:70000//a",
            "sftp://me:secret@host//a",
            "ssh:host:/a",
        ] {
            let error = SftpLocation::parse(bad).unwrap_err();
            assert!(
                matches!(&error, BackendError::BadLocation { text, .. } if text == bad),
                "{error}"
            );
        }
    }
}
