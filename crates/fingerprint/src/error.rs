use crate::{Fingerprint, FingerprintAlgorithm};

/// Why a text names no fingerprint or no algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    /// The text has the wrong length.
    #[error("fingerprint of {found} characters, expected {expected}", expected = 2 * Fingerprint::LEN)]
    Length {
        /// Characters in the text.
        found: usize,
    },
    /// The text has a character that is no hexadecimal digit.
    #[error("'{found}' at position {position} of a fingerprint, expected a hexadecimal digit")]
    Digit {
        /// The character.
        found: char,
        /// Characters before it.
        position: usize,
    },
    /// No algorithm has this name.
    #[error("unknown fingerprint algorithm '{name}', expected one of {known}", known = known())]
    UnknownAlgorithm {
        /// The name that was asked for.
        name: String,
    },
}

fn known() -> String {
    let names: Vec<_> = FingerprintAlgorithm::ALL.iter().map(|a| a.name()).collect();
    names.join(", ")
}
