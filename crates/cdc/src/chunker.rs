use std::fmt;
use std::iter;
use std::sync::Arc;

use zeroize::Zeroize;

use crate::rule::Rule;
use crate::{ChunkSizes, Kernel, ParamError, Params};

/// Finds cut-points. Keeps no state between calls, and clones share their tables.
#[derive(Clone)]
pub struct Chunker {
    /// Shared, since divisors are 8 KiB.
    params: Arc<Kept>,
    kernel: Kernel,
    pub(crate) rule: Arc<dyn Rule>,
}

/// Parameters whose secret is wiped when they are dropped.
pub(crate) struct Kept(pub(crate) Params);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.secret.zeroize();
    }
}

impl Chunker {
    /// A chunker on the fastest kernel; refuses parameters that its algorithm cannot have.
    pub fn new(params: &Params) -> Result<Self, ParamError> {
        Self::with_kernel(params, Kernel::Auto)
    }

    /// A chunker on the demanded kernel, which runs or is refused, never replaced.
    pub fn with_kernel(params: &Params, kernel: Kernel) -> Result<Self, ParamError> {
        params.check()?;
        let descriptor = params.descriptor();
        let kernel = kernel.choose(descriptor.kernels.usable(), descriptor.name)?;
        let rule = (descriptor.kernels.rule)(params, kernel)?;
        Ok(Self { params: Arc::new(Kept(*params)), kernel, rule })
    }

    /// What the cut-points depend on.
    pub fn params(&self) -> &Params {
        &self.params.0
    }

    /// Bounds and mean of the chunk lengths.
    pub fn sizes(&self) -> ChunkSizes {
        self.params().sizes
    }

    /// The kernel at work; never [`Kernel::Auto`].
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Length of the next chunk of `data`, which starts at a cut-point and may go on.
    ///
    /// `None` if the cut-point depends on bytes behind `data`; then `data` is shorter than max.
    /// A length once returned stays the same however much data follows.
    pub fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.rule.next_cut(data)
    }

    /// Length of the next chunk of `data`, which starts at a cut-point and ends the input.
    ///
    /// `None` only if `data` is empty. The last chunk is the one that takes all that is left.
    pub fn last_cut(&self, data: &[u8]) -> Option<usize> {
        (!data.is_empty()).then(|| self.rule.last_cut(data))
    }

    /// All cut-points of `data`, a whole input; the last is its length.
    pub fn cut_points<'a>(&'a self, data: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let mut start = 0;
        iter::from_fn(move || {
            start += self.last_cut(&data[start..])?;
            Some(start)
        })
    }
}

impl fmt::Debug for Chunker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunker")
            .field("params", self.params())
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}

/// All cut-points of `data`, a whole input, on the fastest kernel.
pub fn cut_points(params: &Params, data: &[u8]) -> Result<Vec<usize>, ParamError> {
    Ok(Chunker::new(params)?.cut_points(data).collect())
}
