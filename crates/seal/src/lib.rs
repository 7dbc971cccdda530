//! Keys and framing: what makes bytes at rest recognisable, attributable and checkable.
//!
//! Every object that Onefold stores begins with the same [`HEADER_LEN`]-byte header, which names
//! its kind, its repository and itself, and carries a [`Check`] over all of its bytes. An object
//! that was damaged, truncated, swapped with another or copied from another repository is
//! therefore told from a good one before any of it is used.
//!
//! How they are protected is a repository's [`Suite`]. In a plain one, bodies are stored as they are
//! and the check is the head of a BLAKE3 hash, which finds damage but stops nobody. In an encrypted
//! one, each object is sealed by AES-256-GCM under a key of its own, and the tag takes the check's
//! place. The keys follow from a master key that passwords and public keys wrap ([`WrappedKey`]); why it is so is in
//! docs/decisions/0010-encryption.md.
//!
//! Nothing else in the workspace touches a cipher.

mod check;
mod cipher;
mod envelope;
mod error;
mod header;
mod id;
mod key;
mod padding;
mod pair;
mod parts;
mod password;
pub mod wire;
mod writer;

pub use check::{CHECK_LEN, Check};
pub use envelope::{Envelope, PSEUDONYM_LEN, SALT_LEN};
pub use error::SealError;
pub use header::{FORMAT_VERSION, HEADER_LEN, Kind, Suite};
pub use id::{ObjectId, ParseIdError};
pub use key::{Key, Keys, WRITER_LEN};
pub use padding::{padded_len, random_order};
pub use pair::PrivateKey;
pub use parts::Parts;
pub use password::{Cost, Password, WrappedKey};
pub use writer::PublicKey;
