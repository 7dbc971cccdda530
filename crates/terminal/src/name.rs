//! Names and paths, which are bytes and not necessarily UTF-8, for people and for programs.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

/// `bytes` as a terminal can show them: control characters, which could command the terminal, and
/// what is not UTF-8 are escaped.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char.is_control() {
                true => text.extend(char.escape_default()),
                false => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a string takes everything");
        }
    }
    text
}

/// Hexadecimal digits of bytes that are not UTF-8; `None` of those that are.
pub fn hex_unless_utf8(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| {
        bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes everything");
            text
        })
    })
}

/// `bytes` as a JSON text: replacement characters stand for what is not UTF-8.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path in JSON, to be flattened into what it belongs to.
#[derive(Serialize)]
pub struct PathFields {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl PathFields {
    /// The fields of a path given as bytes.
    pub fn new(path: &[u8]) -> Self {
        Self { path: lossy(path), path_hex: hex_unless_utf8(path) }
    }

    /// The fields of a path of this machine.
    pub fn of_path(path: &Path) -> Self {
        Self::new(path.as_os_str().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_command_a_terminal_is_escaped() {
        assert_eq!(shown("plain é".as_bytes()), "plain é");
        assert_eq!(shown(b"a\x1b[2Jb\nc\xffd"), "a\\u{1b}[2Jb\\nc\\xffd");
    }

    #[test]
    fn only_what_is_not_utf8_needs_digits() {
        assert_eq!(hex_unless_utf8("é".as_bytes()), None);
        assert_eq!(hex_unless_utf8(b"a\xff").as_deref(), Some("61ff"));
    }
}
