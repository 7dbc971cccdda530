//! Writes: a known page gets one more reference, a new one is compressed and appended.

use std::borrow::Cow;

use onefold_fingerprint::Fingerprint;
use onefold_index::Table;

use crate::containers::located::{Located, Wanted, read_all};
use crate::containers::new_pages::{NewPage, Packer};
use crate::engine::adopt::Sought;
use crate::engine::counters::count;
use crate::engine::look_up::{LookedUp, Page};
use crate::engine::parts::Engine;
use crate::engine::room::Purpose;
use crate::error::VolumeError;
use crate::ids::{Handle, VolumeId};
use crate::seeded::fault;
use crate::state::State;
use crate::state::pages::FIRST_CONTAINER;

/// New pages, in bytes before and after compression.
#[derive(Default)]
struct Added {
    pages: usize,
    bytes: usize,
    stored_bytes: usize,
}

impl Added {
    fn count<T>(&mut self, page: &NewPage<T>) {
        self.pages += 1;
        self.bytes += page.len as usize;
        self.stored_bytes += page.stored_len as usize;
    }
}

/// So many pages take longer to compress than to wait for somebody who does.
const WORTH_WAITING: usize = 16;

/// A page of a write that the table does not know.
struct Unknown<'a> {
    block: u64,
    bytes: &'a [u8],
    fingerprint: Fingerprint,
    /// Another one that is the same page.
    same: Option<usize>,
}

/// The pages that are the same as the one at `first`, and that one.
fn all_same<'a>(pages: &'a [Unknown<'a>], first: usize) -> impl Iterator<Item = &'a Unknown<'a>> {
    std::iter::successors(Some(&pages[first]), |page| Some(&pages[page.same?]))
}

impl Engine {
    /// Maps blocks of `volume` to pages with these bytes. The caller must hold the stripes of the
    /// blocks.
    ///
    /// On error some blocks are mapped, and the others are as before.
    pub(crate) fn put(&self, volume: VolumeId, pages: &[Page<'_>]) -> Result<(), VolumeError> {
        self.ensure_room(volume)?;
        self.trim()?;
        let (zeros, pages): (Vec<Page<'_>>, Vec<Page<'_>>) =
            pages.iter().copied().partition(|(_, page)| is_zero(page));
        let bytes: Vec<&[u8]> = pages.iter().map(|(_, page)| *page).collect();
        let table = self.table.get();
        let entered = self.table.entered();
        let LookedUp { fingerprints, mut hints } = self.look_up(volume, &pages, &*table);
        if self.options.verify {
            self.drop_wrong(&bytes, &mut hints)?;
        }
        let mut new = Vec::new();
        {
            let blocks = || zeros.iter().chain(&pages).map(|(block, _)| *block);
            let mut state = self.state_for(volume, blocks)?;
            for (block, _) in &zeros {
                state.map(volume, *block, Handle::HOLE);
            }
            for ((&(block, bytes), fingerprint), hint) in pages.iter().zip(fingerprints).zip(hints)
            {
                match state.found(hint) {
                    Some(page) => state.map(volume, block, page),
                    None => new.push(Unknown { block, bytes, fingerprint, same: None }),
                }
            }
        }
        count(&self.counters.zero, zeros.len());
        count(&self.counters.known, pages.len() - new.len());
        if new.is_empty() { Ok(()) } else { self.put_new(volume, new, &*table, entered) }
    }

    /// Maps blocks to pages that the table did not know when so many times pages had been entered.
    fn put_new(
        &self,
        volume: VolumeId,
        mut pages: Vec<Unknown<'_>>,
        table: &dyn Table,
        entered: u64,
    ) -> Result<(), VolumeError> {
        if self.state().pages.next == FIRST_CONTAINER {
            // a pool that has containers is one of which something is known
            self.commit()?;
        }
        let distinct = self.distinct(&mut pages);
        let mut claimed = self.claims.begin();
        let is_ours = |first: &usize| claimed.claim(&pages[*first].fingerprint);
        // what is to be verified is not taken for what others have
        let (ours, theirs) = match self.options.verify || distinct.len() < WORTH_WAITING {
            true => (Vec::new(), Vec::new()),
            false => distinct.iter().copied().partition(is_ours),
        };
        if theirs.len() < WORTH_WAITING {
            return self.put_distinct(volume, &pages, &distinct, table, entered);
        }
        self.put_distinct(volume, &pages, &ours, table, entered)?;
        drop(claimed);
        self.claims.wait(theirs.iter().map(|first| &pages[*first].fingerprint));
        self.put_theirs(volume, &pages, theirs, table)
    }

    /// Maps blocks to pages that another thread was about to append, and appends what it did not.
    fn put_theirs(
        &self,
        volume: VolumeId,
        pages: &[Unknown<'_>],
        mut theirs: Vec<usize>,
        table: &dyn Table,
    ) -> Result<(), VolumeError> {
        let entered = self.table.entered();
        let fingerprints: Vec<_> = theirs.iter().map(|first| pages[*first].fingerprint).collect();
        let (mut hints, mut known) = (self.look_up_again(table, &fingerprints).into_iter(), 0);
        {
            let blocks = || theirs.iter().flat_map(|first| all_same(pages, *first));
            let blocks = || blocks().map(|page| page.block);
            let mut state = self.state_for(volume, blocks)?;
            theirs.retain(|first| {
                let Some(page) = state.found(hints.next().flatten()) else { return true };
                let blocks = all_same(pages, *first).map(|page| page.block);
                known += state.map_all(volume, blocks, page);
                false
            });
        }
        count(&self.counters.known, known);
        self.put_distinct(volume, pages, &theirs, table, entered)
    }

    /// Maps blocks to the pages at `distinct` and those that are the same, as [`put_new`] does.
    ///
    /// [`put_new`]: Self::put_new
    fn put_distinct(
        &self,
        volume: VolumeId,
        pages: &[Unknown<'_>],
        distinct: &[usize],
        table: &dyn Table,
        entered: u64,
    ) -> Result<(), VolumeError> {
        let distinct = &*self.adopt(volume, pages, distinct, table)?;
        if distinct.is_empty() {
            return Ok(());
        }
        let mut packer = Packer::new(distinct.len());
        for &first in distinct {
            let Unknown { bytes, fingerprint, .. } = pages[first];
            packer.push(fingerprint, bytes, self.codec, first)?;
        }
        let mut new = packer.finish();
        let blocks = |first: usize| all_same(pages, first).map(|page| page.block);
        let (mut known, mut added) = (0, Added::default());
        let mut appender = self.held_appender();
        if !self.options.verify && self.table.entered() != entered {
            // Another thread may have brought the same meanwhile; from here on none does.
            let fingerprints: Vec<_> = new.all().pages.iter().map(|one| one.fingerprint).collect();
            let mut hints = self.look_up_again(table, &fingerprints).into_iter();
            let all = || new.all().pages.iter().flat_map(|one| blocks(one.of));
            let mut state = self.state_for(volume, all)?;
            new.retain(|one| {
                let Some(page) = state.found(hints.next().flatten()) else { return true };
                known += state.map_all(volume, blocks(one.of), page);
                false
            });
        }
        let write = Purpose::Write;
        let here = |state: &State, one: &NewPage<usize>| state.ensure_here(volume, blocks(one.of));
        let appended = self.append(&mut appender, &new, write, table, here, |state, page, one| {
            known += state.map_all(volume, blocks(one.of), page) - 1;
            added.count(one);
        });
        fault!(RefusedErased => {
            let refused = || distinct[added.pages..].iter().map(|first| pages[*first].block);
            let mut state = self.state_for(volume, refused)?;
            state.map_all(volume, refused(), Handle::HOLE)
        });
        count(&self.counters.known, known);
        count(&self.counters.new, added.pages);
        count(&self.counters.new_bytes, added.bytes);
        count(&self.counters.new_stored_bytes, added.stored_bytes);
        appended.map_err(|error| self.room.note_refused(error))
    }

    /// Maps blocks to those pages at `distinct` that other shards stored. Returns the others.
    ///
    /// On error some blocks are mapped.
    fn adopt<'a>(
        &self,
        volume: VolumeId,
        pages: &[Unknown<'_>],
        distinct: &'a [usize],
        table: &dyn Table,
    ) -> Result<Cow<'a, [usize]>, VolumeError> {
        let Some(sharing) = self.sharing().filter(|_| !distinct.is_empty()) else {
            return Ok(Cow::Borrowed(distinct));
        };
        let fingerprints: Vec<_> = distinct.iter().map(|at| pages[*at].fingerprint).collect();
        let hints = sharing.find(&fingerprints);
        let sought = distinct.iter().zip(hints).filter_map(|(&at, hint)| {
            let Unknown { bytes, fingerprint, .. } = pages[at];
            let (page, len) = (Some(bytes), bytes.len() as u32);
            Some((Sought { at, page, len, fingerprint }, hint?))
        });
        let blocks = |at: usize| all_same(pages, at).map(|page| page.block);
        let here = |state: &State, at: usize| state.ensure_here(volume, blocks(at));
        let mut known = 0;
        let adopted = self.adopt_pages(sought.collect(), 0, table, here, |state, page, at| {
            known += state.map_all(volume, blocks(at), page);
        })?;
        count(&self.counters.known, known);
        if adopted.is_empty() {
            return Ok(Cow::Borrowed(distinct));
        }
        let is_left = |at: &usize| adopted.binary_search(at).is_err();
        Ok(Cow::Owned(distinct.iter().copied().filter(is_left).collect()))
    }

    /// Joins pages that came several times at once; the first of each.
    fn distinct(&self, pages: &mut [Unknown<'_>]) -> Vec<usize> {
        let mut distinct = Vec::with_capacity(pages.len());
        // by fingerprint, or as near to there as a place is free
        let mut places = vec![None::<usize>; (2 * pages.len()).next_power_of_two()];
        // what is to be verified is compared with what it is taken for
        let is_same = |one: &Unknown<'_>, other: &Unknown<'_>| {
            one.fingerprint == other.fingerprint
                && (!self.options.verify || one.bytes == other.bytes)
        };
        for at in 0..pages.len() {
            let mut place = pages[at].fingerprint.prefix_u64() as usize % places.len();
            while let Some(first) = places[place]
                && !is_same(&pages[first], &pages[at])
            {
                place = (place + 1) % places.len();
            }
            match places[place] {
                Some(first) => pages[at].same = pages[first].same.replace(at),
                None => {
                    places[place] = Some(at);
                    distinct.push(at);
                }
            }
        }
        distinct
    }

    /// Forgets the hints that lead to other bytes, or to none that can be read.
    fn drop_wrong(&self, pages: &[&[u8]], hints: &mut [Option<u64>]) -> Result<(), VolumeError> {
        let mut found: Vec<Vec<u8>> = pages.iter().map(|page| vec![0; page.len()]).collect();
        let located: Vec<Option<Located>> = {
            let mut located = Vec::with_capacity(hints.len());
            self.paged(|state| {
                for hint in &hints[located.len()..] {
                    let page = hint.map(|hint| state.pages.locate(Handle::from_u64(hint)));
                    located.push(page.transpose()?.flatten());
                }
                Ok(())
            })?;
            located
        };
        let each = located.iter().enumerate().zip(&mut found);
        let wanted = each.filter_map(|((at, located), into)| {
            Some(Wanted { at, located: located.as_ref()?, into })
        });
        let failed = read_all(wanted.collect());
        for (hint, located) in hints.iter_mut().zip(&located) {
            *hint = hint.filter(|_| located.is_some());
        }
        for (at, _) in failed {
            hints[at] = None;
        }
        for ((hint, found), page) in hints.iter_mut().zip(&found).zip(pages) {
            *hint = hint.filter(|_| found == page);
        }
        Ok(())
    }
}

fn is_zero(page: &[u8]) -> bool {
    page.first() == Some(&0) && page[1..] == page[..page.len() - 1]
}

#[cfg(test)]
mod tests {
    use std::thread;

    use onefold_block::{BlockDevice, Durability};
    use onefold_fingerprint::Fingerprinter;
    use onefold_testkit::random;

    use crate::device::tests::small;

    #[test]
    fn a_write_waits_for_who_writes_the_same_and_stores_what_that_one_did_not() {
        const COUNT: usize = 40;
        for are_stored in [true, false] {
            let (pool, volume) = small(1 << 20);
            let bytes = random(1, COUNT * 4096);
            let claims = &pool.0.claims;
            thread::scope(|scope| {
                let mut claimed = claims.begin();
                for page in bytes.chunks(4096).skip(1) {
                    assert!(claimed.claim(&Fingerprinter::blake3().fingerprint(page)));
                }
                let second = scope.spawn(|| volume.write(0, &bytes, Durability::OnReturn));
                while claims.waiting() == 0 {
                    thread::yield_now();
                }
                // its own is there before it waits
                assert_eq!(pool.statistics().new_pages, 1);
                if are_stored {
                    // as whoever has the claims would, in parts too small to wait for
                    for (at, part) in (100..).step_by(8).zip(bytes.chunks(8 * 4096)) {
                        volume.write(at * 4096, part, Durability::OnFlush).unwrap();
                    }
                }
                drop(claimed);
                second.join().unwrap().unwrap();
            });
            assert_eq!(pool.statistics().new_pages, COUNT as u64);
            let mut found = vec![0; bytes.len()];
            volume.read(0, &mut found).unwrap();
            assert!(found == bytes);
            assert_eq!(pool.check(), Vec::<String>::new());
        }
    }
}
