//! The user's configuration of ssh, as far as a connection for SFTP depends on it.
//!
//! `Host`, `Match` with `all`, `host`, `originalhost` and `user`, and `Include` are understood. Of every option
//! the first value counts, as in ssh. Options that change nothing for a connection made here are passed over.

use std::io;
use std::path::{Path, PathBuf};

/// The deepest nesting of included files, as in ssh.
const MAX_DEPTH: usize = 16;

/// The longest file that is read, in bytes.
const MAX_LEN: u64 = 1 << 20;

/// What the configuration says of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostConfig {
    pub(super) host_name: Option<String>,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) identity_files: Vec<String>,
    pub(super) identities_only: Option<bool>,
    pub(super) identity_agent: Option<String>,
    pub(super) user_known_hosts: Vec<String>,
    pub(super) global_known_hosts: Vec<String>,
    pub(super) host_key_alias: Option<String>,
    pub(super) proxy_jump: Option<String>,
    pub(super) proxy_command: Option<String>,
    pub(super) connect_timeout: Option<u64>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    #[error("{}:{line}: {reason}", file.display())]
    Line { file: PathBuf, line: usize, reason: String },
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
}

/// For whom a configuration is read.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    /// The host as the user named it.
    pub(super) host: String,
    /// The user on that host, if the location names one.
    pub(super) user: Option<String>,
    /// The user here.
    pub(super) local_user: String,
    pub(super) home: PathBuf,
}

/// What `files` say of a host, the first before the others. A file that does not exist says nothing.
pub(super) fn read(files: &[PathBuf], asker: &Asker) -> Result<HostConfig, ConfigError> {
    let mut reading = Reading { asker, found: HostConfig::default() };
    for file in files {
        reading.read_file(file, 0)?;
    }
    Ok(reading.found)
}

struct Reading<'a> {
    asker: &'a Asker,
    found: HostConfig,
}

impl Reading<'_> {
    fn read_file(&mut self, file: &Path, depth: usize) -> Result<(), ConfigError> {
        let text = match read_text(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text.map_err(|source| ConfigError::Read { file: file.to_owned(), source })?,
        };
        self.read_text(file, &text, depth)
    }

    fn read_text(&mut self, file: &Path, text: &str, depth: usize) -> Result<(), ConfigError> {
        // Lines before the first Host or Match are for all hosts.
        let mut applies = true;
        for (number, line) in text.lines().enumerate() {
            let bad = |reason: String| ConfigError::Line {
                file: file.to_owned(),
                line: number + 1,
                reason,
            };
            let words = words(line).map_err(bad)?;
            let Some((keyword, values)) = words.split_first() else { continue };
            let keyword = keyword.to_ascii_lowercase();
            if values.is_empty() {
                return Err(bad(format!("{keyword} has no value")));
            }
            match keyword.as_str() {
                "host" => applies = matches_any(values, &self.asker.host),
                "match" => applies = self.matches(values).map_err(bad)?,
                "include" if applies => {
                    if depth == MAX_DEPTH {
                        return Err(bad("too many files include one another".into()));
                    }
                    for pattern in values {
                        for included in self.included(file, pattern) {
                            self.read_file(&included, depth + 1)?;
                        }
                    }
                }
                _ if applies => self.set(&keyword, values).map_err(bad)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a `Match` line is about the asker.
    fn matches(&self, values: &[String]) -> Result<bool, String> {
        let host = self.found.host_name.as_deref().unwrap_or(&self.asker.host);
        let user = self.asker.user.as_deref().or(self.found.user.as_deref());
        let user = user.unwrap_or(&self.asker.local_user);
        let mut values = values.iter();
        let mut all = true;
        while let Some(criterion) = values.next() {
            let (criterion, negated) = match criterion.strip_prefix('!') {
                Some(criterion) => (criterion, true),
                None => (criterion.as_str(), false),
            };
            let criterion = criterion.to_ascii_lowercase();
            let text = match criterion.as_str() {
                "all" => {
                    all &= !negated;
                    continue;
                }
                "host" => host,
                "originalhost" => &self.asker.host,
                "user" => user,
                "localuser" => &self.asker.local_user,
                other => return Err(format!("Match {other} is not understood here")),
            };
            let patterns = values.next().ok_or(format!("Match {criterion} has no pattern"))?;
            let patterns: Vec<String> = patterns.split(',').map(str::to_owned).collect();
            all &= matches_any(&patterns, text) != negated;
        }
        Ok(all)
    }

    /// The files that an `Include` in `file` names, sorted.
    fn included(&self, file: &Path, pattern: &str) -> Vec<PathBuf> {
        let path = match pattern.strip_prefix("~/") {
            Some(rest) => self.asker.home.join(rest),
            // Relative to the folder of the user's configuration, or of the system's.
            None => file.parent().unwrap_or(Path::new("/")).join(pattern),
        };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Vec::new();
        };
        if !name.contains(['*', '?']) {
            return vec![path];
        }
        let Ok(entries) = folder.read_dir() else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<PathBuf> = names
            .filter(|found| !found.starts_with('.') && matches_pattern(name, found))
            .map(|name| folder.join(name))
            .collect();
        found.sort();
        found
    }

    fn set(&mut self, keyword: &str, values: &[String]) -> Result<(), String> {
        let first = &values[0];
        let found = &mut self.found;
        let text = |value: &mut Option<String>| {
            value.get_or_insert_with(|| first.clone());
        };
        match keyword {
            "hostname" => text(&mut found.host_name),
            "user" => text(&mut found.user),
            "identityagent" => text(&mut found.identity_agent),
            "hostkeyalias" => text(&mut found.host_key_alias),
            // Of these two the first that is set counts.
            "proxyjump" if found.proxy_command.is_none() => text(&mut found.proxy_jump),
            "proxycommand" if found.proxy_jump.is_none() => {
                found.proxy_command.get_or_insert_with(|| values.join(" "));
            }
            "port" => {
                let port = first.parse().ok().filter(|port| *port > 0);
                let port = port.ok_or(format!("'{first}' is no port"))?;
                found.port.get_or_insert(port);
            }
            "connecttimeout" if first != "none" => {
                let time = first.parse().map_err(|_| format!("'{first}' is no time in seconds"))?;
                found.connect_timeout.get_or_insert(time);
            }
            "identitiesonly" => {
                let only = match first.to_ascii_lowercase().as_str() {
                    "yes" | "true" => true,
                    "no" | "false" => false,
                    _ => return Err(format!("'{first}' is neither yes nor no")),
                };
                found.identities_only.get_or_insert(only);
            }
            // All of them count.
            "identityfile" => found.identity_files.push(first.clone()),
            "userknownhostsfile" if found.user_known_hosts.is_empty() => {
                found.user_known_hosts = values.to_vec();
            }
            "globalknownhostsfile" if found.global_known_hosts.is_empty() => {
                found.global_known_hosts = values.to_vec();
            }
            _ => {}
        }
        Ok(())
    }
}

/// The text of a file that is not too long.
pub(super) fn read_text(file: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(file)?.take(MAX_LEN + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_LEN {
        return Err(io::Error::other(format!("it is longer than {MAX_LEN} bytes")));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The words of a line: quoted, separated by spaces, after the first also by one equals sign. Empty for
/// comments.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() && !rest.starts_with('#') {
        let word;
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, after) = quoted.split_once('"').ok_or("a quote is not closed")?;
            (word, rest) = (inside, after);
        } else {
            let is_end = |c: char| c.is_whitespace() || words.is_empty() && c == '=';
            let end = rest.find(is_end).unwrap_or(rest.len());
            (word, rest) = rest.split_at(end);
        }
        words.push(word.to_owned());
        rest = rest.trim_start();
        if words.len() == 1 {
            rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        }
    }
    Ok(words)
}

/// Whether `text` matches one of `patterns`, and none that begins with an exclamation mark.
pub(super) fn matches_any(patterns: &[String], text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let is_match = |pattern: &str| matches_pattern(&pattern.to_ascii_lowercase(), &text);
    let mut matched = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(pattern) if is_match(pattern) => return false,
            Some(_) => {}
            None => matched |= is_match(pattern),
        }
    }
    matched
}

/// Whether `text` matches a pattern in which a star stands for anything, a question mark for one character.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    // After a mismatch, the last star takes one character more.
    let (mut at, mut next, mut star) = (0, 0, None);
    while next < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, next));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[next] => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((before, taken)) = star else { return false };
                star = Some((before, taken + 1));
                (at, next) = (before + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asker(host: &str) -> Asker {
        let home = PathBuf::from("/home/me");
        Asker { host: host.into(), user: None, local_user: "me".into(), home }
    }

    fn of(text: &str, host: &str) -> Result<HostConfig, ConfigError> {
        let asker = asker(host);
        let mut reading = Reading { asker: &asker, found: HostConfig::default() };
        reading.read_text(Path::new("/home/me/.ssh/config"), text, 0)?;
        Ok(reading.found)
    }

    #[test]
    fn the_first_value_for_a_host_counts() {
        let text = "\
# comment
Host backup b*p !bup
  HostName = backup.example.org
  port 2222
  IdentityFile \"~/.ssh/a key\"
Host other
  User nobody
Host *
  User=keeper
  Port 22
  IdentityFile ~/.ssh/id_ed25519
  IdentitiesOnly yes
";
        let found = of(text, "backup").unwrap();
        assert_eq!(found.host_name.as_deref(), Some("backup.example.org"));
        assert_eq!((found.user.as_deref(), found.port), (Some("keeper"), Some(2222)));
        assert_eq!(found.identity_files, ["~/.ssh/a key", "~/.ssh/id_ed25519"]);
        assert_eq!(found.identities_only, Some(true));
        let excluded = of(text, "bup").unwrap();
        assert_eq!((excluded.host_name, excluded.port), (None, Some(22)));
    }

    #[test]
    fn match_lines_are_understood_or_refused() {
        let text = "Host x\nHostName real\nMatch host real user me\nPort 1\nMatch all\nPort 2\n";
        assert_eq!(of(text, "x").unwrap().port, Some(1));
        assert_eq!(of(text, "y").unwrap().port, Some(2));
        assert_eq!(of("Match originalhost !x\nPort 1\n", "x").unwrap().port, None);
        assert_eq!(of("Match !host x\nPort 1\n", "y").unwrap().port, Some(1));
        let error = of("Port 1\nMatch exec true\n", "x").unwrap_err().to_string();
        assert_eq!(error, "/home/me/.ssh/config:2: Match exec is not understood here");
    }

    #[test]
    fn of_jump_and_command_the_first_counts() {
        let found = of("ProxyJump a,b\nProxyCommand nc %h %p\n", "x").unwrap();
        assert_eq!((found.proxy_jump.as_deref(), found.proxy_command), (Some("a,b"), None));
        let found = of("ProxyCommand nc %h %p\nProxyJump a\n", "x").unwrap();
        assert_eq!((found.proxy_jump, found.proxy_command.as_deref()), (None, Some("nc %h %p")));
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, reason) in [
            ("Port x", "'x' is no port"),
            ("Port 0", "'0' is no port"),
            ("User \"me", "a quote is not closed"),
            ("User", "user has no value"),
            ("IdentitiesOnly maybe", "'maybe' is neither yes nor no"),
        ] {
            let error = of(text, "x").unwrap_err().to_string();
            assert_eq!(error, format!("/home/me/.ssh/config:1: {reason}"));
        }
    }

    #[test]
    fn files_are_included_in_their_order_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            #[expect(clippy::disallowed_methods, reason = "a test makes a file")]
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        put("config", "Include *.conf missing\nPort 3\n");
        put("b.conf", "Port 2\n");
        put("a.conf", "Host other\nPort 1\n");
        put("loop", "Include loop\n");
        let read = |name: &str| super::read(&[folder.path().join(name)], &asker("x"));
        assert_eq!(read("config").unwrap().port, Some(2));
        assert!(read("loop").unwrap_err().to_string().contains("include one another"));
        assert_eq!(read("none").unwrap(), HostConfig::default());
    }

    proptest! {
        #[test]
        fn patterns_match_as_their_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            fn defined(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern.split_first(), text.split_first()) {
                    (None, _) => text.is_empty(),
                    (Some((b'*', rest)), _) => {
                        defined(rest, text) || !text.is_empty() && defined(pattern, &text[1..])
                    }
                    (Some((one, rest)), Some((first, after))) => {
                        (*one == b'?' || one == first) && defined(rest, after)
                    }
                    _ => false,
                }
            }
            prop_assert_eq!(matches_pattern(&pattern, &text), defined(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(Host|Match|Port|User|Include|=|\"|#|\\*|!|all|x| |\n){0,20}") {
            drop(of(&text, "x"));
        }
    }
}
