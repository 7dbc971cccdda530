//! RapidCDC's synthetic data (SoCC 2019, section 4): versions of random bytes, each the one before
//! with a number of small changes at random places.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use onefold_bench::Dataset;

use crate::build::order::{Allowed, Choice};
use crate::build::site::Site;
use crate::build::{Cost, Recipe, Sameness};

pub(super) const SERIES: Recipe = Recipe {
    name: "series",
    kind: "synthetic versions",
    about: "versions of random bytes with changes of 100 bytes, after RapidCDC",
    source: None,
    choices: &[
        Choice {
            name: "versions",
            about: "files",
            standard: "10",
            allowed: Allowed::Number(1, 99),
        },
        Choice {
            name: "bytes",
            about: "length of the first version; 500000000 in the paper",
            standard: "50000000",
            allowed: Allowed::Number(1000, 1 << 40),
        },
        Choice {
            name: "edits",
            about: "changes from one version to the next",
            standard: "100",
            allowed: Allowed::Number(0, 1 << 30),
        },
        Choice {
            name: "kind",
            about: "what a change does; insert-delete is one of both by chance",
            standard: "insert-delete",
            allowed: Allowed::Word(&["insert-delete", "insert", "delete", "overwrite"]),
        },
        Choice {
            name: "share",
            about: "part of the file, from its beginning, in which changes lie, in percent",
            standard: "100",
            allowed: Allowed::Number(1, 100),
        },
    ],
    sameness: Sameness::Bytes(
        "blake3:8585afa0f1a05cb0c2058fca220b1b1685f72bca517011cdb4f5447a4cc2c180",
    ),
    tools: &[],
    cost: |choices| {
        // insertions make later versions a little longer
        let growth = choices.number("edits") * CHANGED as u64 * choices.number("versions");
        let built = choices.number("versions") * (choices.number("bytes") + growth / 2);
        Cost { built, download: 0, scratch: 0 }
    },
    build,
};

/// Bytes of one change.
const CHANGED: usize = 100;

/// What changes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Insert or delete, by chance.
    InsertOrDelete,
    /// Insert only.
    Insert,
    /// Delete only.
    Delete,
    /// Overwrite, which shifts nothing.
    Overwrite,
}

fn build(site: &Site) -> Result<()> {
    let edit = match site.choices.word("kind") {
        "insert" => Edit::Insert,
        "delete" => Edit::Delete,
        "overwrite" => Edit::Overwrite,
        _ => Edit::InsertOrDelete,
    };
    let name = |number| format!("{number:02}.bin");
    let parts: Vec<String> = (0..site.count("versions")).map(name).collect();
    site.each(&parts, |part, to| {
        let number: usize = part.trim_end_matches(".bin").parse().expect("a number names a file");
        let version = match number.checked_sub(1) {
            None => first_version(site.count("bytes")),
            Some(previous) => {
                let previous = site.folder.join(name(previous));
                let previous = read(&previous)?;
                next_version(&previous, number, site.count("edits"), edit, site.count("share"))
            }
        };
        fs::write(to, version).with_context(|| to.display().to_string())
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// Version 0: random bytes.
pub(crate) fn first_version(len: usize) -> Vec<u8> {
    Dataset::random(1, len).bytes().to_vec()
}

/// Version `number` from the one before, with `edits` changes in the first `share` percent of it.
pub(crate) fn next_version(
    version: &[u8],
    number: usize,
    edits: usize,
    edit: Edit,
    share: usize,
) -> Vec<u8> {
    let draws = Dataset::random(1 + number as u64, edits * (16 + CHANGED));
    edited(version, draws.bytes(), CHANGED, edit, share)
}

/// `version` with a change for each record of `draws`: where, what, and the `changed` bytes.
fn edited(version: &[u8], draws: &[u8], changed: usize, edit: Edit, share: usize) -> Vec<u8> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, &b| sum << 8 | u64::from(b));
    let last = (version.len() as u128 * share as u128 / 100) as usize;
    let last = last.saturating_sub(changed);
    let mut edits: Vec<(usize, Edit, &[u8])> = draws
        .chunks_exact(16 + changed)
        .map(|draw| {
            let at = (number(&draw[..8]) % (last as u64 + 1)) as usize;
            let edit = match edit {
                Edit::InsertOrDelete if draw[8] % 2 == 0 => Edit::Insert,
                Edit::InsertOrDelete => Edit::Delete,
                chosen => chosen,
            };
            (at, edit, &draw[16..])
        })
        .collect();
    edits.sort_by_key(|&(at, edit, bytes)| (at, edit != Edit::Delete, bytes));
    let mut result = Vec::with_capacity(version.len());
    let mut from = 0;
    for (at, edit, bytes) in edits {
        if at < from {
            continue; // within what the edit before took out
        }
        result.extend_from_slice(&version[from..at]);
        if edit != Edit::Delete {
            result.extend_from_slice(bytes);
        }
        from = if edit == Edit::Insert { at } else { at + bytes.len() };
    }
    result.extend_from_slice(&version[from..]);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One change: where, whether an insertion, and with which bytes.
    fn draw(at: u64, insert: bool, byte: u8) -> Vec<u8> {
        [at.to_le_bytes(), [u8::from(!insert); 8]].concat().into_iter().chain([byte; 3]).collect()
    }

    #[test]
    fn edits_insert_delete_and_overwrite_where_they_were_drawn() {
        let edited = |draws: &[u8], edit| edited(b"0123456789", draws, 3, edit, 100);
        let draws = [draw(6, true, b'x'), draw(2, false, b'y')].concat();
        assert_eq!(edited(&draws, Edit::InsertOrDelete), b"015xxx6789");
        assert_eq!(edited(&draws, Edit::Insert), b"01yyy2345xxx6789");
        assert_eq!(edited(&draws, Edit::Delete), b"0159");
        assert_eq!(edited(&draws, Edit::Overwrite), b"01yyy5xxx9");
        // the second begins in what the first took out
        let draws = [draw(2, false, b'y'), draw(3, true, b'x')].concat();
        assert_eq!(edited(&draws, Edit::InsertOrDelete), b"0156789");
    }

    #[test]
    fn edits_keep_to_their_share_of_the_file() {
        let first = first_version(100_000);
        for share in [1, 10, 50, 100] {
            let second = next_version(&first, 1, 300, Edit::Overwrite, share);
            assert_eq!(second.len(), first.len());
            let changed = |range: &[u8], other: &[u8]| {
                range.iter().zip(other).filter(|(a, b)| a != b).count()
            };
            let end = first.len() * share / 100;
            assert_eq!(changed(&first[end..], &second[end..]), 0, "{share} %");
            // in each half of the share
            assert!(changed(&first[..end / 2], &second[..end / 2]) > end / 20, "{share} %");
            assert!(changed(&first[end / 2..end], &second[end / 2..end]) > end / 20, "{share} %");
        }
    }

    #[test]
    fn versions_grow_shrink_or_stay_by_what_is_done_to_them() {
        let first = first_version(1_000_000);
        let lengths = [Edit::Insert, Edit::Delete, Edit::Overwrite, Edit::InsertOrDelete]
            .map(|edit| next_version(&first, 1, 50, edit, 100).len());
        assert_eq!(lengths[0], 1_005_000);
        assert!((995_000..995_300).contains(&lengths[1]), "{lengths:?}");
        assert_eq!(lengths[2], 1_000_000);
        assert!((998_000..1_002_000).contains(&lengths[3]), "{lengths:?}");
    }
}
