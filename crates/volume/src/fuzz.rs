//! What the fuzz targets call.

use std::sync::Arc;

use onefold_backend::{Folder, MemoryFolder};
use onefold_seal::wire::WireError;
use onefold_seal::{CHECK_LEN, ObjectId};

use crate::error::{StreamError, VolumeError};
use crate::ids::Writer;
use crate::journal::acknowledged::{Position, Record};
use crate::journal::frame::{self, Owner};
use crate::journal::journals::{self, Journals};
use crate::journal::mark::{Cut, Mark};
use crate::journal::metadata::{Known, Metadata, Shard, Taken};
use crate::journal::record;
use crate::nodes::files::NodeFiles;
use crate::nodes::format::{NODE, Node, NodeFile};
use crate::recovery::replay::Replayed;
use crate::transfer::stream::{Decoder, Encoder, Part};

/// The records of a frame, decoded and encoded again.
pub fn recode(body: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut again = Vec::new();
    record::decode_all(body, |record| {
        record.encode(&mut again);
        Ok(())
    })?;
    Ok(again)
}

/// The parts of a stream, decoded and encoded again; how many bytes that took of it.
pub fn restream(stream: &[u8]) -> Result<(Vec<u8>, usize), StreamError> {
    let mut rest = stream;
    let mut decoder = Decoder::begin(&mut rest)?;
    let mut again = Vec::new();
    let mut encoder = Encoder::begin(&mut again, decoder.head().clone())?;
    loop {
        match decoder.next()? {
            Part::End { .. } => break,
            part => encoder.put(&part)?,
        }
    }
    encoder.finish()?;
    drop(decoder);
    Ok((again, stream.len() - rest.len()))
}

/// A journal or a checkpoint whose frames are whole, but for the end.
#[derive(Debug, Clone)]
pub struct AnyFile {
    /// Or a journal.
    pub is_checkpoint: bool,
    /// Its writer, and the number of its first frame, as its name says.
    pub begin: (u8, u8),
    /// The bodies.
    pub frames: Vec<Vec<u8>>,
    /// So many bytes are missing at the end.
    pub torn: u8,
}

/// A file of nodes: some that a writer stored, and what became of their bytes.
#[derive(Debug, Clone)]
pub struct AnyNodes {
    /// Of each node what its numbers begin with; at most [`Self::MOST`] count.
    pub nodes: Vec<Vec<u64>>,
    /// Bytes that were overwritten: from which on, counted round the file, and with what.
    pub written: Vec<(u32, Vec<u8>)>,
    /// So many bytes are missing at the end, and then these are there.
    pub torn: u32,
    /// See [`torn`](Self::torn).
    pub more: Vec<u8>,
}

impl AnyNodes {
    /// Nodes that a file has at most.
    pub const MOST: usize = 16;

    /// The numbers of node `index`, as they were stored.
    fn node(&self, index: u32) -> Option<Node> {
        let start = self.nodes.get(index as usize).filter(|_| (index as usize) < Self::MOST)?;
        let mut node = [0; NODE];
        node.iter_mut().zip(start).for_each(|(number, stored)| *number = *stored);
        Some(node)
    }

    /// Reads the nodes of these `indices`, one by one and together: both give the same, and of each node
    /// what was stored or an error. How many gave an error.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub fn read(&self, indices: &[u32]) -> Result<usize, VolumeError> {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        let file = NodeFile { writer: Writer(3), number: 1 };
        self.write(&folder, file)?;
        let files = NodeFiles::new(folder, POOL);
        let addresses: Vec<_> = indices.iter().map(|index| files.address(file, *index)).collect();
        let together = files.read_many(&addresses);
        assert_eq!(together.len(), indices.len());
        let mut errors = 0;
        for ((index, address), found) in indices.iter().zip(addresses).zip(together) {
            let alone = files.read(address);
            assert_eq!(alone.is_ok(), found.is_ok(), "node {index}");
            match found {
                Ok(found) => {
                    assert!(Some(*found) == self.node(*index), "node {index} is another");
                    assert!(*found == *alone?, "node {index} is one alone, another with others");
                }
                Err(_) => errors += 1,
            }
        }
        let lens = files.lens();
        assert!(lens.iter().all(|(one, nodes)| *one == file && *nodes > 0));
        Ok(errors)
    }

    fn write(&self, folder: &Arc<dyn Folder>, file: NodeFile) -> Result<(), VolumeError> {
        let files = NodeFiles::new(Arc::clone(folder), POOL);
        files.begin(file.writer)?;
        let nodes: Vec<Node> = (0..).map_while(|index| self.node(index)).collect();
        files.append(&nodes.iter().collect::<Vec<_>>())?;
        let mut log = folder.log(&file.name())?;
        let mut bytes = vec![0; log.len() as usize];
        log.read(0, &mut bytes)?;
        for (at, written) in &self.written {
            for (at, byte) in (*at as usize..).zip(written) {
                let at = at % bytes.len().max(1);
                bytes[at..].iter_mut().take(1).for_each(|old| *old = *byte);
            }
        }
        bytes.truncate(bytes.len().saturating_sub(self.torn as usize));
        bytes.extend_from_slice(&self.more);
        log.truncate(0)?;
        log.append(&bytes)?;
        Ok(())
    }
}

/// What the mark says.
#[derive(Debug, Clone, Copy)]
pub struct AnyMark {
    /// Who has the pool.
    pub writer: u8,
    /// The cut: its writer, its frame and whether its journal is begun.
    pub cut: (u8, u8, bool),
}

/// What the record of the last acknowledged frame says.
#[derive(Debug, Clone, Copy)]
pub struct AnyRecord {
    /// The journal: its writer, and the number of its first frame.
    pub journal: (u8, u8),
    /// The number of the frame.
    pub frame: u8,
    /// The byte behind it.
    pub end: u16,
    /// Whether it was written on the mount that there is now.
    pub is_as_written: bool,
}

const POOL: ObjectId = ObjectId::from_bytes([6; 16]);

/// A pool of which its folder knows these things, some of which nobody ever wrote.
pub struct AnyPool(Arc<dyn Folder>);

impl AnyPool {
    /// Writes `mark`, `files` and `record`; of files with the same name the last.
    pub fn new(
        mark: AnyMark,
        files: &[AnyFile],
        record: Option<AnyRecord>,
    ) -> Result<Self, VolumeError> {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        let (writer, first, is_begun) = mark.cut;
        let cut = Cut { first: first.into(), writer: Writer(writer.into()), is_begun };
        Mark::create_as(&*folder, POOL, Writer(mark.writer.into()), cut)?;
        for file in files {
            let (writer, first) = (Writer(file.begin.0.into()), u64::from(file.begin.1));
            let mut log = folder.log(&journals::name_of(file.is_checkpoint, writer, first))?;
            log.truncate(0)?;
            for (number, body) in (first..).zip(&file.frames) {
                frame::append(&mut *log, Owner { pool: POOL, writer }, number, body)?;
            }
            log.truncate(log.len().saturating_sub(file.torn.into()))?;
        }
        if let Some(AnyRecord { journal: (writer, first), frame, end, is_as_written }) = record {
            let mount = folder.mount().filter(|_| is_as_written);
            let (writer, first, frame) = (Writer(writer.into()), first.into(), frame.into());
            let check = [0; CHECK_LEN];
            let position = Position { writer, first, frame, end: end.into(), check, mount };
            Record::open(&*folder, POOL)?.0.write(&position)?;
        }
        Ok(Self(folder))
    }

    /// Takes it over; also what it told.
    pub fn take_over(&self) -> Result<(Taken, Vec<Vec<u8>>), VolumeError> {
        let (mut replayed, mut told) = (Replayed::default(), Vec::new());
        let metadata = Journals::new(Arc::clone(&self.0), POOL);
        let taken = metadata.take_over(Shard::of(POOL), &mut |known| {
            match known {
                Known::Writer(_) | Known::Coming(_) => {}
                Known::Anew => told.clear(),
                Known::Checkpoint(operations) | Known::Batch(operations) => {
                    told.push(operations.to_vec());
                }
            }
            replayed.take(known)
        })?;
        Ok((taken, told))
    }
}

#[cfg(test)]
mod tests {
    use onefold_testkit::SplitMix64;

    use super::*;

    #[test]
    fn a_file_of_nodes_gives_what_was_stored_or_errors_whatever_became_of_it() {
        let mut numbers = SplitMix64::new(2);
        let mut below = |bound: u64| numbers.next_u64() % bound;
        let (mut asked, mut refused) = (0, 0);
        for _ in 0..3000 {
            let nodes: Vec<Vec<u64>> =
                (0..below(5)).map(|_| (0..below(4)).map(|_| below(1 << 40)).collect()).collect();
            let written = (0..below(3))
                .map(|_| {
                    (below(30_000) as u32, (0..1 + below(40)).map(|_| below(256) as u8).collect())
                })
                .collect();
            let torn = if below(2) == 0 { below(9000) as u32 } else { 0 };
            let more = vec![below(256) as u8; (below(2) * below(5000)) as usize];
            let indices: Vec<u32> = (0..below(8))
                .map(|_| if below(8) == 0 { u32::MAX - below(3) as u32 } else { below(5) as u32 })
                .collect();
            let file = AnyNodes { nodes, written, torn, more };
            asked += indices.len();
            refused += file.read(&indices).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        }
        assert!(refused > asked / 10 && refused < asked * 9 / 10, "{refused} of {asked}");
    }

    #[test]
    fn what_was_told_once_is_told_again() {
        let mut numbers = SplitMix64::new(1);
        let mut below = |bound: u64| (numbers.next_u64() % bound) as u8;
        let (mut good, mut bad) = (0, 0);
        for _ in 0..20_000 {
            let mark = AnyMark { writer: below(4), cut: (below(4), below(4), below(4) == 0) };
            let mut files = vec![
                AnyFile { is_checkpoint: true, begin: (0, 0), frames: vec![vec![]], torn: 0 },
                AnyFile { is_checkpoint: false, begin: (0, 0), frames: vec![], torn: 0 },
            ];
            for _ in 0..below(5) {
                let is_checkpoint = below(3) == 0;
                // each deletes a volume that is not there, or a container
                let mut frames: Vec<Vec<u8>> =
                    (0..below(5)).map(|_| vec![3 + 3 * (below(20) / 19), 1 + below(9)]).collect();
                if is_checkpoint {
                    frames.clear();
                    frames.extend((below(5) > 0).then(Vec::new));
                }
                let begin = (below(4), below(5));
                files.push(AnyFile { is_checkpoint, begin, frames, torn: below(8) / 7 });
            }
            let record = (below(2) == 0).then(|| AnyRecord {
                journal: (below(4), below(5)),
                frame: below(5),
                end: below(200).into(),
                is_as_written: below(2) == 0,
            });
            let pool = AnyPool::new(mark, &files, record).unwrap();
            let Ok((taken, told)) = pool.take_over() else {
                bad += 1;
                continue;
            };
            good += 1;
            let (again, told_again) = pool.take_over().unwrap();
            assert_eq!(told_again, told, "{mark:?} {files:?} {record:?}");
            assert_eq!(again.sequence, taken.sequence);
            assert!(again.writer > taken.writer);
        }
        assert!(good > 1000 && bad > 1000, "{good} {bad}");
    }
}
