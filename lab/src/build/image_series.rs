//! Shredder's images (FAST 2012, section 7.3): a master image of segments, and images made from it
//! in which each segment is replaced with the chance that a similarity table gives it.
//!
//! The table here rises evenly from none for the first segment to twice the mean for the last, so
//! that an image has parts that stay and parts that change.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::build::order::{Allowed, Choice};
use crate::build::site::Site;
use crate::build::{Cost, Recipe, Sameness};

pub(super) const IMAGE_SERIES: Recipe = Recipe {
    name: "image-series",
    kind: "synthetic images",
    about: "a master image and images with segments replaced by chance, after Shredder",
    source: None,
    choices: &[
        Choice {
            name: "images",
            about: "images besides the master",
            standard: "10",
            allowed: Allowed::Number(1, 99),
        },
        Choice {
            name: "segments",
            about: "segments of an image",
            standard: "256",
            allowed: Allowed::Number(2, 1 << 20),
        },
        Choice {
            name: "segment",
            about: "bytes of a segment",
            standard: "262144",
            allowed: Allowed::Number(1, 1 << 30),
        },
        Choice {
            name: "replaced",
            about: "segments replaced, in percent, in the mean",
            standard: "10",
            allowed: Allowed::Number(0, 50),
        },
    ],
    sameness: Sameness::Bytes(
        "blake3:76f942ea72f4785148c63df9aa6b44667b906274c812d38d404d5fd3141393ed",
    ),
    tools: &[],
    cost: |choices| {
        let image = choices.number("segments") * choices.number("segment");
        Cost { built: (1 + choices.number("images")) * image, download: 0, scratch: 0 }
    },
    build,
};

fn build(site: &Site) -> Result<()> {
    let images = site.number("images");
    let parts: Vec<String> = (0..=images).map(|image| format!("{image:02}.img")).collect();
    let table = similarity_table(site.count("segments"), site.number("replaced"));
    site.each(&parts, |part, to| {
        let image = part.trim_end_matches(".img").parse().expect("a number names an image");
        write(image, &table, site.count("segment"), to)
    })
}

/// For each segment the chance to be replaced, as a share of 2⁶⁴; `percent` in the mean.
fn similarity_table(segments: usize, percent: u64) -> Vec<u64> {
    let last = (segments - 1) as f64;
    let most = 2.0 * percent as f64 / 100.0;
    // the conversion saturates where the chance is 1
    (0..segments).map(|segment| (most * segment as f64 / last * 2_f64.powi(64)) as u64).collect()
}

/// An image; number 0 is the master.
fn write(image: u64, table: &[u64], segment_len: usize, to: &Path) -> Result<()> {
    let mut bytes = vec![0; table.len() * segment_len];
    for (segment, piece) in bytes.chunks_exact_mut(segment_len).enumerate() {
        let content = if is_replaced(image, segment, table) { image } else { 0 };
        draw(content, segment).fill(piece);
    }
    fs::write(to, bytes).with_context(|| to.display().to_string())
}

fn is_replaced(image: u64, segment: usize, table: &[u64]) -> bool {
    let mut dice = [0; 8];
    // no segment of an image draws from where its bytes come
    draw(image, table.len() + segment).fill(&mut dice);
    image > 0 && u64::from_le_bytes(dice) < table[segment]
}

/// Random bytes for a segment of an image.
fn draw(image: u64, segment: usize) -> blake3::OutputReader {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"image").update(&image.to_le_bytes()).update(&(segment as u64).to_le_bytes());
    hasher.finalize_xof()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENTS: usize = 1000;
    const LEN: usize = 64;

    fn images(count: u64, percent: u64) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let table = similarity_table(SEGMENTS, percent);
        let image = |image| {
            let path = folder.path().join("image");
            write(image, &table, LEN, &path).unwrap();
            fs::read(path).unwrap()
        };
        (0..=count).map(image).collect()
    }

    /// Which segments of an image are not the master's.
    fn replaced(master: &[u8], image: &[u8]) -> Vec<bool> {
        master.chunks(LEN).zip(image.chunks(LEN)).map(|(a, b)| a != b).collect()
    }

    #[test]
    fn segments_are_replaced_as_often_as_the_table_says() {
        const IMAGES: u64 = 40;
        for percent in [0, 10, 50] {
            let images = images(IMAGES, percent);
            let mut by_segment = vec![0_u64; SEGMENTS];
            for image in &images[1..] {
                for (count, is_replaced) in by_segment.iter_mut().zip(replaced(&images[0], image)) {
                    *count += u64::from(is_replaced);
                }
            }
            let share = |counts: &[u64]| {
                counts.iter().sum::<u64>() as f64 / (counts.len() as u64 * IMAGES) as f64
            };
            let chance = percent as f64 / 100.0;
            // 40,000 draws: four deviations are below 0.01
            assert!((share(&by_segment) - chance).abs() < 0.01, "{percent} %");
            assert_eq!(by_segment[0], 0, "the first segment never changes");
            let (first, last) = by_segment.split_at(SEGMENTS / 2);
            assert!((share(first) - chance / 2.0).abs() < 0.015, "{percent} %");
            assert!((share(last) - 1.5 * chance).abs() < 0.015, "{percent} %");
        }
    }

    #[test]
    fn what_is_put_in_is_found_nowhere_else() {
        let images = images(5, 30);
        let replaced: usize = images[1..]
            .iter()
            .map(|image| replaced(&images[0], image).iter().filter(|is| **is).count())
            .sum();
        let mut segments: Vec<&[u8]> = images.iter().flat_map(|image| image.chunks(LEN)).collect();
        segments.sort();
        segments.dedup();
        assert_eq!(segments.len(), SEGMENTS + replaced);
    }
}
