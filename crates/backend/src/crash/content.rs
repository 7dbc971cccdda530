//! The bytes of one file: what is durable, and the changes that are not yet.

use std::sync::Arc;

use bytes::Bytes;

use super::fate::{Fate, WriteFate};

/// A file's bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    durable: Arc<Vec<u8>>,
    live: Arc<Vec<u8>>,
    /// The changes from `durable` to `live`, in order.
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Bytes },
    Resize { len: usize },
}

impl Content {
    pub(super) fn live(&self) -> &Arc<Vec<u8>> {
        &self.live
    }

    pub(super) fn write(&mut self, offset: usize, bytes: Bytes) {
        overwrite(Arc::make_mut(&mut self.live), offset, &bytes);
        self.unsynced.push(Change::Write { offset, bytes });
    }

    pub(super) fn resize(&mut self, len: usize) {
        Arc::make_mut(&mut self.live).resize(len, 0);
        self.unsynced.push(Change::Resize { len });
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.live.clone();
        self.unsynced.clear();
    }

    /// A possible content after a power cut.
    pub(super) fn after_power_cut(&self, fate: &mut Fate) -> Self {
        let mut durable = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Write { offset, bytes } => match fate.write(bytes.len()) {
                    WriteFate::Lost => {}
                    drawn => write_torn(Arc::make_mut(&mut durable), *offset, bytes, drawn),
                },
                Change::Resize { len } if fate.resize_happens() => {
                    Arc::make_mut(&mut durable).resize(*len, 0);
                }
                Change::Resize { .. } => {}
            }
        }
        Self { live: durable.clone(), durable, unsynced: Vec::new() }
    }
}

fn write_torn(file: &mut Vec<u8>, offset: usize, bytes: &[u8], fate: WriteFate) {
    match fate {
        WriteFate::Lost => {}
        WriteFate::Kept => overwrite(file, offset, bytes),
        WriteFate::Prefix(len) => overwrite(file, offset, &bytes[..len]),
        WriteFate::Sectors { size, mut chance } => {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            let mut start = offset;
            while start < end {
                let sector_end = (start / size + 1) * size;
                let stop = sector_end.min(end);
                if chance.below(2) == 1 {
                    overwrite(file, start, &bytes[start - offset..stop - offset]);
                }
                start = stop;
            }
        }
    }
}

/// Writes as a file does: a gap before `offset` becomes zeros. No bytes change nothing.
fn overwrite(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::super::fate::Chance;
    use super::*;

    fn states(content: &Content) -> Vec<Vec<u8>> {
        (0..200)
            .map(|seed| {
                content.after_power_cut(&mut Fate::Mixed(Chance::new(seed))).live().to_vec()
            })
            .collect()
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_ones_tear() {
        let mut content = Content::default();
        content.write(0, Bytes::from(vec![1; 700]));
        content.sync();
        content.write(700, Bytes::from(vec![2; 9_000]));
        let states = states(&content);
        assert!(states.iter().all(|state| state.starts_with(&[1; 700])));
        let count = |fits: fn(&[u8]) -> bool| states.iter().filter(|state| fits(state)).count();
        assert!(count(|state| state.len() == 700) > 0, "lost");
        assert!(count(|state| state.len() == 9_700 && !state.contains(&0)) > 0, "kept");
        assert!(count(|state| state.len() > 700 && state.len() < 9_700) > 0, "cut short");
        assert!(count(|state| state.len() == 9_700 && state.contains(&0)) > 0, "holes");
    }

    #[test]
    fn an_overwritten_sector_is_old_or_new() {
        let mut content = Content::default();
        content.write(0, Bytes::from(vec![1; 1_024]));
        content.sync();
        content.write(0, Bytes::from(vec![2; 1_024]));
        let mixed = |state: &Vec<u8>| state[..512] == [1; 512] && state[512..] == [2; 512];
        let states = states(&content);
        assert!(states.iter().all(|state| state.len() == 1_024));
        assert!(states.iter().any(mixed), "a later sector may be written before an earlier one");
    }
}
