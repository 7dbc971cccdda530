//! Nothing is deleted on the word of a run, a footer or a mark: whoever may write these could lie.
//!
//! A container goes only once each live chunk that it holds was read somewhere else. What prune
//! copied itself is known to be there. For what it did not copy, because the index has another place
//! for it, that place is read, and the bytes must have the fingerprint.

use onefold_container::{Directory, container_name};
use onefold_fingerprint::Fingerprint;
use onefold_index::Hint;
use onefold_seal::ObjectId;

use super::Prune;
use super::choose::{Candidate, Choice};
use super::live::Live;
use crate::StoreError;
use crate::chunks::loaded::Loaded;
use crate::chunks::reader::ChunkReader;
use crate::finding::describe;
use crate::writing::copier::Copier;

/// Containers whose footers are read together: as many as the reader keeps, if they are long.
const TOGETHER: usize = 32;

impl Prune<'_> {
    /// Takes containers out of the choice of which a live chunk would go because it is said to be
    /// elsewhere, or elsewhere in there, and it is not.
    pub(super) fn keep_where_others_lie(
        &mut self,
        choice: &mut Choice,
        reader: &ChunkReader<'_>,
        loaded: &Loaded,
        live: &Live,
    ) -> Result<(), StoreError> {
        for chosen in [&mut choice.dead, &mut choice.repack, &mut choice.merge] {
            let candidates = std::mem::take(chosen);
            for together in candidates.chunks(TOGETHER) {
                let numbers: Vec<u32> = together.iter().map(|one| one.number).collect();
                reader.prepare_directories(&numbers);
                for candidate in together {
                    self.cancel.check()?;
                    if self.is_trusted(*candidate, reader, loaded, live)? {
                        chosen.push(*candidate);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether no live chunk goes with a container but what is elsewhere. If not, there is a warning.
    fn is_trusted(
        &mut self,
        candidate: Candidate,
        reader: &ChunkReader<'_>,
        loaded: &Loaded,
        live: &Live,
    ) -> Result<bool, StoreError> {
        let why = match misplaced(candidate, loaded, live, reader) {
            Err(error) if error.is_unreachable() => return Err(error),
            Ok(None) => return Ok(true),
            Ok(Some(fingerprint)) => format!(
                "an index run is wrong about chunk {fingerprint}, which it holds, or that is damaged \
                 where it was found"
            ),
            // Copying says what is wrong with it. What is dead need not be whole.
            Err(error) if candidate.live_bytes > 0 || self.repository.is_damage(&error) => {
                return Ok(true);
            }
            Err(error) => describe(&error),
        };
        let container = loaded.containers.get(candidate.number);
        let name = container.map_or_else(String::new, |one| container_name(one.id));
        self.report.warnings.push(format!("{name} is left as it is: {why}"));
        Ok(false)
    }

    /// Copies the live chunks of condemned `containers` that are not where the index has them.
    /// `live` was found as if these were gone.
    pub(super) fn save_from(
        &mut self,
        containers: &[ObjectId],
        loaded: &Loaded,
        live: &Live,
    ) -> Result<(), StoreError> {
        if containers.is_empty() {
            return Ok(());
        }
        let reader = self.repository.reader_of(loaded);
        let mut copier = Copier::new(self.repository, loaded, self.options.container_len)?;
        for id in containers {
            self.cancel.check()?;
            let directory = match self.footer(*id) {
                Ok(directory) => directory,
                // It is gone, or nothing can be had from it.
                Err(error) if self.repository.is_damage(&error) => continue,
                Err(error) => return Err(error),
            };
            for chunk in &directory.chunks {
                let Some(Hint(place)) = loaded.index.get(&chunk.fingerprint) else { continue };
                let is_live = live.has(place.container, place.slot);
                if is_live && !reader.holds(&chunk.fingerprint, place) {
                    copier.chunk(&chunk.fingerprint, &reader)?;
                }
            }
        }
        copier.finish()?;
        // Who misses a container that is deleted now must see the copies.
        self.objects().settle()?;
        self.report.copied_bytes += copier.stored;
        Ok(())
    }

    fn footer(&self, id: ObjectId) -> Result<Directory, StoreError> {
        let size = self.objects().size(&container_name(id))?;
        Ok(Directory::read(self.objects(), &self.repository.envelope, id, size)?)
    }
}

/// A live chunk that `candidate` holds, and that is not in the place where it was found live.
fn misplaced(
    candidate: Candidate,
    loaded: &Loaded,
    live: &Live,
    reader: &ChunkReader<'_>,
) -> Result<Option<Fingerprint>, StoreError> {
    let Some(directory) = reader.directory(candidate.number)? else { return Ok(None) };
    let is_dead = candidate.live_bytes == 0;
    for (slot, chunk) in (0u32..).zip(&directory.chunks) {
        let Some(Hint(place)) = loaded.index.get(&chunk.fingerprint) else { continue };
        if !live.has(place.container, place.slot) {
            continue;
        }
        let is_kept = match (place.container, place.slot) == (candidate.number, slot) {
            true => !is_dead,
            false => reader.holds(&chunk.fingerprint, place),
        };
        if !is_kept {
            return Ok(Some(chunk.fingerprint));
        }
    }
    Ok(None)
}
