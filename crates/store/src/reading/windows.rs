//! What a walk meets, in order, with the chunks that it wants.
//!
//! The walk notes what it meets. When a window of that is full, a thread brings its chunks by one plan,
//! while whoever walks takes the window before and goes on. So no more than two windows are in memory.

use std::mem;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender, unbounded};
use onefold_container::MAX_GROUP_LEN;
use onefold_fingerprint::Fingerprint;

use crate::chunks::reader::ChunkReader;
use crate::reading::bring::{Bring, Wanted};
use crate::reading::fetch::{Keep, SHORTEST_OF_WINDOW};
use crate::{Cancel, Place, Recipe, StoreError, threads};

/// Bytes at which the first window is full. Each is twice as long as the one before, up to as many bytes
/// as serve where requests take time to travel, and where they do not.
const FIRST: usize = 1 << 20;
const MOST_FAR: usize = 16 << 20;
const MOST_NEAR: usize = 4 << 20;

/// What a step takes besides its own bytes, about.
const STEP_LEN: usize = 64;

/// What a walk met.
pub(crate) enum Step<S, C> {
    Met(S),
    Chunk(Leaf<C>),
}

/// A chunk that a walk met.
pub(crate) struct Leaf<C> {
    pub(crate) recipe: Recipe,
    place: Option<Place>,
    /// What came of it.
    brought: OnceLock<Result<C, StoreError>>,
}

impl<C> Leaf<C> {
    /// What came of the chunk once its window was brought.
    pub(crate) fn brought(self) -> Result<C, StoreError> {
        self.brought.into_inner().unwrap_or(Err(StoreError::Interrupted))
    }
}

impl<C: Send + Sync> Wanted for Leaf<C> {
    fn place(&self) -> Option<Place> {
        self.place
    }

    fn fingerprint(&self) -> &Fingerprint {
        &self.recipe.root
    }
}

/// What was met together.
type Window<S, C> = Vec<Step<S, C>>;

/// The windows of a walk.
pub(crate) struct Windows<'a, S, C> {
    reader: &'a ChunkReader<'a>,
    window: Window<S, C>,
    /// Bytes of the window, chunks included, and at how many it is full.
    len: usize,
    full: usize,
    wanted: Sender<Window<S, C>>,
    brought: Receiver<Result<Window<S, C>, StoreError>>,
    /// Windows that were sent and not taken.
    under_way: usize,
}

impl<'a, S: Send, C: Send + Sync> Windows<'a, S, C> {
    /// Windows whose chunks come from `reader`. `read` says what becomes of a chunk's verified bytes.
    pub(crate) fn new<'scope>(
        scope: &'scope Scope<'scope, '_>,
        (reader, cancel): (&'a ChunkReader<'a>, &'scope Cancel),
        read: impl Fn(&Recipe, &[u8]) -> C + Send + Sync + 'scope,
    ) -> Self
    where
        'a: 'scope,
        S: 'scope,
        C: 'scope,
    {
        let (wanted, windows) = unbounded::<Window<S, C>>();
        let (sender, brought) = unbounded();
        scope.spawn(move || {
            for window in windows {
                let result = bring(reader, cancel, &window, &read);
                if sender.send(result.map(|()| window)).is_err() {
                    return;
                }
            }
        });
        Self { reader, window: Vec::new(), len: 0, full: FIRST, wanted, brought, under_way: 0 }
    }

    /// Notes what was met, which takes about `len` bytes. Whoever notes takes what is
    /// [over](Self::over) then.
    pub(crate) fn met(&mut self, step: S, len: usize) {
        self.push(Step::Met(step), len);
    }

    /// Notes a chunk that is wanted. Whoever notes takes what is [over](Self::over) then.
    pub(crate) fn want(&mut self, recipe: Recipe) {
        let place = self.reader.place_of(&recipe.root);
        let leaf = Leaf { recipe, place, brought: OnceLock::new() };
        // No chunk is longer, whatever the recipe says.
        self.push(Step::Chunk(leaf), recipe.len.min(MAX_GROUP_LEN.into()) as usize);
    }

    fn push(&mut self, step: Step<S, C>, len: usize) {
        self.window.push(step);
        self.len += len + STEP_LEN;
        if self.len >= self.full {
            self.send();
            let most = if self.reader.is_far() { MOST_FAR } else { MOST_NEAR };
            self.full = (2 * self.full).min(most);
        }
    }

    fn send(&mut self) {
        self.len = 0;
        let window = mem::take(&mut self.window);
        // If the thread has panicked, whoever takes the window is told.
        let _ = self.wanted.send(window);
        self.under_way += 1;
    }

    /// The first window, if another is under way behind it.
    pub(crate) fn over(&mut self) -> Result<Option<Window<S, C>>, StoreError> {
        if self.under_way > 1 { self.take() } else { Ok(None) }
    }

    /// The first window of all that was met; nothing once all were taken.
    pub(crate) fn next(&mut self) -> Result<Option<Window<S, C>>, StoreError> {
        if !self.window.is_empty() {
            self.send();
        }
        if self.under_way > 0 { self.take() } else { Ok(None) }
    }

    fn take(&mut self) -> Result<Option<Window<S, C>>, StoreError> {
        self.under_way -= 1;
        self.brought.recv().map_err(|_| StoreError::Stopped)?.map(Some)
    }
}

/// Brings the chunks of a window. Fails if the repository cannot be reached.
fn bring<S, C: Send + Sync>(
    reader: &ChunkReader<'_>,
    cancel: &Cancel,
    window: &Window<S, C>,
    read: &(impl Fn(&Recipe, &[u8]) -> C + Sync),
) -> Result<(), StoreError> {
    let chunks = window.iter().filter_map(|step| match step {
        Step::Chunk(leaf) => Some(leaf),
        Step::Met(_) => None,
    });
    let failed = OnceLock::new();
    let (threads, shortest) = (threads::cores(), SHORTEST_OF_WINDOW);
    let bring = Bring { reader, threads, shortest, keep: Keep::Decoded };
    let flow = bring.bring(&chunks.collect::<Vec<_>>(), &|leaf: &Leaf<C>, found| {
        let brought = found.and_then(|bytes| match bytes.len() as u64 {
            found if found == leaf.recipe.len => Ok(read(&leaf.recipe, &bytes)),
            found => Err(StoreError::RecipeLength { expected: leaf.recipe.len, found }),
        });
        match brought {
            Err(error) if error.is_unreachable() => {
                let _ = failed.set(error);
                return ControlFlow::Break(());
            }
            brought => drop(leaf.brought.set(brought)),
        }
        match cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None if flow.is_break() => Err(StoreError::Interrupted),
        None => Ok(()),
    }
}
