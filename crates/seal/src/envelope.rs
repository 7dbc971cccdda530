//! The header and check that every stored object carries (docs/format.md, "Envelope").

use std::fmt;

use crate::{ObjectId, SealError};

/// The version of the format that this program writes and reads.
pub const FORMAT_VERSION: u8 = 0;

/// Length in bytes of the header that every object begins with.
pub const HEADER_LEN: usize = 48;

/// Length in bytes of a [`Check`]; an AEAD tag takes the same room.
pub const CHECK_LEN: usize = 16;

const MARK: &[u8; 4] = b"1FLD";

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The repository's configuration.
    Config,
    /// A container of chunks.
    Container,
    /// A sorted run of the index.
    Run,
    /// A snapshot.
    Snapshot,
    /// The receipt of an acknowledged backup.
    Receipt,
}

impl Kind {
    /// Every kind, for tests and listings.
    pub const ALL: &[Kind] =
        &[Kind::Config, Kind::Container, Kind::Run, Kind::Snapshot, Kind::Receipt];

    /// The number that stands for this kind on disk.
    pub const fn code(self) -> u8 {
        match self {
            Kind::Config => 1,
            Kind::Container => 2,
            Kind::Run => 3,
            Kind::Snapshot => 4,
            Kind::Receipt => 5,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Config => "config",
            Kind::Container => "container",
            Kind::Run => "index run",
            Kind::Snapshot => "snapshot",
            Kind::Receipt => "receipt",
        })
    }
}

/// How the bodies of objects are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suite {
    /// Stored as they are; checks find damage, not malice.
    Plain,
}

impl Suite {
    const fn code(self) -> u8 {
        match self {
            Suite::Plain => 0,
        }
    }
}

/// The first [`CHECK_LEN`] bytes of the BLAKE3 hash of what it covers.
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

/// Frames the objects of one repository and opens them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    repository: ObjectId,
}

impl Envelope {
    /// The envelope of the repository `repository`, without encryption.
    pub const fn plain(repository: ObjectId) -> Self {
        Self { repository }
    }

    /// The repository whose objects this frames.
    pub const fn repository(&self) -> ObjectId {
        self.repository
    }

    /// How bodies are protected.
    pub const fn suite(&self) -> Suite {
        Suite::Plain
    }

    /// The header of object `id`.
    pub fn header(&self, kind: Kind, id: ObjectId) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[0..4].copy_from_slice(MARK);
        header[4] = FORMAT_VERSION;
        header[5] = kind.code();
        header[6] = self.suite().code();
        // Byte 7 and bytes 12..16 are reserved; bytes 8..12 hold the key epoch, 0 without keys.
        header[16..32].copy_from_slice(self.repository.as_bytes());
        header[32..48].copy_from_slice(id.as_bytes());
        header
    }

    /// Fails unless `bytes` begin with the header of object `id` of this repository.
    pub fn verify_header(&self, kind: Kind, id: ObjectId, bytes: &[u8]) -> Result<(), SealError> {
        let found = Header::read(kind, bytes)?;
        if found.repository != self.repository {
            return Err(SealError::WrongRepository {
                found: found.repository,
                expected: self.repository,
            });
        }
        if found.id != id {
            return Err(SealError::WrongObject { found: found.id, expected: id });
        }
        Ok(())
    }

    /// Frames `body` as the whole object `id`: header, body, check over both.
    pub fn seal(&self, kind: Kind, id: ObjectId, body: &[u8]) -> Vec<u8> {
        let mut object = Vec::with_capacity(HEADER_LEN + body.len() + CHECK_LEN);
        object.extend_from_slice(&self.header(kind, id));
        object.extend_from_slice(body);
        let check = Check::of(&[&object]);
        object.extend_from_slice(check.as_bytes());
        object
    }

    /// The body of the whole object `id`, after its header and check were found right.
    pub fn open<'a>(
        &self,
        kind: Kind,
        id: ObjectId,
        object: &'a [u8],
    ) -> Result<&'a [u8], SealError> {
        let body = verified_body(object)?;
        self.verify_header(kind, id, object)?;
        Ok(body)
    }

    /// Opens the object that says which repository this is: its header's repository is believed,
    /// and the object must have the repository's id.
    ///
    /// Gives the envelope of that repository and the object's body.
    pub fn discover(kind: Kind, object: &[u8]) -> Result<(Self, &[u8]), SealError> {
        let body = verified_body(object)?;
        let found = Header::read(kind, object)?;
        if found.id != found.repository {
            return Err(SealError::WrongObject { found: found.id, expected: found.repository });
        }
        Ok((Self::plain(found.repository), body))
    }
}

/// The body of an object that bears Onefold's mark and passes its check.
///
/// What the header says is judged only afterwards: a damaged version number must not be taken for
/// another version.
fn verified_body(object: &[u8]) -> Result<&[u8], SealError> {
    let expected = (HEADER_LEN + CHECK_LEN) as u64;
    let too_short = SealError::Truncated { found: object.len() as u64, expected };
    if object.len() >= MARK.len() && !object.starts_with(MARK) {
        return Err(SealError::NotOnefold);
    }
    let (covered, check) = object.split_last_chunk::<CHECK_LEN>().ok_or(too_short.clone())?;
    Check(*check).verify(&[covered])?;
    covered.get(HEADER_LEN..).ok_or(too_short)
}

struct Header {
    repository: ObjectId,
    id: ObjectId,
}

impl Header {
    /// Reads what every header of version 0 must say, and whose object this is.
    fn read(kind: Kind, bytes: &[u8]) -> Result<Self, SealError> {
        let header = bytes.first_chunk::<HEADER_LEN>().ok_or(SealError::Truncated {
            found: bytes.len() as u64,
            expected: HEADER_LEN as u64,
        })?;
        if header[0..4] != *MARK {
            return Err(SealError::NotOnefold);
        }
        if header[4] != FORMAT_VERSION {
            return Err(SealError::Version { found: header[4], known: FORMAT_VERSION });
        }
        if header[5] != kind.code() {
            let found = Kind::from_code(header[5])
                .map_or_else(|| format!("kind {}", header[5]), |k| k.to_string());
            return Err(SealError::WrongKind { found, expected: kind });
        }
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        for (field, found) in [
            ("suite", u32::from(header[6])),
            ("reserved", u32::from(header[7])),
            ("key epoch", word(8)),
            ("flags", word(12)),
        ] {
            if found != 0 {
                return Err(SealError::Reserved { field, found });
            }
        }
        let id = |at: usize| ObjectId::from_bytes(header[at..at + 16].try_into().expect("16"));
        Ok(Self { repository: id(16), id: id(32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        Envelope::plain(ObjectId::from_bytes([7; 16]))
    }

    const ID: ObjectId = ObjectId::from_bytes([9; 16]);

    #[test]
    fn what_was_sealed_opens() {
        for body in [&b""[..], b"x", &[0; 1000]] {
            let object = envelope().seal(Kind::Run, ID, body);
            assert_eq!(envelope().open(Kind::Run, ID, &object).unwrap(), body);
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let object = envelope().seal(Kind::Snapshot, ID, b"twenty bytes of body");
        for bit in 0..object.len() * 8 {
            let mut damaged = object.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                envelope().open(Kind::Snapshot, ID, &damaged).is_err(),
                "bit {bit} flipped unseen"
            );
        }
    }

    #[test]
    fn every_truncation_is_found() {
        let object = envelope().seal(Kind::Snapshot, ID, b"body");
        for len in 0..object.len() {
            assert!(envelope().open(Kind::Snapshot, ID, &object[..len]).is_err());
        }
    }

    #[test]
    fn another_object_kind_or_repository_is_named() {
        let object = envelope().seal(Kind::Run, ID, b"body");
        let other = ObjectId::from_bytes([1; 16]);
        assert!(matches!(
            envelope().open(Kind::Run, other, &object),
            Err(SealError::WrongObject { found, .. }) if found == ID
        ));
        assert!(matches!(
            envelope().open(Kind::Snapshot, ID, &object),
            Err(SealError::WrongKind { .. })
        ));
        assert!(matches!(
            Envelope::plain(other).open(Kind::Run, ID, &object),
            Err(SealError::WrongRepository { .. })
        ));
        assert_eq!(
            envelope().open(Kind::Run, ID, b"restic or anything else, long enough for a header"),
            Err(SealError::NotOnefold)
        );
    }

    fn renew_check(object: &mut [u8]) {
        let (covered, check) = object.split_last_chunk_mut::<CHECK_LEN>().unwrap();
        check.copy_from_slice(Check::of(&[covered]).as_bytes());
    }

    #[test]
    fn another_version_is_told_from_a_damaged_version_number() {
        let mut object = envelope().seal(Kind::Run, ID, b"body");
        object[4] = 1;
        let opened = |object: &[u8]| envelope().open(Kind::Run, ID, object).unwrap_err();
        assert!(matches!(opened(&object), SealError::BadCheck { .. }));
        renew_check(&mut object);
        assert_eq!(opened(&object), SealError::Version { found: 1, known: 0 });
    }

    #[test]
    fn what_version_0_reserves_must_be_zero() {
        for at in [6, 7, 8, 11, 12, 15] {
            let mut object = envelope().seal(Kind::Run, ID, b"body");
            object[at] = 1;
            renew_check(&mut object);
            assert!(
                matches!(envelope().open(Kind::Run, ID, &object), Err(SealError::Reserved { .. })),
                "byte {at}"
            );
        }
    }
}
