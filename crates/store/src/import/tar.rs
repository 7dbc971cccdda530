//! Tar archives, read as a stream: the old form, POSIX.1-2001 with extended headers, and GNU's with long names
//! and sparse files.
//!
//! An archive is a sequence of blocks of 512 bytes. Each entry has a header block, whose checksum is verified,
//! and its data, padded to a block. Extended headers come before the entry that they describe. Two blocks of
//! zeros end the archive; without them it was cut off.

use std::io::{self, Read};

use crate::error::TarError;
use crate::tree::{Extent, Time};

const BLOCK: usize = 512;

/// The longest extended header or long name, in bytes. Attributes of a file have at most 64 KiB each.
const MAX_EXTENDED: u64 = 16 << 20;

/// The most extents of a sparse file.
const MAX_EXTENTS: usize = 1 << 20;

type Result<T> = std::result::Result<T, TarError>;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file. Its data follow.
    File {
        /// Length in bytes, holes included.
        size: u64,
        /// Where the data go, if the file has holes.
        extents: Option<Vec<Extent>>,
    },
    /// Another name of an entry before it, or of its content.
    HardLink {
        /// The other name.
        target: Vec<u8>,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points.
        target: Vec<u8>,
    },
    /// A character device.
    CharDevice {
        /// Major and minor number.
        numbers: (u32, u32),
    },
    /// A block device.
    BlockDevice {
        /// Major and minor number.
        numbers: (u32, u32),
    },
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// Something that is not known here, by its type in the archive.
    Unknown(u8),
}

/// An entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarEntry {
    /// The path as the archive has it.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission, set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode, if the archive tells.
    pub ctime: Option<Time>,
    /// Extended attributes, in the order of the archive.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Records of extended headers that are not understood.
    pub ignored: Vec<String>,
}

/// An archive that is read from its start to its end.
pub struct Archive<R> {
    source: R,
    offset: u64,
    /// Bytes of the data at hand, and of the padding after them, that were not read yet.
    data_left: u64,
    padding: u64,
    /// Records for all later entries.
    global: Records,
}

impl<R: Read> Archive<R> {
    /// An archive that begins where `source` stands.
    pub fn new(source: R) -> Self {
        Self { source, offset: 0, data_left: 0, padding: 0, global: Records::default() }
    }

    /// The next entry, or `None` at the end of the archive. Data of the entry before that were not read are
    /// skipped.
    pub fn next_entry(&mut self) -> Result<Option<TarEntry>> {
        self.skip_data()?;
        let mut extended = Extended { records: self.global.clone(), ..Extended::default() };
        loop {
            let start = self.offset;
            let block = self.block()?;
            if block == [0; BLOCK] {
                self.end()?;
                return Ok(None);
            }
            let header = Header { block: &block, offset: start };
            header.check()?;
            let size = header.number(124..136)?;
            match block[156] {
                b'x' | b'X' => self.read_records(size, &mut extended.records)?,
                b'g' => {
                    let mut global = std::mem::take(&mut self.global);
                    self.read_records(size, &mut global)?;
                    extended.records.apply(&global);
                    self.global = global;
                }
                b'L' => extended.path = Some(self.read_name(size)?),
                b'K' => extended.link = Some(self.read_name(size)?),
                _ => return self.entry(&header, extended).map(Some),
            }
        }
    }

    /// Reads data of the entry at hand; 0 bytes at their end.
    pub fn read_data(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = buffer.len().min(usize::try_from(self.data_left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let count = self.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(TarError::CutOff { offset: self.offset });
        }
        self.data_left -= count as u64;
        Ok(count)
    }

    fn entry(&mut self, header: &Header<'_>, extended: Extended) -> Result<TarEntry> {
        let Extended { records, path, link } = extended;
        let block = header.block;
        let malformed = |expected| TarError::Malformed { offset: header.offset, expected };
        let size = match records.size {
            Some(size) => size,
            None => header.number(124..136)?,
        };
        let path = records.path.clone().or(path).unwrap_or_else(|| header.path());
        let link = records.link.clone().or(link);
        let link = link.unwrap_or_else(|| until_nul(&block[157..257]).to_vec());
        let numbers = || Ok((header.small(329..337)?, header.small(337..345)?));
        self.begin_data(size).ok_or(malformed("a length below 2^63"))?;
        let kind = match block[156] {
            b'0' | 0 | b'7' if path.ends_with(b"/") && block[156] == 0 => Kind::Directory,
            b'0' | 0 | b'7' => self.file(&records, size, header.offset)?,
            b'S' => self.gnu_sparse(header)?,
            b'1' => Kind::HardLink { target: link },
            b'2' => Kind::Symlink { target: link },
            b'3' => Kind::CharDevice { numbers: numbers()? },
            b'4' => Kind::BlockDevice { numbers: numbers()? },
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => Kind::Unknown(other),
        };
        // What some programs write there for other entries is no length of data.
        if !matches!(kind, Kind::File { .. } | Kind::Unknown(_)) {
            self.begin_data(0);
        }
        let uid = records.uid.map_or_else(|| header.small(108..116), Ok)?;
        let gid = records.gid.map_or_else(|| header.small(116..124), Ok)?;
        let mtime = match records.mtime {
            Some(time) => time,
            None => Time { secs: header.signed(136..148)?, nanos: 0 },
        };
        Ok(TarEntry {
            path: records.sparse.name.clone().unwrap_or(path),
            kind,
            mode: (header.number(100..108)? & 0o7777) as u32,
            uid,
            gid,
            mtime,
            ctime: records.ctime,
            xattrs: records.xattrs,
            ignored: records.ignored,
        })
    }

    /// A file, which extended records may say is sparse.
    fn file(&mut self, records: &Records, size: u64, offset: u64) -> Result<Kind> {
        let malformed = |expected| TarError::Malformed { offset, expected };
        let sparse = &records.sparse;
        let Some(whole) = sparse.size else { return Ok(Kind::File { size, extents: None }) };
        let extents = match sparse.major {
            // The map is at the start of the data.
            Some(1) => self.read_sparse_map(offset)?,
            _ => sparse.extents.clone(),
        };
        sparse_file(extents, whole, self.data_left).map_err(malformed)
    }

    /// Reads the map of a sparse file: decimal numbers, each on a line, padded to a block.
    fn read_sparse_map(&mut self, offset: u64) -> Result<Vec<Extent>> {
        let malformed = |expected| TarError::Malformed { offset, expected };
        let mut numbers: Vec<u64> = Vec::new();
        let mut digits = String::new();
        let mut block = [0; BLOCK];
        loop {
            if self.data_left < BLOCK as u64 {
                return Err(malformed("a map of a sparse file"));
            }
            self.read_exact(&mut block)?;
            self.data_left -= BLOCK as u64;
            for byte in block {
                match byte {
                    b'0'..=b'9' if digits.len() < 20 => digits.push(char::from(byte)),
                    b'\n' => {
                        let number = digits.parse().map_err(|_| malformed("a number in a map"))?;
                        numbers.push(number);
                        digits.clear();
                    }
                    0 if digits.is_empty() => {}
                    _ => return Err(malformed("a number in a map")),
                }
                let count = numbers.first().copied().unwrap_or(MAX_EXTENTS as u64);
                if count > MAX_EXTENTS as u64 {
                    return Err(malformed("at most 1048576 extents"));
                }
                if !numbers.is_empty() && numbers.len() as u64 == 1 + 2 * count {
                    let extent = |pair: &[u64]| Extent { offset: pair[0], len: pair[1] };
                    return Ok(numbers[1..].chunks_exact(2).map(extent).collect());
                }
            }
        }
    }

    /// GNU's own form of a sparse file: the map is in the header and in blocks after it.
    fn gnu_sparse(&mut self, header: &Header<'_>) -> Result<Kind> {
        let malformed = |expected| TarError::Malformed { offset: header.offset, expected };
        let whole = header.number(483..495)?;
        let (mut extents, mut goes_on) = (Vec::new(), header.block[482] != 0);
        header.extents(386, 4, &mut extents)?;
        while goes_on {
            let block = self.block()?;
            let more = Header { block: &block, offset: header.offset };
            more.extents(0, 21, &mut extents)?;
            goes_on = block[504] != 0;
            if extents.len() > MAX_EXTENTS {
                return Err(malformed("at most 1048576 extents"));
            }
        }
        sparse_file(extents, whole, self.data_left).map_err(malformed)
    }

    /// Notes that `size` bytes of data follow; none if they are too many.
    fn begin_data(&mut self, size: u64) -> Option<()> {
        if size > i64::MAX as u64 {
            return None;
        }
        self.data_left = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
        Some(())
    }

    fn skip_data(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        self.data_left += std::mem::take(&mut self.padding);
        while self.data_left > 0 {
            self.read_data(&mut buffer)?;
        }
        Ok(())
    }

    /// Reads the second of the two blocks that end an archive, and what a program puts after them.
    fn end(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }

    fn read_name(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut name = self.read_short(size)?;
        name.truncate(until_nul(&name).len());
        Ok(name)
    }

    fn read_records(&mut self, size: u64, records: &mut Records) -> Result<()> {
        let offset = self.offset;
        let bytes = self.read_short(size)?;
        records.read(&bytes).map_err(|expected| TarError::Malformed { offset, expected })
    }

    /// The data of a header that is not the entry's own.
    fn read_short(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > MAX_EXTENDED {
            let expected = "an extended header of at most 16 MiB";
            return Err(TarError::Malformed { offset: self.offset, expected });
        }
        self.begin_data(size);
        let mut bytes = vec![0; size as usize];
        self.read_exact(&mut bytes)?;
        self.data_left = 0;
        self.skip_data()?;
        Ok(bytes)
    }

    fn block(&mut self) -> Result<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        self.read_exact(&mut block)?;
        Ok(block)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => return Err(TarError::CutOff { offset: self.offset }),
                count => filled += count,
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.source.read(buffer) {
                Ok(count) => {
                    self.offset += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(TarError::Read { offset: self.offset, source }),
            }
        }
    }
}

/// What stands before an entry's own header.
#[derive(Default)]
struct Extended {
    records: Records,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

/// Records of extended headers.
#[derive(Debug, Clone, Default)]
struct Records {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<Time>,
    ctime: Option<Time>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    sparse: Sparse,
    ignored: Vec<String>,
}

/// What records say of a sparse file.
#[derive(Debug, Clone, Default)]
struct Sparse {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    major: Option<u64>,
    extents: Vec<Extent>,
}

impl Records {
    /// Takes over what `others` say.
    fn apply(&mut self, others: &Self) {
        let Self { path, link, size, uid, gid, mtime, ctime, xattrs, .. } = others.clone();
        self.path = path.or(self.path.take());
        self.link = link.or(self.link.take());
        self.size = size.or(self.size);
        self.uid = uid.or(self.uid);
        self.gid = gid.or(self.gid);
        self.mtime = mtime.or(self.mtime);
        self.ctime = ctime.or(self.ctime);
        self.xattrs.extend(xattrs);
    }

    /// Reads `LEN KEYWORD=VALUE` lines, each as long as its number says.
    fn read(&mut self, mut bytes: &[u8]) -> std::result::Result<(), &'static str> {
        const RECORD: &str = "a record of an extended header";
        while !bytes.is_empty() {
            let space = bytes.iter().take(20).position(|byte| *byte == b' ').ok_or(RECORD)?;
            let len = std::str::from_utf8(&bytes[..space]).ok().and_then(|len| len.parse().ok());
            let len: usize =
                len.filter(|len| *len > space + 1 && *len <= bytes.len()).ok_or(RECORD)?;
            let (record, rest) = bytes.split_at(len);
            let record = record[space + 1..].strip_suffix(b"\n").ok_or(RECORD)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(RECORD)?;
            self.set(&record[..equals], &record[equals + 1..])?;
            bytes = rest;
        }
        Ok(())
    }

    fn set(&mut self, keyword: &[u8], value: &[u8]) -> std::result::Result<(), &'static str> {
        let text = std::str::from_utf8(value).ok();
        let number =
            || text.and_then(|text| text.parse::<u64>().ok()).ok_or("a number in a record");
        let small = || number().map(|number| u32::try_from(number).ok());
        let time = || text.and_then(parse_time).ok_or("a time in a record");
        let extents = &mut self.sparse.extents;
        match keyword {
            // An empty value takes back what was said before.
            _ if value.is_empty() && !keyword.starts_with(b"SCHILY.xattr.") => {}
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(number()?),
            b"uid" => self.uid = small()?,
            b"gid" => self.gid = small()?,
            b"mtime" => self.mtime = Some(time()?),
            b"ctime" => self.ctime = Some(time()?),
            b"GNU.sparse.name" => self.sparse.name = Some(value.to_vec()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.size = Some(number()?),
            b"GNU.sparse.major" => self.sparse.major = Some(number()?),
            b"GNU.sparse.offset" => extents.push(Extent { offset: number()?, len: 0 }),
            b"GNU.sparse.numbytes" => {
                extents.last_mut().ok_or("an offset before a length")?.len = number()?;
            }
            b"GNU.sparse.map" => *extents = text.and_then(parse_map).ok_or("a map in a record")?,
            b"GNU.sparse.minor" | b"GNU.sparse.numblocks" => {}
            // What is nowhere in a snapshot, or said by others as well.
            b"atime"
            | b"uname"
            | b"gname"
            | b"comment"
            | b"charset"
            | b"hdrcharset"
            | b"LIBARCHIVE.creationtime"
            | b"SCHILY.dev"
            | b"SCHILY.ino"
            | b"SCHILY.nlink" => {}
            _ => match keyword.strip_prefix(b"SCHILY.xattr.") {
                Some(name) => self.xattrs.push((name.to_vec(), value.to_vec())),
                None if keyword == b"RHT.security.selinux" => {
                    self.xattrs.push((b"security.selinux".to_vec(), value.to_vec()));
                }
                // The same attribute again, in another encoding.
                None if keyword.starts_with(b"LIBARCHIVE.xattr.") => {}
                None => self.ignored.push(String::from_utf8_lossy(keyword).into_owned()),
            },
        }
        if extents.len() > MAX_EXTENTS {
            return Err("at most 1048576 extents");
        }
        Ok(())
    }
}

/// A header block, and where it is.
struct Header<'a> {
    block: &'a [u8; BLOCK],
    offset: u64,
}

impl Header<'_> {
    /// Compares the sum of all bytes, those of the sum itself counted as spaces.
    fn check(&self) -> Result<()> {
        let bytes = self.block.iter().enumerate();
        let bytes = bytes.map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
        let (sum, signed) = bytes.fold((0, 0), |(sum, signed), byte| {
            (sum + i64::from(byte), signed + i64::from(byte as i8))
        });
        let stored = self.number(148..156)? as i64;
        match stored == sum || stored == signed {
            true => Ok(()),
            false => Err(self.malformed("a header of an entry with its checksum")),
        }
    }

    fn malformed(&self, expected: &'static str) -> TarError {
        TarError::Malformed { offset: self.offset, expected }
    }

    /// A number that is not negative: octal digits, or big-endian bytes after one that begins with a 1.
    fn number(&self, field: std::ops::Range<usize>) -> Result<u64> {
        let number = self.signed(field)?;
        u64::try_from(number).map_err(|_| self.malformed("a number that is not negative"))
    }

    fn small(&self, field: std::ops::Range<usize>) -> Result<u32> {
        u32::try_from(self.number(field)?).map_err(|_| self.malformed("a number below 2^32"))
    }

    fn signed(&self, field: std::ops::Range<usize>) -> Result<i64> {
        let bytes = &self.block[field];
        if bytes[0] & 0x80 != 0 {
            // The second bit is the sign.
            let first = if bytes[0] & 0x40 != 0 { -1 } else { 0 };
            let first = first << 7 | i64::from(bytes[0] & 0x7f);
            let next = |number: i64, byte: &u8| {
                number.checked_mul(256).map(|number| number | i64::from(*byte))
            };
            let number = bytes[1..].iter().try_fold(first, next);
            return number.ok_or_else(|| self.malformed("a number below 2^63"));
        }
        let text = until_nul(bytes).trim_ascii();
        let digit = |number: i64, byte: &u8| match byte {
            b'0'..=b'7' => number.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
            _ => None,
        };
        text.iter().try_fold(0, digit).ok_or_else(|| self.malformed("a number of octal digits"))
    }

    /// The path, whose first part may stand apart.
    fn path(&self) -> Vec<u8> {
        let name = until_nul(&self.block[..100]);
        let prefix = until_nul(&self.block[345..500]);
        // GNU's old form has other things there.
        if &self.block[257..263] != b"ustar\0" || prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, b"/", name].concat()
    }

    /// Pairs of offset and length, each of twelve bytes, up to `most`; an empty one ends them.
    fn extents(&self, start: usize, most: usize, found: &mut Vec<Extent>) -> Result<()> {
        for at in (0..most).map(|number| start + 24 * number) {
            if self.block[at] == 0 {
                break;
            }
            let (offset, len) = (self.number(at..at + 12)?, self.number(at + 12..at + 24)?);
            found.push(Extent { offset, len });
        }
        Ok(())
    }
}

/// A sparse file of `size` bytes, whose extents have `data` bytes together.
fn sparse_file(
    mut extents: Vec<Extent>,
    size: u64,
    data: u64,
) -> std::result::Result<Kind, &'static str> {
    // One without bytes stands at the end of the file.
    extents.retain(|extent| extent.len > 0);
    let (mut end, mut sum) = (0, 0);
    for Extent { offset, len } in &extents {
        if *offset < end || offset.checked_add(*len).is_none_or(|end| end > size) {
            return Err("extents that ascend, inside the file");
        }
        (end, sum) = (offset + len, sum + len);
    }
    if sum != data {
        return Err("as many bytes of data as the extents have");
    }
    let extents = if sum == size { None } else { Some(extents) };
    Ok(Kind::File { size, extents })
}

/// `OFFSET,LENGTH,…`.
fn parse_map(text: &str) -> Option<Vec<Extent>> {
    let numbers: Vec<u64> = text.split(',').map(|text| text.parse().ok()).collect::<Option<_>>()?;
    let pairs = numbers.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.map(|pair| Extent { offset: pair[0], len: pair[1] }).collect())
}

/// Seconds with a fraction, of which nanoseconds count.
fn parse_time(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_negative = whole.starts_with('-');
    let secs: i64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: u32 = if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()?
    } else {
        return None;
    };
    match is_negative && nanos > 0 {
        true => Some(Time { secs: secs.checked_sub(1)?, nanos: 1_000_000_000 - nanos }),
        false => Some(Time { secs, nanos }),
    }
}

/// The bytes before the first NUL.
fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header block with a correct checksum.
    fn header(name: &[u8], kind: u8, size: u64, change: impl FnOnce(&mut [u8; BLOCK])) -> Vec<u8> {
        let mut block = [0; BLOCK];
        block[..name.len()].copy_from_slice(name);
        for (field, number) in [(100, 0o644), (108, 1_000), (116, 100), (136, 1_234)] {
            let len = if field == 136 { 11 } else { 7 };
            block[field..field + len].copy_from_slice(format!("{number:0len$o}").as_bytes());
        }
        block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        change(&mut block);
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block.to_vec()
    }

    fn padded(bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
        let mut body = Vec::new();
        for (keyword, value) in records {
            let rest = 3 + keyword.len() + value.len();
            let len = (1..=5)
                .map(|digits| rest + digits)
                .find(|len| len.to_string().len() + rest == *len);
            body.extend_from_slice(format!("{} {keyword}=", len.unwrap()).as_bytes());
            body.extend_from_slice(value);
            body.push(b'\n');
        }
        [header(b"pax", b'x', body.len() as u64, |_| {}), padded(&body)].concat()
    }

    type Read = (TarEntry, Vec<u8>);

    fn read(parts: &[Vec<u8>]) -> std::result::Result<Vec<Read>, TarError> {
        let bytes = [parts.concat(), vec![0; 2 * BLOCK]].concat();
        let mut archive = Archive::new(&bytes[..]);
        let mut found = Vec::new();
        while let Some(entry) = archive.next_entry()? {
            let (mut data, mut buffer) = (Vec::new(), [0; 100]);
            loop {
                match archive.read_data(&mut buffer)? {
                    0 => break,
                    count => data.extend_from_slice(&buffer[..count]),
                }
            }
            found.push((entry, data));
        }
        Ok(found)
    }

    #[test]
    fn a_plain_file_has_what_its_header_says() {
        let found = read(&[header(b"a/b", b'0', 3, |_| {}), padded(b"abc")]).unwrap();
        let (entry, data) = &found[0];
        assert_eq!((&entry.path[..], &data[..]), (&b"a/b"[..], &b"abc"[..]));
        assert_eq!((entry.mode, entry.uid, entry.gid), (0o644, 1_000, 100));
        assert_eq!(entry.mtime, Time { secs: 1_234, nanos: 0 });
        assert_eq!(entry.kind, Kind::File { size: 3, extents: None });
    }

    #[test]
    fn records_go_before_the_header_for_one_entry() {
        let long = [b'x'; 200];
        let found = read(&[
            pax(&[
                ("path", &long),
                ("mtime", b"-1.25"),
                ("uid", b"4000000000"),
                ("SCHILY.xattr.user.a", b"v=\nw"),
                ("SCHILY.acl.access", b"user::rw-"),
            ]),
            header(b"short", b'0', 0, |_| {}),
            header(b"next", b'5', 0, |_| {}),
        ])
        .unwrap();
        let (entry, _) = &found[0];
        assert_eq!((&entry.path[..], entry.uid), (&long[..], 4_000_000_000));
        assert_eq!(entry.mtime, Time { secs: -2, nanos: 750_000_000 });
        assert_eq!(entry.xattrs, [(b"user.a".to_vec(), b"v=\nw".to_vec())]);
        assert_eq!(entry.ignored, ["SCHILY.acl.access"]);
        assert_eq!((&found[1].0.path[..], &found[1].0.kind), (&b"next"[..], &Kind::Directory));
    }

    #[test]
    fn long_names_of_gnu_are_read() {
        let name = [b'n'; 300];
        let found = read(&[
            header(b"././@LongLink", b'L', 301, |_| {}),
            padded(&[&name[..], b"\0"].concat()),
            header(b"././@LongLink", b'K', 301, |_| {}),
            padded(&[&name[..], b"\0"].concat()),
            header(b"n", b'2', 0, |_| {}),
        ])
        .unwrap();
        assert_eq!(found[0].0.path, name);
        assert_eq!(found[0].0.kind, Kind::Symlink { target: name.to_vec() });
    }

    #[test]
    fn every_form_of_a_sparse_file_has_the_same_extents() {
        let expected = Kind::File {
            size: 10_000,
            extents: Some(vec![Extent { offset: 0, len: 2 }, Extent { offset: 4_096, len: 3 }]),
        };
        let data = padded(b"abcde");
        let records = |more: &[(&'static str, &'static [u8])]| {
            pax(&[&[("GNU.sparse.size", &b"10000"[..])][..], more].concat())
        };
        let map = padded(b"3\n0\n2\n4096\n3\n10000\n0\n");
        let forms = [
            [
                records(&[
                    ("GNU.sparse.offset", b"0"),
                    ("GNU.sparse.numbytes", b"2"),
                    ("GNU.sparse.offset", b"4096"),
                    ("GNU.sparse.numbytes", b"3"),
                ]),
                header(b"a", b'0', 5, |_| {}),
                data.clone(),
            ]
            .concat(),
            [
                records(&[("GNU.sparse.name", b"a"), ("GNU.sparse.map", b"0,2,4096,3")]),
                header(b"GNUSparseFile.0/a", b'0', 5, |_| {}),
                data.clone(),
            ]
            .concat(),
            [
                records(&[
                    ("GNU.sparse.major", b"1"),
                    ("GNU.sparse.minor", b"0"),
                    ("GNU.sparse.name", b"a"),
                ]),
                header(b"GNUSparseFile.0/a", b'0', 5 + map.len() as u64, |_| {}),
                map,
                data.clone(),
            ]
            .concat(),
            [
                header(b"a", b'S', 5, |block| {
                    for (at, number) in [(386, 0), (398, 2), (410, 4_096), (422, 3), (483, 10_000)]
                    {
                        block[at..at + 11].copy_from_slice(format!("{number:011o}").as_bytes());
                    }
                }),
                data,
            ]
            .concat(),
        ];
        for (number, form) in forms.into_iter().enumerate() {
            let found = read(&[form]).unwrap();
            let (entry, data) = &found[0];
            assert_eq!((&entry.path[..], &entry.kind), (&b"a"[..], &expected), "form {number}");
            assert_eq!(data, b"abcde", "form {number}");
        }
    }

    #[test]
    fn unknown_entries_are_told_and_passed_over() {
        let found = read(&[
            header(b"what", b'M', 600, |_| {}),
            padded(&[1; 600]),
            header(b"pipe", b'6', 0, |_| {}),
            header(b"null", b'3', 0, |block| {
                block[329..336].copy_from_slice(b"0000001");
                block[337..344].copy_from_slice(b"0000003");
            }),
        ])
        .unwrap();
        assert_eq!(found[0].0.kind, Kind::Unknown(b'M'));
        assert_eq!(found[1].0.kind, Kind::Fifo);
        assert_eq!(found[2].0.kind, Kind::CharDevice { numbers: (1, 3) });
    }

    #[test]
    fn numbers_may_be_binary() {
        let found = read(&[header(b"a", b'5', 0, |block| {
            block[108..116].copy_from_slice(&[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xfe]);
            block[136..148].copy_from_slice(&[0xff; 12]);
        })]);
        let found = found.unwrap();
        assert_eq!((found[0].0.uid, found[0].0.mtime.secs), (u32::MAX - 1, -1));
    }

    #[test]
    fn what_is_no_archive_is_refused_with_its_place() {
        let good = header(b"a", b'0', 3, |_| {});
        let mut bad = good.clone();
        bad[0] ^= 1;
        let error = read(&[good.clone(), padded(b"abc"), bad]).unwrap_err();
        assert!(matches!(error, TarError::Malformed { offset: 1_024, .. }), "{error}");
        for cut in [100, 512, 600, 1_024] {
            let whole = [good.clone(), padded(b"abc")].concat();
            let mut archive = Archive::new(&whole[..cut]);
            let mut read_all = || -> Result<()> {
                while archive.next_entry()?.is_some() {}
                Ok(())
            };
            let error = read_all().unwrap_err();
            assert!(
                matches!(error, TarError::CutOff { offset } if offset == cut as u64),
                "{error}"
            );
        }
        for (record, name) in [
            (&[("size", &b"x"[..])], "number"),
            (&[("mtime", &b"1.x"[..])], "time"),
            (&[("GNU.sparse.map", &b"1,2,3"[..])], "map"),
        ] {
            let error = read(&[pax(record), good.clone()]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        let long = header(b"a", b'x', MAX_EXTENDED + 1, |_| {});
        assert!(read(&[long]).unwrap_err().to_string().contains("at most 16 MiB"));
    }

    #[test]
    fn extents_outside_the_file_are_refused() {
        for map in ["0,5,4,1", "9999,5", "0,3"] {
            let records =
                pax(&[("GNU.sparse.size", &b"10000"[..]), ("GNU.sparse.map", map.as_bytes())]);
            let error = read(&[records, header(b"a", b'0', 5, |_| {}), padded(b"abcde")]);
            assert!(matches!(error, Err(TarError::Malformed { .. })), "{map}: {error:?}");
        }
    }
}
