//! Frames: what the pool's logs consist of, so that an end that a power cut tore is told from
//! damage.
//!
//! A frame is the length of its body (four bytes), its number (eight), its writer (eight), a check
//! (sixteen) and the body. Frames of one log are numbered one after another and have one writer, and
//! the check covers the pool, so that nothing that lay on the disk before passes for one.

use onefold_backend::{BackendError, Log};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::VolumeError;
use crate::metadata::{MAX_BATCH, Writer};

const HEAD: usize = 4 + 8 + 8 + CHECK_LEN;

/// At so many places one behind the other a frame is looked for at a time, in so many bytes: the
/// longest one that begins there is in them.
const BEGINNINGS: usize = 1 << 20;
const WINDOW: usize = BEGINNINGS + HEAD + MAX_BATCH;

/// Whose frames a log has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) pool: ObjectId,
    pub(crate) writer: Writer,
}

/// Appends a frame; it is durable after the next sync.
pub(crate) fn append(
    log: &mut dyn Log,
    owner: Owner,
    number: u64,
    body: &[u8],
) -> Result<(), BackendError> {
    assert!(body.len() <= MAX_BATCH, "a frame of {} bytes", body.len());
    let mut frame = Vec::with_capacity(HEAD + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&owner.writer.0.to_le_bytes());
    let check = Check::of(&[owner.pool.as_bytes(), &frame, body]);
    frame.extend_from_slice(check.as_bytes());
    frame.extend_from_slice(body);
    log.append(&frame).map(drop)
}

/// Gives the body of each frame of `log`, called `name`, to `take`, from the number `first` on;
/// returns the number behind the last.
///
/// Frames from `until` on are left out, and all before it must be there. Without such a bound a frame
/// is synced before the next one is appended: only the last may be torn, and what is no frame though
/// a later one follows is damage.
pub(crate) fn read(
    log: &dyn Log,
    name: &str,
    owner: Owner,
    first: u64,
    until: Option<u64>,
    mut take: impl FnMut(&[u8]) -> Result<(), VolumeError>,
) -> Result<u64, VolumeError> {
    let (mut next, mut end) = (first, 0);
    let mut body = Vec::new();
    while until.is_none_or(|until| next < until)
        && let Some(head) = Head::read(log, end)?
    {
        if head.number != next || head.writer != owner.writer || !head.fits(log, end) {
            break;
        }
        body.resize(head.len, 0);
        log.read(end + HEAD as u64, &mut body)?;
        if !head.covers(owner.pool, &body) {
            break;
        }
        take(&body)?;
        next += 1;
        end += (HEAD + head.len) as u64;
    }
    let damaged = |problem| Err(VolumeError::Damaged { object: name.to_owned(), at: end, problem });
    match until {
        Some(until) if next < until => {
            damaged(format!("no frame {next} is here, expected all up to {}", until - 1))
        }
        Some(_) => Ok(next),
        None => match later_frame(log, owner.pool, next, end)? {
            None => Ok(next),
            Some(at) => {
                damaged(format!("no frame {next} is here, though a later one follows at {at}"))
            }
        },
    }
}

/// Where behind `from` a frame begins that has a number from `next` on.
///
/// No more is in memory than it takes to have the longest frame whole: what lies behind a torn one may
/// be longer than memory is.
fn later_frame(
    log: &dyn Log,
    pool: ObjectId,
    next: u64,
    from: u64,
) -> Result<Option<u64>, VolumeError> {
    let (mut window, mut start) = (Vec::new(), from);
    while log.len() - start >= HEAD as u64 {
        let there = window.len();
        window.resize((log.len() - start).min(WINDOW as u64) as usize, 0);
        log.read(start + there as u64, &mut window[there..])?;
        for (at, head) in window.windows(HEAD).take(BEGINNINGS).enumerate() {
            let head = Head::decode(head.try_into().expect("as long as a head"));
            let is_plausible = head.len <= MAX_BATCH && head.number.wrapping_sub(next) < 1 << 32;
            let body = is_plausible.then(|| window[at + HEAD..].get(..head.len)).flatten();
            if body.is_some_and(|body| head.covers(pool, body)) {
                return Ok(Some(start + at as u64));
            }
        }
        let looked_at = window.len().min(BEGINNINGS);
        window.drain(..looked_at);
        start += looked_at as u64;
    }
    Ok(None)
}

struct Head {
    len: usize,
    number: u64,
    writer: Writer,
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
        let (number, rest) = rest.split_first_chunk().expect("longer");
        let (writer, check) = rest.split_first_chunk().expect("longer");
        Self {
            len: u32::from_le_bytes(*len) as usize,
            number: u64::from_le_bytes(*number),
            writer: Writer(u64::from_le_bytes(*writer)),
            check: Check::from_bytes(check.try_into().expect("the rest is a check")),
            bytes,
        }
    }

    fn fits(&self, log: &dyn Log, at: u64) -> bool {
        self.len <= MAX_BATCH && (HEAD + self.len) as u64 <= log.len() - at
    }

    fn covers(&self, pool: ObjectId, body: &[u8]) -> bool {
        self.check.verify(&[pool.as_bytes(), &self.bytes[..HEAD - CHECK_LEN], body]).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_backend::{Folder, MemoryFolder};

    const OWNER: Owner = Owner { pool: ObjectId::from_bytes([4; 16]), writer: Writer(3) };

    fn bodies(
        log: &dyn Log,
        owner: Owner,
        first: u64,
        until: Option<u64>,
    ) -> Result<(Vec<Vec<u8>>, u64), VolumeError> {
        let mut bodies = Vec::new();
        let next = read(log, "journal", owner, first, until, |body| {
            bodies.push(body.to_vec());
            Ok(())
        })?;
        Ok((bodies, next))
    }

    fn log_of(bodies: &[&[u8]]) -> Box<dyn Log + Sync> {
        let mut log = MemoryFolder::new().log("journal").unwrap();
        for (number, body) in (7..).zip(bodies) {
            append(&mut *log, OWNER, number, body).unwrap();
        }
        log
    }

    #[test]
    fn frames_come_back_and_a_torn_one_ends_them() {
        let whole = log_of(&[b"one", b"", b"three"]);
        let (found, next) = bodies(&*whole, OWNER, 7, None).unwrap();
        assert_eq!((found, next), (vec![b"one".to_vec(), vec![], b"three".to_vec()], 10));
        for len in 0..whole.len() {
            let mut log = log_of(&[b"one", b"", b"three"]);
            log.truncate(len).unwrap();
            let (found, next) = bodies(&*log, OWNER, 7, None).unwrap();
            assert!(found.len() < 3, "{len}");
            assert_eq!(next, 7 + found.len() as u64);
            // unless all are known to have been there
            assert!(bodies(&*log, OWNER, 7, Some(10)).is_err(), "{len}");
        }
    }

    #[test]
    fn frames_from_a_bound_on_are_left_out() {
        let log = log_of(&[b"one", b"two", b"three"]);
        for until in 7..=10 {
            let (found, next) = bodies(&*log, OWNER, 7, Some(until)).unwrap();
            assert_eq!((found.len() as u64, next), (until - 7, until));
        }
        assert!(bodies(&*log, OWNER, 7, Some(11)).is_err());
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
            match bodies(&*log, OWNER, 7, None) {
                Err(VolumeError::Damaged { at: 0, .. }) => assert!(at < HEAD + 3, "{at}"),
                Ok((found, _)) => assert!(at >= HEAD + 3 && found.len() == 1, "{at}"),
                other => panic!("{at}: {other:?}"),
            }
        }
    }

    /// A log that is long, and of which little is read at a time.
    struct Bounded {
        inner: Box<dyn Log + Sync>,
        len: u64,
        /// Reads that go well; further ones fail.
        reads: std::cell::Cell<usize>,
    }

    impl Log for Bounded {
        fn append(&mut self, _: &[u8]) -> Result<u64, BackendError> {
            unreachable!("it is only read")
        }

        fn sync(&mut self) -> Result<(), BackendError> {
            unreachable!("it is only read")
        }

        fn truncate(&mut self, _: u64) -> Result<(), BackendError> {
            unreachable!("it is only read")
        }

        fn len(&self) -> u64 {
            self.len
        }

        fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
            assert!(into.len() <= WINDOW, "{} bytes at once", into.len());
            assert!(offset + into.len() as u64 <= self.len, "beyond the end");
            let Some(left) = self.reads.get().checked_sub(1) else {
                return Err(BackendError::NotFound {
                    name: "journal".into(),
                    place: "here".into(),
                });
            };
            self.reads.set(left);
            into.fill(0);
            let there = self.inner.len().saturating_sub(offset).min(into.len() as u64);
            match there {
                0 => Ok(()),
                _ => self.inner.read(offset, &mut into[..there as usize]),
            }
        }

        fn syncer(&self) -> std::sync::Arc<dyn onefold_backend::Syncer> {
            unreachable!("it is only read")
        }
    }

    #[test]
    fn what_follows_a_torn_frame_is_looked_through_in_bounded_memory() {
        let inner = log_of(&[b"one"]);
        let log = Bounded { inner, len: 1 << 42, reads: std::cell::Cell::new(5) };
        // the head and the body of the first, no second one, and parts of a hole without an end
        let error = bodies(&log, OWNER, 7, None).unwrap_err();
        assert!(matches!(error, VolumeError::Backend(BackendError::NotFound { .. })), "{error}");
        assert_eq!(log.reads.get(), 0);
    }

    #[test]
    fn a_later_frame_is_found_wherever_it_begins_and_however_long_it_is() {
        let gaps = [1, BEGINNINGS - 1, BEGINNINGS, BEGINNINGS + 1];
        for (gap, len) in gaps.into_iter().flat_map(|gap| [(gap, 0), (gap, MAX_BATCH)]) {
            let mut log = MemoryFolder::new().log("journal").unwrap();
            // no frame has ones for its length
            log.append(&vec![0xff; gap]).unwrap();
            append(&mut *log, OWNER, 8, &vec![0xff; len]).unwrap();
            let reads = std::cell::Cell::new(20);
            let log = Bounded { len: log.len(), inner: log, reads };
            let found = later_frame(&log, OWNER.pool, 7, 0).unwrap();
            assert_eq!(found, Some(gap as u64), "{gap} {len}");
            // one that is not whole is none
            let log = Bounded { len: (gap + HEAD + len.min(3)) as u64 - 1, ..log };
            assert_eq!(later_frame(&log, OWNER.pool, 7, 0).unwrap(), None, "{gap} {len}");
        }
    }

    #[test]
    fn frames_of_another_pool_writer_or_number_are_none() {
        let log = log_of(&[b"one"]);
        assert_eq!(bodies(&*log, OWNER, 8, None).unwrap().0.len(), 0);
        let other = Owner { pool: ObjectId::from_bytes([5; 16]), ..OWNER };
        assert_eq!(bodies(&*log, other, 7, None).unwrap().1, 7);
        // a whole frame of somebody else is damage
        let other = Owner { writer: Writer(4), ..OWNER };
        assert!(matches!(bodies(&*log, other, 7, None), Err(VolumeError::Damaged { at: 0, .. })));
    }
}
