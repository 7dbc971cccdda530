//! What is known of a trace before it is replayed.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use onefold_bench::Watch;
use onefold_bench::trace::{Digest, Kind, PageSize, Reader};

/// Operations between two looks at whether to stop.
pub(super) const LOOK_EVERY: u64 = 4096;

/// A trace, read once.
///
/// It takes memory while it is made and afterwards: at most 600 bytes for each 4,096 neighbouring
/// pages of which the trace has one, and 24 for each page that is read before it is written.
#[derive(Debug)]
pub struct Survey {
    /// The files, one behind the other.
    pub(super) files: Vec<PathBuf>,
    /// The unit of digests: the same on every line.
    pub page_size: PageSize,
    /// How many lines it has.
    pub operations: u64,
    /// The end of its last page, in bytes.
    pub end: u64,
    /// Pages that are read before they are written, with what they must have then; by number.
    pub(super) initial: Vec<(u64, Digest)>,
}

impl Survey {
    /// Reads all files. What they read before they wrote it is remembered; the first of several
    /// reads tells what was there.
    ///
    /// # Errors
    ///
    /// What cannot be read or has no line, lines that are none, pages of two sizes, and a signal.
    pub fn of(files: &[PathBuf], watch: &dyn Watch) -> Result<Self> {
        let mut survey = Self {
            files: files.to_vec(),
            page_size: PageSize::B4096,
            operations: 0,
            end: 0,
            initial: Vec::new(),
        };
        let mut known = Pages::default();
        watch.begin("reading the trace", 0);
        for file in files {
            for operation in Reader::open(file)? {
                let operation = operation?;
                if survey.operations == 0 {
                    survey.page_size = operation.page_size;
                }
                ensure!(
                    operation.page_size == survey.page_size,
                    "trace '{}': pages of {} bytes in '{}…', expected {} as before",
                    file.display(),
                    operation.page_size.bytes(),
                    operation.to_string().chars().take(60).collect::<String>(),
                    survey.page_size.bytes(),
                );
                survey.operations += 1;
                survey.end = survey.end.max(operation.pages().end * survey.page_size.bytes());
                for (page, digest) in operation.pages().zip(&operation.digests) {
                    if known.insert(page) && operation.kind == Kind::Read {
                        survey.initial.push((page, *digest));
                    }
                }
                let is_time = survey.operations.is_multiple_of(LOOK_EVERY);
                ensure!(!(is_time && watch.is_cancelled()), "stopped before it was replayed");
            }
        }
        ensure!(survey.operations > 0, "the trace has no operation");
        survey.initial.sort_unstable_by_key(|(page, _)| *page);
        Ok(survey)
    }

    /// Pages that are read before they are written.
    pub fn initial_pages(&self) -> u64 {
        self.initial.len() as u64
    }
}

/// A set of pages, many of which are neighbours.
#[derive(Default)]
struct Pages(HashMap<u64, Box<[u64; 64]>>);

impl Pages {
    /// Whether it is new.
    fn insert(&mut self, page: u64) -> bool {
        let words = self.0.entry(page / 4096).or_insert_with(|| Box::new([0; 64]));
        let (word, bit) = (&mut words[(page / 64 % 64) as usize], 1 << (page % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a file of a test, no durable byte")]
    fn survey(text: &str) -> Result<Survey> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, text).unwrap();
        Survey::of(&[path], &())
    }

    fn line(kind: char, page: u64, digest: u8) -> String {
        format!("0 1 x {} 8 {kind} 6 0 {}\n", page * 8, Digest([digest; 16]))
    }

    #[test]
    fn what_is_read_first_is_known_by_its_first_read() {
        let text = [
            line('R', 9, 1),
            line('W', 9, 2),
            line('R', 9, 3),
            line('W', 5000, 4),
            line('R', 5000, 5),
            line('R', 4, 6),
            line('R', 4, 7),
        ];
        let survey = survey(&text.concat()).unwrap();
        assert_eq!(survey.initial, [(4, Digest([6; 16])), (9, Digest([1; 16]))]);
        assert_eq!((survey.operations, survey.end), (7, 5001 * 4096));
    }

    #[test]
    fn pages_have_one_size_and_there_must_be_some() {
        let short = "0 1 x 0 1 W 6 0 531e779bf7ab92d45f28e1a4d4e9c2f1\n";
        assert_eq!(survey(short).unwrap().page_size, PageSize::B512);
        let error = format!("{:#}", survey(&format!("{short}{}", line('R', 1, 1))).unwrap_err());
        assert!(error.contains("pages of 4096 bytes in '0 1 x 8 8 R"), "{error}");
        assert!(error.contains("expected 512 as before"), "{error}");
        assert!(survey("\n\n").unwrap_err().to_string().contains("no operation"));
    }

    #[test]
    fn a_page_is_new_once() {
        let mut pages = Pages::default();
        for page in [0, 63, 64, 4095, 4096, u64::MAX] {
            assert!(pages.insert(page));
            assert!(!pages.insert(page));
        }
    }
}
