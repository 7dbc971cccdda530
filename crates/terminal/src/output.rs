//! Standard output, or the file that stands for it: the answer.

use std::io::{self, BufWriter, ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::name::shown;

/// Writes lines, or bytes, to standard output or to a file.
///
/// A reader that has seen enough, as `head` has, ends the output and is no error; any other
/// failure is, because an answer would be lost.
pub struct Output {
    writer: BufWriter<Box<dyn Write>>,
    name: String,
    is_closed: bool,
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Output {
    /// Standard output, to which nothing is written yet.
    pub fn new() -> Self {
        Self::to(Box::new(io::stdout()), "standard output".into())
    }

    /// An output to `writer`, which messages call `name`.
    pub fn to(writer: Box<dyn Write>, name: String) -> Self {
        Self { writer: BufWriter::with_capacity(64 << 10, writer), name, is_closed: false }
    }

    /// Whether the reader has gone, so that going on is of no use.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Writes one line.
    pub fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.write(&[line.as_ref(), b"\n"])
    }

    /// Writes one line that ends in a name, which is escaped.
    pub fn line_with_name(&mut self, before: &str, name: &[u8]) -> Result<()> {
        self.line(format!("{before}{}", shown(name)))
    }

    /// Writes a name as it is, and what stands before it, with a NUL behind.
    pub fn name_with_nul(&mut self, before: &str, name: &[u8]) -> Result<()> {
        self.write(&[before.as_bytes(), name, b"\0"])
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(&[bytes])
    }

    /// Writes one JSON object on a line of its own.
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_vec(value).context("cannot write JSON")?)
    }

    /// Writes one JSON document, laid out for reading.
    pub fn json_document(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_vec_pretty(value).context("cannot write JSON")?)
    }

    /// Hands everything over to whoever reads.
    pub fn finish(mut self) -> Result<()> {
        let result = self.writer.flush();
        self.judge(result)
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let result = parts.iter().try_for_each(|part| self.writer.write_all(part));
        self.judge(result)
    }

    fn judge(&mut self, result: io::Result<()>) -> Result<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            result => result.with_context(|| format!("cannot write to {}", self.name)),
        }
    }
}
