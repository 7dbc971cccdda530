//! Checks: 16 bytes by which damage is found.

use std::fmt;

use crate::SealError;

/// Length in bytes of a [`Check`], and of the tag that takes its place in encrypted repositories.
pub const CHECK_LEN: usize = 16;

/// The first [`CHECK_LEN`] bytes of the BLAKE3 hash of what it covers, or a tag of AES-GCM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Check([u8; CHECK_LEN]);

impl Check {
    /// The check over `parts`, one after another.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        let mut check = [0; CHECK_LEN];
        check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_LEN]);
        Self(check)
    }

    /// The check that these bytes spell.
    pub const fn from_bytes(bytes: [u8; CHECK_LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes of this check.
    pub const fn as_bytes(&self) -> &[u8; CHECK_LEN] {
        &self.0
    }

    /// Fails unless this is the check over `parts`.
    pub fn verify(&self, parts: &[&[u8]]) -> Result<(), SealError> {
        let actual = Self::of(parts);
        if *self == actual {
            return Ok(());
        }
        Err(SealError::BadCheck { found: self.to_string(), expected: actual.to_string() })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Check({self})")
    }
}
