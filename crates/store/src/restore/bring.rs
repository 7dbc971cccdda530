//! Bringing the chunks that a restore wants from the repository.
//!
//! They are fetched by a plan. What is not where the index said, because a prune took the container
//! meanwhile or it is damaged, is looked for in containers that have come since, and fetched by another
//! plan. Each chunk that is missing then is looked for everywhere.

use std::ops::ControlFlow;
use std::sync::Mutex;

use bytes::Bytes;

use super::window::WantedChunk;
use super::writer::each;
use crate::chunks::ChunkReader;
use crate::fetch::{SHORTEST, fetch};
use crate::scratch::Scratch;
use crate::{Place, StoreError};

/// Where chunks come from.
pub(super) struct Bring<'a> {
    pub(super) reader: &'a ChunkReader<'a>,
    pub(super) threads: usize,
    pub(super) scratch: Option<&'a Scratch>,
}

/// Takes a chunk, or why it cannot be had. It must break if the repository cannot be reached.
pub(super) type TakeChunk<'t> =
    dyn Fn(&WantedChunk, Result<Bytes, StoreError>) -> ControlFlow<()> + Sync + 't;

impl Bring<'_> {
    /// Gives each of the chunks `wanted` to `take`, on several threads.
    pub(super) fn bring(&self, wanted: &[&WantedChunk], take: &TakeChunk<'_>) -> ControlFlow<()> {
        let places = wanted.iter().map(|chunk| chunk.place);
        let (placed, mut lost) = with_places(wanted, places);
        let gone = self.fetch(placed, take)?;
        // Without a listing each is looked for by itself, and that error is told.
        let roots: Vec<_> = gone.iter().map(|chunk| chunk.leaf.root).collect();
        let again = self.reader.places_since(&roots).unwrap_or_else(|_| vec![None; gone.len()]);
        let (placed, missing) = with_places(&gone, again);
        lost.extend(missing);
        lost.extend(self.fetch(placed, take)?);
        each(self.threads, &lost, |chunk| take(chunk, self.reader.chunk(&chunk.leaf.root)))
    }

    /// Gives the chunks that are at their places to `take`, and returns the others.
    fn fetch<'w>(
        &self,
        mut wanted: Vec<(Place, &'w WantedChunk)>,
        take: &TakeChunk<'_>,
    ) -> ControlFlow<(), Vec<&'w WantedChunk>> {
        wanted.sort_unstable_by_key(|(place, _)| (place.container, place.slot));
        let places: Vec<Place> = wanted.iter().map(|(place, _)| *place).collect();
        let gone = Mutex::new(Vec::new());
        fetch(self.reader, &places, (self.threads, SHORTEST), self.scratch, &|taken, group| {
            let group = match group {
                Err(error) if error.is_unreachable() => {
                    return take(wanted[taken.start].1, Err(error));
                }
                group => group.ok(),
            };
            wanted[taken].iter().try_for_each(|(place, chunk)| {
                let chunk_of = |group| self.reader.chunk_of(group, *place, &chunk.leaf.root);
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
fn with_places<'w>(
    chunks: &[&'w WantedChunk],
    places: impl IntoIterator<Item = Option<Place>>,
) -> (Vec<(Place, &'w WantedChunk)>, Vec<&'w WantedChunk>) {
    let (mut placed, mut others) = (Vec::new(), Vec::new());
    for (chunk, place) in chunks.iter().zip(places) {
        match place {
            Some(place) => placed.push((place, *chunk)),
            None => others.push(*chunk),
        }
    }
    (placed, others)
}
