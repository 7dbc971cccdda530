use crate::{SplitMix64, corpus};

/// A change of some consecutive bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Puts bytes in front of position `at`.
    Insert {
        /// Where the first new byte comes to lie.
        at: usize,
        /// What is put in.
        bytes: Vec<u8>,
    },
    /// Takes `len` bytes out from position `at` on.
    Delete {
        /// The first byte that goes.
        at: usize,
        /// How many go.
        len: usize,
    },
    /// Replaces as many bytes as there are new ones, from position `at` on.
    Overwrite {
        /// The first byte that changes.
        at: usize,
        /// What stands there afterwards.
        bytes: Vec<u8>,
    },
}

impl Edit {
    /// An edit of 1 to `longest` bytes somewhere in a file of `len` bytes, as the numbers fall.
    ///
    /// A file too short for a deletion or an overwrite gets an insertion.
    pub fn arbitrary(numbers: &mut SplitMix64, len: usize, longest: usize) -> Self {
        let changed = 1 + numbers.below(longest);
        let kind = if changed > len { 0 } else { numbers.below(3) };
        if kind == 0 {
            let at = numbers.below(len + 1);
            return Self::Insert { at, bytes: corpus::random(numbers.next_u64(), changed) };
        }
        let at = numbers.below(len - changed + 1);
        match kind {
            1 => Self::Delete { at, len: changed },
            _ => Self::Overwrite { at, bytes: corpus::random(numbers.next_u64(), changed) },
        }
    }

    /// The file after the edit. Panics if the edit reaches past the end of `file`.
    pub fn apply(&self, file: &[u8]) -> Vec<u8> {
        let (before, after) = (&file[..self.at()], &file[self.end_before()..]);
        [before, self.new_bytes(), after].concat()
    }

    /// The first position that the edit touches; the same in the old file and the new.
    pub fn at(&self) -> usize {
        match self {
            Self::Insert { at, .. } | Self::Delete { at, .. } | Self::Overwrite { at, .. } => *at,
        }
    }

    /// Where, in the old file, the bytes that stay begin again.
    pub fn end_before(&self) -> usize {
        match self {
            Self::Insert { at, .. } => *at,
            Self::Delete { at, len } => at + len,
            Self::Overwrite { at, bytes } => at + bytes.len(),
        }
    }

    /// Where, in the new file, the bytes that stay begin again.
    pub fn end_after(&self) -> usize {
        self.at() + self.new_bytes().len()
    }

    fn new_bytes(&self) -> &[u8] {
        match self {
            Self::Insert { bytes, .. } | Self::Overwrite { bytes, .. } => bytes,
            Self::Delete { .. } => &[],
        }
    }
}

/// `base` and `later` successors of it, each with `edits` edits of up to 4096 bytes more.
pub fn versions(seed: u64, base: Vec<u8>, later: usize, edits: usize) -> Vec<Vec<u8>> {
    let mut numbers = SplitMix64::new(seed);
    let mut versions = vec![base];
    for _ in 0..later {
        let mut file = versions[versions.len() - 1].clone();
        for _ in 0..edits {
            file = Edit::arbitrary(&mut numbers, file.len(), 4096).apply(&file);
        }
        versions.push(file);
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_change_what_they_say() {
        let file = b"0123456789";
        let insert = Edit::Insert { at: 3, bytes: b"ab".to_vec() };
        let delete = Edit::Delete { at: 3, len: 2 };
        let overwrite = Edit::Overwrite { at: 3, bytes: b"ab".to_vec() };
        assert_eq!(insert.apply(file), b"012ab3456789");
        assert_eq!(delete.apply(file), b"01256789");
        assert_eq!(overwrite.apply(file), b"012ab56789");
    }

    #[test]
    fn what_lies_outside_an_edit_stays() {
        let mut numbers = SplitMix64::new(9);
        for len in [0, 1, 2, 50, 1000] {
            let file = corpus::random(5, len);
            for _ in 0..100 {
                let edit = Edit::arbitrary(&mut numbers, len, 20);
                let edited = edit.apply(&file);
                assert_eq!(edited[..edit.at()], file[..edit.at()]);
                assert_eq!(edited[edit.end_after()..], file[edit.end_before()..]);
            }
        }
    }

    #[test]
    fn versions_start_at_the_base_and_differ() {
        let versions = versions(1, corpus::random(1, 50_000), 3, 2);
        assert_eq!(versions.len(), 4);
        assert_eq!(versions[0], corpus::random(1, 50_000));
        assert!(versions.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
