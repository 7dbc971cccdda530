//! One object, sealed and opened part by part.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::cipher::Cipher;
use crate::header::{self, HEADER_LEN, Header};
use crate::{CHECK_LEN, Check, SealError, Suite};

/// Number of the message that covers a whole body, or what an object of several parts ends in.
const END: u64 = 0;

/// Seals the parts of one object, or opens them.
///
/// In a plain repository parts stay as they are and get checks. In an encrypted one they are
/// encrypted under a key that only this object has, and get tags; each has a number of its own,
/// the end has 0 and part *n* has 1 + *n*.
///
/// Whoever seals must give each part another number, and must seal one end. [`Clone`] is for
/// readers.
#[derive(Clone)]
pub struct Parts {
    /// What the object must say of itself.
    expected: Header,
    /// What it says: covered by the check of the end, and by each tag.
    found: [u8; HEADER_LEN],
    cipher: Option<Arc<Cipher>>,
}

impl Parts {
    pub(crate) fn new(expected: Header, found: [u8; HEADER_LEN], cipher: Option<Cipher>) -> Self {
        Self { expected, found, cipher: cipher.map(Arc::new) }
    }

    /// How the parts are protected.
    pub const fn suite(&self) -> Suite {
        self.expected.suite
    }

    /// Whether the header says that the body ends in padding.
    pub(crate) const fn is_padded(&self) -> bool {
        self.found[12] != 0
    }

    /// Seals part `number` in place and gives its check.
    pub fn seal(&self, number: u32, part: &mut [u8]) -> Check {
        match &self.cipher {
            None => Check::of(&[part]),
            Some(cipher) => {
                Check::from_bytes(cipher.seal(1 + u64::from(number), &self.found, part))
            }
        }
    }

    /// The bytes of part `number`, which is stored as `part`.
    pub fn open<'a>(
        &self,
        number: u32,
        part: &'a [u8],
        check: &Check,
    ) -> Result<Cow<'a, [u8]>, SealError> {
        match &self.cipher {
            None => check.verify(&[part]).map(|()| Cow::Borrowed(part)),
            Some(cipher) => cipher
                .open(1 + u64::from(number), &self.found, part, check.as_bytes())
                .map(Cow::Owned)
                .ok_or_else(|| self.bad_tag()),
        }
    }

    /// Seals the end of the object in place; its check also covers the header and `clear`, which
    /// stands between end and check and stays as it is.
    pub fn seal_end(&self, end: &mut [u8], clear: &[u8]) -> Check {
        match &self.cipher {
            None => Check::of(&[&self.found, end, clear]),
            Some(cipher) => {
                let associated = [&self.found, clear].concat();
                Check::from_bytes(cipher.seal(END, &associated, end))
            }
        }
    }

    /// The bytes of the object's end, after header and `clear` were found right as well.
    ///
    /// What the header says is judged only behind the check: a damaged version number must not be
    /// taken for another version.
    pub fn open_end<'a>(
        &self,
        end: &'a [u8],
        clear: &[u8],
        check: &[u8; CHECK_LEN],
    ) -> Result<Cow<'a, [u8]>, SealError> {
        let opened = match &self.cipher {
            None => {
                Check::from_bytes(*check).verify(&[&self.found, end, clear])?;
                Cow::Borrowed(end)
            }
            Some(cipher) => {
                let associated = [&self.found, clear].concat();
                let opened = cipher.open(END, &associated, end, check);
                Cow::Owned(opened.ok_or_else(|| self.bad_tag())?)
            }
        };
        self.judge_header()?;
        Ok(opened)
    }

    fn judge_header(&self) -> Result<(), SealError> {
        let found = Header::read(self.expected.kind, &self.found)?;
        if (found.suite == Suite::Plain) != (self.expected.suite == Suite::Plain) {
            return Err(wrong_suite(found.suite));
        }
        if found.repository != self.expected.repository {
            return Err(self.wrong_repository());
        }
        if found.id != self.expected.id {
            return Err(SealError::WrongObject { found: found.id, expected: self.expected.id });
        }
        Ok(())
    }

    /// Why a tag does not fit, as well as can be told without one that does.
    fn bad_tag(&self) -> SealError {
        match header::repository(&self.found) == self.expected.repository {
            true => SealError::BadTag,
            false => self.wrong_repository(),
        }
    }

    fn wrong_repository(&self) -> SealError {
        let found = header::repository(&self.found);
        SealError::WrongRepository { found, expected: self.expected.repository }
    }
}

/// The error that an object of suite `found` stands in a repository of the other.
pub(crate) const fn wrong_suite(found: Suite) -> SealError {
    match found {
        Suite::Plain => SealError::NotEncrypted,
        Suite::Aes256Gcm | Suite::Writer => SealError::Encrypted,
    }
}

/// Parts are equal if they are of the same object.
impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        self.expected == other.expected && self.found == other.found
    }
}

impl Eq for Parts {}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts of {} {}", self.expected.kind, self.expected.id)
    }
}
