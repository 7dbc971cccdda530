//! Keys and framing: what makes bytes at rest recognisable, attributable and checkable.
//!
//! Every object that Onefold stores begins with the same [`HEADER_LEN`]-byte header, which names
//! its kind, its repository and itself, and carries a [`Check`] over all of its bytes. An object
//! that was damaged, truncated, swapped with another or copied from another repository is
//! therefore told from a good one before any of it is used.
//!
//! Format version 0 knows one suite, [`Suite::Plain`]: bodies are stored as they are and the check
//! is the head of a BLAKE3 hash, which finds damage but stops nobody. The header already has room
//! for what encryption needs (suite, key epoch), and a check is as long as an AEAD tag.
//!
//! Nothing else in the workspace touches a cipher.

mod envelope;
mod error;
mod id;
pub mod wire;

pub use envelope::{CHECK_LEN, Check, Envelope, FORMAT_VERSION, HEADER_LEN, Kind, Suite};
pub use error::SealError;
pub use id::{ObjectId, ParseIdError};
