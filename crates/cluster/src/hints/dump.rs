//! Dumps: the pages of a slice as an object `hints.SLICE`, for the gateway that holds the slice next.
//!
//! A dump is advisory, as all hints are. Whoever holds a slice, or held it a moment ago, replaces its dump as a
//! whole; the last one wins. One that is missing, damaged or of a later version is passed over.

use bytes::Bytes;
use onefold_backend::rados::{Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_seal::wire::{Put, Reader};
use onefold_seal::{CHECK_LEN, Check};

use super::encoding::{Decoder, Encoder, MOST};
use super::{Hint, KEY_LEN, Key, Slice};

const VERSION: u8 = 1;

/// The longest dump, in bytes.
const MAX_LEN: usize = 16 << 20;
/// The most pages of a dump.
const MAX_PAGES: usize = (MAX_LEN - HEADER_LEN - CHECK_LEN) / (KEY_LEN + MOST);
/// Bytes before the pages: version and slice.
const HEADER_LEN: usize = 1 + 4;

/// Why a dump is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The pool refuses to read or write it, or gives no answer.
    #[error(transparent)]
    Pool(#[from] RadosError),
    /// Its bytes are not those of a dump.
    #[error("{object}, a dump of hints, is damaged and is passed over: {problem}")]
    Damaged {
        /// The object.
        object: String,
        /// What is wrong.
        problem: String,
    },
    /// A later version wrote it.
    #[error(
        "{object}, a dump of hints, has version {found}, expected at most {VERSION}; it is passed over"
    )]
    NewerVersion {
        /// The object.
        object: String,
        /// Its version.
        found: u8,
    },
}

/// The object of `slice`.
pub(crate) fn object(slice: Slice) -> String {
    format!("hints.{:03x}", slice.index())
}

/// The bytes of a dump of `pages`, oldest first, of which the oldest are left out if there are too many.
pub(crate) fn encode(slice: Slice, pages: &[(Key, Hint)]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.put_u32(slice.index() as u32);
    let mut encoder = Encoder::new(bytes);
    let newest = &pages[pages.len().saturating_sub(MAX_PAGES)..];
    newest.iter().for_each(|(key, hint)| encoder.page(key, hint));
    let mut bytes = encoder.bytes;
    bytes.extend_from_slice(Check::of(&[&bytes]).as_bytes());
    bytes
}

/// The pages of a dump.
pub(crate) fn decode(slice: Slice, bytes: &[u8]) -> Result<Vec<(Key, Hint)>, DumpError> {
    let damaged = |problem: String| DumpError::Damaged { object: object(slice), problem };
    if let Some(&found) = bytes.first().filter(|version| **version > VERSION) {
        return Err(DumpError::NewerVersion { object: object(slice), found });
    }
    let (body, check) = bytes
        .split_last_chunk::<CHECK_LEN>()
        .ok_or_else(|| damaged(format!("it has {} bytes", bytes.len())))?;
    let check = Check::from_bytes(*check).verify(&[body]);
    check.map_err(|error| damaged(error.to_string()))?;
    fields(slice, body).map_err(|error| damaged(error.to_string()))
}

/// What is in a dump before its check.
pub(crate) fn fields(
    slice: Slice,
    body: &[u8],
) -> Result<Vec<(Key, Hint)>, onefold_seal::wire::WireError> {
    let mut reader = Reader::new(body);
    if reader.u8("the version")? != VERSION {
        return Err(reader.error("version 1"));
    }
    if reader.u32("a slice")? as usize != slice.index() {
        return Err(reader.error("the slice that the object's name says"));
    }
    Decoder::new(reader).pages(MAX_PAGES)
}

/// A dump that was looked for.
pub(crate) struct Dump {
    /// When it was written, in seconds since 1970 by the clock of the gateway that wrote it; 0 if there is none.
    pub(crate) written: u64,
    /// Its pages, if it is a dump that this version can read; none if there is none.
    pub(crate) pages: Result<Vec<(Key, Hint)>, DumpError>,
}

/// The dump of `slice`.
///
/// # Errors
/// If the pool refuses it or gives no answer.
pub(crate) fn read(pool: &dyn RadosPool, slice: Slice) -> Result<Dump, RadosError> {
    let query = Query { range: Some(0..MAX_LEN as u64), ..Query::default() };
    let answer = match pool.query(&object(slice), &query) {
        Err(error) if error.refusal() == Some(Refusal::Absent) => {
            return Ok(Dump { written: 0, pages: Ok(Vec::new()) });
        }
        answer => answer?,
    };
    let pages = if answer.length > MAX_LEN as u64 {
        let problem = format!("it has {} bytes, expected at most {MAX_LEN}", answer.length);
        Err(DumpError::Damaged { object: object(slice), problem })
    } else {
        decode(slice, &answer.bytes)
    };
    Ok(Dump { written: answer.changed, pages })
}

/// Replaces the dump of `slice`.
pub(crate) fn write(
    pool: &dyn RadosPool,
    slice: Slice,
    pages: &[(Key, Hint)],
) -> Result<(), DumpError> {
    let (name, bytes) = (object(slice), Bytes::from(encode(slice, pages)));
    let replaced = Update::existing().then(Step::Truncate(0)).then(Step::Append(bytes.clone()));
    match pool.update(&name, replaced) {
        Err(error) if error.refusal() == Some(Refusal::Absent) => {
            pool.update(&name, Update::creating().then(Step::Append(bytes)))?;
        }
        done => {
            done?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use onefold_backend::rados::MemoryRados;

    use super::super::encoding::tests::made;
    use super::*;

    fn slice(index: usize) -> Slice {
        Slice::all().nth(index).unwrap()
    }

    #[test]
    fn a_dump_is_read_as_it_was_last_written() {
        let pool = MemoryRados::replicated();
        let read = |pool| super::read(pool, slice(0xabc)).unwrap();
        assert_eq!((read(&pool).written, read(&pool).pages.unwrap().len()), (0, 0));
        for count in [300, 20, 0] {
            let pages = made(1, count);
            write(&pool, slice(0xabc), &pages).unwrap();
            let found = read(&pool);
            assert!(found.written > 0);
            assert_eq!(found.pages.unwrap(), pages);
        }
        assert_eq!(object(slice(0xabc)), "hints.abc");
    }

    #[test]
    fn a_damaged_dump_is_refused() {
        let bytes = encode(slice(7), &made(2, 4));
        for bit in 8..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = decode(slice(7), &damaged).unwrap_err().to_string();
            assert!(error.contains("hints.007"), "{bit}: {error}");
        }
        for len in 0..bytes.len() {
            assert!(decode(slice(7), &bytes[..len]).is_err(), "{len}");
        }
        assert!(decode(slice(8), &bytes).is_err(), "of another slice");
        let newer = decode(slice(7), &[VERSION + 1]).unwrap_err();
        assert!(matches!(newer, DumpError::NewerVersion { found: 2, .. }), "{newer}");
    }

    #[test]
    fn a_dump_has_the_newest_pages_within_its_bounds() {
        let pages = made(3, MAX_PAGES + 10);
        let bytes = encode(slice(0), &pages);
        assert!(bytes.len() <= MAX_LEN);
        assert_eq!(decode(slice(0), &bytes).unwrap(), pages[10..]);
        let pool = MemoryRados::replicated();
        let long = Update::creating().then(Step::Append(vec![1; MAX_LEN + 1].into()));
        pool.update("hints.000", long).unwrap();
        let error = read(&pool, slice(0)).unwrap().pages.unwrap_err().to_string();
        assert!(error.contains("16777217"), "{error}");
    }
}
