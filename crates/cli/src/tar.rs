//! Entries of a snapshot as a tar archive: POSIX.1-2001, with extended headers for what an old header
//! cannot hold.
//!
//! Extended attributes are records `SCHILY.xattr.NAME`, as GNU tar, star and libarchive have them.
//! Owners are numbers. Holes are written as zeros. Tar cannot represent sockets.

use onefold_store::tree::{Entry, Meta, Node, Time};
use rustix::fs::Dev;

/// Everything in an archive is padded to a multiple of this.
const BLOCK: usize = 512;

/// Bytes after the last entry.
pub(crate) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// The headers of `entry` at `path`, or `None` if it is a socket. The bytes of a file follow, then
/// their [`padding`].
pub(crate) fn entry(path: &[u8], entry: &Entry) -> Option<Vec<u8>> {
    let (kind, link, size, rdev) = match &entry.node {
        Node::File { size, .. } => (b'0', &b""[..], *size, 0),
        Node::Directory { .. } => (b'5', &b""[..], 0, 0),
        Node::Symlink { target } => (b'2', &target[..], 0, 0),
        Node::CharDevice { rdev } => (b'3', &b""[..], 0, *rdev),
        Node::BlockDevice { rdev } => (b'4', &b""[..], 0, *rdev),
        Node::Fifo => (b'6', &b""[..], 0, 0),
        Node::Socket => return None,
    };
    let mut path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
    if kind == b'5' {
        path.push(b'/');
    }
    Some(headers(&Header { path: &path, kind, link, size, rdev, meta: &entry.meta }))
}

/// The headers of another name of what is at `first`.
pub(crate) fn link(path: &[u8], first: &[u8], meta: &Meta) -> Vec<u8> {
    headers(&Header { path, kind: b'1', link: first, size: 0, rdev: 0, meta })
}

/// The padding after a file of `size` bytes.
pub(crate) fn padding(size: u64) -> &'static [u8] {
    let over = (size % BLOCK as u64) as usize;
    &END[..(BLOCK - over) % BLOCK]
}

struct Header<'a> {
    path: &'a [u8],
    kind: u8,
    link: &'a [u8],
    size: u64,
    rdev: u64,
    meta: &'a Meta,
}

/// The header, after an extended one if something does not fit into it.
fn headers(header: &Header<'_>) -> Vec<u8> {
    let records = records(header);
    let mut bytes = Vec::with_capacity(2 * BLOCK + records.len());
    if !records.is_empty() {
        let meta = Meta { mode: 0o644, ..Meta::default() };
        let size = records.len() as u64;
        let path = &b"@PaxHeader"[..];
        let extended = Header { path, kind: b'x', link: b"", size, rdev: 0, meta: &meta };
        bytes.extend_from_slice(&block(&extended));
        bytes.extend_from_slice(&records);
        bytes.extend_from_slice(padding(size));
    }
    bytes.extend_from_slice(&block(header));
    bytes
}

/// The records of the extended header.
fn records(header: &Header<'_>) -> Vec<u8> {
    let Header { path, link, size, meta, .. } = header;
    let mut long = Vec::new();
    for (key, value) in [("path", path), ("linkpath", link)] {
        if value.len() > 100 {
            record(&mut long, key.as_bytes(), value);
        }
    }
    let mut records = Vec::new();
    if std::str::from_utf8(&long).is_err() {
        record(&mut records, b"hdrcharset", b"BINARY");
    }
    records.append(&mut long);
    for (key, value, digits) in
        [("size", *size, 11), ("uid", meta.uid.into(), 7), ("gid", meta.gid.into(), 7)]
    {
        if octal(value, digits).is_none() {
            record(&mut records, key.as_bytes(), value.to_string().as_bytes());
        }
    }
    if meta.mtime.nanos > 0 || header_time(meta.mtime).is_none() {
        record(&mut records, b"mtime", decimal(meta.mtime).as_bytes());
    }
    for (name, value) in &meta.xattrs {
        let mut key = b"SCHILY.xattr.".to_vec();
        for byte in name {
            match byte {
                // an equals sign ends the key
                b'=' => key.extend_from_slice(b"%3D"),
                b'%' => key.extend_from_slice(b"%25"),
                byte => key.push(*byte),
            }
        }
        record(&mut records, &key, value);
    }
    records
}

/// Appends `LENGTH KEY=VALUE`, where the length counts itself.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len.to_string().len() + rest != len {
        len = len.to_string().len() + rest;
    }
    records.extend_from_slice(format!("{len} ").as_bytes());
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

fn block(header: &Header<'_>) -> [u8; BLOCK] {
    let Header { path, kind, link, size, rdev, meta } = header;
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    // What does not fit is in the extended header.
    let number = |value, digits| octal(value, digits).unwrap_or_else(|| "0".repeat(digits));
    put(0, &path[..path.len().min(100)]);
    put(100, number(meta.mode.into(), 7).as_bytes());
    put(108, number(meta.uid.into(), 7).as_bytes());
    put(116, number(meta.gid.into(), 7).as_bytes());
    put(124, number(*size, 11).as_bytes());
    put(136, number(header_time(meta.mtime).unwrap_or(0), 11).as_bytes());
    put(148, b"        ");
    put(156, &[*kind]);
    put(157, &link[..link.len().min(100)]);
    put(257, b"ustar\x0000");
    put(329, &device_number(rustix::fs::major(*rdev as Dev)));
    put(337, &device_number(rustix::fs::minor(*rdev as Dev)));
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// A number as octal digits, unless it needs more of them.
fn octal(value: u64, digits: usize) -> Option<String> {
    let text = format!("{value:0digits$o}");
    (text.len() == digits).then_some(text)
}

/// Half of a device number. No record has these; a number of more than 21 bits is written as GNU tar
/// writes it, in binary after a byte with the highest bit set.
fn device_number(number: u32) -> [u8; 8] {
    let mut field = [0; 8];
    match octal(number.into(), 7) {
        Some(digits) => field[..7].copy_from_slice(digits.as_bytes()),
        None => {
            field[0] = 0x80;
            field[4..].copy_from_slice(&number.to_be_bytes());
        }
    }
    field
}

/// The seconds, if an old header can hold them.
fn header_time(time: Time) -> Option<u64> {
    u64::try_from(time.secs).ok().filter(|secs| octal(*secs, 11).is_some())
}

/// Seconds since 1970 with their fraction; `secs` counts down below zero, `nanos` always up.
fn decimal(time: Time) -> String {
    let (sign, secs, nanos) = match (time.secs, time.nanos) {
        (secs @ 0.., nanos) => ("", secs.unsigned_abs(), nanos),
        (secs, 0) => ("-", secs.unsigned_abs(), 0),
        (secs, nanos) => ("-", secs.unsigned_abs() - 1, 1_000_000_000 - nanos),
    };
    format!("{sign}{secs}.{nanos:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        for (value, expected) in [(1, "8 key=v"), (91, "99 key="), (92, "101 key=")] {
            let mut records = Vec::new();
            record(&mut records, b"key", "v".repeat(value).as_bytes());
            let (len, _) = expected.split_once(' ').unwrap();
            assert!(records.starts_with(expected.as_bytes()), "{value}");
            assert_eq!(records.len().to_string(), len, "{value}");
        }
    }

    #[test]
    fn times_before_1970_count_from_zero() {
        let text = |secs, nanos| decimal(Time { secs, nanos });
        assert_eq!(text(1, 5), "1.000000005");
        assert_eq!(text(-1, 999_999_999), "-0.000000001");
        assert_eq!(text(-2, 0), "-2.000000000");
        assert_eq!(text(-2, 250_000_000), "-1.750000000");
        assert_eq!(text(i64::MIN, 0), "-9223372036854775808.000000000");
    }

    #[test]
    fn what_does_not_fit_goes_into_records() {
        let meta = Meta { uid: 4_000_000_000, ..Meta::default() };
        let path = [b'\xff'; 101];
        let bytes = headers(&Header {
            path: &path,
            kind: b'0',
            link: b"",
            size: 1 << 33,
            rdev: 0,
            meta: &meta,
        });
        assert_eq!((bytes.len(), bytes[156]), (3 * BLOCK, b'x'));
        let records = bytes[BLOCK..2 * BLOCK].utf8_chunks().map(|part| part.valid().to_owned());
        let records: String = records.collect();
        for text in ["hdrcharset=BINARY\n", "path=", "size=8589934592\n", "uid=4000000000\n"] {
            assert!(records.contains(text), "{text}: {records}");
        }
        assert!(!records.contains("gid="), "{records}");
        assert_eq!(
            headers(&Header {
                path: b"a",
                kind: b'0',
                link: b"",
                size: 1,
                rdev: 0,
                meta: &Meta::default()
            })
            .len(),
            BLOCK
        );
    }
}
