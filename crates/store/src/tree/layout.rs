//! Where the bytes of a file's content go in the file.

use std::ops::Range;

use crate::tree::Extent;

/// Where the bytes of the content go in the file.
pub(crate) enum Layout {
    /// Where they are.
    Dense,
    /// Into extents; with each the offset in the content at which it begins.
    Sparse(Vec<(u64, Extent)>),
}

impl Layout {
    pub(crate) fn new(extents: Option<&[Extent]>) -> Self {
        let Some(extents) = extents else { return Self::Dense };
        let mut start = 0;
        let with_start = |extent: &Extent| {
            let begins = start;
            start += extent.len;
            (begins, *extent)
        };
        Self::Sparse(extents.iter().map(with_start).collect())
    }

    /// What of a file of `size` bytes has no content.
    pub(crate) fn holes(&self, size: u64) -> Vec<Range<u64>> {
        let Self::Sparse(extents) = self else { return Vec::new() };
        let mut at = 0;
        let mut holes = Vec::new();
        for (_, Extent { offset, len }) in extents {
            holes.push(at..*offset);
            at = offset + len;
        }
        holes.push(at..size);
        holes.retain(|hole| hole.start < hole.end);
        holes
    }

    /// Calls `visit` with the offset in the file and the part of `range` that lies there, for
    /// every stretch of the content's bytes from `start` on.
    pub(crate) fn place<E>(
        &self,
        start: u64,
        len: usize,
        mut visit: impl FnMut(u64, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let extents = match self {
            Self::Dense => return visit(start, 0..len),
            Self::Sparse(extents) => extents,
        };
        let end = start + len as u64;
        let first = extents.partition_point(|(begins, extent)| begins + extent.len <= start);
        for (begins, extent) in &extents[first..] {
            let (from, to) = (start.max(*begins), end.min(begins + extent.len));
            if from >= to {
                break;
            }
            let part = (from - start) as usize..(to - start) as usize;
            visit(extent.offset + (from - begins), part)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_layout_puts_bytes_into_extents_only() {
        let extents = [Extent { offset: 10, len: 4 }, Extent { offset: 100, len: 6 }];
        let layout = Layout::new(Some(&extents));
        let placed = |start, len| {
            let mut stretches = Vec::new();
            layout
                .place(start, len, |offset, part| {
                    stretches.push((offset, part));
                    Ok::<_, ()>(())
                })
                .unwrap();
            stretches
        };
        assert_eq!(placed(0, 10), [(10, 0..4), (100, 4..10)]);
        assert_eq!(placed(3, 2), [(13, 0..1), (100, 1..2)]);
        assert_eq!(placed(4, 6), [(100, 0..6)]);
        assert_eq!(placed(5, 1), [(101, 0..1)]);
        assert_eq!(layout.holes(110), [0..10, 14..100, 106..110]);
        assert_eq!(layout.holes(106), [0..10, 14..100]);
        assert_eq!(Layout::new(None).holes(7), []);
    }
}
