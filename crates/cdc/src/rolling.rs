use crate::ChunkSizes;

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

/// The first position from min on that `stops`, which is asked with the position and the hash of
/// the window before it.
///
/// The window is full at min if min is no shorter; otherwise it starts empty with the chunk.
pub(crate) fn first_position<H: Rolling>(
    hash: &H,
    sizes: ChunkSizes,
    reach: &[u8],
    mut stops: impl FnMut(usize, H::Print) -> bool,
) -> Option<usize> {
    let min = sizes.min();
    let start = min.saturating_sub(hash.window());
    let full = (start + hash.window()).min(reach.len());

    let warm = &reach[start..min - 1];
    let mut print = warm.iter().fold(H::Print::default(), |print, &byte| hash.push(print, byte));
    for (i, &byte) in reach[min - 1..full].iter().enumerate() {
        print = hash.push(print, byte);
        if stops(min + i, print) {
            return Some(min + i);
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
