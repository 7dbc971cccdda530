use std::ops::Range;

use proptest::prelude::*;

use crate::{cycle, low_entropy, random, text};

/// Inputs that chunkers find easy, hard and degenerate, of lengths in `len`: random bytes, text, few
/// different bytes, as many as `alphabet` says, and a pattern of a length in `pattern` over and over.
pub fn any_bytes(
    len: Range<usize>,
    alphabet: Range<usize>,
    pattern: Range<usize>,
) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (any::<u64>(), len.clone()).prop_map(|(seed, len)| random(seed, len)),
        (any::<u64>(), len.clone()).prop_map(|(seed, len)| text(seed, len)),
        (any::<u64>(), len.clone(), alphabet)
            .prop_map(|(seed, len, alphabet)| low_entropy(seed, len, alphabet)),
        (prop::collection::vec(any::<u8>(), pattern), len)
            .prop_map(|(pattern, len)| cycle(&pattern, len)),
    ]
}
