//! One run: the events and what they do.

use super::numbers::Numbers;
use super::queue::{Queue, Time};
use super::station::Station;
use super::times::{Step, Times};
use super::workload::{Page, Workload};
use crate::routing::Route;

/// Pages that a run has at least.
const LEAST_PAGES: usize = 1 << 16;
/// Writes of each gateway, at least, whose latency is measured.
const LEAST_WRITES: usize = 8;
/// So many times as many writes as may be in flight are done when throughput is counted.
const WINDOWS: usize = 6;

/// When writes come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Each gateway has so many in flight; when one is stored, the next comes.
    InFlight(u32),
    /// They come to all gateways together by chance.
    Coming {
        /// In the mean.
        writes_per_second: f64,
    },
}

/// What a run counted after its warm-up.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) writes_per_second: f64,
    /// Of each write, ascending.
    latencies: Vec<Time>,
    /// The busiest unit or link of any gateway, and the part of the time in which it was busy.
    pub(super) busiest: (String, f64),
    /// Pages whose fingerprint reached its holder, and the hops that they took.
    pub(super) asked: u64,
    pub(super) hops: u64,
    pub(super) most_hops: u32,
    /// Pages of all writes that were done.
    pub(super) pages: u64,
    pub(super) messages: u64,
    pub(super) index_bytes: u64,
}

impl Counted {
    /// The latency that `share` of all writes do not exceed.
    pub(super) fn latency_us(&self, share: f64) -> f64 {
        let rank = (share * self.latencies.len() as f64).ceil() as usize;
        self.latencies[rank.clamp(1, self.latencies.len()) - 1] as f64 / 1e6
    }

    pub(super) fn mean_latency_us(&self) -> f64 {
        let sum: u128 = self.latencies.iter().map(|latency| u128::from(*latency)).sum();
        sum as f64 / self.latencies.len() as f64 / 1e6
    }
}

/// The state of a run.
pub(super) struct Run<'a, R> {
    tables: &'a [R],
    /// A prefix of each gateway: where its answers go.
    addresses: &'a [u16],
    times: &'a Times,
    workload: &'a Workload,
    load: Load,
    numbers: Numbers,
    queue: Queue<Event>,
    gateways: Vec<Gateway>,
    writes: Vec<Write>,
    /// Places of writes that are done.
    free: Vec<usize>,
    next_page: usize,
    done: usize,
    counting_since: Time,
    counted: Counted,
}

struct Gateway {
    units: Vec<Station>,
    link: Station,
    /// Contents by their numbers, as far as there is room; `None` where nothing is.
    kept: Vec<Option<u32>>,
}

/// A write that is not done.
struct Write {
    gateway: usize,
    began: Time,
    /// The number of its first page.
    first_page: usize,
    unanswered: u32,
    new: u32,
}

enum Event {
    Comes,
    Arrived(usize),
    Fingerprinted(usize),
    Reaches(usize, Message),
    Taken(usize, Message),
    LookedUp(usize, Found),
    Compressed(usize),
    Stored(usize),
    Done(usize),
}

/// What one gateway sends to the next.
enum Message {
    Request(Request),
    Answer(Found),
}

/// Fingerprints on the way to their holders.
struct Request {
    write: usize,
    from: usize,
    hops: u32,
    /// Whether the holder is told of them, and gives no answer.
    tells: bool,
    prefixes: Vec<u16>,
}

/// Fingerprints that a holder has looked up.
struct Found {
    write: usize,
    from: usize,
    tells: bool,
    count: u32,
}

fn picoseconds(us: f64) -> Time {
    (us * 1e6).round() as Time
}

impl<'a, R: Route> Run<'a, R> {
    pub(super) fn new(
        tables: &'a [R],
        addresses: &'a [u16],
        times: &'a Times,
        workload: &'a Workload,
        seed: u64,
        load: Load,
    ) -> Self {
        let gateway = || Gateway {
            units: times.units.iter().map(|unit| Station::new(unit.servers)).collect(),
            link: Station::new(1),
            kept: vec![None; times.kept_hints as usize],
        };
        Self {
            tables,
            addresses,
            times,
            workload,
            load,
            // a workload may be made of the same seed, and must not tell where its pages come to
            numbers: Numbers::new(!Numbers::new(seed).next()),
            queue: Queue::new(),
            gateways: tables.iter().map(|_| gateway()).collect(),
            writes: Vec::new(),
            free: Vec::new(),
            next_page: 0,
            done: 0,
            counting_since: 0,
            counted: Counted::default(),
        }
    }

    /// Runs to its end.
    pub(super) fn finish(mut self) -> Counted {
        let gateways = self.tables.len();
        let per_gateway = match self.load {
            Load::InFlight(window) => WINDOWS * window as usize,
            Load::Coming { .. } => LEAST_WRITES,
        };
        let writes = (per_gateway * gateways).max(LEAST_PAGES / self.times.batch as usize);
        // all began at once, which takes some windows to even out
        let warm_up = writes / 2;
        match self.load {
            Load::InFlight(window) => {
                for gateway in (0..window).flat_map(|_| 0..gateways) {
                    self.begin(0, gateway);
                }
            }
            Load::Coming { .. } => self.queue.add(0, Event::Comes),
        }
        let mut now = 0;
        while self.done < writes {
            let (time, event) = self.queue.next().expect("writes come until all are done");
            now = time;
            self.step(now, event, warm_up);
        }
        let seconds = (now - self.counting_since) as f64 / 1e12;
        self.counted.writes_per_second = (writes - warm_up) as f64 / seconds;
        self.counted.pages = (writes - warm_up) as u64 * u64::from(self.times.batch);
        self.counted.latencies.sort_unstable();
        self.counted.busiest = self.busiest(now - self.counting_since);
        self.counted
    }

    fn step(&mut self, now: Time, event: Event, warm_up: usize) {
        match event {
            Event::Comes => self.come(now),
            Event::Arrived(write) => {
                let gateway = self.writes[write].gateway;
                let done = self.work(now, gateway, self.times.fingerprint, self.times.batch);
                self.queue.add(done, Event::Fingerprinted(write));
            }
            Event::Fingerprinted(write) => self.ask(now, write),
            Event::Reaches(at, message) => {
                let done = self.work(now, at, self.times.message, 1);
                if done > now {
                    self.queue.add(done, Event::Taken(at, message));
                } else {
                    self.take(now, at, message);
                }
            }
            Event::Taken(at, message) => self.take(now, at, message),
            Event::LookedUp(at, found) if !found.tells => self.give_back(now, at, found),
            Event::LookedUp(..) => {}
            Event::Compressed(write) => {
                let Write { gateway, new, .. } = self.writes[write];
                let stored = self.work(now, gateway, self.times.store, new);
                self.queue.add(stored, Event::Stored(write));
            }
            Event::Stored(write) => {
                if let Load::InFlight(_) = self.load {
                    self.begin(now, self.writes[write].gateway);
                }
                self.queue.add(now + picoseconds(self.times.commit_us), Event::Done(write));
            }
            Event::Done(write) => self.end(now, write, warm_up),
        }
    }

    /// A write that comes by chance, to any gateway.
    fn come(&mut self, now: Time) {
        let Load::Coming { writes_per_second } = self.load else { return };
        let gateway = self.numbers.below(self.tables.len());
        self.begin(now, gateway);
        let gap = self.numbers.gap() / writes_per_second;
        self.queue.add(now + picoseconds(gap * 1e6), Event::Comes);
    }

    /// Takes the next pages for a write of `gateway`, which brings them over its link.
    fn begin(&mut self, now: Time, gateway: usize) {
        let batch = self.times.batch;
        let first_page = self.next_page;
        self.next_page = (first_page + batch as usize) % self.workload.pages.len();
        let new = self.pages(first_page).filter(|page| page.is_new).count() as u32;
        let write = Write { gateway, began: now, first_page, unanswered: batch, new };
        let place = match self.free.pop() {
            Some(place) => {
                self.writes[place] = write;
                place
            }
            None => {
                self.writes.push(write);
                self.writes.len() - 1
            }
        };
        let bytes = u64::from(batch) * u64::from(self.workload.page_bytes);
        let arrived = self.carry(now, gateway, bytes);
        self.queue.add(arrived, Event::Arrived(place));
    }

    /// The pages of a write that begins with this one.
    fn pages(&self, first: usize) -> impl Iterator<Item = Page> + use<'a, R> {
        let pages = &self.workload.pages;
        (first..first + self.times.batch as usize).map(|page| pages[page % pages.len()])
    }

    /// Asks for all fingerprints of a write whose hints are not kept.
    fn ask(&mut self, now: Time, write: usize) {
        let Write { gateway, first_page, .. } = self.writes[write];
        let mut prefixes = Vec::with_capacity(self.times.batch as usize);
        for page in self.pages(first_page) {
            if !self.keeps(gateway, page) {
                prefixes.push(page.prefix);
            }
        }
        let kept = self.times.batch - prefixes.len() as u32;
        self.spread(
            now,
            gateway,
            Request { write, from: gateway, hops: 0, tells: false, prefixes },
        );
        if kept > 0 {
            self.answer(now, write, kept);
        }
    }

    /// Whether the gateway keeps a hint of the page; from now on it does, if it keeps any.
    fn keeps(&mut self, gateway: usize, page: Page) -> bool {
        let kept = &mut self.gateways[gateway].kept;
        if kept.is_empty() {
            return false;
        }
        let place = page.content as usize % kept.len();
        kept[place].replace(page.content) == Some(page.content) && !page.is_new
    }

    fn take(&mut self, now: Time, at: usize, message: Message) {
        match message {
            Message::Request(request) => self.spread(now, at, request),
            Message::Answer(found) => self.give_back(now, at, found),
        }
    }

    /// Looks up what the gateway holds itself, and sends the rest on.
    fn spread(&mut self, now: Time, at: usize, request: Request) {
        let Request { write, from, hops, tells, prefixes } = request;
        let table = &self.tables[at];
        let mut ways: Vec<(Option<usize>, u16)> =
            prefixes.into_iter().map(|prefix| (table.next(prefix), prefix)).collect();
        ways.sort_unstable();
        for group in ways.chunk_by(|a, b| a.0 == b.0) {
            let count = group.len() as u32;
            let Some(next) = group[0].0 else {
                if !tells {
                    self.counted.asked += u64::from(count);
                    self.counted.hops += u64::from(count * hops);
                    self.counted.most_hops = self.counted.most_hops.max(hops);
                }
                let done = self.work(now, at, self.times.look_up, count);
                self.queue.add(done, Event::LookedUp(at, Found { write, from, tells, count }));
                continue;
            };
            let prefixes = group.iter().map(|(_, prefix)| *prefix).collect();
            let request = Request { write, from, hops: hops + 1, tells, prefixes };
            let bytes = count * self.times.request_bytes;
            self.send(now, at, next, bytes, Message::Request(request));
        }
    }

    /// Brings answers closer to the gateway that asked, or to its write.
    fn give_back(&mut self, now: Time, at: usize, found: Found) {
        let Found { write, from, count, .. } = found;
        match self.tables[at].next(self.addresses[from]) {
            None => self.answer(now, write, count),
            Some(next) => {
                let bytes = count * self.times.answer_bytes;
                self.send(now, at, next, bytes, Message::Answer(found));
            }
        }
    }

    fn answer(&mut self, now: Time, write: usize, count: u32) {
        let Write { gateway, new, ref mut unanswered, .. } = self.writes[write];
        *unanswered -= count;
        if *unanswered == 0 {
            let compressed = self.work(now, gateway, self.times.compress, new);
            self.queue.add(compressed, Event::Compressed(write));
        }
    }

    /// Counts a write that is done, and tells the holders of its new pages.
    fn end(&mut self, now: Time, write: usize, warm_up: usize) {
        let Write { gateway, began, first_page, .. } = self.writes[write];
        self.done += 1;
        if self.done == warm_up {
            self.count_from(now);
        }
        if self.done > warm_up {
            self.counted.latencies.push(now - began);
        }
        if self.times.tells_hints {
            let new = self.pages(first_page).filter(|page| page.is_new);
            let prefixes = new.map(|page| page.prefix).collect();
            self.spread(
                now,
                gateway,
                Request { write, from: gateway, hops: 0, tells: true, prefixes },
            );
        }
        self.free.push(write);
    }

    /// Forgets what was counted during the warm-up.
    fn count_from(&mut self, now: Time) {
        self.counting_since = now;
        self.counted = Counted::default();
        for gateway in &mut self.gateways {
            gateway.units.iter_mut().chain([&mut gateway.link]).for_each(Station::count_anew);
        }
    }

    fn send(&mut self, now: Time, at: usize, to: usize, bytes: u32, message: Message) {
        let bytes = u64::from(self.times.message_bytes + bytes);
        self.counted.messages += 1;
        self.counted.index_bytes += bytes;
        let sent = self.carry(now, at, bytes);
        self.queue.add(sent + picoseconds(self.times.hop_us), Event::Reaches(to, message));
    }

    /// When the link has carried so many bytes.
    fn carry(&mut self, now: Time, gateway: usize, bytes: u64) -> Time {
        let time = picoseconds(bytes as f64 / self.times.link_bytes_per_second * 1e6);
        self.gateways[gateway].link.serve(now, time)
    }

    /// When a step has been done `count` times, one after another by one server.
    fn work(&mut self, now: Time, gateway: usize, step: Step, count: u32) -> Time {
        let time = picoseconds(f64::from(count) * step.us);
        self.gateways[gateway].units[step.unit].serve(now, time)
    }

    /// The busiest unit or link, and the part of `time` in which it was busy.
    fn busiest(&self, time: Time) -> (String, f64) {
        let mut busiest = ("", 0.0);
        for Gateway { units, link, .. } in &self.gateways {
            let names = self.times.units.iter().map(|unit| &unit.name[..]).chain(["link"]);
            for (name, station) in names.zip(units.iter().chain([link])) {
                let share = station.share(time);
                if share > busiest.1 {
                    busiest = (name, share);
                }
            }
        }
        (busiest.0.to_owned(), busiest.1)
    }
}
