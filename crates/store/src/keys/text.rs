//! Keys as lines of text: what they begin with, and hexadecimal digits of bytes and their check.

use std::fmt;

use onefold_seal::{CHECK_LEN, Check};
use zeroize::Zeroizing;

/// No key has more digits than this.
const MAX_DIGITS: usize = 4096;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A text is not the key that it was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseKeyError {
    /// What the key is called.
    pub(crate) what: &'static str,
    /// What it begins with.
    pub(crate) begins: &'static str,
}

impl fmt::Display for ParseKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, begins } = self;
        write!(f, "not a whole {what}, which is a line that begins with '{begins}'")
    }
}

impl std::error::Error for ParseKeyError {}

/// `parts` one after another as a line of text, without an end of line.
pub(crate) fn write(begins: &str, parts: &[&[u8]]) -> Zeroizing<String> {
    // All room at once: what moves leaves a copy behind that nobody wipes.
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut text = Zeroizing::new(String::with_capacity(begins.len() + 2 * (len + CHECK_LEN)));
    text.push_str(begins);
    let check = Check::of(parts);
    for byte in parts.iter().copied().chain([&check.as_bytes()[..]]).flatten() {
        text.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[digit as usize])));
    }
    text
}

/// The bytes that a line of text stands for; space around it is passed over.
pub(crate) fn read(begins: &str, text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digits = text.trim().strip_prefix(begins)?;
    if digits.len() > MAX_DIGITS || digits.len() % 2 == 1 {
        return None;
    }
    let value = |digit: u8| DIGITS.iter().position(|one| *one == digit);
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.as_bytes().chunks_exact(2) {
        bytes.push((value(pair[0])? << 4 | value(pair[1])?) as u8);
    }
    let (covered, check) = bytes.split_last_chunk::<CHECK_LEN>()?;
    Check::from_bytes(*check).verify(&[covered]).ok()?;
    let len = covered.len();
    bytes.truncate(len);
    Some(bytes)
}
