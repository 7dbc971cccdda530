//! Files of nodes: append-only, verified on every read, removed once no checkpoint names them.
//!
//! **Locks**, in the order in which they are taken: `syncing`, `appender`, `table`. Every look-up takes
//! `table`, which is never held while a file is opened, read, written or synced. A read takes no other
//! lock, so it never waits for I/O of another thread.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use onefold_backend::{Folder, Log, LogReader, Syncer};
use onefold_seal::ObjectId;

use crate::error::VolumeError;
use crate::ids::Writer;
use crate::nodes::format::{HEADER, NODES_PER_FILE, Node, NodeFile, SLOT, offset_of};
use crate::nodes::table::{Len, NodeAddress, Reader, Table};

/// At most so many files are open for reading, besides those from which threads read now.
const READERS: usize = 64;

/// One read gets at most so many nodes: about 1 MiB.
const RUN: usize = 256;

/// Nodes so far from one another come with one read, and those between them: to copy some KiB takes no
/// longer than a call of the system.
const NEAR: u32 = 4;
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
        let known = self.table().known(file);
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

/// How many of these addresses, which are sorted, are read together: those from the first on.
fn first_run(mut addresses: impl Iterator<Item = NodeAddress>) -> usize {
    let Some(first) = addresses.next() else { return 0 };
    let mut last = first;
    let is_next = |one: &NodeAddress| {
        let is_near = one.file() == first.file()
            && one.index - last.index <= NEAR
            && ((one.index - first.index) as usize) < RUN;
        last = *one;
        is_near
    };
    1 + addresses.take_while(is_next).count()
}
