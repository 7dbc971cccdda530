//! Names of stored objects.

use std::fmt;
use std::str::FromStr;

/// The identity of a stored object, or of a repository: 16 random bytes.
///
/// Ids are drawn at random and never derived from content, so that two writers never collide and
/// a name says nothing of what it names. Shown as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; Self::LEN]);

impl ObjectId {
    /// Length of an id in bytes.
    pub const LEN: usize = 16;

    /// Draws a new id from the operating system's random source.
    ///
    /// # Panics
    /// If the operating system has no randomness to give; nothing can be stored safely then.
    pub fn random() -> Self {
        let mut bytes = [0; Self::LEN];
        getrandom::fill(&mut bytes).expect("the operating system's random source failed");
        Self(bytes)
    }

    /// The id that these bytes spell.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes of this id.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The first eight digits: enough for people to tell the objects of one repository apart.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// The text is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an object id: expected 32 hexadecimal digits")]
pub struct ParseIdError(String);

impl FromStr for ObjectId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let fail = || ParseIdError(text.to_owned());
        if text.len() != 2 * Self::LEN || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(fail());
        }
        let mut bytes = [0; Self::LEN];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| fail())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| fail())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back_is_the_same_id() {
        let id = ObjectId::random();
        assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
        assert_eq!(id.short(), id.to_string()[..8]);
    }

    #[test]
    fn text_that_is_no_id_is_refused() {
        for text in ["", "00", &"g".repeat(32), &"0".repeat(33), &"é".repeat(16)] {
            assert!(text.parse::<ObjectId>().is_err(), "{text:?} was taken for an id");
        }
    }
}
