//! A thread that looks which gateways are alive, moves ranges, and reads and writes dumps.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use onefold_backend::rados::RadosPool;
use rustls::ClientConfig;
use tokio::runtime::Handle;

use super::footers::Filler;
use super::gateway::Pools;
use super::options::{Notice, PooledOptions, Tell};
use super::state::{Other, State, View};
use crate::hints::store::Part;
use crate::hints::{GatewayId, Hint, Key, Ranges, Slice, dump};
use crate::peers::outbox::Outbox;
use crate::peers::{Members, Peer};

/// How many slices are dumped or read between two looks at the members.
const STEP: usize = 64;

/// How long nothing is read or written after the pool refused or gave no answer.
const PAUSE: Duration = Duration::from_secs(5);

/// The thread, which ends when this is dropped.
pub(super) struct Upkeep {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // it does not panic; if it did, only dumps are missing
            let _ = thread.join();
        }
    }
}

/// What the thread does and has to do.
struct Keeping {
    state: Arc<State>,
    members: Arc<dyn Members>,
    pool: Arc<dyn RadosPool>,
    options: PooledOptions,
    runtime: Handle,
    config: Arc<ClientConfig>,
    tell: Tell,
    /// Which connections were last seen.
    up: HashMap<GatewayId, bool>,
    /// Slices that are not held any more and are to be dumped, and whether their old dump was not read.
    leaving: VecDeque<(Slice, Part, bool)>,
    /// Dumps that are to be read, from some time on, in this order.
    unread: VecDeque<(Instant, Slice)>,
    /// Slices that were taken over and whose dumps were read, and when each dump was written.
    taken: Vec<(Slice, u64)>,
    /// Fills them with what footers say.
    filler: Option<Filler>,
    /// Slices that are looked at for changes.
    undumped: VecDeque<Slice>,
    last_dumps: Instant,
    /// The pool refused or gave no answer: nothing is read or written before.
    paused_until: Instant,
}

impl Upkeep {
    pub(super) fn start(
        state: Arc<State>,
        (members, pools): (Arc<dyn Members>, Pools),
        options: PooledOptions,
        (runtime, config): (Handle, Arc<ClientConfig>),
        tell: Tell,
    ) -> io::Result<Self> {
        let (end, ended) = channel();
        let now = Instant::now();
        let Pools { meta: pool, data } = pools;
        let filler = Filler::start(Arc::clone(&state), data, options.clone(), Arc::clone(&tell))?;
        let mut keeping = Keeping {
            state,
            members,
            pool,
            options,
            runtime,
            config,
            tell,
            up: HashMap::new(),
            leaving: VecDeque::new(),
            unread: VecDeque::new(),
            taken: Vec::new(),
            filler: Some(filler),
            undumped: VecDeque::new(),
            last_dumps: now,
            paused_until: now,
        };
        let thread = thread::Builder::new().name("hints".into()).spawn(move || {
            loop {
                keeping.look();
                let has_more = keeping.step(Instant::now());
                let wait = if has_more { Duration::ZERO } else { keeping.options.poll };
                match ended.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => break,
                }
            }
            // before the last dumps, which have what it entered
            drop(keeping.filler.take());
            keeping.finish();
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Keeping {
    /// Looks at the members, and follows their changes.
    fn look(&mut self) {
        let own = self.state.own;
        let living: HashMap<_, _> =
            self.members.living().into_iter().filter(|(id, _)| *id != own).collect();
        let before = self.state.view();
        let ranges = Ranges::new(living.keys().copied().chain([own]));
        let is_same = before.ranges == ranges
            && before.others.len() == living.len()
            && living.iter().all(|(id, address)| {
                before.others.get(id).is_some_and(|other| other.peer.address() == *address)
            });
        if !is_same {
            self.follow(&before, ranges, living);
        }
        self.tell_links();
    }

    fn follow(
        &mut self,
        before: &View,
        ranges: Ranges,
        living: HashMap<GatewayId, std::net::SocketAddr>,
    ) {
        let other = |(id, address)| {
            let known = before.others.get(&id).filter(|other| other.peer.address() == address);
            (id, known.map_or_else(|| Arc::new(self.connect(id, address)), Arc::clone))
        };
        let others = living.into_iter().map(other).collect();
        let held: Vec<_> = ranges.of(self.state.own).collect();
        let gateways = ranges.gateways().len();
        let moved = self.state.store.hold(&held);
        let view = Arc::new(View { ranges, others });
        *self.state.view.write().unwrap_or_else(PoisonError::into_inner) = view;
        (self.tell)(Notice::Members { gateways, slices: held.len() });
        if let Some(error) = moved.failed {
            (self.tell)(Notice::NoMemory(error));
        }
        let lost = moved.lost.into_iter();
        let leaving: Vec<_> =
            lost.map(|(slice, part)| (slice, part, self.is_unread(slice))).collect();
        self.leaving.extend(leaving);
        self.unread.retain(|(_, slice)| self.state.store.holds(*slice));
        let now = Instant::now();
        let again = now + self.options.read_again;
        // first those that were just gained, then what waits for later
        let mut unread: VecDeque<_> = moved.gained.iter().map(|slice| (now, *slice)).collect();
        unread.extend(self.unread.drain(..));
        unread.extend(moved.gained.iter().map(|slice| (again, *slice)));
        self.unread = unread;
        self.unread.make_contiguous().sort_by_key(|(due, _)| *due);
    }

    fn connect(&self, gateway: GatewayId, address: std::net::SocketAddr) -> Other {
        let (config, traffic) = (Arc::clone(&self.config), Arc::clone(&self.state.traffic));
        let peer = Peer::start(&self.runtime, self.state.own, gateway, address, config, traffic);
        let peer = Arc::new(peer);
        let dropped = Arc::clone(&self.state.counts.dropped);
        let outbox = Outbox::start(&self.runtime, Arc::clone(&peer), self.options.queue, dropped);
        Other { peer, outbox }
    }

    fn tell_links(&mut self) {
        let view = self.state.view();
        self.up.retain(|id, _| view.others.contains_key(id));
        for (gateway, other) in &view.others {
            let (is_up, address) = (other.peer.is_up(), other.peer.address());
            let was_up = self.up.insert(*gateway, is_up).unwrap_or(false);
            if was_up != is_up {
                (self.tell)(Notice::Link { gateway: *gateway, address, is_up });
            }
        }
    }

    /// Reads and writes some dumps that are due. Whether there are more.
    fn step(&mut self, now: Instant) -> bool {
        if now < self.paused_until {
            return false;
        }
        let is_done = self.dump_leaving(STEP) && self.read_due(now) && self.dump_changed(now);
        if !is_done {
            self.paused_until = Instant::now() + PAUSE;
            return false;
        }
        let is_due = |(due, _): &(Instant, Slice)| *due <= now;
        !self.leaving.is_empty()
            || self.unread.front().is_some_and(is_due)
            || !self.undumped.is_empty()
    }

    /// Dumps some slices that are not held any more. False if the pool does not take a dump now.
    fn dump_leaving(&mut self, most: usize) -> bool {
        let leaving: Vec<_> = self.leaving.drain(..most.min(self.leaving.len())).collect();
        let mut is_done = true;
        for (slice, part, is_unread) in leaving {
            let mut pages = self.state.store.unload(part);
            if pages.is_empty() {
                continue;
            }
            if is_unread {
                // the old dump would be overwritten
                let older = dump::read(&*self.pool, slice).map(|dump| dump.pages);
                let mut older = older.map(Result::unwrap_or_default).unwrap_or_default();
                older.append(&mut pages);
                pages = older;
            }
            // one that is not written is lost: its memory is for slices that are held
            is_done &= self.dump(slice, &pages);
        }
        is_done
    }

    /// Reads some dumps that are due. False if the pool gives none now.
    fn read_due(&mut self, now: Instant) -> bool {
        if !self.leaving.is_empty() {
            return true;
        }
        for _ in 0..STEP {
            let Some((_, slice)) = self.unread.front().copied().filter(|(due, _)| *due <= now)
            else {
                break;
            };
            let Some(written) = self.read(slice) else { return false };
            self.unread.pop_front();
            if !self.is_unread(slice) {
                if written == 0 {
                    // also of a slice without pages: a dump says until when none are missing
                    self.state.store.mark_changed(slice);
                }
                self.taken.push((slice, written));
            }
        }
        if self.unread.is_empty()
            && !self.taken.is_empty()
            && let Some(filler) = &self.filler
        {
            filler.fill(std::mem::take(&mut self.taken));
        }
        true
    }

    /// Dumps some slices that changed. False if the pool takes none now.
    fn dump_changed(&mut self, now: Instant) -> bool {
        if self.undumped.is_empty() && self.last_dumps.elapsed() >= self.options.dump_every {
            self.last_dumps = now;
            self.undumped = self.state.view().ranges.of(self.state.own).collect();
        }
        for _ in 0..STEP {
            let Some(slice) = self.undumped.pop_front() else { break };
            // what was not read yet would be overwritten
            if self.is_unread(slice) {
                continue;
            }
            if let Some(pages) = self.state.store.changed(slice)
                && !self.dump(slice, &pages)
            {
                self.undumped.push_front(slice);
                return false;
            }
        }
        true
    }

    /// Reads the dump of a slice that was taken over; when it was written. Nothing if the pool gives none now.
    fn read(&self, slice: Slice) -> Option<u64> {
        let dump = dump::read(&*self.pool, slice);
        match dump.map(|dump| (dump.written, dump.pages)) {
            Ok((written, Ok(pages))) => {
                self.state.store.fill(slice, &pages);
                Some(written)
            }
            Ok((written, Err(error))) => {
                (self.tell)(Notice::Dump(&error));
                Some(written)
            }
            Err(error) => {
                (self.tell)(Notice::Dump(&error.into()));
                None
            }
        }
    }

    fn dump(&self, slice: Slice, pages: &[(Key, Hint)]) -> bool {
        let written = dump::write(&*self.pool, slice, pages);
        if let Err(error) = &written {
            self.state.store.mark_changed(slice);
            (self.tell)(Notice::Dump(error));
        }
        written.is_ok()
    }

    /// Dumps what changed, as long as there is time.
    fn finish(&mut self) {
        let end = Instant::now() + self.options.last_dumps;
        while !self.leaving.is_empty() && Instant::now() < end {
            self.dump_leaving(1);
        }
        for slice in self.state.view().ranges.of(self.state.own) {
            if Instant::now() >= end {
                return;
            }
            let changed = self.state.store.changed(slice);
            let Some(mut pages) = changed.filter(|pages| !pages.is_empty()) else { continue };
            // what was not read yet would be overwritten
            if self.is_unread(slice) && self.read(slice).is_some() {
                self.state.store.mark_changed(slice);
                pages = self.state.store.changed(slice).unwrap_or(pages);
            }
            if !self.dump(slice, &pages) {
                return;
            }
        }
    }

    fn is_unread(&self, slice: Slice) -> bool {
        self.unread.iter().any(|(_, unread)| *unread == slice)
    }
}
