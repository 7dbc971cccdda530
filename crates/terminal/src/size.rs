//! Sizes in bytes as people write them.

/// The suffixes and what they multiply by, in lower case.
const SUFFIXES: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
];

/// Reads a size such as `4096`, `64k`, `8KiB` or `1MB`, in bytes.
///
/// `k`, `KiB` and so on count in 1024, `kB` and so on in 1000; case does not matter.
pub fn parse(text: &str) -> Result<usize, String> {
    let expectation = || {
        "expected bytes as a whole number, if you like with a suffix: k, KiB, kB, M, MiB, MB, \
         G, GiB, GB, T, TiB, TB, P, PiB or PB"
            .to_owned()
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.trim_start().to_ascii_lowercase();
    let (_, factor) =
        SUFFIXES.iter().find(|(known, _)| *known == suffix).ok_or_else(expectation)?;
    if number.is_empty() {
        return Err(expectation());
    }
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
    bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| format!("more than {} bytes cannot be counted", usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_count_in_1024_or_1000() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("7b", 7),
            ("64k", 64 << 10),
            ("8KiB", 8 << 10),
            ("8 kib", 8 << 10),
            ("1kB", 1000),
            ("1MiB", 1 << 20),
            ("2M", 2 << 20),
            ("3MB", 3_000_000),
            ("1G", 1 << 30),
            ("2TiB", 2 << 40),
            ("1PiB", 1 << 50),
            ("3PB", 3_000_000_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "k", "-1", "1.5M", "8XiB", "8KiBs", "0x10", "１"] {
            assert!(parse(text).unwrap_err().contains("expected bytes"), "{text}");
        }
        for text in ["18446744073709551616", "99999999999G"] {
            assert!(parse(text).unwrap_err().contains("cannot be counted"), "{text}");
        }
    }
}
