//! Standard output: the answer.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Stdout, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::name::shown;

/// Writes lines to standard output.
///
/// A reader that has seen enough, as `head` has, ends the output and is no error; any other
/// failure is, because an answer would be lost.
pub(crate) struct Output {
    writer: BufWriter<Stdout>,
    is_terminal: bool,
    is_closed: bool,
}

impl Output {
    /// An output of which nothing is written yet.
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        Self { writer: BufWriter::with_capacity(64 << 10, stdout), is_terminal, is_closed: false }
    }

    /// Whether the reader has gone, so that going on is of no use.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.write(&[line.as_ref(), b"\n"])
    }

    /// Writes one line that ends in a name: escaped on a terminal, elsewhere as it is.
    pub(crate) fn line_with_name(&mut self, before: &str, name: &[u8]) -> Result<()> {
        match self.is_terminal {
            true => self.line(format!("{before}{}", shown(name))),
            false => self.write(&[before.as_bytes(), name, b"\n"]),
        }
    }

    /// Writes one JSON object on a line of its own.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_vec(value).context("cannot write JSON")?)
    }

    /// Writes one JSON document, laid out for reading.
    pub(crate) fn json_document(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_vec_pretty(value).context("cannot write JSON")?)
    }

    /// Hands everything over to whoever reads.
    pub(crate) fn finish(mut self) -> Result<()> {
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
            result => result.context("cannot write to standard output"),
        }
    }
}
