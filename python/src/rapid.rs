//! RapidCDC: hints that inputs cut before leave for those to come.

use std::sync::OnceLock;

use onefold_cdc::research::MemoryHints;
use onefold_cdc::{Chunker as Rule, Criterion, Rapid};
use onefold_fingerprint::Fingerprint;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::bytes::Bytes;
use crate::errors::{detached, refused};
use crate::fingerprints::fingerprinter;
use crate::numbers::CutPoints;

type Function = Box<dyn Fn(&[u8]) -> Fingerprint + Send + Sync>;

/// Which chunk followed which, for `Chunker.cut_rapid`: in memory, about 64 bytes for each
/// different chunk, and never less.
///
/// They belong to the parameters of the first chunker that uses them; others raise ValueError. Many
/// threads may share them. `most` next chunks are kept for each chunk, at most 16.
#[pyclass(frozen, module = "onefold", name = "Hints")]
pub(crate) struct Hints {
    hints: MemoryHints<Fingerprint, Function>,
    /// What cut the chunks; lengths of other parameters would mislead.
    cut_by: OnceLock<Rule>,
}

#[pymethods]
impl Hints {
    #[new]
    #[pyo3(signature = (*, fingerprint = "blake3", key = None, most = 2))]
    fn new(fingerprint: &str, key: Option<&Bound<'_, PyAny>>, most: usize) -> PyResult<Self> {
        let fingerprinter = fingerprinter(fingerprint, key)?;
        let function: Function = Box::new(move |chunk| fingerprinter.fingerprint(chunk));
        Ok(Self { hints: MemoryHints::with_next(function, most), cut_by: OnceLock::new() })
    }

    fn __len__(&self) -> usize {
        self.hints.len()
    }
}

impl Hints {
    pub(crate) fn cut(
        &self,
        rule: &Rule,
        buffer: &Bound<'_, PyAny>,
        criterion: &str,
    ) -> PyResult<(CutPoints, RapidCounters)> {
        let rapid = Rapid::new(rule.clone(), criterion_of(criterion)?).map_err(refused)?;
        if self.cut_by.get_or_init(|| rule.clone()).params() != rule.params() {
            return Err(PyValueError::new_err(
                "the hints are of a chunker with other parameters, expected hints of their own",
            ));
        }
        let bytes = Bytes::of(buffer)?;
        let (ends, counters) =
            detached(buffer.py(), || rapid.cut_points(&self.hints, bytes.as_slice()))?;
        let counters = RapidCounters {
            hits: counters.hits.iter().sum(),
            misses: counters.misses,
            refused: counters.refused,
            forwarded_bytes: counters.forwarded_bytes,
            scanned_bytes: counters.scanned_bytes,
        };
        Ok((CutPoints::new(ends.into_iter().map(|end| end as u64).collect()), counters))
    }
}

/// What `Chunker.cut_rapid` took for an input.
#[pyclass(frozen, get_all, module = "onefold", name = "RapidCounters")]
pub(crate) struct RapidCounters {
    /// Chunks that ended where a hint said.
    hits: u64,
    /// Chunks for which there were hints and none was accepted.
    misses: u64,
    /// Hints that were tried and not accepted.
    refused: u64,
    /// Bytes of the chunks that ended where a hint said, in which no cut-point was sought.
    forwarded_bytes: u64,
    /// Bytes of all other chunks.
    scanned_bytes: u64,
}

#[pymethods]
impl RapidCounters {
    fn __repr__(&self) -> String {
        let Self { hits, misses, refused, forwarded_bytes, scanned_bytes } = self;
        format!(
            "<onefold.RapidCounters: {hits} hits, {misses} misses, {refused} refused, \
             {forwarded_bytes} bytes forwarded, {scanned_bytes} scanned>"
        )
    }
}

fn criterion_of(name: &str) -> PyResult<Criterion> {
    Ok(match name {
        "forward" => Criterion::FastForward,
        "window" => Criterion::WindowTest,
        "marker" => Criterion::MarkerTest { bytes: 4 },
        "fingerprint" => Criterion::FingerprintTest,
        "marker-fingerprint" => Criterion::MarkerFingerprintTest,
        _ => {
            return Err(PyValueError::new_err(format!(
                "unknown criterion '{name}', expected one of forward, window, marker, fingerprint, \
                 marker-fingerprint"
            )));
        }
    })
}
