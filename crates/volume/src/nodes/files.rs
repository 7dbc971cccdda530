//! Files of nodes: append-only, verified on every read, removed once no checkpoint names them.
//!
//! A file is a header and then slots of equal length, each a node and its check. The check covers the
//! pool, the file and the index of the node. So a node that is damaged, stale, in the wrong place or of
//! another pool is refused. What follows the last node that a checkpoint names has no meaning: a crash
//! may leave a torn slot there.
//!
//! **Locks**, in the order in which they are taken: `syncing`, `appender`, `table`. Every look-up takes
//! `table`, which is never held while a file is opened, read, written or synced. A read takes no other
//! lock, so it never waits for I/O of another thread.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use onefold_backend::{Folder, Log, LogReader, Syncer};
use onefold_seal::wire::Put;
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::error::VolumeError;
use crate::ids::Writer;

/// Numbers in a node.
pub(crate) const NODE: usize = 512;

/// The unit in which maps and page tables are stored: 4096 bytes, each number little-endian.
pub(crate) type Node = [u64; NODE];

const NODE_LEN: usize = NODE * size_of::<u64>();

/// Bytes of a node and its check.
const SLOT: usize = NODE_LEN + CHECK_LEN;

/// What a file begins with.
const MAGIC: &[u8; 12] = b"onefold node";

/// The format of a pool that first had nodes.
const VERSION: u32 = 2;

/// Bytes in front of the first slot. The fields and their check take 64, and zeros the rest.
const HEADER: usize = 4096;

/// Where in the header each field begins.
const VERSION_AT: usize = MAGIC.len();
const POOL_AT: usize = VERSION_AT + size_of::<u32>();
const FILE_AT: usize = POOL_AT + ObjectId::LEN;
const CHECK_AT: usize = FILE_AT + 2 * size_of::<u64>();
const ZEROS_AT: usize = CHECK_AT + CHECK_LEN;

/// A file has at most so many nodes: those that fit in 64 MiB.
const NODES_PER_FILE: u32 = (((64 << 20) - HEADER) / SLOT) as u32;

/// At most so many files are open for reading, besides those from which threads read now.
const READERS: usize = 64;

/// One read gets at most so many nodes: about 1 MiB.
const RUN: usize = 256;

/// Nodes so far from one another come with one read, and those between them: to copy some KiB takes no
/// longer than a call of the system.
const NEAR: u32 = 4;

/// Numbers of writers and files are below.
const LIMIT: u64 = 1 << 63;

const PREFIX: &str = "nodes-";

/// The name of a file of nodes: the `number`-th of `writer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeFile {
    pub(crate) writer: Writer,
    pub(crate) number: u64,
}

impl NodeFile {
    pub(crate) fn name(self) -> String {
        format!("{PREFIX}{:016x}-{:016x}", self.writer.0, self.number)
    }

    /// The file with this name, or `None` if no file of nodes has it.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (writer, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let number_of = |digits| u64::from_str_radix(digits, 16).ok();
        let file = Self { writer: Writer(number_of(writer)?), number: number_of(number)? };
        // the names are compared, since other digits may spell the same numbers
        (file.is_possible() && file.name() == name).then_some(file)
    }

    fn is_possible(self) -> bool {
        self.writer.0 < LIMIT && self.number < LIMIT
    }

    fn damaged(self, at: u64, problem: String) -> VolumeError {
        VolumeError::Damaged { object: self.name(), at, problem }
    }

    fn header(self, pool: ObjectId) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(MAGIC);
        bytes.put_u32(VERSION);
        bytes.extend_from_slice(pool.as_bytes());
        bytes.put_u64(self.writer.0);
        bytes.put_u64(self.number);
        let check = Check::of(&[&bytes]);
        bytes.extend_from_slice(check.as_bytes());
        bytes.resize(HEADER, 0);
        bytes
    }

    /// Fails unless `found` is the header of this file of `pool`.
    fn ensure_header(self, pool: ObjectId, found: &[u8; HEADER]) -> Result<(), VolumeError> {
        let expected = self.header(pool);
        let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        let Some(byte) = differs else { return Ok(()) };
        let (fields, check) = (&found[..CHECK_AT], &found[CHECK_AT..ZEROS_AT]);
        let problem = match byte {
            0..VERSION_AT => "it does not begin as a file of nodes".to_owned(),
            ZEROS_AT.. => "a byte of the header is not zero".to_owned(),
            _ if check != Check::of(&[fields]).as_bytes() => {
                "the header is damaged: its check does not fit".to_owned()
            }
            // it is whole, and that of another file
            VERSION_AT..POOL_AT => format!("another format version, expected {VERSION}"),
            POOL_AT..FILE_AT => format!("a file of another pool, expected pool {pool}"),
            _ => format!("the header of another file, expected that of {}", self.name()),
        };
        Err(self.damaged(byte as u64, problem))
    }

    /// What the check of node `index` covers besides the node, behind it: so the hash works on several
    /// of the node's KiB at a time and takes 1.6 µs, instead of 4.2 µs with these bytes in front.
    fn identity(self, pool: ObjectId, index: u32) -> [u8; ObjectId::LEN + 8 + 8 + 4] {
        let mut bytes = Vec::with_capacity(ObjectId::LEN + 8 + 8 + 4);
        bytes.extend_from_slice(pool.as_bytes());
        bytes.put_u64(self.writer.0);
        bytes.put_u64(self.number);
        bytes.put_u32(index);
        bytes.try_into().expect("as long as its fields")
    }

    /// Writes `node` and its check to `slot`, which is `SLOT` bytes long.
    fn encode(self, pool: ObjectId, index: u32, node: &Node, slot: &mut [u8]) {
        let (bytes, check) = slot.split_at_mut(NODE_LEN);
        for (bytes, number) in bytes.chunks_exact_mut(size_of::<u64>()).zip(node) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        check.copy_from_slice(Check::of(&[bytes, &self.identity(pool, index)]).as_bytes());
    }

    /// The node in `slot`, which is `SLOT` bytes long, if its check says that it is node `index`.
    fn decode(self, pool: ObjectId, index: u32, slot: &[u8]) -> Result<Box<Node>, VolumeError> {
        let (bytes, check) = slot.split_last_chunk().expect("a slot is longer than its check");
        let verified = Check::from_bytes(*check).verify(&[bytes, &self.identity(pool, index)]);
        verified
            .map_err(|error| self.damaged(offset_of(index), format!("node {index}: {error}")))?;
        let mut node = Box::new([0; NODE]);
        for (number, bytes) in node.iter_mut().zip(bytes.as_chunks().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        Ok(node)
    }
}

/// The byte at which the slot of node `index` begins.
const fn offset_of(index: u32) -> u64 {
    HEADER as u64 + index as u64 * SLOT as u64
}

/// How many whole slots fit in a file of `len` bytes.
fn slots_in(len: u64) -> u32 {
    let slots = len.saturating_sub(HEADER as u64) / SLOT as u64;
    slots.try_into().unwrap_or(u32::MAX)
}

/// Where a node is stored, within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeAddress {
    /// One more than the place of the file in the table, so that no address takes no memory of its own.
    file: NonZeroU32,
    index: u32,
}

impl NodeAddress {
    fn new(place: u32, index: u32) -> Self {
        Self { file: NonZeroU32::MIN.saturating_add(place), index }
    }

    /// The place of the file in the table: the same for all nodes of a file.
    pub(crate) const fn file(self) -> u32 {
        self.file.get() - 1
    }
}

/// The files of nodes of a pool.
pub(crate) struct NodeFiles {
    folder: Arc<dyn Folder>,
    pool: ObjectId,
    nodes_per_file: u32,
    readers: usize,
    /// Held by the thread that syncs. A second thread that synced the same file could miss the error
    /// that the system reports once.
    syncing: Mutex<()>,
    appender: Mutex<Appender>,
    table: RwLock<Table>,
}

/// What takes new nodes.
#[derive(Default)]
struct Appender {
    /// The file that is made next. `None` before a writer has begun.
    next: Option<NodeFile>,
    growing: Option<Growing>,
    /// Files with nodes that no sync covered yet.
    unsynced: BTreeMap<NodeFile, Unsynced>,
}

/// The file to which nodes are appended.
struct Growing {
    file: NodeFile,
    /// Its place in the table.
    place: u32,
    log: Box<dyn Log + Sync>,
    nodes: u32,
}

#[derive(Clone)]
struct Unsynced {
    syncer: Arc<dyn Syncer>,
    /// How many nodes the file has.
    nodes: u32,
}

/// The files that this process knows.
#[derive(Default)]
struct Table {
    /// By the file of a [`NodeAddress`].
    entries: Vec<Entry>,
    places: HashMap<NodeFile, u32>,
    /// The places of the files that are open for reading. The clock's hand comes to the first next.
    hand: VecDeque<u32>,
}

struct Entry {
    file: NodeFile,
    len: Len,
    reader: Option<Arc<Reader>>,
}

/// How many nodes a file has.
#[derive(Clone, Copy)]
enum Len {
    /// The file was not opened yet.
    Unknown,
    /// So many fit in the file as it was found.
    Found(u32),
    /// This process appended so many.
    Appended(u32),
    /// The file is removed.
    Removed,
}

/// A file that is open for reading, whose header was verified.
struct Reader {
    log: Box<dyn LogReader>,
    /// Whether it was looked up since it was opened or the hand passed it.
    is_used: AtomicBool,
}

impl NodeFiles {
    /// The files of nodes in `folder`, of the pool with the id `pool`. Nothing is opened or made.
    pub(crate) fn new(folder: Arc<dyn Folder>, pool: ObjectId) -> Self {
        Self::with_bounds(folder, pool, NODES_PER_FILE, READERS)
    }

    fn with_bounds(
        folder: Arc<dyn Folder>,
        pool: ObjectId,
        nodes_per_file: u32,
        readers: usize,
    ) -> Self {
        let (syncing, appender, table) = (Mutex::default(), Mutex::default(), RwLock::default());
        Self { folder, pool, nodes_per_file, readers, syncing, appender, table }
    }

    /// Directs later appends to files of `writer`. The first gets a number above those of all files of
    /// nodes that are in the folder or that this process knows. It is made by the first append.
    pub(crate) fn begin(&self, writer: Writer) -> Result<(), VolumeError> {
        let mut appender = self.lock_appender();
        let names = self.folder.names()?;
        let known = self.table().entries.iter().map(|entry| entry.file.number).max();
        let listed = names.iter().filter_map(|name| NodeFile::parse(name)).map(|file| file.number);
        let last = listed.chain(known).max().unwrap_or(0);
        appender.next = Some(NodeFile { writer, number: last.saturating_add(1) });
        appender.growing = None;
        Ok(())
    }

    /// The address of node `index` of `file`. Neither has to exist: a read finds that out.
    pub(crate) fn address(&self, file: NodeFile, index: u32) -> NodeAddress {
        let known = self.table().places.get(&file).copied();
        let place = known.unwrap_or_else(|| self.table_mut().place_of(file));
        NodeAddress::new(place, index)
    }

    /// The file and the index of the node at `address`.
    pub(crate) fn place(&self, address: NodeAddress) -> (NodeFile, u32) {
        (self.table().entries[address.file() as usize].file, address.index)
    }

    /// Appends `nodes`, with one write for each file that gets some of them, and returns the address of
    /// each. They are durable after the next [`sync`](Self::sync). The call takes memory for a copy of
    /// the nodes, at most 64 MiB.
    ///
    /// After an error none of `nodes` counts, though some may take space. The file in which a write
    /// failed gets no more nodes, unless it has none.
    ///
    /// # Panics
    ///
    /// If no writer has [begun](Self::begin).
    pub(crate) fn append(&self, nodes: &[&Node]) -> Result<Vec<NodeAddress>, VolumeError> {
        let mut appender = self.lock_appender();
        let mut addresses = Vec::with_capacity(nodes.len());
        let mut rest = nodes;
        while !rest.is_empty() {
            let mut growing = self.growing(&mut appender)?;
            let room = (self.nodes_per_file - growing.nodes) as usize;
            let (now, later) = rest.split_at(room.min(rest.len()));
            let first = growing.nodes;
            match self.append_to(&mut growing, now) {
                Ok(()) => {
                    let Growing { file, place, nodes, .. } = growing;
                    let syncer = growing.log.syncer();
                    appender.unsynced.insert(file, Unsynced { syncer, nodes });
                    let indices = first..nodes;
                    addresses.extend(indices.map(|index| NodeAddress::new(place, index)));
                    appender.growing = Some(growing);
                }
                Err(error) => {
                    // A file without nodes is tried again: a full disk gets no more than one of these.
                    let is_new = growing.nodes == 0 && growing.log.is_empty();
                    appender.growing = is_new.then_some(growing);
                    return Err(error);
                }
            }
            rest = later;
        }
        Ok(addresses)
    }

    /// Takes out the file to append to, which has room. If there is none, the next one is made.
    fn growing(&self, appender: &mut Appender) -> Result<Growing, VolumeError> {
        let has_room = |growing: &Growing| growing.nodes < self.nodes_per_file;
        if let Some(growing) = appender.growing.take().filter(has_room) {
            return Ok(growing);
        }
        let next = appender.next.as_mut().expect("a writer begins before anything is appended");
        let file = *next;
        if !file.is_possible() {
            return Err(file.damaged(0, "its numbers must be below 2^63".to_owned()));
        }
        let log = self.folder.log(&file.name())?;
        next.number += 1;
        if !log.is_empty() {
            let problem = format!("it has {} bytes, expected a new file without any", log.len());
            return Err(file.damaged(0, problem));
        }
        let mut table = self.table_mut();
        let place = table.place_of(file);
        table.entries[place as usize].len = Len::Appended(0);
        Ok(Growing { file, place, log, nodes: 0 })
    }

    /// Appends `nodes`, for which there is room, with one write.
    fn append_to(&self, growing: &mut Growing, nodes: &[&Node]) -> Result<(), VolumeError> {
        let Growing { file, place, nodes: before, .. } = *growing;
        let mut bytes = if before == 0 { file.header(self.pool) } else { Vec::new() };
        let header = bytes.len();
        bytes.resize(header + nodes.len() * SLOT, 0);
        for ((index, node), slot) in
            (before..).zip(nodes).zip(bytes[header..].chunks_exact_mut(SLOT))
        {
            file.encode(self.pool, index, node, slot);
        }
        growing.log.append(&bytes)?;
        growing.nodes += nodes.len() as u32;
        self.table_mut().entries[place as usize].len = Len::Appended(growing.nodes);
        Ok(())
    }

    /// Reads and verifies the node at `address`.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Damaged`] names the file and the byte of the header or slot that is not as this
    /// node must be, or says that the file is missing. [`VolumeError::Backend`] says that the file cannot
    /// be read.
    pub(crate) fn read(&self, address: NodeAddress) -> Result<Box<Node>, VolumeError> {
        let index = address.index;
        let (file, slot) = self.read_slots(address.file(), index, 1)?;
        file.decode(self.pool, index, &slot)
    }

    /// Reads and verifies the node at each address, as [`read`](Self::read) does, in the order of
    /// `addresses`. Those that are near one another in a file come with one read of at most about 1 MiB.
    pub(crate) fn read_many(
        &self,
        addresses: &[NodeAddress],
    ) -> Vec<Result<Box<Node>, VolumeError>> {
        let mut order: Vec<usize> = (0..addresses.len()).collect();
        order.sort_unstable_by_key(|&at| addresses[at]);
        let mut found: Vec<_> = addresses.iter().map(|_| None).collect();
        let mut rest = &order[..];
        while !rest.is_empty() {
            let (run, behind) = rest.split_at(first_run(rest.iter().map(|&at| addresses[at])));
            rest = behind;
            let (first, last) = (addresses[run[0]], addresses[run[run.len() - 1]]);
            let nodes = (last.index - first.index) as usize + 1;
            let slots = self.read_slots(first.file(), first.index, nodes);
            for &at in run {
                let index = addresses[at].index;
                found[at] = Some(match &slots {
                    Ok((file, bytes)) => {
                        let start = (index - first.index) as usize * SLOT;
                        file.decode(self.pool, index, &bytes[start..start + SLOT])
                    }
                    // those beside a node that cannot be read may be readable
                    Err(_) => self.read(addresses[at]),
                });
            }
        }
        found.into_iter().map(|node| node.expect("each address is in one run")).collect()
    }

    /// The bytes of `nodes` slots of the file at `place`, from that of node `first` on.
    fn read_slots(
        &self,
        place: u32,
        first: u32,
        nodes: usize,
    ) -> Result<(NodeFile, Vec<u8>), VolumeError> {
        let start = offset_of(first);
        let range = start..start + (nodes * SLOT) as u64;
        let (file, reader) = self.reader(place, range.clone())?;
        let mut bytes = vec![0; nodes * SLOT];
        reader.log.read(range.start, &mut bytes)?;
        Ok((file, bytes))
    }

    /// A reader of the file at `place` that has the bytes of `range`.
    fn reader(
        &self,
        place: u32,
        range: Range<u64>,
    ) -> Result<(NodeFile, Arc<Reader>), VolumeError> {
        let (file, open) = {
            let table = self.table();
            let entry = &table.entries[place as usize];
            (entry.file, entry.reader.clone())
        };
        // a file that grew since it was opened is opened again
        if let Some(reader) = open.filter(|reader| range.end <= reader.log.len()) {
            // A store each time would take the cache line from the other cores.
            if !reader.is_used.load(Ordering::Relaxed) {
                reader.is_used.store(true, Ordering::Relaxed);
            }
            return Ok((file, reader));
        }
        let reader = self.open(file)?;
        // what is closed is dropped after the lock
        let _closed = self.table_mut().keep_open(place, &reader, self.readers);
        let len = reader.log.len();
        if range.end > len {
            let problem = format!("it has {len} bytes, expected a node up to byte {}", range.end);
            return Err(file.damaged(range.start, problem));
        }
        Ok((file, reader))
    }

    /// Reads and verifies the node at `address`, whatever the header of its file is: the node's own check
    /// says of which file it is.
    ///
    /// # Errors
    ///
    /// As of [`read`](Self::read).
    pub(crate) fn read_despite_header(
        &self,
        address: NodeAddress,
    ) -> Result<Box<Node>, VolumeError> {
        let (file, index) = self.place(address);
        let log = self.reader_of(file)?;
        let (start, mut slot) = (offset_of(index), vec![0; SLOT]);
        let (len, end) = (log.len(), start + SLOT as u64);
        if len < end {
            let problem = format!("it has {len} bytes, expected a node up to byte {end}");
            return Err(file.damaged(start, problem));
        }
        log.read(start, &mut slot)?;
        file.decode(self.pool, index, &slot)
    }

    fn reader_of(&self, file: NodeFile) -> Result<Box<dyn LogReader>, VolumeError> {
        self.folder.reader(&file.name()).map_err(|error| match error.is_not_found() {
            true => file.damaged(0, "the file is not there".to_owned()),
            false => error.into(),
        })
    }

    /// Opens `file` and verifies its header.
    fn open(&self, file: NodeFile) -> Result<Arc<Reader>, VolumeError> {
        let log = self.reader_of(file)?;
        let len = log.len();
        if len < HEADER as u64 {
            let problem = format!("it has {len} bytes, expected a header of {HEADER}");
            return Err(file.damaged(len, problem));
        }
        let mut header = [0; HEADER];
        log.read(0, &mut header)?;
        file.ensure_header(self.pool, &header)?;
        Ok(Arc::new(Reader { log, is_used: AtomicBool::new(false) }))
    }

    /// Makes all nodes durable that were appended before the call.
    ///
    /// # Errors
    ///
    /// After an error the file that failed gets no more nodes. Every later call fails too, since it is
    /// unknown which nodes of that file are durable, until [`retain`](Self::retain) removes the file.
    pub(crate) fn sync(&self) -> Result<(), VolumeError> {
        let _syncing = self.syncing.lock().expect("a thread panicked while it synced nodes");
        let unsynced = self.lock_appender().unsynced.clone();
        for (file, Unsynced { syncer, nodes }) in unsynced {
            let synced = syncer.sync();
            let mut appender = self.lock_appender();
            match synced {
                Ok(()) => {
                    // unless more was appended meanwhile
                    if appender.unsynced.get(&file).is_some_and(|now| now.nodes == nodes) {
                        appender.unsynced.remove(&file);
                    }
                }
                Err(error) => {
                    appender.growing.take_if(|growing| growing.file == file);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Closes and removes the files of nodes in the folder, of any writer, that are not in `used`,
    /// except the one to which nodes are appended. The addresses of their nodes stay valid, but a read
    /// fails.
    ///
    /// Files of later writers stay. The caller must name in `used` each file that has a node it needs, also of those appended since
    /// the last checkpoint. A file that cannot be removed is tried again by the next call.
    pub(crate) fn retain(&self, used: &HashSet<NodeFile>) -> Result<(), VolumeError> {
        let unused = {
            // no other file begins to grow meanwhile
            let mut appender = self.lock_appender();
            let growing = appender.growing.as_ref().map(|growing| growing.file);
            // a later writer has the pool, and its checkpoint names its files
            let own = appender.next.map(|next| next.writer);
            let is_later = |file: &NodeFile| Some(file.writer) > own;
            let is_kept =
                |file: &NodeFile| used.contains(file) || Some(*file) == growing || is_later(file);
            let mut names = self.folder.names()?;
            names.retain(|name| NodeFile::parse(name).is_some_and(|file| !is_kept(&file)));
            appender.unsynced.retain(|file, _| is_kept(file));
            // what is closed is dropped after the lock
            let _closed = self.table_mut().close_unless(is_kept);
            names
        };
        for name in unused {
            // A file that stays takes space, and nothing else: the next call lists it again.
            let _ = self.folder.remove(&name);
        }
        Ok(())
    }

    /// The file to which the next nodes are appended, if one has room.
    pub(crate) fn growing_file(&self) -> Option<NodeFile> {
        self.lock_appender().growing.as_ref().map(|growing| growing.file)
    }

    /// Each known file that has nodes, and how many it has, whether a checkpoint names them or not.
    /// Files are opened to learn that; those that cannot be opened are left out.
    pub(crate) fn lens(&self) -> Vec<(NodeFile, u32)> {
        let unknown: Vec<_> = {
            let table = self.table();
            let places = (0..).zip(&table.entries);
            let unknown = places.filter(|(_, entry)| matches!(entry.len, Len::Unknown));
            unknown.map(|(place, entry)| (place, entry.file)).collect()
        };
        for (place, file) in unknown {
            if let Ok(log) = self.folder.reader(&file.name()) {
                self.table_mut().found(place, log.len());
            }
        }
        let table = self.table();
        let lens = table.entries.iter().filter_map(|entry| match entry.len {
            Len::Found(nodes) | Len::Appended(nodes) if nodes > 0 => Some((entry.file, nodes)),
            _ => None,
        });
        lens.collect()
    }

    fn lock_appender(&self) -> MutexGuard<'_, Appender> {
        self.appender.lock().expect("a thread panicked while it appended nodes")
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().expect("a thread panicked during a look-up")
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().expect("a thread panicked during a look-up")
    }
}

impl Table {
    /// The place of `file`, which is entered if it is not known.
    fn place_of(&mut self, file: NodeFile) -> u32 {
        *self.places.entry(file).or_insert_with(|| {
            let place = self.entries.len().try_into().expect("there are fewer files than 2^32");
            self.entries.push(Entry { file, len: Len::Unknown, reader: None });
            place
        })
    }

    /// The file at `place` was found with `len` bytes.
    fn found(&mut self, place: u32, len: u64) {
        let known = &mut self.entries[place as usize].len;
        if matches!(known, Len::Unknown | Len::Found(_)) {
            *known = Len::Found(slots_in(len));
        }
    }

    /// Keeps `reader` of the file at `place` open, unless one of more bytes is open or the file is
    /// removed. Returns what is closed for it, so that at most `most` files are open.
    fn keep_open(&mut self, place: u32, reader: &Arc<Reader>, most: usize) -> Vec<Arc<Reader>> {
        self.found(place, reader.log.len());
        let entry = &mut self.entries[place as usize];
        let has_longer = |open: &Arc<Reader>| open.log.len() >= reader.log.len();
        if matches!(entry.len, Len::Removed) || entry.reader.as_ref().is_some_and(has_longer) {
            return Vec::new();
        }
        let mut closed = Vec::new();
        match entry.reader.replace(Arc::clone(reader)) {
            Some(shorter) => closed.push(shorter),
            None => self.hand.push_back(place),
        }
        // Each gets one more round if it was used. Without a bound, threads that read all the while
        // would keep every file open.
        let mut rounds = self.hand.len();
        while self.hand.len() > most
            && let Some(next) = self.hand.pop_front()
        {
            let open = &mut self.entries[next as usize].reader;
            let is_used = |open: &Arc<Reader>| open.is_used.swap(false, Ordering::Relaxed);
            if rounds > 0 && open.as_ref().is_some_and(is_used) {
                rounds -= 1;
                self.hand.push_back(next);
            } else {
                closed.extend(open.take());
            }
        }
        closed
    }

    /// Marks all files as removed but those that are kept, and returns those that were open.
    fn close_unless(&mut self, is_kept: impl Fn(&NodeFile) -> bool) -> Vec<Arc<Reader>> {
        let mut closed = Vec::new();
        for entry in self.entries.iter_mut().filter(|entry| !is_kept(&entry.file)) {
            entry.len = Len::Removed;
            closed.extend(entry.reader.take());
        }
        let Self { entries, hand, .. } = self;
        hand.retain(|place| entries[*place as usize].reader.is_some());
        closed
    }
}

/// How many of these addresses, which are sorted, are read together: those from the first on.
fn first_run(mut addresses: impl Iterator<Item = NodeAddress>) -> usize {
    let Some(first) = addresses.next() else { return 0 };
    let mut last = first;
    let is_next = |one: &NodeAddress| {
        let is_near = one.file == first.file
            && one.index - last.index <= NEAR
            && ((one.index - first.index) as usize) < RUN;
        last = *one;
        is_near
    };
    1 + addresses.take_while(is_next).count()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use onefold_backend::crash::CrashDisk;
    use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
    use onefold_backend::{BackendError, MemoryFolder, Operation, Pages};

    use super::*;

    const POOL: ObjectId = ObjectId::from_bytes([7; ObjectId::LEN]);
    const WRITER: Writer = Writer(5);

    /// Files of at most so many nodes.
    const NODES: u32 = 4;

    fn files_of(folder: &Arc<dyn Folder>) -> NodeFiles {
        NodeFiles::with_bounds(Arc::clone(folder), POOL, NODES, READERS)
    }

    fn memory() -> Arc<dyn Folder> {
        Arc::new(MemoryFolder::new())
    }

    fn begun(folder: &Arc<dyn Folder>) -> NodeFiles {
        let files = files_of(folder);
        files.begin(WRITER).unwrap();
        files
    }

    /// A folder with faults, and its files of nodes, to which `WRITER` appends.
    fn faulty() -> (Arc<dyn Folder>, Faults, NodeFiles) {
        let faults = Faults::none();
        let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
        let files = begun(&folder);
        (folder, faults, files)
    }

    /// A node unlike all others.
    fn node(number: u64) -> Node {
        std::array::from_fn(|at| number << 32 | at as u64)
    }

    fn file(number: u64) -> NodeFile {
        NodeFile { writer: WRITER, number }
    }

    fn append(files: &NodeFiles, numbers: Range<u64>) -> Vec<NodeAddress> {
        let nodes: Vec<Node> = numbers.map(node).collect();
        files.append(&nodes.iter().collect::<Vec<_>>()).unwrap()
    }

    fn assert_read(files: &NodeFiles, addresses: &[NodeAddress], numbers: Range<u64>) {
        assert_eq!(addresses.len() as u64, numbers.end - numbers.start);
        for (address, number) in addresses.iter().zip(numbers) {
            assert!(*files.read(*address).unwrap() == node(number), "{number}");
        }
    }

    /// What `result` names as damaged: the file and the byte.
    fn damage<T>(result: Result<T, VolumeError>) -> (String, u64) {
        match result.err() {
            Some(VolumeError::Damaged { object, at, .. }) => (object, at),
            other => panic!("{other:?}"),
        }
    }

    fn bytes_of(folder: &dyn Folder, name: &str) -> Vec<u8> {
        let reader = folder.reader(name).unwrap();
        let mut bytes = vec![0; reader.len() as usize];
        reader.read(0, &mut bytes).unwrap();
        bytes
    }

    fn put(folder: &dyn Folder, name: &str, bytes: &[u8]) {
        let mut log = folder.log(name).unwrap();
        log.truncate(0).unwrap();
        log.append(bytes).unwrap();
    }

    /// The bytes of a file with nodes 0 to 2.
    fn three_nodes() -> Vec<u8> {
        let folder = memory();
        append(&begun(&folder), 0..3);
        bytes_of(&*folder, &file(1).name())
    }

    /// What reads of nodes 0 to 2 of file 1 give if it has `bytes`.
    fn read_three(bytes: &[u8]) -> Vec<Result<Box<Node>, VolumeError>> {
        let folder = memory();
        put(&*folder, &file(1).name(), bytes);
        let files = files_of(&folder);
        let addresses: Vec<_> = (0..3).map(|index| files.address(file(1), index)).collect();
        files.read_many(&addresses)
    }

    #[test]
    fn a_name_stands_for_one_file_and_other_forms_for_none() {
        for (writer, number) in [(0, 0), (5, 0xab), (LIMIT - 1, LIMIT - 1)] {
            let file = NodeFile { writer: Writer(writer), number };
            assert_eq!(NodeFile::parse(&file.name()), Some(file));
        }
        assert_eq!(file(0x2a).name(), "nodes-0000000000000005-000000000000002a");
        for name in [
            "",
            "nodes-",
            "nodes--",
            "nodes-5-2a",
            "nodes-0000000000000005",
            "nodes-0000000000000005-",
            "nodes-0000000000000005-000000000000002A",
            "nodes-0000000000000005-00000000000002a",
            "nodes-0000000000000005-0000000000000002a",
            "nodes-0000000000000005-000000000000002a-",
            "nodes-0000000000000005-000000000000002a ",
            "nodes-+000000000000005-000000000000002a",
            "nodes-0000000000000005-+00000000000002a",
            "nodes-0000000000000005-800000000000002a",
            "nodes-8000000000000005-000000000000002a",
            "nodes-0000000000000005-00000000000000é",
            "Nodes-0000000000000005-000000000000002a",
            "node-0000000000000005-000000000000002a",
            "journal-0000000000000005-000000000000002a",
        ] {
            assert_eq!(NodeFile::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_has_the_documented_bytes() {
        assert!(offset_of(NODES_PER_FILE) <= 64 << 20 && offset_of(NODES_PER_FILE + 1) > 64 << 20);
        let bytes = three_nodes();
        assert_eq!(bytes.len(), 4096 + 3 * 4112);
        let numbers = [5u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
        let fields = [&b"onefold node\x02\0\0\0"[..], &[7; 16], &numbers].concat();
        assert_eq!(bytes[..48], fields);
        assert_eq!(bytes[48..64], Check::of(&[&fields]).as_bytes()[..]);
        assert!(bytes[64..4096].iter().all(|byte| *byte == 0));
        for (index, slot) in (0..).zip(bytes[4096..].chunks(4112)) {
            let words: Vec<u8> = node(index).iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(slot[..4096], words);
            let covered = [&words, &[7; 16][..], &numbers, &(index as u32).to_le_bytes()].concat();
            assert_eq!(slot[4096..], Check::of(&[&covered]).as_bytes()[..]);
        }
    }

    #[test]
    fn nodes_come_back_from_several_files_in_the_process_that_wrote_them_and_in_the_next() {
        let folder = memory();
        let files = begun(&folder);
        let mut addresses = append(&files, 0..3);
        // two files end within this run
        addresses.extend(append(&files, 3..10));
        assert_eq!(append(&files, 10..10), []);
        addresses.extend((10..13).flat_map(|number| append(&files, number..number + 1)));
        assert_read(&files, &addresses, 0..13);
        files.sync().unwrap();
        let places: Vec<_> = addresses.iter().map(|address| files.place(*address)).collect();
        let expected = (0..13).map(|number| (file(1 + number / 4), number as u32 % 4));
        assert!(places.iter().copied().eq(expected));
        for (address, (file, index)) in addresses.iter().zip(&places) {
            assert_eq!(files.address(*file, *index), *address);
        }
        let lens = [(file(1), 4), (file(2), 4), (file(3), 4), (file(4), 1)];
        assert_eq!(files.lens(), lens);
        let next = files_of(&folder);
        let place = |&(file, index)| next.address(file, index);
        let addresses: Vec<_> = places.iter().map(place).collect();
        assert_eq!(next.lens(), lens);
        assert_read(&next, &addresses, 0..13);
    }

    #[test]
    fn the_first_file_of_a_writer_has_a_number_above_all_that_are_there() {
        let folder = memory();
        folder.log(&NodeFile { writer: Writer(2), number: 0x11 }.name()).unwrap();
        folder.log("nodes-0000000000000002-000000000000ffff.old").unwrap();
        let files = begun(&folder);
        let first = append(&files, 0..1);
        assert_eq!(files.place(first[0]), (file(0x12), 0));
        // nor does it get that of a file that was removed
        files.begin(WRITER).unwrap();
        files.retain(&HashSet::new()).unwrap();
        files.begin(WRITER).unwrap();
        let second = append(&files, 1..2);
        assert_eq!(files.place(second[0]), (file(0x13), 0));
        assert!(files.read(first[0]).is_err());
    }

    #[test]
    fn a_file_that_was_not_made_now_gets_no_nodes() {
        let folder = memory();
        let files = begun(&folder);
        put(&*folder, &file(1).name(), b"of somebody");
        assert_eq!(damage(files.append(&[&node(0)])), (file(1).name(), 0));
        let addresses = append(&files, 0..1);
        assert_eq!(files.place(addresses[0]), (file(2), 0));
        assert_eq!(bytes_of(&*folder, &file(1).name()), b"of somebody");
        // numbers that no name can have are refused as well
        folder.log(&file(LIMIT - 1).name()).unwrap();
        let files = begun(&folder);
        assert_eq!(damage(files.append(&[&node(0)])), (file(LIMIT).name(), 0));
    }

    #[test]
    fn many_are_read_in_the_order_asked_and_those_near_one_another_with_one_read() {
        let faults = Faults::none();
        let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
        let many = RUN as u64 + 10;
        let files = NodeFiles::with_bounds(folder, POOL, many as u32, READERS);
        files.begin(WRITER).unwrap();
        let addresses = append(&files, 0..many + 3);
        let read = |numbers: &[u64]| {
            let before = faults.count(Operation::Read);
            let asked: Vec<_> = numbers.iter().map(|number| addresses[*number as usize]).collect();
            let found = files.read_many(&asked);
            assert_eq!(found.len(), numbers.len());
            for (found, number) in found.into_iter().zip(numbers) {
                assert!(*found.unwrap() == node(*number), "{number}");
            }
            faults.count(Operation::Read) - before
        };
        let all: Vec<_> = (0..many + 3).rev().collect();
        // two runs and a header, then a run and a header of the next file
        assert_eq!(read(&all), 5);
        assert_eq!(read(&all), 3);
        assert_eq!(read(&[]), 0);
        assert_eq!(read(&[5, 3, 4, 4, 5, 9, many, many - 1]), 3);
        // as near as NEAR, and not
        assert_eq!(read(&[20, 24, 29]), 2);
    }

    #[test]
    fn one_node_that_cannot_be_read_spoils_no_other() {
        let mut bytes = three_nodes();
        bytes[offset_of(1) as usize + 100] ^= 1;
        let mut found = read_three(&bytes);
        assert_eq!(damage(found.remove(1)), (file(1).name(), offset_of(1)));
        assert!(*found.remove(0).unwrap() == node(0) && *found.remove(0).unwrap() == node(2));
        let mut found = read_three(&bytes[..offset_of(2) as usize + SLOT - 1]);
        assert_eq!(damage(found.remove(2)), (file(1).name(), offset_of(2)));
        assert_eq!(damage(found.remove(1)), (file(1).name(), offset_of(1)));
        assert!(*found.remove(0).unwrap() == node(0));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_refused_with_file_and_byte() {
        let whole = three_nodes();
        for at in 0..offset_of(2) as usize {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let found = read_three(&bytes);
            for (index, found) in (0..).zip(found) {
                let slot = offset_of(index);
                if at < HEADER {
                    assert_eq!(damage(found), (file(1).name(), at as u64));
                } else if (slot..slot + SLOT as u64).contains(&(at as u64)) {
                    assert_eq!(damage(found), (file(1).name(), slot), "{at}");
                } else {
                    assert!(*found.unwrap() == node(index.into()), "{at}");
                }
            }
        }
    }

    #[test]
    fn swapped_slots_are_refused() {
        let bytes = three_nodes();
        let [first, second, third] = [0, 1, 2].map(|index| offset_of(index) as usize);
        let slots = [&bytes[second..third], &bytes[first..second], &bytes[third..]];
        let swapped = [&bytes[..first], slots[0], slots[1], slots[2]].concat();
        let mut found = read_three(&swapped);
        assert!(*found.remove(2).unwrap() == node(2));
        for (index, found) in (0..).zip(found) {
            assert_eq!(damage(found), (file(1).name(), offset_of(index)));
        }
    }

    #[test]
    fn bytes_of_another_pool_writer_or_file_are_refused_whatever_the_header_says() {
        let own = three_nodes();
        let other_pool = ObjectId::from_bytes([8; ObjectId::LEN]);
        let others = [
            (other_pool, file(1), POOL_AT),
            (POOL, NodeFile { writer: Writer(6), number: 1 }, FILE_AT),
            (POOL, file(2), FILE_AT + 8),
        ];
        for (pool, of, at) in others {
            let folder = memory();
            let files = NodeFiles::new(Arc::clone(&folder), pool);
            for number in 1..of.number {
                folder.log(&NodeFile { number, ..of }.name()).unwrap();
            }
            files.begin(of.writer).unwrap();
            append(&files, 0..3);
            let bytes = bytes_of(&*folder, &of.name());
            for found in read_three(&bytes) {
                assert_eq!(damage(found), (file(1).name(), at as u64), "{of:?}");
            }
            let disguised = [&own[..HEADER], &bytes[HEADER..]].concat();
            for (index, found) in (0..).zip(read_three(&disguised)) {
                assert_eq!(damage(found), (file(1).name(), offset_of(index)), "{of:?}");
            }
        }
    }

    #[test]
    fn a_header_of_another_version_is_refused() {
        let mut bytes = three_nodes();
        bytes[VERSION_AT] = 3;
        let check = Check::of(&[&bytes[..CHECK_AT]]);
        bytes[CHECK_AT..ZEROS_AT].copy_from_slice(check.as_bytes());
        let error = read_three(&bytes).remove(0).unwrap_err();
        assert!(error.to_string().contains("version, expected 2"), "{error}");
        assert_eq!(damage::<()>(Err(error)), (file(1).name(), VERSION_AT as u64));
    }

    #[test]
    fn a_torn_tail_hides_nothing_before_it() {
        let whole = three_nodes();
        let ends = [0, 1, HEADER - 1, HEADER, HEADER + 1, HEADER + SLOT, whole.len() - 1];
        for end in ends {
            let found = read_three(&whole[..end]);
            for (index, found) in (0..).zip(found) {
                if end < HEADER {
                    assert_eq!(damage(found), (file(1).name(), end as u64));
                } else if end < offset_of(index) as usize + SLOT {
                    assert_eq!(damage(found), (file(1).name(), offset_of(index)), "{end}");
                } else {
                    assert!(*found.unwrap() == node(index.into()), "{end}");
                }
            }
            let folder = memory();
            let torn = [&whole[..end], &[0; SLOT - 1][..]].concat();
            put(&*folder, &file(1).name(), &torn);
            let files = files_of(&folder);
            files.address(file(1), 0);
            let nodes = slots_in(torn.len() as u64);
            let lens = if nodes == 0 { vec![] } else { vec![(file(1), nodes)] };
            assert_eq!(files.lens(), lens, "{end}");
        }
    }

    #[test]
    fn a_missing_file_is_named_and_has_no_nodes() {
        let files = files_of(&memory());
        let missing = files.address(file(9), u32::MAX);
        assert_eq!(damage(files.read_despite_header(missing)), (file(9).name(), 0));
        match files.read(missing) {
            Err(VolumeError::Damaged { object, at: 0, problem }) => {
                assert_eq!((object, &problem[..]), (file(9).name(), "the file is not there"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(files.lens(), []);
        assert_eq!(files.place(missing), (file(9), u32::MAX));
    }

    #[test]
    fn a_reader_follows_a_file_that_another_process_appends_to() {
        let whole = three_nodes();
        let folder = memory();
        let files = files_of(&folder);
        let address = |index| files.address(file(1), index);
        for end in 1..=3 {
            put(&*folder, &file(1).name(), &whole[..offset_of(end) as usize]);
            assert!(*files.read(address(end - 1)).unwrap() == node(u64::from(end) - 1));
            assert!(end == 3 || files.read(address(end)).is_err());
        }
    }

    #[test]
    fn a_failed_append_leaves_nothing_in_the_way_of_the_next() {
        for failure in [Failure::Io, Failure::Full] {
            let (folder, faults, files) = faulty();
            let fail = || faults.add(Fault::new(failure).on(Operation::Append));
            let refused = |numbers: Range<u64>| {
                let nodes: Vec<Node> = numbers.map(node).collect();
                let error = files.append(&nodes.iter().collect::<Vec<_>>()).unwrap_err();
                assert_eq!(error.is_full(), failure == Failure::Full);
            };
            // of a file without nodes: it is tried again, so that no more of these come
            for _ in 0..3 {
                fail();
                refused(90..92);
            }
            let mut addresses = append(&files, 0..2);
            assert_eq!(files.place(addresses[0]), (file(1), 0));
            // of a file with nodes: what the write left stays behind them, and the next file follows
            fail();
            refused(92..93);
            let mut torn = bytes_of(&*folder, &file(1).name());
            torn.resize(torn.len() + SLOT / 2, 0xaa);
            put(&*folder, &file(1).name(), &torn);
            addresses.extend(append(&files, 2..4));
            assert_eq!(files.place(addresses[2]), (file(2), 0));
            // of the second file of a run: neither part counts
            faults.add(Fault::new(failure).on(Operation::Append).skip(1));
            refused(93..97);
            addresses.extend(append(&files, 4..5));
            assert_eq!(files.place(addresses[4]), (file(3), 0));
            assert_read(&files, &addresses, 0..5);
            files.sync().unwrap();
            assert_eq!(files.lens(), [(file(1), 2), (file(2), 4), (file(3), 1)]);
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_made_by_the_next_append() {
        let (_, faults, files) = faulty();
        faults.add(Fault::new(Failure::Io).on(Operation::Open));
        assert!(files.append(&[&node(0)]).is_err());
        let addresses = append(&files, 0..1);
        assert_eq!(files.place(addresses[0]), (file(1), 0));
        assert_read(&files, &addresses, 0..1);
    }

    #[test]
    fn after_a_failed_sync_other_files_take_nodes_and_no_sync_succeeds_before_that_one_goes() {
        let (_, faults, files) = faulty();
        let mut addresses = append(&files, 0..2);
        faults.add(Fault::new(Failure::Io).on(Operation::Sync));
        assert!(files.sync().is_err());
        addresses.extend(append(&files, 2..4));
        assert_eq!(files.place(addresses[2]), (file(2), 0));
        assert_read(&files, &addresses, 0..4);
        for _ in 0..2 {
            assert!(matches!(
                files.sync(),
                Err(VolumeError::Backend(BackendError::Poisoned { name, .. })) if name == file(1).name()
            ));
        }
        files.retain(&HashSet::from([file(2)])).unwrap();
        files.sync().unwrap();
        assert_read(&files, &addresses[2..], 2..4);
    }

    #[test]
    fn a_file_is_synced_once_for_what_was_appended() {
        let (_, faults, files) = faulty();
        let sync = |expected: u64| {
            let before = faults.count(Operation::Sync);
            files.sync().unwrap();
            assert_eq!(faults.count(Operation::Sync) - before, expected);
        };
        sync(0);
        append(&files, 0..3);
        sync(1);
        sync(0);
        // one that is full by now, another, and the one that grows
        append(&files, 3..9);
        sync(3);
        sync(0);
        append(&files, 9..10);
        sync(1);
        // full already when it was synced
        append(&files, 10..12);
        sync(1);
        append(&files, 12..13);
        sync(1);
    }

    /// Appends and syncs in turn, as long as the disk of `folder` runs. Returns the nodes that a sync
    /// covered, and where they are.
    fn append_and_sync(folder: Arc<dyn Folder>) -> Vec<(NodeFile, u32, u64)> {
        let files = files_of(&folder);
        let mut durable = Vec::new();
        let mut run = || -> Result<(), VolumeError> {
            files.begin(WRITER)?;
            for numbers in [0..2, 2..7, 7..8] {
                let nodes: Vec<Node> = numbers.clone().map(node).collect();
                let addresses = files.append(&nodes.iter().collect::<Vec<_>>())?;
                files.sync()?;
                for (address, number) in addresses.into_iter().zip(numbers) {
                    let (file, index) = files.place(address);
                    durable.push((file, index, number));
                }
            }
            Ok(())
        };
        let _ = run();
        durable
    }

    #[test]
    fn synced_nodes_survive_every_crash() {
        let whole = CrashDisk::new();
        assert_eq!(append_and_sync(Arc::new(whole.folder())).len(), 8);
        for steps in 0..=whole.operations() {
            let disk = CrashDisk::new();
            disk.crash_after(steps);
            let durable = append_and_sync(Arc::new(disk.folder()));
            for state in disk.durable_states(8, steps) {
                let folder: Arc<dyn Folder> = Arc::new(state.folder());
                let files = files_of(&folder);
                for (file, index, number) in &durable {
                    let found = files.read(files.address(*file, *index)).unwrap();
                    assert!(*found == node(*number), "{steps}: {number}");
                }
                // the next writer appends beside what a crash left
                files.begin(Writer(6)).unwrap();
                let addresses = append(&files, 20..22);
                assert_read(&files, &addresses, 20..22);
            }
        }
    }

    #[test]
    fn only_unused_files_of_nodes_are_removed() {
        let folder = memory();
        let of = |writer, number| NodeFile { writer: Writer(writer), number };
        let others = [
            "pool".to_owned(),
            "nodes".to_owned(),
            "nodes-0000000000000001-1".to_owned(),
            "nodes-0000000000000001-8000000000000000".to_owned(),
            "lost-0000000000000001-nodes-0000000000000001-0000000000000001".to_owned(),
            "journal-0000000000000001-0000000000000001".to_owned(),
        ];
        let earlier = [of(1, 1), of(1, 2), of(4, 1)];
        let listed = others.iter().cloned().chain(earlier.iter().map(|file| file.name()));
        listed.for_each(|name| drop(folder.log(&name).unwrap()));
        let files = begun(&folder);
        let addresses = append(&files, 0..11);
        assert_read(&files, &addresses, 0..11);
        // an unused file that was never opened, and one that is not there
        files.address(of(1, 1), 0);
        files.address(of(1, 9), 0);
        files.retain(&HashSet::from([of(1, 2), file(3), of(1, 8)])).unwrap();
        let mut left: Vec<_> = others.to_vec();
        // the last takes nodes
        left.extend([of(1, 2), file(3), file(5)].map(NodeFile::name));
        left.sort();
        assert_eq!(folder.names().unwrap(), left);
        assert_eq!(files.lens(), [(file(3), 4), (file(5), 3)]);
        assert_read(&files, &addresses[..4], 0..4);
        assert_read(&files, &addresses[8..], 8..11);
        for address in &addresses[4..8] {
            assert!(matches!(
                files.read(*address),
                Err(VolumeError::Damaged { object, at: 0, .. }) if object == file(4).name()
            ));
        }
        assert_eq!(files.place(addresses[4]), (file(4), 0));
        assert_eq!(files.address(file(4), 0), addresses[4]);
        // the one that takes nodes takes more, and is kept for being used
        let more = append(&files, 11..13);
        assert_read(&files, &more, 11..13);
        files.retain(&HashSet::from([file(5)])).unwrap();
        assert_eq!(files.lens(), [(file(5), 4), (file(6), 1)]);
        files.sync().unwrap();
    }

    #[test]
    fn a_file_that_could_not_be_removed_goes_with_the_next_call() {
        let (folder, faults, files) = faulty();
        let addresses = append(&files, 0..5);
        assert_read(&files, &addresses, 0..5);
        faults.add(Fault::new(Failure::Io).on(Operation::Delete));
        files.retain(&HashSet::new()).unwrap();
        assert_eq!(folder.names().unwrap(), [file(1).name(), file(2).name()]);
        assert_eq!(files.lens(), [(file(2), 1)]);
        assert!(files.table().hand.len() == 1, "it was closed");
        // nor is it kept open if it is read meanwhile
        assert_read(&files, &addresses[..1], 0..1);
        assert!(files.table().hand.len() == 1);
        files.retain(&HashSet::new()).unwrap();
        assert_eq!(folder.names().unwrap(), [file(2).name()]);
        faults.add(Fault::new(Failure::Io).on(Operation::List));
        assert!(files.retain(&HashSet::new()).is_err());
        assert_read(&files, &addresses[4..], 4..5);
    }

    #[test]
    fn no_more_files_are_open_than_may_be_and_those_in_use_stay() {
        let faults = Faults::none();
        let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
        let files = NodeFiles::with_bounds(folder, POOL, 1, 3);
        files.begin(WRITER).unwrap();
        let addresses = append(&files, 0..20);
        let opened = |number: usize| {
            let before = faults.count(Operation::Open);
            assert!(*files.read(addresses[number]).unwrap() == node(number as u64));
            let table = files.table();
            let is_open = |entry: &&Entry| entry.reader.is_some();
            let open = table.entries.iter().filter(is_open).count();
            assert!(open <= 3 && table.hand.len() == open, "{number}");
            faults.count(Operation::Open) - before
        };
        assert_eq!((0..20).map(opened).sum::<u64>(), 20);
        // file 0 is read before each of the others, and opened once
        let with_first =
            (1..20).flat_map(|number| [0, number]).filter(|&number| opened(number) > 0);
        let with_first: Vec<_> = with_first.collect();
        assert_eq!(with_first.iter().filter(|number| **number == 0).count(), 1, "{with_first:?}");
    }

    #[test]
    fn many_threads_append_sync_and_read_at_once() {
        const THREADS: u64 = 6;
        const ROUNDS: u64 = 30;
        let folder = memory();
        // fewer readers than files, so that files are closed while they are read
        let files = NodeFiles::with_bounds(Arc::clone(&folder), POOL, NODES, 2);
        files.begin(WRITER).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let files = &files;
                scope.spawn(move || {
                    let mut own = Vec::new();
                    let start = thread * 1000;
                    for round in 0..ROUNDS {
                        let next = start + 3 * round;
                        own.extend(append(files, next..next + 3));
                        if round % 4 == thread % 4 {
                            files.sync().unwrap();
                        }
                        assert_read(files, &own[own.len() - 3..], next..next + 3);
                    }
                    for (number, found) in (start..).zip(files.read_many(&own)) {
                        assert!(*found.unwrap() == node(number), "{number}");
                    }
                });
            }
        });
        let nodes: u32 = files.lens().iter().map(|(_, nodes)| nodes).sum();
        assert_eq!(u64::from(nodes), THREADS * ROUNDS * 3);
    }

    /// A folder whose appends and syncs tell that they came and wait for an answer.
    struct Stalling {
        inner: MemoryFolder,
        gate: Arc<Gate>,
    }

    struct Gate {
        came: Mutex<Sender<()>>,
        go: Mutex<Receiver<()>>,
    }

    impl Gate {
        fn pass(&self) {
            self.came.lock().unwrap().send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
    }

    impl Folder for Stalling {
        fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
            let inner = self.inner.log(name)?;
            Ok(Box::new(StallingLog { inner, gate: Arc::clone(&self.gate) }))
        }

        fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
            self.inner.reader(name)
        }

        fn pages(&self, _: &str, _: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
            unreachable!("nodes are in logs")
        }

        fn names(&self) -> Result<Vec<String>, BackendError> {
            self.inner.names()
        }

        fn remove(&self, name: &str) -> Result<(), BackendError> {
            self.inner.remove(name)
        }

        fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
            self.inner.rename(from, to)
        }
    }

    struct StallingLog {
        inner: Box<dyn Log + Sync>,
        gate: Arc<Gate>,
    }

    impl Log for StallingLog {
        fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
            self.gate.pass();
            self.inner.append(bytes)
        }

        fn sync(&mut self) -> Result<(), BackendError> {
            unreachable!("its syncer syncs")
        }

        fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
            self.inner.truncate(len)
        }

        fn len(&self) -> u64 {
            self.inner.len()
        }

        fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
            self.inner.read(offset, into)
        }

        fn syncer(&self) -> Arc<dyn Syncer> {
            Arc::new(StallingSyncer(Arc::clone(&self.gate)))
        }
    }

    struct StallingSyncer(Arc<Gate>);

    impl Syncer for StallingSyncer {
        fn sync(&self) -> Result<(), BackendError> {
            self.0.pass();
            Ok(())
        }
    }

    #[test]
    fn reads_wait_for_no_append_and_no_sync_and_appends_wait_for_no_sync() {
        let (came, told) = channel();
        let (answer, go) = channel();
        let gate = Arc::new(Gate { came: Mutex::new(came), go: Mutex::new(go) });
        let folder: Arc<dyn Folder> = Arc::new(Stalling { inner: MemoryFolder::new(), gate });
        let files = begun(&folder);
        let let_go = || answer.send(()).unwrap();
        let_go();
        let first = append(&files, 0..2);
        told.recv().unwrap();
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| files.sync());
            told.recv().unwrap();
            assert_read(&files, &first, 0..2);
            let appending = scope.spawn(|| append(&files, 2..3));
            // it came to the disk though the sync is there
            told.recv().unwrap();
            for (number, found) in (0..).zip(files.read_many(&first)) {
                assert!(*found.unwrap() == node(number));
            }
            assert_eq!(files.lens(), [(file(1), 2)]);
            let_go();
            let_go();
            assert_read(&files, &appending.join().unwrap(), 2..3);
            syncing.join().unwrap().unwrap();
        });
        // the node that came during the sync is not yet durable
        let_go();
        files.sync().unwrap();
        told.try_recv().unwrap();
        files.sync().unwrap();
        assert!(told.try_recv().is_err());
    }
}
