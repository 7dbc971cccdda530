//! What hooks miss: how much of what could be found twice an index finds whose memory has no room
//! for filters over all chunks.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use onefold_bench::{Piece, Source};
use onefold_cdc::Chunker;
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_index::{Claim, Index, Listed, Memory};
use onefold_seal::ObjectId;
use serde::{Deserialize, Serialize};

/// Bytes of chunks that are prepared and claimed together, as a backup does.
const BATCH_LEN: u64 = 1 << 20;
/// Bytes of chunks that become known together: a container's.
const OBJECT_LEN: u64 = 16 << 20;
/// Bytes that are read at once.
const PIECE_LEN: usize = 4 << 20;

/// What an index of some memory made of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Memory of the index in bytes.
    pub memory_bytes: usize,
    /// At the end one chunk of 2 to this power is a hook.
    pub sparsity: u32,
    /// Chunks of the source.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks that differ.
    pub distinct_chunks: u64,
    /// Their bytes: what the best index lets be stored.
    pub distinct_bytes: u64,
    /// Bytes that this one took for new.
    pub stored_bytes: u64,
    /// Of the bytes that need not be stored, the percentage that was stored all the same.
    pub loss_percent: f64,
}

/// Cuts `source` file by file and lets an index of each of `memories`, in bytes, claim the chunks in
/// the order in which they come. The files of the indexes are in memory.
pub fn measure_loss(
    source: &mut Source,
    chunker: &Chunker,
    memories: &[usize],
) -> Result<Vec<Loss>> {
    let made = memories.iter().map(|memory| Claimant::new(*memory));
    let mut claimants = made.collect::<Result<Vec<_>>>()?;
    let mut distinct = Distinct::default();
    let (mut rest, mut batch, mut batch_len) = (Vec::new(), Vec::new(), 0);
    let fingerprinter = Fingerprinter::blake3();
    source.read(PIECE_LEN, |piece: Piece| {
        rest.extend_from_slice(piece.bytes);
        let mut start = 0;
        while start < rest.len() {
            let left = &rest[start..];
            let len = match piece.ends_file {
                true => chunker.last_cut(left),
                false => chunker.next_cut(left),
            };
            let Some(len) = len else { break };
            batch.push((fingerprinter.fingerprint(&left[..len]), len as u32));
            (start, batch_len) = (start + len, batch_len + len as u64);
            if batch_len >= BATCH_LEN {
                distinct.take(&batch);
                claimants.iter_mut().try_for_each(|one| one.take(&batch))?;
                batch.clear();
                batch_len = 0;
            }
        }
        rest.drain(..start);
        Ok(true)
    })?;
    distinct.take(&batch);
    claimants.iter_mut().try_for_each(|one| one.take(&batch))?;
    claimants.into_iter().map(|one| one.end(&distinct)).collect()
}

/// What there is, exactly.
#[derive(Default)]
struct Distinct {
    seen: HashSet<Fingerprint>,
    chunks: u64,
    bytes: u64,
    distinct_bytes: u64,
}

impl Distinct {
    fn take(&mut self, batch: &[Listed]) {
        for (fingerprint, len) in batch {
            self.chunks += 1;
            self.bytes += u64::from(*len);
            if self.seen.insert(*fingerprint) {
                self.distinct_bytes += u64::from(*len);
            }
        }
    }
}

/// An index that claims, and what it took for new.
struct Claimant {
    memory: usize,
    index: Index,
    objects: u32,
    /// Chunks that are claimed and not published.
    owed: Vec<Listed>,
    owed_len: u64,
    stored_bytes: u64,
}

impl Claimant {
    fn new(memory: usize) -> Result<Self> {
        let folder = std::sync::Arc::new(onefold_backend::MemoryFolder::new());
        let (index, _) = Index::open(folder, ObjectId::from_bytes([0; 16]), Memory::new(memory))?;
        Ok(Self { memory, index, objects: 0, owed: Vec::new(), owed_len: 0, stored_bytes: 0 })
    }

    fn take(&mut self, batch: &[Listed]) -> Result<()> {
        let fingerprints: Vec<Fingerprint> = batch.iter().map(|(one, _)| *one).collect();
        self.index.prepare(&fingerprints);
        for chunk in batch {
            if self.index.claim(&chunk.0) == Claim::New {
                self.owed.push(*chunk);
                self.owed_len += u64::from(chunk.1);
            }
            if self.owed_len >= OBJECT_LEN {
                self.publish()?;
            }
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<()> {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&self.objects.to_le_bytes());
        let owed = std::mem::take(&mut self.owed);
        self.index
            .publish(ObjectId::from_bytes(id), self.objects, &owed)
            .with_context(|| format!("object {} was not taken up", self.objects))?;
        self.objects += 1;
        self.stored_bytes += std::mem::take(&mut self.owed_len);
        Ok(())
    }

    fn end(mut self, distinct: &Distinct) -> Result<Loss> {
        self.publish()?;
        ensure!(self.index.commit(), "the index could not be kept: {:?}", self.index.trouble());
        let possible = distinct.bytes - distinct.distinct_bytes;
        let lost = self.stored_bytes - distinct.distinct_bytes;
        Ok(Loss {
            memory_bytes: self.memory,
            sparsity: self.index.shape().sparsity,
            chunks: distinct.chunks,
            bytes: distinct.bytes,
            distinct_chunks: distinct.seen.len() as u64,
            distinct_bytes: distinct.distinct_bytes,
            stored_bytes: self.stored_bytes,
            loss_percent: 100.0 * lost as f64 / possible.max(1) as f64,
        })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make their own files")]
mod tests {
    use super::*;
    use onefold_cdc::{Algorithm, Params};
    use onefold_testkit::random;

    #[test]
    fn an_index_without_room_loses_little_of_streams_and_one_with_room_nothing() {
        let root = tempfile::tempdir().unwrap();
        // Twice the same, some of it anew, and in between much that is not.
        for (name, seed) in [("1", 1), ("2", 2), ("3", 1), ("4", 3), ("5", 2)] {
            std::fs::write(root.path().join(name), random(seed, 12 << 20)).unwrap();
        }
        let mut source = Source::list(&[root.path().into()]).unwrap();
        let params = Params::for_mean(Algorithm::MinCdc, 512).unwrap();
        let chunker = Chunker::new(&params).unwrap();
        let found = measure_loss(&mut source, &chunker, &[64 << 10, 24 << 20]).unwrap();
        let [little, much] = &found[..] else { panic!("two") };
        assert_eq!((much.sparsity, much.loss_percent), (0, 0.0), "{much:?}");
        assert_eq!((much.bytes, much.distinct_bytes), (60 << 20, 36 << 20));
        assert!(little.sparsity > 0 && little.stored_bytes >= much.stored_bytes, "{little:?}");
        assert!(little.loss_percent < 2.0, "{little:?}");
    }
}
