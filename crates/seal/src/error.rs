use crate::{Cost, Kind, ObjectId};

/// Why stored bytes are not the object they were taken for.
///
/// The caller knows the object's name and place and adds them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// Fewer bytes than the smallest object of this form has.
    #[error("truncated: {found} bytes, expected at least {expected}")]
    Truncated {
        /// Bytes that were there.
        found: u64,
        /// Bytes that must be there at least.
        expected: u64,
    },
    /// A part is longer than any writer makes it.
    #[error("its {what} has {found} bytes, expected at most {max}")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// Its length in bytes, as the object says.
        found: u64,
        /// The most that is read.
        max: u64,
    },
    /// The first bytes are not Onefold's mark.
    #[error("does not begin with Onefold's mark \"1FLD\": not written by Onefold, or overwritten")]
    NotOnefold,
    /// Written by a version of the format that this program does not know.
    #[error("has format version {found}, this program reads version {known}")]
    Version {
        /// The version in the header.
        found: u8,
        /// The version this program reads.
        known: u8,
    },
    /// A header field has a value that version 1 does not have.
    #[error("header field '{field}' is {found}, which format version 1 does not have here")]
    Reserved {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: u32,
    },
    /// An object of another kind stands under this name.
    #[error("holds a {found}, expected a {expected}")]
    WrongKind {
        /// The kind in the header, as a number if unknown.
        found: String,
        /// The kind that belongs here.
        expected: Kind,
    },
    /// Another object stands under this name.
    #[error("holds object {found}, expected {expected}: swapped or copied")]
    WrongObject {
        /// The id in the header.
        found: ObjectId,
        /// The id that the name says.
        expected: ObjectId,
    },
    /// The object was written for another repository.
    #[error("belongs to repository {found}, this is repository {expected}")]
    WrongRepository {
        /// The repository in the header.
        found: ObjectId,
        /// The repository at hand.
        expected: ObjectId,
    },
    /// The bytes are not those that were written.
    #[error("is damaged: its check is {found}, its bytes give {expected}")]
    BadCheck {
        /// The check that was stored.
        found: String,
        /// The check of the bytes as they are.
        expected: String,
    },
    /// The bytes are not those that were sealed, or were sealed under another key.
    #[error("is damaged or forged: it does not open under its key")]
    BadTag,
    /// The body of a padded object does not end in padding.
    #[error("its padding is not what its writer puts there")]
    Padding,
    /// An object in clear stands in an encrypted repository.
    #[error("is not encrypted, though its repository is: damaged or forged")]
    NotEncrypted,
    /// An encrypted object stands in a repository that is not.
    #[error("is encrypted, though its repository is not")]
    Encrypted,
    /// The object can be opened by those only who have a password.
    #[error("cannot be opened by a key that can write and not read")]
    WriteOnly,
    /// The object was sealed in an epoch whose key is not there.
    #[error(
        "was sealed in key epoch {found}, the latest known is {latest}: a key was added by \
         another process a moment ago, or is missing, or the object is damaged"
    )]
    UnknownEpoch {
        /// The epoch in the header.
        found: u32,
        /// The latest epoch with a key.
        latest: u32,
    },
    /// The bytes are no public key of X25519.
    #[error("is no public key")]
    BadPublicKey,
    /// A password would cost more to try than is ever paid, or the numbers make no sense.
    #[error(
        "asks for {} KiB of memory, {} passes and {} lanes of Argon2id, expected at most {} KiB, \
         {} passes and {} lanes, and 8 KiB a lane", cost.memory_kib, cost.passes, cost.lanes,
        Cost::MAX.memory_kib, Cost::MAX.passes, Cost::MAX.lanes
    )]
    Cost {
        /// What was asked for.
        cost: Cost,
    },
}
