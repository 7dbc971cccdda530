//! Many groups, each fetched and decoded once.
//!
//! Whoever wants many chunks sorts them by where they lie. Their containers' footers come first, all
//! under way at once; they tell which groups hold the chunks, and where. Groups that lie near one
//! another are read by one request, and as many requests are under way as serve. Threads decode the
//! groups as they come. Those that come from far away are kept for the next fetch, if there is where.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use onefold_backend::{Request, Span};
use onefold_container::{ContainerError, Directory, container_name};

use crate::chunks::groups::{Group, Key};
use crate::chunks::reader::ChunkReader;
use crate::reading::scratch::Scratch;
use crate::{Place, StoreError};

/// Containers whose footers are held at a time.
pub(crate) const CONTAINERS: usize = 128;

/// The longest request, in bytes, where requests take time to travel, and where they do not.
const LONGEST_FAR: u64 = 16 << 20;
const LONGEST_NEAR: u64 = 1 << 20;
/// Far away a request is not made shorter than this, in bytes, for more to be under way at once.
pub(crate) const SHORTEST: u64 = 1 << 20;
/// The same for windows of a few mebibytes that follow one another.
pub(crate) const SHORTEST_OF_WINDOW: u64 = 2 << 20;

/// What is wanted is asked for in so many requests at least, if it is long enough: some are under way
/// while others are decoded.
const REQUESTS: u64 = 16;

/// Of the bytes that are fetched, at most one in so many lies in gaps.
const WASTE: u64 = 20;

/// Groups that wait for a thread that decodes them.
const WAITING: usize = 16;

/// What becomes of groups that were fetched.
#[derive(Clone, Copy)]
pub(crate) enum Keep<'a> {
    Nothing,
    /// They are kept as stored, for later fetches.
    Stored(&'a Scratch),
    /// They are kept among the groups that the reader used last, and those taken that are there.
    Decoded,
}

/// What a fetch of wanted chunks gives: their positions among those wanted, and the group that holds
/// them or why it could not be had.
pub(crate) type TakeGroup<'a> =
    dyn Fn(Range<usize>, Result<&Arc<Group>, StoreError>) -> ControlFlow<()> + Sync + 'a;

/// Groups of one container that one request reads.
struct Stretch {
    /// Which directory.
    directory: Arc<Directory>,
    /// Bytes of the container.
    range: Range<u64>,
    /// In ascending order.
    groups: Vec<WantedGroup>,
}

/// A group, and which of the wanted chunks it holds.
#[derive(Clone)]
struct WantedGroup {
    group: u32,
    range: Range<u64>,
    chunks: Range<usize>,
}

/// Fetches the groups that hold the chunks at `places`, which are in ascending order of container and
/// slot, and calls `take` once for each group, on one of `threads` threads, or for each container
/// whose footer cannot be had. Far away, neighbours are read together up to `shortest` bytes at least.
/// It ends early if `take` breaks.
pub(crate) fn fetch(
    reader: &ChunkReader<'_>,
    places: &[Place],
    (threads, shortest): (usize, u64),
    keep: Keep<'_>,
    take: &TakeGroup<'_>,
) -> ControlFlow<()> {
    debug_assert!(places.is_sorted_by_key(|place| (place.container, place.slot)));
    let mut rest = 0..places.len();
    while !rest.is_empty() {
        let runs = containers(places, &mut rest);
        let mut directories = read_directories(reader, places, &runs, take)?;
        directories.sort_by_key(|(run, _)| run.start);
        let wanted = wanted(places, directories, take)?;
        let kept = KeptGroups::new(keep, places, &wanted);
        let wanted = kept.take_decoded(reader, wanted, take)?;
        Decoding { reader, threads, kept: &kept, take }.run(|decoders| {
            let missing = kept.send(reader, wanted, decoders)?;
            request(reader, &plan(reader, missing, shortest), &kept, decoders, take)
        })?;
    }
    ControlFlow::Continue(())
}

/// The chunks of the next containers, taken off `rest`.
fn containers(places: &[Place], rest: &mut Range<usize>) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    while rest.start < rest.end && runs.len() < CONTAINERS {
        let first = places[rest.start].container;
        let len = places[rest.clone()].partition_point(|place| place.container == first);
        runs.push(rest.start..rest.start + len);
        rest.start += len;
    }
    runs
}

type Found = (Range<usize>, Arc<Directory>);

/// The groups of a container that are wanted.
type OfContainer = (Arc<Directory>, Vec<WantedGroup>);

/// The footers of the containers that hold `runs`.
fn read_directories(
    reader: &ChunkReader<'_>,
    places: &[Place],
    runs: &[Range<usize>],
    take: &TakeGroup<'_>,
) -> ControlFlow<(), Vec<Found>> {
    let numbers: Vec<u32> = runs.iter().map(|run| places[run.start].container).collect();
    let mut found = Vec::with_capacity(runs.len());
    reader.read_directories(&numbers, &mut |at, directory| {
        let run = runs[at].clone();
        match directory {
            Ok(directory) => found.push((run, directory)),
            Err(error) => take(run, Err(error))?,
        }
        ControlFlow::Continue(())
    })?;
    ControlFlow::Continue(found)
}

/// The groups that are wanted of each container.
fn wanted(
    places: &[Place],
    directories: Vec<Found>,
    take: &TakeGroup<'_>,
) -> ControlFlow<(), Vec<OfContainer>> {
    let mut wanted = Vec::new();
    for (run, directory) in directories {
        match groups_of(places, run.clone(), &directory) {
            Ok(groups) => wanted.push((directory, groups)),
            Err(error) => take(run, Err(error.into()))?,
        }
    }
    ControlFlow::Continue(wanted)
}

/// The requests that bring all of `wanted`.
fn plan(reader: &ChunkReader<'_>, wanted: Vec<OfContainer>, shortest: u64) -> Vec<Stretch> {
    let gap = reader.objects().gap();
    let longest = match gap {
        0 => LONGEST_NEAR,
        _ => (len_of(&wanted) / REQUESTS).clamp(shortest, LONGEST_FAR),
    };
    let stretches = wanted.into_iter().flat_map(|(directory, groups)| {
        merge(groups, gap, longest).into_iter().map(move |groups| Stretch {
            directory: Arc::clone(&directory),
            range: groups[0].range.start..groups[groups.len() - 1].range.end,
            groups,
        })
    });
    stretches.collect()
}

/// Bytes of the groups, as stored.
fn len_of(wanted: &[OfContainer]) -> u64 {
    wanted.iter().flat_map(|(_, groups)| groups).map(WantedGroup::len).sum()
}

impl WantedGroup {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// The groups of one container that hold the chunks of `run`.
fn groups_of(
    places: &[Place],
    run: Range<usize>,
    directory: &Directory,
) -> Result<Vec<WantedGroup>, ContainerError> {
    let mut groups: Vec<WantedGroup> = Vec::new();
    for at in run {
        let group = directory.chunk(places[at].slot)?.group;
        match groups.last_mut() {
            Some(last) if last.group == group => last.chunks.end = at + 1,
            _ => {
                let range = directory.stored_range(group)?;
                groups.push(WantedGroup { group, range, chunks: at..at + 1 });
            }
        }
    }
    Ok(groups)
}

/// Puts neighbours together: those that are no more than `gap` bytes apart, as long as few bytes are
/// wasted and no more than `longest` bytes are read at a time.
fn merge(groups: Vec<WantedGroup>, gap: u64, longest: u64) -> Vec<Vec<WantedGroup>> {
    let mut merged: Vec<Vec<WantedGroup>> = Vec::new();
    let (mut wasted, mut needed) = (0, 0);
    for group in groups {
        needed += group.len();
        if let Some(last) = merged.last_mut()
            && let (Some(first), Some(end)) = (last.first(), last.last())
        {
            let between = group.range.start - end.range.end;
            let is_cheap = between <= gap && (wasted + between) * WASTE <= needed;
            if is_cheap && group.range.end - first.range.start <= longest {
                wasted += between;
                last.push(group);
                continue;
            }
        }
        merged.push(vec![group]);
    }
    merged
}

/// What was kept of earlier fetches, and keeps what comes for later ones.
struct KeptGroups<'a> {
    keep: Keep<'a>,
    places: &'a [Place],
}

impl<'a> KeptGroups<'a> {
    fn new(keep: Keep<'a>, places: &'a [Place], wanted: &[OfContainer]) -> Self {
        let keep = match keep {
            Keep::Stored(scratch) if !scratch.has_room(len_of(wanted)) => Keep::Nothing,
            keep => keep,
        };
        Self { keep, places }
    }

    /// Gives those of the groups to `take` that the reader has, and returns the others.
    fn take_decoded(
        &self,
        reader: &ChunkReader<'_>,
        mut wanted: Vec<OfContainer>,
        take: &TakeGroup<'_>,
    ) -> ControlFlow<(), Vec<OfContainer>> {
        if !matches!(self.keep, Keep::Decoded) {
            return ControlFlow::Continue(wanted);
        }
        for (directory, groups) in &mut wanted {
            let mut others = Vec::new();
            for group in groups.drain(..) {
                match reader.kept_group(self.key(&group), directory) {
                    Some(kept) => take(group.chunks, Ok(&kept))?,
                    None => others.push(group),
                }
            }
            *groups = others;
        }
        ControlFlow::Continue(wanted)
    }

    /// Keeps a group that was decoded.
    fn put_decoded(&self, reader: &ChunkReader<'_>, wanted: &WantedGroup, group: &Arc<Group>) {
        if matches!(self.keep, Keep::Decoded) {
            reader.keep_group(self.key(wanted), group);
        }
    }

    /// Sends those of the groups that are kept as stored to the threads that decode, and gives the others.
    fn send(
        &self,
        reader: &ChunkReader<'_>,
        wanted: Vec<OfContainer>,
        decoders: &Sender<Came>,
    ) -> ControlFlow<(), Vec<OfContainer>> {
        let mut missing = Vec::new();
        for (directory, groups) in wanted {
            let mut others = Vec::new();
            for group in groups {
                match self.stored(reader, &group) {
                    Some(stored) => send(decoders, &directory, group, stored)?,
                    None => others.push(group),
                }
            }
            if !others.is_empty() {
                missing.push((directory, others));
            }
        }
        ControlFlow::Continue(missing)
    }

    /// The stored bytes of a group, if they are here.
    fn stored(&self, reader: &ChunkReader<'_>, group: &WantedGroup) -> Option<Bytes> {
        let key = self.key(group);
        let kept = match self.keep {
            Keep::Stored(scratch) => scratch.get(key),
            Keep::Nothing | Keep::Decoded => None,
        };
        kept.or_else(|| reader.of_short(key.0, &group.range))
    }

    /// Keeps a group.
    fn put(&self, wanted: &WantedGroup, stored: &[u8]) {
        if let Keep::Stored(scratch) = self.keep {
            scratch.put(self.key(wanted), stored);
        }
    }

    fn key(&self, wanted: &WantedGroup) -> Key {
        (self.places[wanted.chunks.start].container, wanted.group)
    }
}

/// Makes the requests, and sends each group that comes to the threads that decode.
fn request(
    reader: &ChunkReader<'_>,
    stretches: &[Stretch],
    kept: &KeptGroups<'_>,
    decoders: &Sender<Came>,
    take: &TakeGroup<'_>,
) -> ControlFlow<()> {
    let request = |stretch: &Stretch| Request {
        name: container_name(stretch.directory.id),
        span: Span::Range(stretch.range.clone()),
    };
    let mut requests = stretches.iter().map(request);
    reader.objects().get_many(&mut requests, &mut |at, answer| {
        let stretch = &stretches[at];
        match answer {
            Ok(bytes) => stretch.groups.iter().try_for_each(|wanted| {
                let within = |offset: u64| (offset - stretch.range.start) as usize;
                let stored = bytes.slice(within(wanted.range.start)..within(wanted.range.end));
                kept.put(wanted, &stored);
                send(decoders, &stretch.directory, wanted.clone(), stored)
            }),
            Err(source) => {
                let (first, last) = (&stretch.groups[0], &stretch.groups[stretch.groups.len() - 1]);
                let chunks = first.chunks.start..last.chunks.end;
                let container = stretch.directory.id;
                take(chunks, Err(ContainerError::Backend { container, source }.into()))
            }
        }
    })
}

/// A group that came.
struct Came {
    directory: Arc<Directory>,
    wanted: WantedGroup,
    stored: Bytes,
}

/// Sends a group to the threads that decode, unless they have ended.
fn send(
    decoders: &Sender<Came>,
    directory: &Arc<Directory>,
    wanted: WantedGroup,
    stored: Bytes,
) -> ControlFlow<()> {
    match decoders.send(Came { directory: Arc::clone(directory), wanted, stored }) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// What decodes groups as they come.
struct Decoding<'a> {
    reader: &'a ChunkReader<'a>,
    threads: usize,
    kept: &'a KeptGroups<'a>,
    take: &'a TakeGroup<'a>,
}

impl Decoding<'_> {
    /// Decodes what `bring` sends, until that is over or somebody breaks.
    fn run(&self, bring: impl FnOnce(&Sender<Came>) -> ControlFlow<()>) -> ControlFlow<()> {
        let (came, taken) = bounded(WAITING);
        thread::scope(|scope| {
            let flows: Vec<_> = (0..self.threads)
                .map(|_| {
                    let taken = taken.clone();
                    scope.spawn(move || self.decode(taken))
                })
                .collect();
            // With the last of its readers the queue ends, and nothing more is sent.
            drop(taken);
            let brought = bring(&came);
            drop(came);
            flows.into_iter().fold(brought, |flow, thread| match thread.join() {
                Ok(ControlFlow::Continue(())) => flow,
                Ok(ControlFlow::Break(())) => ControlFlow::Break(()),
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }

    /// Decodes what comes until nothing more can come, or `take` breaks.
    fn decode(&self, came: Receiver<Came>) -> ControlFlow<()> {
        came.into_iter().try_for_each(|Came { directory, wanted, stored }| {
            match self.reader.decode_new(&directory, wanted.group, &stored) {
                Ok(group) => {
                    drop(stored);
                    let group = Arc::new(group);
                    self.kept.put_decoded(self.reader, &wanted, &group);
                    (self.take)(wanted.chunks, Ok(&group))
                }
                Err(error) => (self.take)(wanted.chunks, Err(error)),
            }
        })
    }
}
