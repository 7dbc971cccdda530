//! The copies that bundles hold, read when many objects are wanted.

use bytes::Bytes;

use super::open::open;
use crate::finding::describe;
use crate::local::cache::Copied;
use crate::local::early::Early;
use crate::objects::bundle::{Held, ListedBundle, MAX_LEN, Of, list};
use crate::objects::read::read_bounded;
use crate::repository::bundles::Copies;
use crate::{Repository, StoreError};

/// Bundles are read where at least so many objects are wanted. Fewer are one batch of requests.
const MANY: usize = 16;

/// Bytes of bundles that are read of each sort, at most: some 100,000 log entries. What else is bundled
/// is read by its name.
const MAX_HELD: u64 = 32 << 20;

impl Repository {
    /// The bundles that were listed when somebody first asked.
    pub(crate) fn listed_bundles(&self) -> Result<&[ListedBundle], StoreError> {
        if let Some(listed) = self.bundles.listed.get() {
            return Ok(listed);
        }
        let listed = list(&*self.objects)?;
        Ok(self.bundles.listed.get_or_init(|| listed))
    }

    /// Copies for who wants `wanted` objects; nothing for who wants few, for a write-only client unless
    /// it wants runs, and for whoever examines the objects themselves.
    pub(crate) fn copies(&self, of: Of, wanted: usize) -> Option<&Copies> {
        let may_read = !self.is_past_cache() && (of == Of::Runs || !self.is_write_only());
        (may_read && wanted >= MANY)
            .then(|| self.bundles.copies[of.code() as usize].get_or_init(|| self.read_copies(of)))
    }

    /// What cannot be listed or read is done without: whoever misses a copy asks for the object, and
    /// says what is the matter.
    fn read_copies(&self, of: Of) -> Copies {
        let mut copies = Copies::new();
        let Ok(listed) = self.listed_bundles() else { return copies };
        let wanted = within_bounds(listed, of).collect();
        let read = self.read_bundles(wanted, &mut |_, held| match held {
            Ok(held) => copies.extend(held),
            // Another bundle has taken its place.
            Err(error) if error.is_not_found() => {}
            Err(error) => self.note_trouble(format_args!(
                "{}; what it copies is read one by one, and prune replaces it",
                describe(&error)
            )),
        });
        match read {
            Ok(()) | Err(_) => copies,
        }
    }

    /// Reads `bundles`, from copies on this machine or many at a time, and hands what each holds to
    /// `take`. Ends with an error once the storage cannot be reached.
    pub(super) fn read_bundles(
        &self,
        bundles: Vec<ListedBundle>,
        take: &mut dyn FnMut(ListedBundle, Result<Held, StoreError>),
    ) -> Result<(), StoreError> {
        let cache = self.cache();
        let mut wanted = Vec::new();
        for bundle in bundles {
            let copied = |bytes: Bytes| open(self, &bundle, &bytes);
            match cache.and_then(|cache| cache.get(bundle.copied(), copied)) {
                Some(held) => take(bundle, Ok(held)),
                None => wanted.push(bundle),
            }
        }
        // What is held was reckoned by these lengths.
        let bounded = wanted.iter().map(|bundle| (bundle.name(), bundle.len));
        read_bounded(&*self.objects, bounded, &mut |at, read| {
            let bundle = wanted[at];
            let held = read.and_then(|bytes| {
                let held = open(self, &bundle, &bytes)?;
                cache.inspect(|cache| cache.keep(bundle.copied(), &bytes));
                Ok(held)
            });
            take(bundle, held);
        })
    }

    /// Asks for all that a client does not know which knows nothing of the repository: for bundles
    /// first, where there are many objects, then for what is in none of them.
    pub(crate) fn ask_all(&self, early: &Early) {
        let counts = Of::ALL.map(|of| (of, early.listed(of.prefix()).len()));
        let listed = self.listed_bundles().unwrap_or_default();
        let wants = |(of, count): &(Of, usize)| {
            *count >= MANY && (*of == Of::Runs || !self.is_write_only())
        };
        let wanted = counts.iter().filter(|count| wants(count));
        let bundles = wanted.flat_map(|(of, _)| within_bounds(listed, *of));
        let is_kept =
            |bundle: &ListedBundle| self.cache().is_some_and(|cache| cache.has(bundle.copied()));
        let names = bundles.filter(|bundle| !is_kept(bundle)).map(|bundle| bundle.name());
        early.ask(&[], names.collect(), MAX_LEN);
        let copies = counts.map(|(of, count)| (of, self.copies(of, count)));
        early.ask_all(&|name| {
            copies.iter().any(|(of, copies)| {
                let id = of.id(name);
                id.zip(*copies).is_some_and(|(id, copies)| copies.contains_key(&id))
            })
        });
    }
}

impl ListedBundle {
    pub(super) fn copied(&self) -> Copied {
        Copied::Bundle(self.id, self.len)
    }
}

/// Those of `listed` that are read, those with most copies first.
pub(super) fn within_bounds(listed: &[ListedBundle], of: Of) -> impl Iterator<Item = ListedBundle> {
    let mut held = 0;
    let is_wanted = move |bundle: &ListedBundle| bundle.of == of && bundle.len <= MAX_LEN;
    listed.iter().copied().filter(is_wanted).take_while(move |bundle| {
        held += bundle.len;
        held <= MAX_HELD
    })
}
