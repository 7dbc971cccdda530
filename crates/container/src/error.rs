use onefold_backend::BackendError;
use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::WireError;
use onefold_seal::{ObjectId, SealError};

/// Errors of containers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The container could not be read at all.
    #[error("container {container} cannot be read")]
    Backend {
        /// Which container.
        container: ObjectId,
        /// What the backend said.
        source: BackendError,
    },
    /// The header or footer does not belong to this container, or is damaged.
    #[error("container {container} {source}")]
    Envelope {
        /// Which container.
        container: ObjectId,
        /// What is wrong.
        source: SealError,
    },
    /// The footer passes its check but is malformed.
    #[error("container {container}: footer is {source}")]
    Footer {
        /// Which container.
        container: ObjectId,
        /// Where decoding failed.
        source: WireError,
    },
    /// The stored bytes of a group are damaged.
    #[error("container {container}: group {group} at byte {offset} {source}")]
    DamagedGroup {
        /// Which container.
        container: ObjectId,
        /// The group's number.
        group: u32,
        /// Where its stored bytes begin.
        offset: u64,
        /// What is wrong.
        source: SealError,
    },
    /// A group's stored bytes are intact but do not decompress to the length in the footer.
    #[error(
        "container {container}: group {group} does not decompress to {expected} bytes: {reason}"
    )]
    Decompress {
        /// Which container.
        container: ObjectId,
        /// The group's number.
        group: u32,
        /// Length that the footer gives.
        expected: u32,
        /// What the decompressor said.
        reason: String,
    },
    /// A chunk's bytes do not have the fingerprint that the footer gives.
    #[error("container {container}: chunk {slot} has fingerprint {found}, expected {expected}")]
    WrongFingerprint {
        /// Which container.
        container: ObjectId,
        /// The chunk's slot.
        slot: u32,
        /// Fingerprint of the bytes.
        found: Fingerprint,
        /// Fingerprint in the footer.
        expected: Fingerprint,
    },
    /// The requested slot does not exist in the container.
    #[error("container {container} has {chunks} chunks, slot {slot} was requested")]
    NoSuchSlot {
        /// Which container.
        container: ObjectId,
        /// The requested slot.
        slot: u32,
        /// The number of chunks.
        chunks: u32,
    },
    /// The compressor failed.
    #[error("cannot compress a group of {len} bytes: {reason}")]
    Compress {
        /// Length of the group.
        len: usize,
        /// What the compressor said.
        reason: String,
    },
}

impl ContainerError {
    /// The affected container; none if a group could not be compressed.
    pub fn container(&self) -> Option<ObjectId> {
        match self {
            Self::Backend { container, .. }
            | Self::Envelope { container, .. }
            | Self::Footer { container, .. }
            | Self::DamagedGroup { container, .. }
            | Self::Decompress { container, .. }
            | Self::WrongFingerprint { container, .. }
            | Self::NoSuchSlot { container, .. } => Some(*container),
            Self::Compress { .. } => None,
        }
    }
}
