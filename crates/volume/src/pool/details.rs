//! What one volume has of its own, and what it shares.

use std::collections::{HashMap, HashSet};

use crate::engine::parts::Engine;
use crate::engine::walk::Walk;
use crate::error::VolumeError;
use crate::ids::{Handle, VolumeId};
use crate::pool::open::Pool;
use crate::pool::volumes::{VolumeInfo, find, info};
use crate::state::map::present;

/// Pages that are looked up at a time, while others wait.
const BATCH: usize = 4096;

/// What is known of a volume after a look at each of its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeDetails {
    /// What a list tells as well.
    pub info: VolumeInfo,
    /// Distinct pages that no other volume has.
    pub own_pages: u64,
    /// What these take in containers: deleting the volume frees as much.
    pub own_bytes: u64,
    /// Distinct pages that other volumes have as well.
    pub shared_pages: u64,
    /// What those take.
    pub shared_bytes: u64,
    /// The volume as which this one was made, unless that is gone or there was none.
    pub source: Option<String>,
    /// The volumes that were made as this one was then: snapshots and clones, by name.
    pub copies: Vec<String>,
}

impl Pool {
    /// Looks at every block of the volume `name`. What is written meanwhile is counted or not;
    /// checkpoints and compactions wait.
    ///
    /// Takes some fifty bytes of memory a distinct page.
    pub fn details(&self, name: &str) -> Result<VolumeDetails, VolumeError> {
        Ok(self.details_while(name, || true)?.expect("nobody says no"))
    }

    /// The same until `go_on` says no, which is asked between steps: `None` then.
    pub fn details_while(
        &self,
        name: &str,
        go_on: impl Fn() -> bool,
    ) -> Result<Option<VolumeDetails>, VolumeError> {
        // a page that is moved meanwhile would be counted twice, or not at all
        let _only = self.0.maintenance.lock();
        // what a volume had that was deleted before is not shared with it any more
        self.0.release_all()?;
        let (mut details, id) = {
            let state = self.0.state();
            let (id, one) = find(&state.volumes, name)?;
            let source = one.source.and_then(|source| state.volumes.get(&source));
            let copies = state.volumes.values().filter(|other| other.source == Some(id));
            let mut copies: Vec<String> = copies.map(|other| other.name.clone()).collect();
            copies.sort();
            let details = VolumeDetails {
                info: info(one),
                own_pages: 0,
                own_bytes: 0,
                shared_pages: 0,
                shared_bytes: 0,
                source: source.map(|source| source.name.clone()),
                copies,
            };
            (details, id)
        };
        let Some((own, shared)) = named(&self.0, id, &go_on)? else { return Ok(None) };
        let pages: Vec<Handle> = own.keys().chain(&shared).copied().collect();
        for pages in pages.chunks(BATCH) {
            if !go_on() {
                return Ok(None);
            }
            for page in pages {
                let footprint = self.0.paged(|state| state.pages.footprint(*page))?;
                // one that is gone was overwritten since
                let Some((references, bytes)) = footprint else { continue };
                if own.get(page) == Some(&references) {
                    details.own_pages += 1;
                    details.own_bytes += bytes;
                } else {
                    details.shared_pages += 1;
                    details.shared_bytes += bytes;
                }
            }
        }
        Ok(Some(details))
    }
}

/// How often pages are named that one volume has alone, and pages that it shares.
type Named = (HashMap<Handle, u32>, HashSet<Handle>);

/// How often the segments that one volume has alone name a page, for pages that no other segment of
/// it names; and those that one of the others names. `None` if `go_on` says no.
fn named(
    engine: &Engine,
    volume: VolumeId,
    go_on: impl Fn() -> bool,
) -> Result<Option<Named>, VolumeError> {
    let (mut own, mut shared) = (HashMap::new(), HashSet::new());
    let mut walk = Walk::of_volume(volume);
    while let Some(steps) = walk.next(engine)? {
        if !go_on() {
            return Ok(None);
        }
        for step in steps {
            for page in present(&step.segment) {
                if step.is_shared {
                    shared.insert(page);
                } else {
                    let references: &mut u32 = own.entry(page).or_default();
                    *references = references.saturating_add(1);
                }
            }
        }
    }
    own.retain(|page, _| !shared.contains(page));
    Ok(Some((own, shared)))
}
