//! Reading what is live in containers that a prune repacks or merges.
//!
//! Containers are read in windows, each by one plan, so that many small containers are under way at
//! once. While the chunks of one window are stored, the next is read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use crossbeam_channel::bounded;
use onefold_container::Content;
use onefold_fingerprint::Fingerprint;

use super::choose::Candidate;
use super::live::Live;
use crate::chunks::groups::Group;
use crate::chunks::reader::ChunkReader;
use crate::reading::fetch::{Keep, SHORTEST_OF_WINDOW, fetch};
use crate::{Cancel, Place, StoreError, threads};

/// Bytes of live chunks at which a window ends, where requests take time to travel and elsewhere. A
/// container with more is one by itself. Two windows are in memory, one that is stored and the next.
const LEN_FAR: usize = 16 << 20;
const LEN_NEAR: usize = 4 << 20;

/// A live chunk of a container; its bytes have its fingerprint.
#[derive(Clone)]
pub(super) struct LiveChunk {
    pub(super) content: Content,
    pub(super) fingerprint: Fingerprint,
    pub(super) bytes: Bytes,
}

/// All live chunks of a container, in order.
pub(super) type LiveChunks = Result<Vec<LiveChunk>, StoreError>;

/// Reads containers for a prune.
pub(super) struct Rewrite<'a> {
    pub(super) reader: &'a ChunkReader<'a>,
    pub(super) live: &'a Live,
    pub(super) cancel: &'a Cancel,
}

impl Rewrite<'_> {
    /// Hands what is live in `containers`, which are in ascending order, to `take`, one after the
    /// other, or why some of that cannot be read.
    pub(super) fn read(
        &self,
        containers: &[Candidate],
        take: &mut dyn FnMut(&Candidate, LiveChunks) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut rest = containers.iter();
        let len = if self.reader.is_far() { LEN_FAR } else { LEN_NEAR };
        // of several containers at most, whatever index runs say of the lengths of their chunks
        let most = 2 * len;
        thread::scope(|scope| {
            let (sender, windows) = bounded(0);
            scope.spawn(move || {
                // A send fails if whoever takes has failed.
                let _ = windows_of(containers, len as u64).try_for_each(|window| {
                    match self.window(window, most).transpose() {
                        Some(read) => sender.send(read),
                        None => window.chunks(1).try_for_each(|one| sender.send(self.alone(one))),
                    }
                });
            });
            for window in windows {
                for chunks in window? {
                    take(rest.next().expect("each container is read once"), chunks)?;
                }
            }
            Ok(())
        })
    }

    /// What is live in a container that is a window by itself.
    fn alone(&self, window: &[Candidate]) -> Result<Vec<LiveChunks>, StoreError> {
        self.window(window, usize::MAX).map(|read| read.expect("it may have any length"))
    }

    /// What is live in each container of a window; nothing if that is more than `most` bytes. Fails if the
    /// repository cannot be reached.
    fn window(
        &self,
        window: &[Candidate],
        most: usize,
    ) -> Result<Option<Vec<LiveChunks>>, StoreError> {
        let slots_of = |candidate: &Candidate| self.live.slots(candidate.number);
        // A plan does without the lengths of chunks.
        let place = |container, slot| Place { container, slot, len: 0 };
        let places: Vec<Place> = window
            .iter()
            .flat_map(|one| slots_of(one).map(|slot| place(one.number, slot)))
            .collect();
        let Some(mut read) = self.groups(&places, most)? else { return Ok(None) };
        let mut end = 0;
        let of_container = |candidate: &Candidate| {
            let count = slots_of(candidate).count();
            end += count;
            let rest = read.split_off(&end);
            let groups = std::mem::replace(&mut read, rest).into_values();
            let chunks = groups.collect::<Result<Vec<_>, _>>()?.concat();
            assert_eq!(chunks.len(), count, "a plan brings every chunk");
            Ok(chunks)
        };
        Ok(Some(window.iter().map(of_container).collect()))
    }

    /// The chunks at `places`, by groups, each with the position of its first chunk among `places`;
    /// nothing if they have more than `most` bytes.
    fn groups(
        &self,
        places: &[Place],
        most: usize,
    ) -> Result<Option<BTreeMap<usize, LiveChunks>>, StoreError> {
        let read = Mutex::new((BTreeMap::new(), None));
        let len = AtomicUsize::new(0);
        let plan = (threads::cores(), SHORTEST_OF_WINDOW);
        let flow = fetch(self.reader, places, plan, Keep::Nothing, &|taken, group| {
            let chunks = group.and_then(|group| self.chunks(&places[taken.clone()], group));
            let more = chunks.iter().flatten().map(|chunk| chunk.bytes.len()).sum::<usize>();
            let is_too_much = len.fetch_add(more, Ordering::Relaxed) + more > most;
            let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
            let (groups, failed) = &mut *read;
            match chunks {
                Err(error) if error.is_unreachable() => *failed = Some(error),
                chunks => drop(groups.insert(taken.start, chunks)),
            }
            match failed.is_some() || is_too_much || self.cancel.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        match read.into_inner().unwrap_or_else(PoisonError::into_inner) {
            (_, Some(error)) => Err(error),
            (groups, None) if flow.is_continue() => Ok(Some(groups)),
            _ if len.into_inner() > most => Ok(None),
            _ => Err(StoreError::Interrupted),
        }
    }

    /// The chunks at `places`, which `group` holds. Each is copied: a slice would keep all of the group.
    fn chunks(&self, places: &[Place], group: &Group) -> LiveChunks {
        let chunk = |place: &Place| {
            let fingerprint = group.name(place.slot).expect("the footer says that it is there");
            let bytes = self.reader.chunk_of(group, *place, &fingerprint)?;
            let (content, bytes) = (group.content, Bytes::copy_from_slice(&bytes));
            Ok(LiveChunk { content, fingerprint, bytes })
        };
        places.iter().map(chunk).collect()
    }
}

/// Parts of `containers` that are read together, each with `most` bytes of live chunks or of one container.
fn windows_of(containers: &[Candidate], most: u64) -> impl Iterator<Item = &[Candidate]> {
    let mut rest = containers;
    std::iter::from_fn(move || {
        let mut len = 0;
        let mut fits = |candidate: &Candidate| {
            len += candidate.live_bytes;
            len <= most
        };
        let count = rest.iter().take_while(|candidate| fits(candidate)).count();
        let window;
        (window, rest) = rest.split_at(count.max(1).min(rest.len()));
        (!window.is_empty()).then_some(window)
    })
}
