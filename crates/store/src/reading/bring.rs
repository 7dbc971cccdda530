//! Bringing many wanted chunks from the repository.
//!
//! They are fetched by a plan. What is not where the index said, because a prune took the container
//! meanwhile or it is damaged, is looked for in containers that have come since, and fetched by another
//! plan. Each chunk that is missing then is looked for everywhere.

use std::ops::ControlFlow;
use std::sync::Mutex;

use bytes::Bytes;
use onefold_fingerprint::Fingerprint;

use crate::chunks::reader::ChunkReader;
use crate::reading::fetch::{Keep, fetch};
use crate::threads::each;
use crate::{Place, StoreError};

/// A chunk that is wanted.
pub(crate) trait Wanted: Sync {
    /// Where it lies, as far as the index knows.
    fn place(&self) -> Option<Place>;

    /// What it is called.
    fn fingerprint(&self) -> &Fingerprint;
}

/// Where chunks come from.
pub(crate) struct Bring<'a> {
    pub(crate) reader: &'a ChunkReader<'a>,
    pub(crate) threads: usize,
    /// Far away neighbours are read together up to so many bytes at least.
    pub(crate) shortest: u64,
    pub(crate) keep: Keep<'a>,
}

/// Takes a chunk, or why it cannot be had. It must break if the repository cannot be reached.
pub(crate) type TakeChunk<'t, W> =
    dyn Fn(&W, Result<Bytes, StoreError>) -> ControlFlow<()> + Sync + 't;

impl Bring<'_> {
    /// Gives each of the chunks `wanted` to `take`, on several threads.
    pub(crate) fn bring<W: Wanted>(
        &self,
        wanted: &[&W],
        take: &TakeChunk<'_, W>,
    ) -> ControlFlow<()> {
        let places = wanted.iter().map(|chunk| chunk.place());
        let (placed, mut lost) = with_places(wanted, places);
        let gone = self.fetch(placed, take)?;
        // Without a listing each is looked for by itself, and that error is told.
        let roots: Vec<_> = gone.iter().map(|chunk| *chunk.fingerprint()).collect();
        let again = self.reader.places_since(&roots).unwrap_or_else(|_| vec![None; gone.len()]);
        let (placed, missing) = with_places(&gone, again);
        lost.extend(missing);
        lost.extend(self.fetch(placed, take)?);
        each(self.threads, &lost, |chunk| take(chunk, self.reader.chunk(chunk.fingerprint())))
    }

    /// Gives the chunks that are at their places to `take`, and returns the others.
    fn fetch<'w, W: Wanted>(
        &self,
        mut wanted: Vec<(Place, &'w W)>,
        take: &TakeChunk<'_, W>,
    ) -> ControlFlow<(), Vec<&'w W>> {
        wanted.sort_unstable_by_key(|(place, _)| (place.container, place.slot));
        let places: Vec<Place> = wanted.iter().map(|(place, _)| *place).collect();
        let gone = Mutex::new(Vec::new());
        fetch(self.reader, &places, (self.threads, self.shortest), self.keep, &|taken, group| {
            let group = match group {
                Err(error) if error.is_unreachable() => {
                    return take(wanted[taken.start].1, Err(error));
                }
                group => group.ok(),
            };
            wanted[taken].iter().try_for_each(|(place, chunk)| {
                let chunk_of = |group| self.reader.chunk_of(group, *place, chunk.fingerprint());
                match group.map(|group| chunk_of(group)) {
                    Some(Ok(bytes)) => take(chunk, Ok(bytes)),
                    _ => {
                        gone.lock().expect("no thread panics with it locked").push(*chunk);
                        ControlFlow::Continue(())
                    }
                }
            })
        })?;
        ControlFlow::Continue(gone.into_inner().expect("no thread panics with it locked"))
    }
}

/// Those of the chunks that have one of the `places`, and the others.
fn with_places<'w, W>(
    chunks: &[&'w W],
    places: impl IntoIterator<Item = Option<Place>>,
) -> (Vec<(Place, &'w W)>, Vec<&'w W>) {
    let (mut placed, mut others) = (Vec::new(), Vec::new());
    for (chunk, place) in chunks.iter().zip(places) {
        match place {
            Some(place) => placed.push((place, *chunk)),
            None => others.push(*chunk),
        }
    }
    (placed, others)
}
