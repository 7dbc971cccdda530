//! The secret of a chunker, read from a file so that it does not appear in the list of processes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use onefold_cdc::Secret;

/// More than any form of a secret has, with an end of line.
const LIMIT: u64 = 100;

/// Reads 32 bytes, or 64 hexadecimal digits, optionally followed by a line break.
pub(crate) fn read(path: &Path) -> Result<Secret> {
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT).read_to_end(&mut content))
        .with_context(|| format!("cannot read '{}'", path.display()))?;
    parse(&content).with_context(|| {
        format!(
            "no secret in '{}', expected 32 bytes or 64 hexadecimal digits and nothing else",
            path.display()
        )
    })
}

fn parse(content: &[u8]) -> Option<Secret> {
    if let Ok(bytes) = content.try_into() {
        return Some(Secret::new(bytes));
    }
    let digits = content.trim_ascii_end();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16);
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(Secret::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_digits_are_read_and_nothing_else() {
        let secret = Secret::new(std::array::from_fn(|i| 0x11 * (i as u8 % 16)));
        let digits = "00112233445566778899aabbccddeeff".repeat(2);
        assert_eq!(parse(secret.as_bytes()), Some(secret));
        for ending in ["", "\n", "\r\n"] {
            assert_eq!(parse(format!("{digits}{ending}").as_bytes()), Some(secret));
        }
        assert_eq!(parse(digits.to_uppercase().as_bytes()), Some(secret));
        // 32 bytes are never taken for digits
        assert_eq!(parse(&[b'0'; 32]), Some(Secret::new([b'0'; 32])));
        for wrong in [&b""[..], &[7; 31], &[7; 33], &[b'0'; 63], &[b'0'; 65], &[b'g'; 64]] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
