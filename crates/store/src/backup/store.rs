//! Storing what readers send: fingerprint, look up, append, assemble.

use crossbeam_channel::{Receiver, Sender};
use onefold_container::Content;
use onefold_fingerprint::Fingerprint;

use super::batch::{Batch, Done};
use super::sink::Sink;
use crate::{Recipe, StoreError};

/// Stores every batch that arrives and gives its buffer back to the pool.
pub(super) fn run(
    batches: &Receiver<Batch>,
    pool: &Sender<Vec<u8>>,
    mut sink: Sink<'_>,
) -> Result<(), StoreError> {
    let mut fingerprints = Vec::new();
    for batch in batches {
        let buffer = store(batch, &mut fingerprints, &mut sink)?;
        // The readers may have gone: then nobody needs the buffer.
        let _ = pool.send(buffer);
    }
    Ok(())
}

fn store(
    batch: Batch,
    fingerprints: &mut Vec<Fingerprint>,
    sink: &mut Sink<'_>,
) -> Result<Vec<u8>, StoreError> {
    let Batch { buffer, chunks, fingerprints: known, segments, entries } = batch;
    let slices: Vec<&[u8]> = chunks.iter().map(|range| &buffer[range.clone()]).collect();
    if known.len() == slices.len() {
        *fingerprints = known;
    } else {
        fingerprints.clear();
        sink.fingerprinter().fingerprint_many(&slices, fingerprints);
    }
    sink.prepare(fingerprints);
    for (fingerprint, chunk) in fingerprints.iter().zip(&slices) {
        sink.store_chunk(Content::Data, *fingerprint, chunk)?;
    }
    let mut leaves = fingerprints
        .iter()
        .zip(&slices)
        .map(|(fingerprint, chunk)| Recipe::chunk(*fingerprint, chunk.len() as u64));
    for segment in segments {
        let members = leaves.by_ref().take(segment.count);
        segment.file.add_segment(segment.first, members, segment.last, sink)?;
    }
    for done in entries {
        match done {
            Done::Entry(directory, slot, entry) => {
                directory.fill(slot, entry.map(|entry| *entry), sink)?;
            }
            Done::Listed(directory) => directory.listed(sink)?,
        }
    }
    Ok(buffer)
}
