use std::sync::Arc;

pub(crate) use crate::research::two_stage::Selection;
pub(crate) use crate::simd::Kernels;

use crate::boundary::Boundary;
use crate::research::two_stage::Mark;
use crate::walk::Walk;
use crate::{ChunkSizes, Lookahead, ParamError, Parameter, Params};

/// All that the crate has to know of a rule to offer it, stated in the rule's own file.
///
/// No field has a default, so that the compiler names what a new rule leaves open.
pub(crate) struct Descriptor {
    /// The name users write. Never changed.
    pub(crate) name: &'static str,
    /// What the rule does, in one line for a terminal.
    pub(crate) summary: &'static str,
    /// The parameters that change where chunks end, apart from sizes and divisors.
    pub(crate) takes: &'static [Parameter],
    /// Bounds that suit the rule at a mean of this many bytes.
    pub(crate) sizes: fn(usize) -> Result<ChunkSizes, ParamError>,
    /// What tells whether a chunk ends at a position.
    pub(crate) decided_by: fn(&Params) -> DecidedBy,
    /// The rule, on every kernel that is written for it.
    pub(crate) kernels: Kernels,
    /// The test of one position, if the rule has one.
    pub(crate) boundary: Option<Make<Arc<dyn Boundary>>>,
    /// The rule without a maximum, if it can do without.
    pub(crate) walk: Option<Make<Box<dyn Walk>>>,
    /// The search for candidates in several streams, if there is one, and which of them end chunks.
    pub(crate) streams: Option<(Selection, Make<Arc<dyn Mark>>)>,
}

/// Makes one form of a rule; refuses parameters that the rule cannot have.
pub(crate) type Make<T> = fn(&Params) -> Result<T, ParamError>;

/// A rule that its parameters determine.
pub(crate) trait FromParams: Sized + 'static {
    /// Refuses parameters that the rule cannot have.
    fn from_params(params: &Params) -> Result<Self, ParamError>;
}

/// What tells whether a chunk ends at a position.
pub(crate) enum DecidedBy {
    /// This many bytes before the position and nothing else: the first that they accept, from min
    /// on, is the cut-point.
    Window(usize),
    /// No more than `before` bytes before the position, or all of the chunk, but also other things:
    /// the place in the chunk, other positions, or the bytes behind.
    More { before: usize, lookahead: Lookahead },
}
