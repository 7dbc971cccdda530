//! As much of HTTP as a proxy and a test need: one message a connection, bodies by length.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;

/// The longest head that is taken.
const MAX_HEAD: u64 = 1 << 16;

/// The head of a request or an answer, line by line, without the empty line at its end.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) lines: Vec<String>,
}

impl Head {
    /// Reads a head; `None` if the other side has closed the connection instead.
    pub(super) fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut from = from.take(MAX_HEAD);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return match lines.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
            match line.trim_end() {
                "" => return Ok(Some(Self { lines })),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// The value of a header.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let headers = self.lines[1..].iter().filter_map(|line| line.split_once(':'));
        let mut fitting = headers.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        fitting.next().map(|(_, value)| value.trim())
    }

    /// Removes a header.
    pub(super) fn remove(&mut self, name: &str) {
        let first = self.lines.remove(0);
        self.lines.retain(|line| {
            line.split_once(':').is_none_or(|(found, _)| !found.eq_ignore_ascii_case(name))
        });
        self.lines.insert(0, first);
    }

    /// Gives a header another value.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.lines.push(format!("{name}: {value}"));
    }

    /// The head as it is sent.
    pub(super) fn bytes(&self) -> Vec<u8> {
        (self.lines.join("\r\n") + "\r\n\r\n").into_bytes()
    }

    /// Reads the body that follows: so many bytes as the head says, none if it says nothing. A body in chunks
    /// becomes one by length.
    pub(super) fn read_body(&mut self, from: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
        if self.value("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            let body = read_chunks(from)?;
            self.remove("transfer-encoding");
            self.set("Content-Length", &body.len().to_string());
            return Ok(body);
        }
        let len = self.value("content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        Ok(body)
    }
}

/// Reads chunks, each with its length before it, up to an empty one.
fn read_chunks(from: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let len = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let start = body.len();
        // After each chunk, and after the empty one, the line ends.
        body.resize(start + len + 2, 0);
        from.read_exact(&mut body[start..])?;
        body.truncate(start + len);
        if len == 0 {
            return Ok(body);
        }
    }
}
