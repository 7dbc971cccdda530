//! Chunks of one size: what block storage deduplicates by, and the control for all others.
//!
//! **Rule.** p = avg, whatever the bytes; min and max play no part.
//! **Tail.** The rest, of 1 to avg bytes.
//! **Resynchronisation.** After an overwrite at once; after an insertion or deletion only if its
//! length is a multiple of avg.

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Lookahead, ParamError, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "fixed",
    summary: "chunks of one size; an insertion shifts every later cut-point",
    takes: &[],
    sizes: |avg| ChunkSizes::new(avg, avg, avg),
    decided_by: |_| DecidedBy::More { before: 0, lookahead: Lookahead::None },
    kernels: Kernels::scalar::<Fixed>(),
    boundary: Some(boundary::of::<Fixed>),
    walk: Some(walk::by::<Fixed>),
    streams: None,
};

pub(crate) struct Fixed {
    size: usize,
}

impl FromParams for Fixed {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        Ok(Self { size: params.sizes.avg() })
    }
}

impl Boundary for Fixed {
    fn may_end(&self, _: &[u8], cut: usize) -> bool {
        cut == self.size
    }
}

impl Rule for Fixed {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        (data.len() >= self.size).then_some(self.size)
    }
}

impl Step for Fixed {
    type State = ();

    fn step(&self, (): &mut (), len: u64, _: u8, _: &Past) -> Option<usize> {
        (len == self.size as u64).then_some(0)
    }
}
