//! What a pool stores twice whose table of fingerprints has no room for all pages, by layout and memory.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use onefold_backend::{Folder, LocalFolder};
use onefold_bench::{Piece, Source};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_container::Codec;
use onefold_fingerprint::Fingerprinter;
use onefold_volume::{Hash, IndexLayout, Options, Pool, Volume};
use serde::{Deserialize, Serialize};

const PAGE: usize = 4096;
/// Bytes of a write, as clients that copy images make them.
const WRITE: usize = 1 << 20;

/// What is measured.
#[derive(Clone, Debug)]
pub struct LossPlan {
    /// Images, or folders of images: each file becomes a volume, one after another.
    pub images: Vec<PathBuf>,
    /// Bytes of memory for the table, ascending or not.
    pub memories: Vec<usize>,
    /// Where pools may be made; one at a time, and removed.
    pub directory: PathBuf,
}

/// What there is in the images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Images {
    /// Their names.
    pub name: String,
    /// Over all of their bytes, one image after another.
    pub digest: String,
    /// How many images.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pages of 4 KiB that are not zeros.
    pub pages: u64,
    /// Those that differ: what the best table lets be stored.
    pub distinct_pages: u64,
}

/// A layout of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossLayout {
    /// StreamDedup's.
    Paper,
    /// Shortened entries.
    Compact,
    /// The same, sampled when it is full.
    Hooks,
}

impl LossLayout {
    const ALL: [Self; 3] = [Self::Paper, Self::Compact, Self::Hooks];

    fn index(self) -> IndexLayout {
        match self {
            Self::Paper => IndexLayout::Chained,
            Self::Compact => IndexLayout::Compact,
            Self::Hooks => IndexLayout::Hooks,
        }
    }
}

/// What a pool with one table made of the images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableLoss {
    /// Which layout.
    pub layout: LossLayout,
    /// Bytes of memory for the table.
    pub memory_bytes: usize,
    /// Entries that it has room for.
    pub capacity: u64,
    /// Distinct pages for each entry.
    pub pages_an_entry: f64,
    /// Pages that were stored.
    pub new_pages: u64,
    /// Of the pages that need not be stored, the percentage that was stored all the same.
    pub loss_percent: f64,
    /// Of so many pages the table keeps about one at the end.
    pub one_in: u64,
    /// Pages that were found beside others.
    pub neighbour_pages: u64,
    /// Directories that were read for that.
    pub directories_read: u64,
    /// Seconds that all writes took.
    pub seconds: f64,
}

/// Writes the images to a new pool for each layout and memory; `told` hears of each.
///
/// What differs is kept in memory, about 50 bytes for each distinct page.
pub fn measure_table_loss(
    plan: &LossPlan,
    mut told: impl FnMut(&TableLoss),
) -> Result<(Images, Vec<TableLoss>)> {
    let images = count(&plan.images)?;
    let mut losses = Vec::new();
    for &memory in &plan.memories {
        for layout in LossLayout::ALL {
            let loss = lose(plan, &images, layout, memory)?;
            told(&loss);
            losses.push(loss);
        }
    }
    Ok((images, losses))
}

fn is_zero(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// What there is, exactly.
fn count(images: &[PathBuf]) -> Result<Images> {
    let mut source = Source::list(images)?;
    let (fingerprinter, mut digest) = (Fingerprinter::blake3(), blake3::Hasher::new());
    let (mut seen, mut found) = (HashSet::new(), Images::default());
    source.read(WRITE, |piece: Piece| {
        digest.update(piece.bytes);
        found.bytes += piece.bytes.len() as u64;
        found.files += u64::from(piece.ends_file);
        let mut last = [0; PAGE];
        for page in piece.bytes.chunks(PAGE).filter(|page| !is_zero(page)) {
            last.fill(0);
            last[..page.len()].copy_from_slice(page);
            found.pages += 1;
            let fingerprint = fingerprinter.fingerprint(&last);
            seen.insert(fingerprint.as_bytes().as_chunks::<16>().0[0]);
        }
        Ok(true)
    })?;
    ensure!(source.unreadable().is_empty(), "some cannot be read: {:?}", source.unreadable());
    found.name = source.name().to_owned();
    found.digest = format!("blake3:{}", digest.finalize().to_hex());
    found.distinct_pages = seen.len() as u64;
    Ok(found)
}

/// The volume of the next image.
fn volume(pool: &Pool, number: u64, bytes: u64) -> Result<Volume> {
    let name = format!("image-{number}");
    pool.create_volume(&name, bytes.next_multiple_of(PAGE as u64), BlockSize::B4096)?;
    Ok(pool.volume(&name)?)
}

fn lose(plan: &LossPlan, images: &Images, layout: LossLayout, memory: usize) -> Result<TableLoss> {
    let root = plan.directory.join("onefold-table-loss");
    ensure!(!root.exists(), "{} exists; delete it first", root.display());
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&root)?);
    let lost = write_all(plan, images, layout, memory, folder);
    fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
    lost
}

fn write_all(
    plan: &LossPlan,
    images: &Images,
    layout: LossLayout,
    memory: usize,
    folder: Arc<dyn Folder>,
) -> Result<TableLoss> {
    Pool::create_with(&*folder, Hash::Blake3, Codec::Zstd)?;
    let options = Options { index: layout.index(), table_bytes: memory, ..Options::default() };
    let (pool, damage) = Pool::open(folder, options)?;
    ensure!(damage.is_empty(), "the pool is damaged: {damage:?}");
    let mut source = Source::list(&plan.images)?;
    let (mut number, mut offset, mut open) = (0, 0, None);
    let mut seconds = 0.0;
    // an image is as long as it turns out to be
    const MOST: u64 = 1 << 46;
    source.read(WRITE, |piece: Piece| {
        let device = match &open {
            Some(device) => device,
            None => open.insert(volume(&pool, number, MOST)?),
        };
        let mut bytes = piece.bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        let begun = Instant::now();
        device.write(offset, &bytes, Durability::OnFlush)?;
        seconds += begun.elapsed().as_secs_f64();
        offset += bytes.len() as u64;
        if piece.ends_file {
            let begun = Instant::now();
            device.flush()?;
            seconds += begun.elapsed().as_secs_f64();
            (number, offset, open) = (number + 1, 0, None);
        }
        Ok(true)
    })?;
    let sums = pool.statistics();
    ensure!(sums.known_pages + sums.new_pages == images.pages, "the images have changed");
    let possible = (images.pages - images.distinct_pages).max(1);
    let lost = sums.new_pages.saturating_sub(images.distinct_pages);
    Ok(TableLoss {
        layout,
        memory_bytes: memory,
        capacity: sums.table_capacity as u64,
        pages_an_entry: images.distinct_pages as f64 / sums.table_capacity.max(1) as f64,
        new_pages: sums.new_pages,
        loss_percent: 100.0 * lost as f64 / possible as f64,
        one_in: sums.table_one_in,
        neighbour_pages: sums.neighbour_pages,
        directories_read: sums.directories_read,
        seconds,
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make their own files")]
mod tests {
    use onefold_testkit::random;

    use super::*;

    #[test]
    fn hooks_lose_little_where_tables_that_are_full_lose_much() {
        let root = tempfile::tempdir().unwrap();
        let images = root.path().join("images");
        fs::create_dir(&images).unwrap();
        // twice the same, and in between as much that is not; one ends within a page
        for (name, seed) in [("1", 1), ("2", 2), ("3", 3), ("4", 1), ("5", 2), ("6", 3)] {
            fs::write(images.join(name), random(seed, (16 << 20) + 1000)).unwrap();
        }
        let memories = vec![64 << 10, 4 << 20];
        let plan = LossPlan { images: vec![images], memories, directory: root.path().into() };
        let mut told = 0;
        let (images, losses) = measure_table_loss(&plan, |_| told += 1).unwrap();
        assert_eq!((images.files, images.pages, images.distinct_pages), (6, 6 * 4097, 3 * 4097));
        assert_eq!((told, losses.len()), (6, 6));
        for loss in &losses {
            match (loss.memory_bytes > 1 << 20, loss.layout) {
                (true, _) => assert_eq!((loss.loss_percent, loss.one_in), (0.0, 1), "{loss:?}"),
                (false, LossLayout::Hooks) => assert!(loss.loss_percent < 3.0, "{loss:?}"),
                (false, _) => assert!(loss.loss_percent > 70.0, "{loss:?}"),
            }
        }
        assert!(!root.path().join("onefold-table-loss").exists());
    }
}
