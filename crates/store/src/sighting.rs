//! A repository as a client comes upon it.

use std::fmt;

use onefold_seal::ObjectId;

/// A repository as it shows itself before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sighting {
    /// Which repository.
    pub id: ObjectId,
    /// Whether it says that it is encrypted.
    pub is_encrypted: bool,
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_encrypted { "encrypted" } else { "not encrypted" };
        write!(f, "{} ({how})", self.id)
    }
}
