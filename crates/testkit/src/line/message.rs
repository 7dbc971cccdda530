//! As much of HTTP/1.1 as finds where a message ends.

use std::io::{self, BufRead, Read};

/// The longest head that is accepted, in bytes.
const MAX_HEAD: u64 = 1 << 16;

/// The head of a request or of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Without line ends; the empty line at the end is left out.
    pub(super) lines: Vec<String>,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// After so many bytes.
    Sized(u64),
    Chunked,
    /// With the connection.
    UntilEnd,
}

impl Head {
    /// Reads a head, or `None` if the connection ends before it begins.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut from = from.take(MAX_HEAD);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if !(from.read_line(&mut line)? > 0 && line.ends_with('\n')) {
                let nothing = lines.is_empty() && line.is_empty();
                return if nothing { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            let line = line.trim_end();
            if line.is_empty() {
                return if lines.is_empty() {
                    Err(malformed("no first line"))
                } else {
                    Ok(Some(Self { lines }))
                };
            }
            lines.push(line.to_owned());
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        (self.lines.join("\r\n") + "\r\n\r\n").into_bytes()
    }

    /// Of a request.
    pub(super) fn method(&self) -> &str {
        self.word(0)
    }

    /// Path and query of a request.
    pub(super) fn target(&self) -> &str {
        self.word(1)
    }

    /// Whether this is an answer that another one follows for the same request.
    pub(super) fn is_interim(&self) -> bool {
        self.word(1).starts_with('1')
    }

    pub(super) fn expects_continue(&self) -> bool {
        self.value("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    /// The body that follows this head of a request.
    pub(super) fn request_body(&self) -> io::Result<Body> {
        Ok(self.declared_body()?.unwrap_or(Body::Sized(0)))
    }

    /// The body that follows this head of an answer to a request of the method `method`.
    pub(super) fn answer_body(&self, method: &str) -> io::Result<Body> {
        if method == "HEAD" || self.is_interim() || ["204", "304"].contains(&self.word(1)) {
            return Ok(Body::Sized(0));
        }
        Ok(self.declared_body()?.unwrap_or(Body::UntilEnd))
    }

    fn declared_body(&self) -> io::Result<Option<Body>> {
        let encoding = self.value("transfer-encoding");
        if encoding.is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return Ok(Some(Body::Chunked));
        }
        let Some(len) = self.value("content-length") else { return Ok(None) };
        len.parse().map(|len| Some(Body::Sized(len))).map_err(|_| malformed("Content-Length"))
    }

    fn value(&self, name: &str) -> Option<&str> {
        let headers = self.lines.iter().skip(1).filter_map(|line| line.split_once(':'));
        let mut found = headers.filter(|(header, _)| header.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }

    fn word(&self, number: usize) -> &str {
        self.lines[0].split(' ').nth(number).unwrap_or_default()
    }
}

impl Body {
    /// Reads the body as it comes, and hands each piece of it to `take`.
    pub(super) fn pump(
        self,
        from: &mut impl BufRead,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Sized(len) => pump_exactly(from, len, &mut take),
            Self::Chunked => pump_chunks(from, &mut take),
            Self::UntilEnd => pump_up_to(from, u64::MAX, &mut take).map(drop),
        }
    }
}

/// Reads chunks with the lines around them, to the end of the trailer.
fn pump_chunks(
    from: &mut impl BufRead,
    take: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        let line = pump_line(from, take)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let len = u64::from_str_radix(digits, 16).map_err(|_| malformed("length of a chunk"))?;
        if len == 0 {
            break;
        }
        pump_exactly(from, len, take)?;
        pump_line(from, take)?;
    }
    while !pump_line(from, take)?.trim_end().is_empty() {}
    Ok(())
}

fn pump_line(
    from: &mut impl BufRead,
    take: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<String> {
    let mut line = String::new();
    from.take(MAX_HEAD).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    take(line.as_bytes())?;
    Ok(line)
}

fn pump_exactly(
    from: &mut impl BufRead,
    len: u64,
    take: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    match pump_up_to(from, len, take)? {
        read if read < len => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Returns how many bytes came, which are fewer than `len` only if the connection ended.
fn pump_up_to(
    from: &mut impl BufRead,
    len: u64,
    take: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut left = len;
    while left > 0 {
        let available = from.fill_buf()?;
        let piece = &available[..available.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        if piece.is_empty() {
            break;
        }
        take(piece)?;
        let read = piece.len();
        from.consume(read);
        left -= read as u64;
    }
    Ok(len - left)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("HTTP/1.1 message: {what} is malformed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::read(&mut text.as_bytes()).unwrap().unwrap()
    }

    /// What the body takes of `bytes`, read in pieces of `piece` bytes, and what is left.
    fn pumped(body: Body, bytes: &[u8], piece: usize) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut from = io::BufReader::with_capacity(piece, bytes);
        let mut taken = Vec::new();
        body.pump(&mut from, |piece| {
            taken.extend_from_slice(piece);
            Ok(())
        })?;
        let mut left = Vec::new();
        from.read_to_end(&mut left)?;
        Ok((taken, left))
    }

    #[test]
    fn a_body_ends_where_its_head_says_in_pieces_of_any_size() {
        let chunked = b"5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";
        for piece in 1..=64 {
            for (body, bytes) in [
                (Body::Sized(11), b"hello world".as_slice()),
                (Body::Sized(0), b""),
                (Body::Chunked, chunked),
                (Body::Chunked, b"0\r\n\r\n"),
            ] {
                let followed = [bytes, b"GET / HTTP/1.1"].concat();
                let (taken, left) = pumped(body, &followed, piece).unwrap();
                assert_eq!((taken.as_slice(), left.as_slice()), (bytes, &b"GET / HTTP/1.1"[..]));
            }
            let (taken, left) = pumped(Body::UntilEnd, b"to the end", piece).unwrap();
            assert_eq!((taken.as_slice(), left.as_slice()), (&b"to the end"[..], &b""[..]));
        }
    }

    #[test]
    fn a_body_that_ends_early_or_is_malformed_is_an_error() {
        for (body, bytes) in [
            (Body::Sized(11), b"hello".as_slice()),
            (Body::Chunked, b"5\r\nhel"),
            (Body::Chunked, b"5\r\nhello\r\n"),
            (Body::Chunked, b"x\r\nhello\r\n"),
            (Body::Chunked, b"0\r\n"),
        ] {
            assert!(pumped(body, bytes, 4).is_err(), "{body:?} {bytes:?}");
        }
    }

    #[test]
    fn the_head_says_how_the_body_ends() {
        let sized = head("HTTP/1.1 200 OK\r\ncontent-LENGTH:  7 \r\n\r\n");
        assert_eq!(sized.answer_body("GET").unwrap(), Body::Sized(7));
        assert_eq!(sized.answer_body("HEAD").unwrap(), Body::Sized(0));
        let chunked = head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(chunked.answer_body("GET").unwrap(), Body::Chunked);
        let open = head("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n");
        assert_eq!(open.answer_body("GET").unwrap(), Body::UntilEnd);
        assert_eq!(head("GET / HTTP/1.1\r\n\r\n").request_body().unwrap(), Body::Sized(0));
        for status in ["204 No Content", "304 Not Modified", "100 Continue"] {
            let empty = head(&format!("HTTP/1.1 {status}\r\n\r\n"));
            assert_eq!(empty.answer_body("PUT").unwrap(), Body::Sized(0), "{status}");
        }
        assert!(head("PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n").request_body().is_err());
    }

    #[test]
    fn a_connection_may_end_before_a_head_and_not_within() {
        assert_eq!(Head::read(&mut b"".as_slice()).unwrap(), None);
        for cut in ["GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\n", "\r\n"] {
            assert!(Head::read(&mut cut.as_bytes()).is_err(), "{cut:?}");
        }
    }

    #[test]
    fn a_head_is_sent_on_as_it_came() {
        let text = "GET /a%20b?c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n";
        let head = head(text);
        assert_eq!(head.bytes(), text.as_bytes());
        assert_eq!((head.method(), head.target()), ("GET", "/a%20b?c"));
        assert!(head.expects_continue());
    }
}
