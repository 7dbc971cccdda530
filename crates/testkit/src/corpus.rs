use crate::SplitMix64;

/// Random bytes: the numbers of SplitMix64 in turn, little-endian.
pub fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut numbers = SplitMix64::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(numbers.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Random bytes below `alphabet`, which is 1 to 256: the less, the more ties and runs.
pub fn low_entropy(seed: u64, len: usize, alphabet: usize) -> Vec<u8> {
    assert!((1..=256).contains(&alphabet), "an alphabet of {alphabet} bytes");
    let mut numbers = SplitMix64::new(seed);
    (0..len).map(|_| numbers.below(alphabet) as u8).collect()
}

/// `pattern` over and over: constant, ramp or periodic data.
pub fn cycle(pattern: &[u8], len: usize) -> Vec<u8> {
    assert!(!pattern.is_empty() || len == 0, "nothing to repeat");
    pattern.iter().copied().cycle().take(len).collect()
}

/// Lines of words from a small vocabulary, the first ones most frequent, as in prose or code.
pub fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut numbers = SplitMix64::new(seed);
    let vocabulary: Vec<Vec<u8>> = (0..400).map(|_| word(&mut numbers)).collect();
    let mut bytes = Vec::with_capacity(len + 16);
    let mut line = 0;
    while bytes.len() < len {
        let rank = numbers.below(vocabulary.len());
        let word = &vocabulary[numbers.below(rank + 1)];
        bytes.extend(word);
        line += word.len() + 1;
        let separator = if line > 72 { b'\n' } else { b' ' };
        if separator == b'\n' {
            line = 0;
        }
        bytes.push(separator);
    }
    bytes.truncate(len);
    bytes
}

fn word(numbers: &mut SplitMix64) -> Vec<u8> {
    const LETTERS: &[u8] = b"etaoinshrdlucmfwypvbgkqjxz";
    let len = 1 + numbers.below(10);
    (0..len)
        .map(|_| {
            let rank = numbers.below(LETTERS.len());
            LETTERS[numbers.below(rank + 1)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpora_are_as_long_as_asked_and_prefixes_of_longer_ones() {
        for len in [0, 1, 7, 8, 9, 1000] {
            for (short, long) in [
                (random(3, len), random(3, 2000)),
                (low_entropy(3, len, 5), low_entropy(3, 2000, 5)),
                (text(3, len), text(3, 2000)),
                (cycle(b"abc", len), cycle(b"abc", 2000)),
            ] {
                assert_eq!(short.len(), len);
                assert_eq!(short, long[..len]);
            }
        }
    }

    #[test]
    fn seeds_tell_corpora_apart() {
        assert_ne!(random(1, 100), random(2, 100));
        assert_ne!(text(1, 100), text(2, 100));
        assert_ne!(low_entropy(1, 100, 2), low_entropy(2, 100, 2));
    }

    #[test]
    fn alphabets_are_used_and_kept_to() {
        assert_eq!(low_entropy(1, 1000, 3).iter().max(), Some(&2));
        assert!(text(1, 1000).iter().all(|b| b.is_ascii_lowercase() || b" \n".contains(b)));
    }
}
