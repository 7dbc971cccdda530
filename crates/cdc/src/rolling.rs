use crate::ChunkSizes;
use crate::rule::Rule;

/// A hash of the last bytes that is corrected for one byte at a time.
pub(crate) trait Rolling {
    /// The hash; its default is that of no bytes.
    type Print: Copy + Default;

    /// Bytes that a hash depends on, at least 1.
    fn window(&self) -> usize;

    /// The hash after one byte more, while the window is not yet full.
    fn push(&self, print: Self::Print, byte: u8) -> Self::Print;

    /// The hash after `entering`, where `leaving` came a window before it.
    fn roll(&self, print: Self::Print, entering: u8, leaving: u8) -> Self::Print;
}

/// A rule that asks for the hash of the window at the positions from min on.
pub(crate) trait WindowRule: Rule + Sized {
    type Hash: Rolling;

    fn hash(&self) -> &Self::Hash;

    fn sizes(&self) -> ChunkSizes;

    /// Whether a position of this hash can have a say in where the chunk ends.
    fn is_candidate(&self, print: <Self::Hash as Rolling>::Print) -> bool;

    /// What [`Rule::next_cut`] is to say, by what `search` finds.
    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize>;
}

/// A rule whose hash is linear over GF(2): that of the exclusive or of two windows is the exclusive
/// or of theirs.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "GFNI is x86's"))]
pub(crate) trait LinearRule: WindowRule {
    /// Bits of a hash, or their inverses, that tell most positions from candidates: those have at
    /// least [`least_decisive`](Self::least_decisive) there.
    fn decisive(&self, print: <Self::Hash as Rolling>::Print) -> u16;

    /// See [`decisive`](Self::decisive).
    fn least_decisive(&self) -> u16;
}

/// A way to come by the candidates of a rule.
pub(crate) trait Search<R: WindowRule>: Send + Sync {
    /// The first position from min on that `stops`, which is asked of every candidate in order,
    /// and perhaps of others, with the position and the hash of the window before it.
    fn first_position(
        &self,
        rule: &R,
        reach: &[u8],
        stops: impl FnMut(usize, <R::Hash as Rolling>::Print) -> bool,
    ) -> Option<usize>;
}

/// The definition: asks of every position, one after the other.
pub(crate) struct EveryPosition;

impl<R: WindowRule> Search<R> for EveryPosition {
    fn first_position(
        &self,
        rule: &R,
        reach: &[u8],
        stops: impl FnMut(usize, <R::Hash as Rolling>::Print) -> bool,
    ) -> Option<usize> {
        first_position(rule.hash(), reach, rule.sizes().min(), stops)
    }
}

/// The first position of `reach` from `from` on, which is at least 1, that `stops`. It is asked
/// with the position and the hash of the window before it.
///
/// The window starts empty with `reach`, and is full at `from` if that is no shorter.
pub(crate) fn first_position<H: Rolling>(
    hash: &H,
    reach: &[u8],
    from: usize,
    mut stops: impl FnMut(usize, H::Print) -> bool,
) -> Option<usize> {
    let start = from.saturating_sub(hash.window());
    let full = (start + hash.window()).min(reach.len());

    let warm = &reach[start..from - 1];
    let mut print = warm.iter().fold(H::Print::default(), |print, &byte| hash.push(print, byte));
    for (i, &byte) in reach[from - 1..full].iter().enumerate() {
        print = hash.push(print, byte);
        if stops(from + i, print) {
            return Some(from + i);
        }
    }
    for (i, (&entering, &leaving)) in reach[full..].iter().zip(&reach[start..]).enumerate() {
        print = hash.roll(print, entering, leaving);
        if stops(full + i + 1, print) {
            return Some(full + i + 1);
        }
    }
    None
}

/// The hash of the window at the end of `chunk`, or of all of it if that is less.
pub(crate) fn at_end_of<H: Rolling>(hash: &H, chunk: &[u8]) -> H::Print {
    let window = &chunk[chunk.len().saturating_sub(hash.window())..];
    window.iter().fold(H::Print::default(), |print, &byte| hash.push(print, byte))
}

/// How many of the hashes below 2^`bits` a cut-point may have, so that one position in as many
/// as there are from min to avg is one.
pub(crate) fn accepted(bits: u32, sizes: ChunkSizes) -> u64 {
    (1 << bits) / sizes.spread() as u64
}
