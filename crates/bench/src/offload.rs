use std::fmt;

use onefold_cdc::Chunker;

/// Some other device than the CPU that cuts and fingerprints.
pub trait Offload: fmt::Debug {
    /// As the user names it.
    fn name(&self) -> String;

    /// Why it cannot cut by `chunker`, if so.
    fn refusal(&self, chunker: &Chunker) -> Option<String>;

    /// Appends the cut-points of `input` to `found`, each after the BLAKE3 of its chunk if it is to be
    /// `fingerprinted`. If the device fails, the CPU does it.
    fn cut(&self, chunker: &Chunker, input: &[u8], fingerprinted: bool, found: &mut Vec<usize>);

    /// Why the device failed, if it did: then what was timed is not its speed.
    fn lost(&self) -> Option<String>;
}
