//! A small tree that is the same on every machine and holds what a backup tool must notice.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Files whose content is new.
const DISTINCT: u64 = 40;

/// Bytes in a distinct file, on average.
const MEAN_LENGTH: u64 = 96 << 10;

/// Makes a tree at `root`: distinct files, whole copies, copies with bytes put in front, and an
/// empty file. About 13 MiB.
pub fn create(root: &Path) -> Result<()> {
    let write = |folder: &str, name: &str, content: &[u8]| {
        let path = root.join(folder).join(name);
        fs::create_dir_all(root.join(folder)).with_context(|| path.display().to_string())?;
        fs::write(&path, content).with_context(|| path.display().to_string())
    };
    let mut random = SplitMix64(0x1f01d);
    for number in 0..DISTINCT {
        let content = random.bytes(random.peek() % (2 * MEAN_LENGTH));
        let name = format!("{number:03}.bin");
        write("distinct", &name, &content)?;
        write("copies", &name, &content)?;
        write("shifted", &name, &[b"inserted".as_slice(), &content].concat())?;
    }
    write("edge", "empty", b"")
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        let value = self.peek();
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        value
    }

    /// What `draw` will return.
    fn peek(&self) -> u64 {
        let mut z = self.0.wrapping_add(GOLDEN_GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.draw() as u8).collect()
    }
}

/// 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = SplitMix64(0);
        assert_eq!(random.draw(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.draw(), 0x6e78_9e6a_a1b9_65f4);
    }
}
