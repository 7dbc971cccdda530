//! Keys of hosts that the user has accepted: `known_hosts`.

use std::io;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use russh::keys::PublicKey;
use russh::keys::ssh_key::known_hosts::{Entry, HostPatterns, Marker};
use sha1::Sha1;

use super::config::{matches_any, read_text};

/// The keys that a host may have.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownKeys {
    /// The host as the files name it.
    pub(super) host: String,
    /// The files, the first being where a new key would be added.
    pub(super) files: Vec<PathBuf>,
    accepted: Vec<PublicKey>,
    revoked: Vec<PublicKey>,
}

/// What is known of a key that a host shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    /// Nothing is known of the host.
    Unknown,
    /// The host is known by other keys.
    Other,
    Revoked,
}

impl KnownKeys {
    /// Reads what `files` say of `host`. A file that does not exist says nothing.
    pub(super) fn read(files: Vec<PathBuf>, host: &str, port: u16) -> io::Result<Self> {
        let host = host.to_ascii_lowercase();
        let host = if port == 22 { host } else { format!("[{host}]:{port}") };
        let mut known = Self { host, files, ..Self::default() };
        for file in known.files.clone() {
            match read_text(&file) {
                Ok(text) => known.add(&text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(named(&file, error)),
            }
        }
        Ok(known)
    }

    fn add(&mut self, text: &str) {
        for line in text.lines() {
            // Comments, and keys of types that are not known here.
            let Ok(entry) = line.trim().parse::<Entry>() else { continue };
            if !names(entry.host_patterns(), &self.host) {
                continue;
            }
            match entry.marker() {
                None => self.accepted.push(entry.public_key().clone()),
                Some(Marker::Revoked) => self.revoked.push(entry.public_key().clone()),
                // Certificates of hosts are not asked for.
                Some(_) => {}
            }
        }
    }

    /// What is known of `key`.
    pub(super) fn judge(&self, key: &PublicKey) -> Verdict {
        let is_this = |known: &PublicKey| known.key_data() == key.key_data();
        match () {
            () if self.revoked.iter().any(is_this) => Verdict::Revoked,
            () if self.accepted.iter().any(is_this) => Verdict::Accepted,
            () if self.accepted.is_empty() => Verdict::Unknown,
            () => Verdict::Other,
        }
    }

    /// The accepted keys, so that the host is asked for one of them.
    pub(super) fn accepted(&self) -> &[PublicKey] {
        &self.accepted
    }
}

fn named(file: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()))
}

/// Whether `patterns` name `host`.
fn names(patterns: &HostPatterns, host: &str) -> bool {
    match patterns {
        HostPatterns::Patterns(patterns) => matches_any(patterns, host),
        HostPatterns::HashedName { salt, hash } => Hmac::<Sha1>::new_from_slice(salt)
            .is_ok_and(|mac| mac.chain_update(host).verify_slice(hash).is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";
    const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn known(text: &str, host: &str) -> KnownKeys {
        let mut known = KnownKeys { host: host.into(), ..KnownKeys::default() };
        known.add(text);
        known
    }

    fn judge(text: &str, host: &str) -> Verdict {
        known(text, host).judge(&ONE.parse().unwrap())
    }

    #[test]
    fn a_key_is_accepted_for_the_hosts_of_its_line_only() {
        let text = format!(
            "# comment\nhost,*.example.org,!bad.example.org {ONE}\n\n[host]:2222 {OTHER}\n"
        );
        assert_eq!(judge(&text, "host"), Verdict::Accepted);
        assert_eq!(judge(&text, "a.example.org"), Verdict::Accepted);
        assert_eq!(judge(&text, "bad.example.org"), Verdict::Unknown);
        assert_eq!(judge(&text, "other"), Verdict::Unknown);
        assert_eq!(judge(&text, "[host]:2222"), Verdict::Other);
    }

    #[test]
    fn a_revoked_key_is_never_accepted() {
        let text = format!("host {ONE}\n@revoked * {ONE}\n");
        assert_eq!(judge(&text, "host"), Verdict::Revoked);
        assert_eq!(judge(&format!("@cert-authority host {ONE}\n"), "host"), Verdict::Unknown);
    }

    #[test]
    fn lines_that_cannot_be_read_are_passed_over() {
        let text = format!("host ssh-unknown AAAA\nhost\n\u{1} x\nhost {ONE} me@here\n");
        assert_eq!(judge(&text, "host"), Verdict::Accepted);
    }

    #[test]
    fn a_hashed_name_is_found() {
        // What `ssh-keygen -H` makes of "host", with a salt of twenty bytes.
        let salt = [7; 20];
        let mac = Hmac::<Sha1>::new_from_slice(&salt).unwrap().chain_update("host");
        let hash = mac.finalize().into_bytes().into();
        let patterns = HostPatterns::HashedName { salt: salt.to_vec(), hash };
        assert!(names(&patterns, "host") && !names(&patterns, "other"));
    }
}
