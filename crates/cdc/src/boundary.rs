//! What can be said of a cut-point without seeking it: how far behind itself it looks, and whether
//! the bytes around it allow it. RapidCDC stands on both.

use std::sync::Arc;

use crate::descriptor::{DecidedBy, FromParams};
use crate::{ChunkSizes, Chunker, ParamError, Params};

/// The bytes behind a cut-point that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookahead {
    /// None: the chunk's own bytes decide where it ends. Wherever they come again at the start of a
    /// chunk, they are a chunk again.
    None,
    /// So many bytes, but for a cut at max.
    Bytes(usize),
    /// All bytes up to the maximum length of the chunk.
    ToMax,
}

/// A rule by which a few bytes tell most positions that cannot be cut-points from those that may.
pub(crate) trait Boundary: Send + Sync {
    /// Whether a chunk that starts at the first byte of `reach` may end at `cut`, as far as the
    /// rule's window there tells; not asked about the cut at max. No cut-point but that is refused.
    ///
    /// `reach` is what the chunk can cover, and min ≤ `cut` ≤ its length.
    fn may_end(&self, reach: &[u8], cut: usize) -> bool;
}

/// The test of a rule of the type `R`: see
/// [`Descriptor::boundary`](crate::descriptor::Descriptor::boundary).
pub(crate) fn of<R: Boundary + FromParams>(
    params: &Params,
) -> Result<Arc<dyn Boundary>, ParamError> {
    Ok(Arc::new(R::from_params(params)?))
}

/// The test that a rule makes at a position, on its own.
///
/// Every cut-point of the rule passes, but for the end of the input. A position that passes is not
/// yet a cut-point: one before it may be.
#[derive(Clone)]
pub struct BoundaryTest {
    rule: Arc<dyn Boundary>,
    sizes: ChunkSizes,
    /// Where a chunk ends if nothing qualifies.
    forced: usize,
}

impl BoundaryTest {
    /// The test of the rule that `params` describe; `None` if it has none: AE, RAM and MinCDC
    /// compare bytes all over the chunk.
    pub fn new(params: &Params) -> Result<Option<Self>, ParamError> {
        params.check()?;
        let Some(make) = params.descriptor().boundary else {
            return Ok(None);
        };
        let rule = make(params)?;
        let sizes = params.sizes;
        let content_defined = params.algorithm.is_content_defined();
        let forced = if content_defined { sizes.max() } else { sizes.avg() };
        Ok(Some(Self { rule, sizes, forced }))
    }

    /// Whether the chunk of `data`, which starts at a cut-point and may go on, may end at `cut`.
    ///
    /// A cut at max passes, since that needs nothing. A position from which the test would look
    /// beyond `data` does not, nor one outside the bounds of chunk lengths.
    pub fn accepts(&self, data: &[u8], cut: usize) -> bool {
        let reach = &data[..data.len().min(self.sizes.max())];
        if cut == self.forced {
            return cut <= data.len();
        }
        (self.sizes.min()..=reach.len()).contains(&cut) && self.rule.may_end(reach, cut)
    }
}

impl Chunker {
    /// The bytes behind a cut-point that it depends on.
    pub fn lookahead(&self) -> Lookahead {
        match self.decided_by() {
            DecidedBy::Window(_) => Lookahead::None,
            DecidedBy::More { lookahead, .. } => lookahead,
        }
    }

    /// The bytes just before a position that alone tell whether it qualifies, wherever the chunk
    /// started, if no fewer than min; then the first that qualifies from min on is the cut-point.
    ///
    /// `None` for rules that look at more, take the place in the chunk into account, or prefer one
    /// qualifying position to another.
    pub fn window(&self) -> Option<usize> {
        match self.decided_by() {
            DecidedBy::Window(bytes) => Some(bytes),
            DecidedBy::More { .. } => None,
        }
    }

    pub(crate) fn decided_by(&self) -> DecidedBy {
        (self.params().descriptor().decided_by)(self.params())
    }
}
