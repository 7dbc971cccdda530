//! A line of a trace, and files of them.
//!
//! ```text
//! TIME PID PROCESS LBA SIZE R|W MAJOR MINOR MD5…
//! ```
//!
//! TIME is in nanoseconds, LBA and SIZE in sectors of 512 bytes. There is one digest for each page of
//! 4 KiB, or for each of 512 bytes: which of the two follows from SIZE.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::bufread::MultiGzDecoder;

use super::content::Digest;

/// The unit of addresses, in bytes.
pub const SECTOR: u64 = 512;

/// No line is longer, in bytes: it has room for 1,900 digests.
pub const MAX_LINE: usize = 64 << 10;

/// So many bytes of empty lines one behind the other are no trace: a few bytes of gzip could stand for
/// hours of them.
const MAX_EMPTY: usize = 1 << 20;

/// No address is beyond, so that every byte has a number.
const MAX_SECTOR: u64 = 1 << 53;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// The unit of which a trace has digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// 512 bytes, as in the trace `homes`.
    B512,
    /// 4,096 bytes, as in `mail` and `web`.
    B4096,
}

impl PageSize {
    /// In bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// In sectors.
    pub const fn sectors(self) -> u64 {
        self.bytes() / SECTOR
    }
}

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it was, from some beginning.
    pub nanoseconds: u64,
    /// Of the process.
    pub pid: u32,
    /// The process by name: 1 to 255 bytes that are printed, none of them a space.
    pub process: String,
    /// Where it begins.
    pub sector: u64,
    /// What it does.
    pub kind: Kind,
    /// Numbers of the device, major and minor.
    pub device: (u32, u32),
    /// The unit of the digests.
    pub page_size: PageSize,
    /// One for each page, at least one.
    pub digests: Vec<Digest>,
}

impl Operation {
    /// Reads a line without its end.
    ///
    /// # Errors
    ///
    /// What was expected, and what is there.
    pub fn parse(line: &[u8]) -> Result<Self> {
        ensure!(line.len() <= MAX_LINE, "{} bytes, expected at most {MAX_LINE}", line.len());
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let nanoseconds = number(words.next(), "a time in nanoseconds")?;
        let pid = number(words.next(), "the number of a process")?;
        let process = name(words.next())?;
        let sector: u64 = number(words.next(), "an address in sectors")?;
        let sectors: u64 = number(words.next(), "a length in sectors")?;
        let kind = match words.next() {
            Some(b"R" | b"r") => Kind::Read,
            Some(b"W" | b"w") => Kind::Write,
            other => bail!("expected R or W, found {}", shown(other)),
        };
        let device = (
            number(words.next(), "the major number of a device")?,
            number(words.next(), "the minor number of a device")?,
        );
        let mut digests = Vec::new();
        for word in words {
            let digest = Digest::parse(word);
            let expected = || format!("expected an MD5 of 32 digits, found {}", shown(Some(word)));
            digests.push(digest.with_context(expected)?);
        }
        let count = digests.len() as u64;
        let page_size = match (sectors.checked_rem(count), sectors.checked_div(count)) {
            (Some(0), Some(1)) => PageSize::B512,
            (Some(0), Some(8)) => PageSize::B4096,
            _ => bail!(
                "{count} digests for {sectors} sectors, expected one for each, or for every eight"
            ),
        };
        ensure!(
            sector.checked_add(sectors).is_some_and(|end| end <= MAX_SECTOR),
            "sectors {sector}+{sectors}, expected an end of at most {MAX_SECTOR}"
        );
        Ok(Self { nanoseconds, pid, process, sector, kind, device, page_size, digests })
    }

    /// The numbers of its pages, one for each digest. A trace of a partition may begin its pages
    /// anywhere: an address is rounded down to a page.
    pub fn pages(&self) -> Range<u64> {
        let first = self.sector / self.page_size.sectors();
        first..first + self.digests.len() as u64
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nanoseconds, pid, process, sector, device: (major, minor), .. } = self;
        let sectors = self.digests.len() as u64 * self.page_size.sectors();
        let kind = match self.kind {
            Kind::Read => 'R',
            Kind::Write => 'W',
        };
        write!(f, "{nanoseconds} {pid} {process} {sector} {sectors} {kind} {major} {minor}")?;
        self.digests.iter().try_for_each(|digest| write!(f, " {digest}"))
    }
}

fn number<T: std::str::FromStr>(word: Option<&[u8]>, expected: &str) -> Result<T> {
    let digits = word.filter(|word| word.iter().all(u8::is_ascii_digit));
    let parsed = digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
    parsed.with_context(|| format!("expected {expected}, found {}", shown(word)))
}

fn name(word: Option<&[u8]>) -> Result<String> {
    let is_name = |word: &&[u8]| word.len() <= 255 && word.iter().all(u8::is_ascii_graphic);
    let name = word.filter(is_name).with_context(|| {
        format!("expected the name of a process, at most 255 letters, found {}", shown(word))
    })?;
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// A word for a message, not all of it if it is long.
fn shown(word: Option<&[u8]>) -> String {
    match word {
        None => "the end of the line".into(),
        Some(word) => format!("'{}'", word[..word.len().min(40)].escape_ascii()),
    }
}

/// A file of a trace, as it is or compressed by gzip. Nothing follows an error.
pub struct Reader {
    path: PathBuf,
    source: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
    has_failed: bool,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no regular file: a trace is read twice.
    pub fn open(path: &Path) -> Result<Self> {
        let place = || format!("trace '{}'", path.display());
        let file = File::open(path).with_context(place)?;
        let is_file = file.metadata().with_context(place)?.is_file();
        ensure!(is_file, "{}: expected a file, which can be read twice", place());
        let mut plain = BufReader::with_capacity(1 << 20, file);
        let is_compressed = plain.fill_buf().with_context(place)?.starts_with(&[0x1f, 0x8b]);
        let source: Box<dyn BufRead + Send> = match is_compressed {
            true => Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(plain))),
            false => Box::new(plain),
        };
        Ok(Self { path: path.to_owned(), source, line: Vec::new(), number: 0, has_failed: false })
    }

    /// The next line that is not empty, parsed; errors name no place.
    fn next_line(&mut self) -> Result<Option<Operation>> {
        let mut empty = 0;
        loop {
            self.line.clear();
            let mut bounded = (&mut self.source).take(MAX_LINE as u64 + 2);
            if bounded.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let line = self.line.trim_ascii_end();
            if !line.is_empty() {
                return Operation::parse(line).map(Some);
            }
            empty += self.line.len();
            ensure!(
                empty <= MAX_EMPTY,
                "empty lines of more than {MAX_EMPTY} bytes, expected a trace"
            );
        }
    }

    fn place(&self) -> String {
        format!("trace '{}', line {}", self.path.display(), self.number.max(1))
    }
}

impl Iterator for Reader {
    type Item = Result<Operation>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.next_line();
        self.has_failed = next.is_err();
        next.with_context(|| self.place()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use onefold_testkit::SplitMix64;
    use proptest::prelude::*;

    use super::*;

    const MAIL: &str =
        "89966180391260 4253 nfsd 508113920 8 W 6 0 531e779bf7ab92d45f28e1a4d4e9c2f1";

    fn parse(line: &str) -> Result<Operation> {
        Operation::parse(line.as_bytes())
    }

    fn operation() -> impl Strategy<Value = Operation> {
        (
            any::<(u64, u32, bool, bool)>(),
            "[!-~]{1,255}",
            0..MAX_SECTOR - 100_000,
            any::<(u32, u32)>(),
            prop::collection::vec(any::<[u8; 16]>(), 1..40),
        )
            .prop_map(
                |((nanoseconds, pid, is_write, is_short), process, sector, device, digests)| {
                    Operation {
                        nanoseconds,
                        pid,
                        process,
                        sector,
                        kind: if is_write { Kind::Write } else { Kind::Read },
                        device,
                        page_size: if is_short { PageSize::B512 } else { PageSize::B4096 },
                        digests: digests.into_iter().map(Digest).collect(),
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn an_operation_reads_back_as_it_was_written(operation in operation()) {
            prop_assert_eq!(parse(&operation.to_string()).unwrap(), operation);
        }

        #[test]
        fn any_line_is_an_operation_or_an_error(line in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(operation) = Operation::parse(&line) {
                prop_assert_eq!(parse(&operation.to_string()).unwrap(), operation);
            }
        }
    }

    #[test]
    fn the_lines_of_mail_have_a_digest_for_4_kib() {
        let operation = parse(MAIL).unwrap();
        assert_eq!(operation.page_size, PageSize::B4096);
        assert_eq!((operation.kind, &*operation.process), (Kind::Write, "nfsd"));
        assert_eq!(operation.pages(), 508_113_920 / 8..508_113_920 / 8 + 1);
        // a partition begins anywhere
        let moved = parse(&MAIL.replace("508113920", "508113927")).unwrap();
        assert_eq!(moved.pages(), operation.pages());
    }

    #[test]
    fn the_lines_of_homes_have_eight() {
        let digest = " 531e779bf7ab92d45f28e1a4d4e9c2f1";
        let operation = parse(&format!("{MAIL}{}", digest.repeat(7))).unwrap();
        assert_eq!(operation.page_size, PageSize::B512);
        assert_eq!(operation.pages(), 508_113_920..508_113_928);
    }

    #[test]
    fn an_error_says_what_was_expected_and_what_was_found() {
        for (from, to, expected) in [
            (MAIL, "", "expected a time in nanoseconds, found the end of the line"),
            ("4253", "-1", "expected the number of a process, found '-1'"),
            ("4253", "4294967296", "expected the number of a process, found '4294967296'"),
            ("508113920", "0x5", "expected an address in sectors, found '0x5'"),
            ("W", "D", "expected R or W, found 'D'"),
            ("6 0", "6", "expected the minor number of a device, found '531e"),
            ("531e", "531g", "expected an MD5 of 32 digits, found '531g"),
            ("8 W", "9 W", "1 digests for 9 sectors, expected one for each, or for every eight"),
            ("8 W", "0 W", "1 digests for 0 sectors, expected"),
            (" 531e779bf7ab92d45f28e1a4d4e9c2f1", "", "0 digests for 8 sectors, expected"),
            ("508113920", "9007199254740992", "an end of at most 9007199254740992"),
            ("508113920", "18446744073709551615", "an end of at most"),
        ] {
            let error = parse(&MAIL.replacen(from, to, 1)).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{expected}: {error:#}");
        }
    }

    #[test]
    fn files_are_read_as_they_are_or_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{MAIL}\n\n  \n{MAIL}\r\n{MAIL}");
        let (plain, compressed) = (folder.path().join("plain"), folder.path().join("gz"));
        write(&plain, text.as_bytes());
        // two streams in one file, as gzip makes of two files
        let mut members = Vec::new();
        for part in [&text[..100], &text[100..]] {
            let mut encoder = GzEncoder::new(&mut members, Compression::fast());
            encoder.write_all(part.as_bytes()).unwrap();
            encoder.finish().unwrap();
        }
        write(&compressed, &members);
        for path in [&plain, &compressed] {
            let read: Vec<_> = Reader::open(path).unwrap().map(Result::unwrap).collect();
            assert_eq!(read, vec![parse(MAIL).unwrap(); 3]);
        }
        write(&compressed, &members[..members.len() - 9]);
        let last = Reader::open(&compressed).unwrap().last().unwrap().unwrap_err();
        assert!(format!("{last:#}").contains("gz', line "), "{last:#}");
        assert!(Reader::open(folder.path()).is_err());
    }

    #[test]
    fn an_error_of_a_file_names_it_and_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        write(&path, format!("{MAIL}\nrubbish\n").as_bytes());
        let error = Reader::open(&path).unwrap().nth(1).unwrap().unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("trace', line 2: expected a time"), "{error}");
    }

    #[test]
    fn a_line_that_does_not_end_is_an_error_and_takes_little_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&vec![b'1'; 8 << 20]).unwrap();
        write(&path, &encoder.finish().unwrap());
        let mut reader = Reader::open(&path).unwrap();
        let error = format!("{:#}", reader.next().unwrap().unwrap_err());
        assert!(error.contains("expected at most 65536"), "{error}");
        assert!(reader.line.capacity() <= 4 * MAX_LINE, "{}", reader.line.capacity());
    }

    #[test]
    fn empty_lines_without_end_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        for empty in [&b"\n"[..], b"   \r\n", b" "] {
            // a GiB of them for the first, in members of 16 MiB
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&empty.repeat((16 << 20) / empty.len())).unwrap();
            let member = encoder.finish().unwrap();
            write(&path, &member.repeat(if empty == b"\n" { 64 } else { 1 }));
            let mut reader = Reader::open(&path).unwrap();
            let error = format!("{:#}", reader.next().unwrap().unwrap_err());
            assert!(error.contains("empty lines of more than 1048576 bytes"), "{error}");
            assert!(reader.next().is_none());
        }
        // as many as somebody may have left are none
        write(&path, format!("{MAIL}\n{}{MAIL}", "\n".repeat(MAX_EMPTY)).as_bytes());
        assert_eq!(Reader::open(&path).unwrap().map(Result::unwrap).count(), 2);
    }

    #[test]
    fn a_line_has_room_for_as_many_digests_as_are_promised() {
        let mut numbers = SplitMix64::new(1);
        let digest = || Digest(u128::from(numbers.next_u64()).to_be_bytes());
        let mut operation = parse(MAIL).unwrap();
        operation.digests = std::iter::repeat_with(digest).take(1900).collect();
        assert_eq!(parse(&operation.to_string()).unwrap(), operation);
        operation.digests.extend_from_within(..200);
        assert!(parse(&operation.to_string()).is_err());
    }

    #[expect(clippy::disallowed_methods, reason = "a file of a test, no durable byte")]
    fn write(path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
    }
}
