//! What has the pool is killed in the midst of something else than writes: while it opens the pool, makes
//! volumes and snapshots, resizes and deletes them, compacts, or makes a checkpoint.
//!
//! Most of these are done by the server where a pool is served, and by the command where it is not. Each
//! kill comes a random while after it was begun: after the server said so, after the mark of the pool was
//! written, or after the file of the checkpoint was made. It counts if there was no end of it yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onefold_lab::nbd::Client;
use onefold_testkit::{SplitMix64, random};
use rustix::process::{Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Tally;
use super::registers::{BLOCK, BLOCKS, Registers, is_one_of, read_blocks};
use crate::lab::Lab;
use crate::served::Served;

/// A volume that has one block in each of [`SEGMENTS`] segments of 512. A deletion gives up some of
/// these segments at a time.
const WIDE: &str = "wide";
const SEGMENTS: u64 = 20;
const LONG: u64 = SEGMENTS * 512;
/// Within a segment.
const SHORT: u64 = 7 * 512 + 100;
const EMPTY: u64 = 256;

/// Longer than anything takes to begin on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long kills wait at most for each kind, at first.
const SPAN: Duration = Duration::from_millis(4);
const SHORTEST: Duration = Duration::from_micros(50);
/// Openings of one pool that are killed one after another.
const OPENINGS: usize = 3;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Operations {
    /// The volume that clients write to.
    pub(super) under_load: Tally,
    /// Kills that came in the midst of each, and all that were tried.
    pub(super) kills: BTreeMap<String, Kills>,
    pub(super) checked_volumes: u64,
    /// Volumes that were neither as before nor as they were to be: must be 0.
    pub(super) wrong_volumes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kills {
    pub(super) in_the_midst: u64,
    pub(super) all: u64,
}

/// What is done to volumes or to the whole pool.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Create,
    Snapshot,
    Resize,
    Delete,
    Compact,
}

const OPERATIONS: [Operation; 5] = [
    Operation::Create,
    Operation::Snapshot,
    Operation::Resize,
    Operation::Delete,
    Operation::Compact,
];

/// A volume that nobody writes while it is looked at: its length, and blocks that are checked with those
/// behind them. All others are holes.
#[derive(Clone, Debug)]
struct Still {
    blocks: u64,
    contents: BTreeMap<u64, Vec<u8>>,
}

impl Still {
    fn empty(blocks: u64) -> Self {
        let ends = [(0, vec![0; BLOCK]), (blocks - 1, vec![0; BLOCK])];
        Self { blocks, contents: BTreeMap::from(ends) }
    }

    /// The mapped blocks of a wide volume that has this many blocks.
    fn wide(blocks: u64) -> impl Iterator<Item = u64> {
        (0..SEGMENTS).map(|segment| segment * 513).filter(move |block| *block < blocks)
    }

    fn resized(&self, blocks: u64) -> Self {
        let mut contents = self.contents.clone();
        contents.retain(|block, _| *block < blocks);
        for block in Self::wide(blocks) {
            // what was cut off does not come back
            contents.entry(block).or_insert_with(|| vec![0; BLOCK]);
        }
        Self { blocks, contents }
    }

    fn is(&self, client: &mut Client) -> bool {
        if client.size() != self.blocks * BLOCK as u64 {
            return false;
        }
        let mut found = vec![0; BLOCK];
        let mut is_at = |block: u64, content: &[u8]| {
            client.read(block * BLOCK as u64, &mut found).unwrap();
            found == content
        };
        let next = self.contents.keys().map(|block| block + 1);
        let mut holes =
            next.filter(|next| *next < self.blocks && !self.contents.contains_key(next));
        self.contents.iter().all(|(block, content)| is_at(*block, content))
            && holes.all(|block| is_at(block, &[0; BLOCK]))
    }
}

/// What a volume may be.
#[derive(Clone)]
enum State {
    Gone,
    There(Still),
    /// As the volume `disk` was when it was copied: each block is one of these changes.
    OfDisk(Vec<Vec<u64>>),
}

impl State {
    /// The state that was found, if the volume, which `client` reads, is in this one.
    fn found(self, client: Option<&mut Client>) -> Option<Self> {
        match (self, client) {
            (Self::Gone, None) => Some(Self::Gone),
            (Self::There(still), Some(client)) => still.is(client).then_some(Self::There(still)),
            (Self::OfDisk(changes), Some(client)) => {
                let found = read_blocks(client).into_iter().collect::<Option<Vec<_>>>()?;
                let mut all = found.iter().zip(changes).enumerate();
                let is_it = all
                    .all(|(block, (found, changes))| is_one_of(block, found, changes.into_iter()));
                let contents = (0..).zip(found).collect();
                is_it.then_some(Self::There(Still { blocks: BLOCKS as u64, contents }))
            }
            _ => None,
        }
    }
}

/// An operation, and what becomes of the volume that it changes, if it changes one.
struct Planned {
    line: String,
    request: Value,
    change: Option<(String, State)>,
}

impl Planned {
    fn create(name: String) -> Self {
        let size = EMPTY * BLOCK as u64;
        Self {
            line: format!("volume create --pool pool --size {size} {name}"),
            request: json!({
                "request": "create", "name": name, "size": size, "block_size": BLOCK,
                "fingerprint": null, "compression": null,
            }),
            change: Some((name, State::There(Still::empty(EMPTY)))),
        }
    }

    fn snapshot(of: &str, name: String, after: State) -> Self {
        Self {
            line: format!("volume snapshot --pool pool {of} {name}"),
            request: json!({ "request": "copy", "from": of, "to": name, "is_snapshot": true }),
            change: Some((name, after)),
        }
    }

    /// Of the volume [`WIDE`].
    fn resize(after: Still) -> Self {
        let size = after.blocks * BLOCK as u64;
        Self {
            line: format!("volume resize --pool pool --size {size} --shrink {WIDE}"),
            request: json!({ "request": "resize", "name": WIDE, "size": size, "may_shrink": true }),
            change: Some((WIDE.to_owned(), State::There(after))),
        }
    }

    fn delete(name: String) -> Self {
        Self {
            line: format!("volume delete --pool pool --force {name}"),
            request: json!({ "request": "delete", "name": name, "is_forced": true }),
            change: Some((name, State::Gone)),
        }
    }

    fn compact() -> Self {
        let (line, request) = ("volume compact --pool pool", json!({ "request": "compact" }));
        Self { line: line.into(), request, change: None }
    }
}

/// A pool, and what the test expects of its volumes.
struct Pool {
    lab: Lab,
    registers: Registers,
    /// All but `disk`.
    still: BTreeMap<String, Still>,
    tally: Operations,
    numbers: SplitMix64,
    /// How long kills wait at most, of each kind.
    spans: BTreeMap<String, Duration>,
    /// Volumes that were made or were to be.
    made: u64,
}

/// Kills servers and commands in the midst of each operation, `times` times.
pub(super) fn killed_in_the_midst(times: u64) -> Operations {
    let mut pool = Pool::new();
    let mut served = Served::start(&pool.lab);
    pool.fill(&served);
    for _ in 0..times {
        for operation in OPERATIONS {
            served = pool.kill_server(served, operation);
            served = pool.kill_command(served, operation);
        }
        served = pool.kill_openings(served);
        served = pool.kill_checkpoint(served);
    }
    assert_eq!(served.signal(Signal::TERM), 0);
    assert!(pool.lab.ok("volume check --pool pool").stdout.contains("no problems"));
    assert!(pool.lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
    pool.tally
}

impl Pool {
    fn new() -> Self {
        let lab = Lab::new();
        lab.ok(&format!("volume create --pool pool --size {} disk", BLOCKS * BLOCK));
        lab.ok(&format!("volume create --pool pool --size {} {WIDE}", LONG * BLOCK as u64));
        Self {
            lab,
            registers: Registers::new(),
            still: BTreeMap::from([(WIDE.to_owned(), Still::empty(LONG))]),
            tally: Operations::default(),
            numbers: SplitMix64::new(8),
            spans: BTreeMap::new(),
            made: 0,
        }
    }

    /// Writes all blocks that a volume like [`WIDE`] has, durably, with new contents.
    fn fill(&mut self, served: &Served) {
        let mut client = served.client(WIDE);
        let mut contents = BTreeMap::new();
        for block in Still::wide(LONG) {
            let content = random(self.numbers.next_u64(), BLOCK);
            client.write(block * BLOCK as u64, &content).unwrap();
            contents.insert(block, content);
        }
        client.flush().unwrap();
        self.still.insert(WIDE.to_owned(), Still { blocks: LONG, contents });
    }

    /// The next operation of a kind, on a pool that is served.
    fn plan(&mut self, served: &Served, operation: Operation) -> Planned {
        self.made += 1;
        let name = format!("made-{}", self.made);
        match operation {
            Operation::Create => Planned::create(name),
            Operation::Snapshot => self.plan_snapshot(name),
            Operation::Resize => self.plan_resize(served),
            Operation::Delete => Planned::delete(self.victim(name)),
            Operation::Compact => Planned::compact(),
        }
    }

    /// A snapshot of the volume that clients write to, or of the other one.
    fn plan_snapshot(&mut self, name: String) -> Planned {
        match self.numbers.below(2) {
            0 => Planned::snapshot("disk", name, State::OfDisk(Vec::new())),
            _ => Planned::snapshot(WIDE, name, self.state(WIDE)),
        }
    }

    /// From long to short, with all blocks written before, or back.
    fn plan_resize(&mut self, served: &Served) -> Planned {
        if self.still[WIDE].blocks != LONG {
            return Planned::resize(self.still[WIDE].resized(LONG));
        }
        self.fill(served);
        Planned::resize(self.still[WIDE].resized(SHORT))
    }

    /// A volume to be deleted: one that was made before, or a new snapshot of that name.
    fn victim(&mut self, name: String) -> String {
        if let Some(old) = self.still.keys().find(|name| *name != WIDE) {
            return old.clone();
        }
        self.lab.ok(&format!("volume snapshot --pool pool {WIDE} {name}"));
        self.still.insert(name.clone(), self.still[WIDE].clone());
        name
    }

    /// How long to wait before a kill of a kind.
    fn delay(&mut self, kind: &str) -> Duration {
        let span = *self.spans.entry(kind.to_owned()).or_insert(SPAN);
        Duration::from_nanos(self.numbers.below(span.as_nanos() as usize) as u64)
    }

    /// Counts a kill of a kind. Kills come later until many of them are too late.
    fn count(&mut self, kind: &str, is_in_the_midst: bool) {
        let kills = self.tally.kills.entry(kind.to_owned()).or_default();
        kills.all += 1;
        kills.in_the_midst += u64::from(is_in_the_midst);
        let span = self.spans.entry(kind.to_owned()).or_insert(SPAN);
        *span = if is_in_the_midst { *span * 2 } else { (*span / 2).max(SHORTEST) };
    }

    /// Loads the server for some milliseconds and kills it, and lets nothing serve the pool.
    fn load_and_kill(&mut self, mut served: Served) {
        let (pause, seed) = (self.pause(), self.numbers.next_u64());
        let pid = served.pid();
        let load = &mut self.tally.under_load;
        let is_loaded = self.registers.load(&served, seed, load, || {
            thread::sleep(pause);
            kill_process(pid, Signal::KILL).unwrap();
        });
        load.kills_under_load += u64::from(is_loaded);
        assert_eq!(served.signal(Signal::KILL), -1, "it ended by itself");
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(2 + self.numbers.below(40) as u64)
    }

    /// Kills a server under load while it does what it is asked for; the next server.
    fn kill_server(&mut self, mut served: Served, operation: Operation) -> Served {
        let kind = format!("{operation:?} by the server").to_lowercase();
        let mut planned = self.plan(&served, operation);
        let (pause, delay) = (self.pause(), self.delay(&kind));
        let (seed, pid) = (self.numbers.next_u64(), served.pid());
        let control = self.lab.path("pool/control");
        let (mut is_done, mut before) = (false, Vec::new());
        let registers = &self.registers;
        let is_loaded = registers.load(&served, seed, &mut self.tally.under_load, || {
            thread::sleep(pause);
            before = registers.acknowledged();
            let mut asking = Asking::begin(&control, &planned.request);
            thread::sleep(delay);
            kill_process(pid, Signal::KILL).unwrap();
            is_done = asking.is_done();
        });
        self.tally.under_load.kills_under_load += u64::from(is_loaded);
        assert_eq!(served.signal(Signal::KILL), -1, "it ended by itself");
        if let Some((_, State::OfDisk(changes))) = &mut planned.change {
            *changes = registers.since(&before);
        }
        self.count(&kind, !is_done);
        self.serve_and_check(Some((planned, is_done)))
    }

    /// Kills a command that has the pool, which a server that was killed left; the next server.
    fn kill_command(&mut self, served: Served, operation: Operation) -> Served {
        let kind = format!("{operation:?} by a command").to_lowercase();
        let mut planned = self.plan(&served, operation);
        self.load_and_kill(served);
        if let Some((_, State::OfDisk(changes))) = &mut planned.change {
            *changes = self.registers.possible();
        }
        let mut child = self.begin(&planned.line);
        thread::sleep(self.delay(&kind));
        let _ = child.kill();
        let ended = child.wait_with_output().unwrap();
        let is_done = ended.status.code().is_some();
        assert!(!is_done || ended.status.success(), "{}: {ended:?}", planned.line);
        self.count(&kind, !is_done);
        self.serve_and_check(Some((planned, is_done)))
    }

    /// Starts a command and waits until it has the pool, as the mark says, or has ended.
    fn begin(&self, line: &str) -> Child {
        let mark = || fs::read(self.lab.path("pool/writer")).unwrap();
        let (before, begun) = (mark(), Instant::now());
        let mut command = self.lab.command(line);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while mark() == before && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "{line}: it does not open the pool");
            thread::sleep(Duration::from_micros(50));
        }
        child
    }

    /// Kills servers while they open what a killed one left, or just after that; the next server.
    fn kill_openings(&mut self, served: Served) -> Served {
        self.load_and_kill(served);
        for _ in 0..OPENINGS {
            let mut child = self.begin("serve --pool pool --unix socket");
            thread::sleep(self.delay("open"));
            let _ = child.kill();
            let ended = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.code().is_none(), "it ended by itself: {said}");
            self.count("open", !said.contains("serving on "));
        }
        self.serve_and_check(None)
    }

    /// Ends a server under load, and kills it while it makes its last checkpoint; the next server.
    fn kill_checkpoint(&mut self, mut served: Served) -> Served {
        let (pause, delay) = (self.pause(), self.delay("checkpoint"));
        let (seed, pid) = (self.numbers.next_u64(), served.pid());
        let mut before = Vec::new();
        let (lab, registers) = (&self.lab, &self.registers);
        registers.load(&served, seed, &mut self.tally.under_load, || {
            thread::sleep(pause);
            kill_process(pid, Signal::TERM).unwrap();
            before = records(lab);
            wait_for_checkpoint(lab, &before);
            thread::sleep(delay);
            kill_process(pid, Signal::KILL).unwrap();
        });
        served.signal(Signal::KILL);
        // those before it go one after another, once it is durable
        let after = records(lab);
        let is_in_the_midst = before.iter().any(|name| after.contains(name));
        self.count("checkpoint", is_in_the_midst);
        self.serve_and_check(None)
    }

    /// Serves the pool again and checks all volumes: what was `planned` came about if it was
    /// acknowledged, and may have come about if not.
    fn serve_and_check(&mut self, planned: Option<(Planned, bool)>) -> Served {
        let served = Served::start(&self.lab);
        self.registers.check(&mut served.client("disk"), &mut self.tally.under_load);
        let listed = self.lab.ok("volume list --pool pool --json").json();
        let listed = listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
        let mut names: BTreeSet<String> = listed.map(str::to_owned).collect();
        assert!(names.remove("disk"), "it is gone");
        let client = |name: &String| names.contains(name).then(|| served.client(name));
        let mut expected: BTreeMap<String, Vec<State>> = BTreeMap::new();
        for name in names.iter().chain(self.still.keys()) {
            expected.insert(name.clone(), vec![self.state(name)]);
        }
        if let Some((Planned { change: Some((name, after)), .. }, is_done)) = planned {
            let before = (!is_done).then(|| self.state(&name));
            expected.insert(name, before.into_iter().chain([after]).collect());
        }
        for (name, states) in expected {
            self.tally.checked_volumes += 1;
            match states.into_iter().find_map(|state| state.found(client(&name).as_mut())) {
                Some(State::There(still)) => drop(self.still.insert(name, still)),
                Some(_) => drop(self.still.remove(&name)),
                None => {
                    println!("volume '{name}' is not as it was or was to be");
                    self.tally.wrong_volumes += 1;
                }
            }
        }
        served
    }

    /// What is known of a volume.
    fn state(&self, name: &str) -> State {
        self.still.get(name).cloned().map_or(State::Gone, State::There)
    }
}

/// A request that a server has begun with.
struct Asking(BufReader<UnixStream>);

impl Asking {
    fn begin(control: &Path, request: &Value) -> Self {
        let mut stream = UnixStream::connect(control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        writeln!(stream, "{request}").unwrap();
        let mut asking = Self(BufReader::new(stream));
        let said = asking.next();
        assert!(said.contains("begun"), "{request}: {said}");
        asking
    }

    /// The next answer, or a part of it; nothing if the server is gone.
    fn next(&mut self) -> String {
        let mut line = Vec::new();
        let _ = self.0.read_until(b'\n', &mut line);
        String::from_utf8(line).unwrap()
    }

    /// Whether it was done before the server ended.
    fn is_done(&mut self) -> bool {
        let said = self.next();
        assert!(!said.contains("refused"), "{said}");
        said.ends_with('\n')
    }
}

/// The journals and checkpoints of the pool.
fn records(lab: &Lab) -> Vec<String> {
    let files = fs::read_dir(lab.path("pool")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("journal-") || name.starts_with("checkpoint-")).collect()
}

/// Waits until there is a checkpoint that is none of `before`.
fn wait_for_checkpoint(lab: &Lab, before: &[String]) {
    let begun = Instant::now();
    let is_new = |name: &String| name.starts_with("checkpoint-") && !before.contains(name);
    while !records(lab).iter().any(is_new) {
        assert!(begun.elapsed() < PATIENCE, "no checkpoint is made");
        thread::sleep(Duration::from_micros(50));
    }
}
