//! Frames: what the pool's logs consist of, so that an end that a power cut tore is told from
//! damage.
//!
//! A frame is the length of its body (four bytes), its number (eight), a check (sixteen) and the
//! body. Frames of one log are numbered one after another, and the check covers the pool, so that
//! nothing that lay on the disk before passes for one.

use onefold_backend::{BackendError, Log};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::VolumeError;

const HEAD: usize = 4 + 8 + CHECK_LEN;

/// No body is longer.
pub(crate) const MAX_BODY: usize = 8 << 20;

/// Appends a frame; it is durable after the next sync.
pub(crate) fn append(
    log: &mut dyn Log,
    pool: ObjectId,
    number: u64,
    body: &[u8],
) -> Result<(), BackendError> {
    assert!(body.len() <= MAX_BODY, "a frame of {} bytes", body.len());
    let mut frame = Vec::with_capacity(HEAD + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&number.to_le_bytes());
    let check = Check::of(&[pool.as_bytes(), &frame, body]);
    frame.extend_from_slice(check.as_bytes());
    frame.extend_from_slice(body);
    log.append(&frame).map(drop)
}

/// How far a log could be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    /// The number that the next frame takes.
    pub(crate) next: u64,
    /// Where it goes. What lies behind is the torn part of a frame that was never acknowledged.
    pub(crate) end: u64,
}

/// Gives the body of each frame of `log`, called `name`, to `take`; the first has the number
/// `first`.
///
/// A frame is synced before the next one is appended. So only the last may be torn, and what is no
/// frame though a later one follows is damage.
pub(crate) fn read(
    log: &dyn Log,
    name: &str,
    pool: ObjectId,
    first: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), VolumeError>,
) -> Result<Frames, VolumeError> {
    let (mut next, mut end) = (first, 0);
    let mut body = Vec::new();
    while let Some(head) = Head::read(log, end)? {
        if head.number != next || !head.fits(log, end) {
            break;
        }
        body.resize(head.len, 0);
        log.read(end + HEAD as u64, &mut body)?;
        if !head.covers(pool, &body) {
            break;
        }
        take(&body)?;
        next += 1;
        end += (HEAD + head.len) as u64;
    }
    match later_frame(log, pool, next, end)? {
        None => Ok(Frames { next, end }),
        Some(at) => Err(VolumeError::Damaged {
            object: name.to_owned(),
            at: end,
            problem: format!("no frame {next} is here, though a later one follows at {at}"),
        }),
    }
}

/// Where behind `from` a frame begins that has a number from `next` on.
fn later_frame(
    log: &dyn Log,
    pool: ObjectId,
    next: u64,
    from: u64,
) -> Result<Option<u64>, VolumeError> {
    let mut rest = vec![0; (log.len() - from) as usize];
    log.read(from, &mut rest)?;
    for at in 0..rest.len().saturating_sub(HEAD) {
        let head = Head::decode(rest[at..][..HEAD].try_into().expect("as long as a head"));
        let is_plausible = head.len <= MAX_BODY && head.number.wrapping_sub(next) < 1 << 32;
        let body = is_plausible.then(|| rest[at + HEAD..].get(..head.len)).flatten();
        if body.is_some_and(|body| head.covers(pool, body)) {
            return Ok(Some(from + at as u64));
        }
    }
    Ok(None)
}

struct Head {
    len: usize,
    number: u64,
    check: Check,
    bytes: [u8; HEAD],
}

impl Head {
    /// The head at `at`, unless the log ends before it does.
    fn read(log: &dyn Log, at: u64) -> Result<Option<Self>, BackendError> {
        let mut bytes = [0; HEAD];
        if log.len() - at < HEAD as u64 {
            return Ok(None);
        }
        log.read(at, &mut bytes)?;
        Ok(Some(Self::decode(bytes)))
    }

    fn decode(bytes: [u8; HEAD]) -> Self {
        let (len, rest) = bytes.split_first_chunk().expect("longer");
        let (number, check) = rest.split_first_chunk().expect("longer");
        Self {
            len: u32::from_le_bytes(*len) as usize,
            number: u64::from_le_bytes(*number),
            check: Check::from_bytes(check.try_into().expect("the rest is a check")),
            bytes,
        }
    }

    fn fits(&self, log: &dyn Log, at: u64) -> bool {
        self.len <= MAX_BODY && (HEAD + self.len) as u64 <= log.len() - at
    }

    fn covers(&self, pool: ObjectId, body: &[u8]) -> bool {
        self.check.verify(&[pool.as_bytes(), &self.bytes[..HEAD - CHECK_LEN], body]).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_backend::{Folder, MemoryFolder};

    const POOL: ObjectId = ObjectId::from_bytes([4; 16]);

    fn bodies(log: &dyn Log, first: u64) -> Result<(Vec<Vec<u8>>, Frames), VolumeError> {
        let mut bodies = Vec::new();
        let frames = read(log, "journal", POOL, first, |body| {
            bodies.push(body.to_vec());
            Ok(())
        })?;
        Ok((bodies, frames))
    }

    fn log_of(bodies: &[&[u8]]) -> Box<dyn Log + Sync> {
        let mut log = MemoryFolder::new().log("journal").unwrap();
        for (number, body) in (7..).zip(bodies) {
            append(&mut *log, POOL, number, body).unwrap();
        }
        log
    }

    #[test]
    fn frames_come_back_and_a_torn_one_ends_them() {
        let whole = log_of(&[b"one", b"", b"three"]);
        let (found, frames) = bodies(&*whole, 7).unwrap();
        assert_eq!(found, [&b"one"[..], b"", b"three"]);
        assert_eq!((frames.next, frames.end), (10, whole.len()));
        for len in 0..whole.len() {
            let mut log = log_of(&[b"one", b"", b"three"]);
            log.truncate(len).unwrap();
            let (found, frames) = bodies(&*log, 7).unwrap();
            assert!(found.len() < 3 && frames.end <= len, "{len}: {frames:?}");
            assert_eq!(frames.next, 7 + found.len() as u64);
        }
    }

    #[test]
    fn damage_before_a_whole_frame_is_no_torn_end() {
        let whole = log_of(&[b"one", b"two"]);
        let mut bytes = vec![0; whole.len() as usize];
        whole.read(0, &mut bytes).unwrap();
        for at in 0..bytes.len() {
            let mut log = MemoryFolder::new().log("journal").unwrap();
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            log.append(&damaged).unwrap();
            match bodies(&*log, 7) {
                Err(VolumeError::Damaged { at: 0, .. }) => assert!(at < HEAD + 3, "{at}"),
                Ok((found, _)) => assert!(at >= HEAD + 3 && found.len() == 1, "{at}"),
                other => panic!("{at}: {other:?}"),
            }
        }
    }

    #[test]
    fn frames_of_another_pool_or_number_are_none() {
        let log = log_of(&[b"one"]);
        assert_eq!(bodies(&*log, 8).unwrap().0.len(), 0);
        let other = ObjectId::from_bytes([5; 16]);
        let frames = read(&*log, "journal", other, 7, |_| panic!("not of this pool")).unwrap();
        assert_eq!(frames.end, 0);
    }
}
