use std::array;

use crate::descriptor::FromParams;
use crate::rolling::Rolling;
use crate::{ParamError, Params};

/// A rule without a maximum, one byte at a time: what a chunk of unbounded length needs.
pub(crate) trait Step: Send {
    /// What is kept of the bytes of the chunk; its default is that of no bytes.
    type State: Default + Send;

    /// How many bytes before the end of `byte` the chunk ends, if it is now known to.
    ///
    /// `byte` is the last of the `len` bytes of the chunk so far and not yet `past`. Where the
    /// answer is more than 0, the state must be right for a chunk that started there.
    fn step(&self, state: &mut Self::State, len: u64, byte: u8, past: &Past) -> Option<usize>;
}

/// The last 256 bytes.
pub(crate) struct Past {
    bytes: [u8; 256],
    next: u8,
}

impl Past {
    /// The byte that came `distance` bytes before the one at hand, which is 1 to 256.
    pub(crate) fn ago(&self, distance: usize) -> u8 {
        self.bytes[usize::from(self.next.wrapping_sub(distance as u8))]
    }

    /// The hash after `byte`, the last of the `len` bytes of a chunk.
    pub(crate) fn rolled<H: Rolling>(
        &self,
        hash: &H,
        print: H::Print,
        byte: u8,
        len: u64,
    ) -> H::Print {
        if len <= hash.window() as u64 {
            return hash.push(print, byte);
        }
        hash.roll(print, byte, self.ago(hash.window()))
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.next)] = byte;
        self.next = self.next.wrapping_add(1);
    }
}

/// Finds cut-points in bytes that are fed in pieces and not kept.
pub(crate) trait Walk: Send {
    /// How many bytes of `data` are walked, and, if that made a cut-point known, how many bytes
    /// before their end it lies; all bytes are walked otherwise.
    fn walk(&mut self, data: &[u8]) -> (usize, Option<usize>);
}

struct Walker<S: Step> {
    rule: S,
    state: S::State,
    past: Past,
    /// Bytes of the chunk so far.
    len: u64,
}

impl<S: Step> Walk for Walker<S> {
    fn walk(&mut self, data: &[u8]) -> (usize, Option<usize>) {
        for (i, &byte) in data.iter().enumerate() {
            self.len += 1;
            let cut = self.rule.step(&mut self.state, self.len, byte, &self.past);
            self.past.push(byte);
            match cut {
                None => {}
                Some(0) => {
                    self.state = S::State::default();
                    self.len = 0;
                    return (i + 1, Some(0));
                }
                Some(behind) => {
                    self.len = behind as u64;
                    return (i + 1, Some(behind));
                }
            }
        }
        (data.len(), None)
    }
}

/// A walk by the rule that `params` describe without its maximum.
pub(crate) fn walk(params: &Params) -> Result<Box<dyn Walk>, ParamError> {
    let needs_max = ParamError::NeedsMax { algorithm: params.algorithm };
    params.descriptor().walk.ok_or(needs_max)?(params)
}

/// A walk by a rule of the type `R`: see [`Descriptor::walk`](crate::descriptor::Descriptor::walk).
pub(crate) fn by<R: Step + FromParams>(params: &Params) -> Result<Box<dyn Walk>, ParamError> {
    Ok(walker(R::from_params(params)?))
}

pub(crate) fn walker<S: Step + 'static>(rule: S) -> Box<dyn Walk> {
    let past = Past { bytes: array::from_fn(|_| 0), next: 0 };
    Box::new(Walker { rule, state: S::State::default(), past, len: 0 })
}
