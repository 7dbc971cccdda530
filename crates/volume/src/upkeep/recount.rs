//! References counted anew by the maps, where a repair gave up what some nodes knew.

use std::collections::HashMap;

use crate::engine::parts::Engine;
use crate::engine::walk::Walk;
use crate::error::VolumeError;
use crate::nodes::format::NODE;
use crate::upkeep::counts::{Counts, Elsewhere, fitting};

impl Engine {
    /// Gives each page as many references as there are entries of segments that name it. The caller must
    /// have the pool alone. As many passes walk all maps as counters need.
    ///
    /// # Errors
    /// If a node cannot be read or stored. Then nothing may be committed.
    pub(super) fn recount(&self) -> Result<(), VolumeError> {
        let all = self.state().pages.counts();
        let mut rest = &all[..];
        while !rest.is_empty() {
            let now;
            (now, rest) = rest.split_at(fitting(rest, self.counter_bytes()));
            let mut counts = Counts::new(now);
            let _lent = self.paging.as_ref().map(|paging| paging.lend(counts.bytes()));
            // to pages of containers of which no page is known
            let mut lost: HashMap<u32, u64> = HashMap::new();
            let mut walk = Walk::of_all();
            while let Some(steps) = walk.next(self)? {
                for Elsewhere { page, .. } in counts.count(&steps) {
                    *lost.entry(page.container()).or_default() += 1;
                }
            }
            for (number, pages) in now {
                let (mut live, mut live_bytes) = (0, 0);
                for (at, references) in counts.of(*number).chunks(NODE).enumerate() {
                    let (some, bytes) =
                        self.paged(|state| state.pages.set_references(*number, at, references))?;
                    (live, live_bytes) = (live + some, live_bytes + bytes);
                }
                let lost = lost.get(number).copied().filter(|_| *pages == 0).unwrap_or(0);
                self.state().pages.set_live(*number, live, live_bytes, lost);
            }
        }
        Ok(())
    }
}
