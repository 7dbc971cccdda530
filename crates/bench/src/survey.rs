//! What many chunkers make of data of any size, which is read once and held a piece at a time.

use std::sync::Mutex;
use std::thread;

use anyhow::Result;
use onefold_cdc::Chunker;

use crate::equal_mean::Borders;
use crate::metrics::{Findings, Tally};
use crate::source::{Piece, Source};
use crate::watch::Watch;

/// Bytes that all chunkers cut before the next are read. Beside them a window holds at most the
/// longest chunk of any.
const WINDOW: usize = 32 << 20;

/// Bytes that a tally takes for each distinct chunk.
const BYTES_A_CHUNK: usize = 40;

/// What came of cutting a source.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Of each chunker.
    pub findings: Vec<Findings>,
    /// Of all bytes that were cut; see [`Dataset::digest`](crate::Dataset::digest).
    pub digest: String,
    /// Those bytes.
    pub bytes: u64,
    /// The files that they are of.
    pub files: u64,
    /// Whether that is all of the source, and nobody asked to stop.
    pub is_complete: bool,
}

/// Cuts all of `source` by each of `chunkers`, in threads.
///
/// What is remembered of distinct chunks takes about `memory` bytes, beyond which their number is
/// estimated ([`Findings::one_in`]). With [`Borders::Files`] each file is cut by itself.
pub fn survey(
    source: &mut Source,
    borders: Borders,
    chunkers: &[Chunker],
    memory: u64,
    watch: &dyn Watch,
) -> Result<Survey> {
    let share = usize::try_from(memory)? / chunkers.len().max(1) / BYTES_A_CHUNK;
    let cutters = chunkers.iter().map(|chunker| Cutter {
        chunker,
        tally: Tally::bounded(share.max(1 << 12)),
        scanned: Some(0),
        start: 0,
    });
    let mut window = Window {
        bytes: Vec::with_capacity(2 * WINDOW),
        ends: Vec::new(),
        fresh: 0,
        cutters: cutters.collect(),
    };
    watch.begin("cutting everything", source.bytes());
    let mut hasher = blake3::Hasher::new();
    let (mut bytes, mut files) = (0, 0);
    let mut is_complete = true;
    source.read(WINDOW, |piece: Piece| {
        hasher.update(piece.bytes);
        bytes += piece.bytes.len() as u64;
        files += u64::from(piece.ends_file);
        window.take(piece, borders);
        if window.fresh >= WINDOW {
            watch.advance(window.cut() as u64);
        }
        is_complete = !watch.is_cancelled();
        Ok(is_complete)
    })?;
    window.end();
    watch.advance(window.cut() as u64);
    Ok(Survey {
        findings: window.cutters.iter().map(Cutter::findings).collect(),
        digest: format!("blake3:{}", hasher.finalize().to_hex()),
        bytes,
        files,
        is_complete,
    })
}

/// The bytes that some chunker still has to see.
struct Window<'a> {
    bytes: Vec<u8>,
    /// Where inputs end in `bytes`, rising.
    ends: Vec<usize>,
    /// Bytes that came since the last cut.
    fresh: usize,
    cutters: Vec<Cutter<'a>>,
}

struct Cutter<'a> {
    chunker: &'a Chunker,
    tally: Tally,
    /// Bytes that the rule looked at, if it tells.
    scanned: Option<u64>,
    /// Where its chunk begins that has not ended.
    start: usize,
}

impl Window<'_> {
    fn take(&mut self, piece: Piece, borders: Borders) {
        self.bytes.extend(piece.bytes);
        self.fresh += piece.bytes.len();
        if piece.ends_file && borders == Borders::Files {
            self.end();
        }
    }

    /// What is here is the end of an input.
    fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Lets all chunkers cut as far as they can tell, and drops what all are done with; returns how
    /// many bytes were new.
    fn cut(&mut self) -> usize {
        let (bytes, ends) = (&self.bytes[..], &self.ends[..]);
        let queue = Mutex::new(self.cutters.iter_mut());
        let next = || queue.lock().expect("no chunker panics").next();
        let work = || {
            while let Some(cutter) = next() {
                cutter.cut(bytes, ends);
            }
        };
        thread::scope(|scope| {
            for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
            work();
        });
        let done = self.cutters.iter().map(|cutter| cutter.start).min();
        let done = done.unwrap_or(self.bytes.len());
        self.bytes.drain(..done);
        for cutter in &mut self.cutters {
            cutter.start -= done;
        }
        self.ends.retain(|&end| end > done);
        for end in &mut self.ends {
            *end -= done;
        }
        std::mem::take(&mut self.fresh)
    }
}

impl Cutter<'_> {
    fn cut(&mut self, bytes: &[u8], ends: &[usize]) {
        for &end in ends {
            if end <= self.start {
                continue;
            }
            while let Some(len) = self.chunker.last_cut(&bytes[self.start..end]) {
                self.take(&bytes[self.start..end], len);
            }
        }
        while let Some(len) = self.chunker.next_cut(&bytes[self.start..]) {
            self.take(&bytes[self.start..], len);
        }
    }

    /// Counts the first `len` bytes of `data`, a chunk.
    fn take(&mut self, data: &[u8], len: usize) {
        let scanned = self.chunker.scanned(data, len);
        self.scanned = self.scanned.zip(scanned).map(|(before, now)| before + now as u64);
        self.tally.add_chunk(&data[..len]);
        self.start += len;
    }

    fn findings(&self) -> Findings {
        Findings { scanned_bytes: self.scanned, ..self.tally.findings() }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make their own files")]
mod tests {
    use super::*;
    use crate::Dataset;
    use onefold_cdc::{Algorithm, Params};
    use onefold_testkit::{random, text};
    use std::fs;

    /// Every algorithm at two means.
    fn chunkers() -> Vec<Chunker> {
        let means = [700, 40_000];
        let all = Algorithm::ALL.iter().flat_map(|&algorithm| {
            means.map(|mean| Chunker::new(&Params::for_mean(algorithm, mean).unwrap()).unwrap())
        });
        all.collect()
    }

    fn data() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let files =
            [random(1, 300_000), Vec::new(), text(2, 200_000), random(1, 300_000), vec![0; 9000]];
        for (i, bytes) in files.iter().enumerate() {
            fs::write(root.path().join(i.to_string()), bytes).unwrap();
        }
        root
    }

    #[test]
    fn what_passes_in_pieces_is_cut_as_what_lies_in_memory() {
        let root = data();
        let chunkers = chunkers();
        let dataset = Dataset::read(root.path(), None).unwrap();
        for borders in [Borders::Stream, Borders::Files] {
            let mut source = Source::list(&[root.path().into()]).unwrap();
            let survey = survey(&mut source, borders, &chunkers, 1 << 30, &()).unwrap();
            assert!(survey.is_complete);
            assert_eq!(survey.digest, dataset.digest());
            assert_eq!((survey.bytes, survey.files), (809_000, 5));
            for (chunker, findings) in chunkers.iter().zip(&survey.findings) {
                let mut tally = Tally::default();
                match borders {
                    Borders::Stream => {
                        tally.add(dataset.bytes(), chunker.cut_points(dataset.bytes()));
                    }
                    Borders::Files => {
                        dataset.files().for_each(|file| tally.add(file, chunker.cut_points(file)));
                    }
                }
                let scanned_bytes = findings.scanned_bytes;
                assert!(scanned_bytes.is_some(), "{chunker:?}");
                assert_eq!(
                    *findings,
                    Findings { scanned_bytes, ..tally.findings() },
                    "{chunker:?}"
                );
            }
        }
    }

    #[test]
    fn windows_of_any_size_cut_alike() {
        let bytes = [random(3, 50_000), text(4, 30_000)].concat();
        let chunkers = chunkers();
        for piece in [1000, 7919, 50_000] {
            let cutters = chunkers.iter().map(|chunker| Cutter {
                chunker,
                tally: Tally::default(),
                scanned: Some(0),
                start: 0,
            });
            let mut window = Window {
                bytes: Vec::new(),
                ends: Vec::new(),
                fresh: 0,
                cutters: cutters.collect(),
            };
            // the same input twice, the first time ended within a piece
            for part in bytes.chunks(piece) {
                window.take(Piece { bytes: part, ends_file: false }, Borders::Files);
                window.cut();
            }
            window.take(Piece { bytes: &[], ends_file: true }, Borders::Files);
            for part in bytes.chunks(piece) {
                window.take(Piece { bytes: part, ends_file: false }, Borders::Files);
                window.cut();
            }
            window.end();
            window.cut();
            assert!(window.bytes.is_empty() && window.ends.is_empty());
            for cutter in &window.cutters {
                let mut tally = Tally::default();
                tally.add(&bytes, cutter.chunker.cut_points(&bytes));
                tally.add(&bytes, cutter.chunker.cut_points(&bytes));
                assert_eq!(cutter.tally.findings(), tally.findings(), "{:?}", cutter.chunker);
                let mut start = 0;
                let scanned = cutter.chunker.cut_points(&bytes).map(|end| {
                    let scanned = cutter.chunker.scanned(&bytes[start..], end - start);
                    start = end;
                    scanned.unwrap() as u64
                });
                let once: u64 = scanned.sum();
                assert_eq!(cutter.scanned, Some(2 * once), "{:?}", cutter.chunker);
            }
        }
    }

    #[test]
    fn planted_duplicates_are_reported_to_the_byte() {
        // 100 blocks of 4096 bytes, of which 30 come three times and 70 once
        let block = |seed: usize| random(seed as u64, 4096);
        let blocks: Vec<u8> = (0..30).chain(0..100).chain(0..30).flat_map(block).collect();
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("blocks"), &blocks).unwrap();
        let fixed = Chunker::new(&Params::for_mean(Algorithm::Fixed, 4096).unwrap()).unwrap();
        let mut source = Source::list(&[root.path().into()]).unwrap();
        let survey = survey(&mut source, Borders::Stream, &[fixed], 1 << 20, &()).unwrap();
        let metrics = survey.findings[0].metrics;
        assert_eq!((metrics.bytes, metrics.unique_bytes), (160 * 4096, 100 * 4096));
        assert_eq!((metrics.dedup_ratio(), metrics.deviation), (1.6, 0.0));
        assert_eq!(metrics.space_savings(), 1.0 - 1.0 / 1.6);
    }

    #[test]
    fn files_found_twice_halve_whatever_the_chunker() {
        let root = tempfile::tempdir().unwrap();
        for copy in ["a", "b"] {
            fs::write(root.path().join(copy), random(5, 200_000)).unwrap();
        }
        let mut source = Source::list(&[root.path().into()]).unwrap();
        let survey = survey(&mut source, Borders::Files, &chunkers(), 1 << 30, &()).unwrap();
        for findings in survey.findings {
            assert_eq!(findings.metrics.unique_bytes, 200_000);
        }
    }

    #[test]
    fn who_stops_keeps_what_was_cut() {
        struct Impatient;
        impl Watch for Impatient {
            fn begin(&self, _what: &str, _total: u64) {}
            fn advance(&self, _steps: u64) {}
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        let root = data();
        let mut source = Source::list(&[root.path().into()]).unwrap();
        let survey =
            survey(&mut source, Borders::Stream, &chunkers(), 1 << 30, &Impatient).unwrap();
        assert!(!survey.is_complete);
        assert_eq!(survey.bytes, 300_000);
        for findings in survey.findings {
            assert_eq!(findings.metrics.bytes, 300_000);
        }
    }
}
