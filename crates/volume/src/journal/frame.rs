//! Frames: what the pool's logs consist of, so that an end that a power cut tore is told from
//! damage.
//!
//! A frame is the length of its body (four bytes), its number (eight), its writer (eight), a check
//! (sixteen) and the body. Frames of one log are numbered one after another and have one writer, and
//! the check covers the pool, so that nothing that lay on the disk before passes for one.

use onefold_backend::{BackendError, Log};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::error::VolumeError;
use crate::ids::Writer;
use crate::journal::metadata::MAX_BATCH;

const HEAD: usize = 4 + 8 + 8 + CHECK_LEN;

/// Heads are looked for at so many places one behind the other at a time.
const BEGINNINGS: usize = 1 << 20;
const WINDOW: usize = BEGINNINGS + HEAD - 1;

/// Whose frames a log has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) pool: ObjectId,
    pub(crate) writer: Writer,
}

/// Where the last frames of a log end for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Before the frame of this number. All before it must be there.
    Before(u64),
    /// Behind the last whole one. A power cut may have torn the next one, in any way.
    Torn,
    /// The same, without a power cut since: the append of the next one may have been cut short.
    CutShort,
}

/// How far a log could be read.
#[derive(Debug)]
pub(crate) struct Read {
    /// The number behind the last frame that was given.
    pub(crate) next: u64,
    /// The byte behind it.
    pub(crate) end: u64,
    /// Why frames that follow there are damaged or missing.
    pub(crate) problem: Option<String>,
}

/// Appends a frame; it is durable after the next sync. Returns its check.
pub(crate) fn append(
    log: &mut dyn Log,
    owner: Owner,
    number: u64,
    body: &[u8],
) -> Result<Check, BackendError> {
    let (frame, check) = encode(owner, number, body);
    log.append(&frame).map(|_| check)
}

fn encode(owner: Owner, number: u64, body: &[u8]) -> (Vec<u8>, Check) {
    assert!(body.len() <= MAX_BATCH, "a frame of {} bytes", body.len());
    let mut frame = Vec::with_capacity(HEAD + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&owner.writer.0.to_le_bytes());
    let check = Check::of(&[owner.pool.as_bytes(), &frame, body]);
    frame.extend_from_slice(check.as_bytes());
    frame.extend_from_slice(body);
    (frame, check)
}

/// A whole frame, for journals that are not logs of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number.
    pub number: u64,
    /// Who wrote it.
    pub writer: Writer,
    /// What it holds.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The length of the longest one, in bytes.
    pub const MAX_LEN: usize = HEAD + MAX_BATCH;

    /// Its length, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub const fn len(&self) -> usize {
        HEAD + self.body.len()
    }

    /// Its bytes, in the shard `pool`.
    ///
    /// # Panics
    ///
    /// If the body is longer than [`MAX_BATCH`].
    pub fn encode(&self, pool: ObjectId) -> Vec<u8> {
        encode(Owner { pool, writer: self.writer }, self.number, self.body).0
    }

    /// The frame of the shard `pool` that `bytes` begin with; none if that is damaged or not whole.
    pub fn decode(pool: ObjectId, bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let head = Head::decode(*head);
        let body = rest.get(..head.len).filter(|body| body.len() <= MAX_BATCH)?;
        let Head { number, writer, .. } = head;
        head.covers(pool, body).then_some(Self { number, writer, body })
    }
}

/// Gives the body of each frame of `log` to `take`, from the number `first` on, until frames end as
/// `until` says or one is damaged.
///
/// A frame is synced before the next one is appended. Therefore only the last can be torn, and bytes
/// that are no frame are damage if a later frame follows.
pub(crate) fn read(
    log: &dyn Log,
    owner: Owner,
    first: u64,
    until: End,
    mut take: impl FnMut(&[u8]) -> Result<(), VolumeError>,
) -> Result<Read, VolumeError> {
    let (mut next, mut end) = (first, 0);
    let mut body = Vec::new();
    while until != End::Before(next)
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
    let problem = match until {
        End::Before(bound) => (next < bound)
            .then(|| format!("no frame {next} is here, expected all up to {}", bound - 1)),
        End::CutShort if !may_be_cut_short(log, owner, next, end)? => Some(format!(
            "what is here is not frame {next}, and no power cut came since it was written"
        )),
        End::Torn | End::CutShort => later_frame(log, owner.pool, next, end)?
            .map(|at| format!("no frame {next} is here, though a later one follows at {at}")),
    };
    Ok(Read { next, end, problem })
}

/// Whether what lies from byte `at` on may be a part of frame `number` of `owner`, all of whose bytes
/// are as they were appended.
fn may_be_cut_short(
    log: &dyn Log,
    owner: Owner,
    number: u64,
    at: u64,
) -> Result<bool, BackendError> {
    // A head that is not whole tells too little.
    let Some(head) = Head::read(log, at)? else { return Ok(true) };
    let is_next = (head.number, head.writer) == (number, owner.writer);
    if !is_next || head.len > MAX_BATCH || head.fits(log, at) {
        return Ok(false);
    }
    // A whole frame whose length alone is wrong looks like one that was cut short.
    let mut body = vec![0; (log.len() - at) as usize - HEAD];
    log.read(at + HEAD as u64, &mut body)?;
    Ok(!head.with_len(body.len()).covers(owner.pool, &body))
}

/// Where behind `from` a frame begins that has a number from `next` on.
///
/// Holds one window and one frame in memory, since what follows a torn frame may be longer than
/// memory. Zeros are passed over: no head consists of them.
fn later_frame(
    log: &dyn Log,
    pool: ObjectId,
    next: u64,
    from: u64,
) -> Result<Option<u64>, VolumeError> {
    let (mut window, mut body, mut start) = (Vec::new(), Vec::new(), from);
    while log.len() - start >= HEAD as u64 {
        window.resize((log.len() - start).min(WINDOW as u64) as usize, 0);
        log.read(start, &mut window)?;
        let mut at = 0;
        while let Some(bytes) = window.get(at..at + HEAD) {
            if bytes[HEAD - 1] == 0 && is_zero(bytes) {
                // the first head that is not all zeros ends with the next other byte
                let zeros = leading_zeros(&window[at..]);
                at += zeros - (HEAD - 1);
                continue;
            }
            let head = Head::decode(bytes.try_into().expect("as long as a head"));
            let place = start + at as u64;
            let is_plausible = head.number.wrapping_sub(next) < 1 << 32 && head.fits(log, place);
            if is_plausible {
                body.resize(head.len, 0);
                log.read(place + HEAD as u64, &mut body)?;
                if head.covers(pool, &body) {
                    return Ok(Some(place));
                }
            }
            at += 1;
        }
        start += (window.len() - (HEAD - 1)) as u64;
    }
    Ok(None)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// How many zeros `bytes` begin with.
fn leading_zeros(bytes: &[u8]) -> usize {
    let blocks = bytes.chunks(4096).take_while(|block| is_zero(block));
    let passed = blocks.map(<[u8]>::len).sum();
    let rest = &bytes[passed..];
    passed + rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len())
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

    /// The same head with another length.
    fn with_len(&self, len: usize) -> Self {
        let mut bytes = self.bytes;
        bytes[..4].copy_from_slice(&(len as u32).to_le_bytes());
        Self::decode(bytes)
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
        until: End,
    ) -> Result<(Vec<Vec<u8>>, u64), VolumeError> {
        let mut bodies = Vec::new();
        let Read { next, end, problem } = read(log, owner, first, until, |body| {
            bodies.push(body.to_vec());
            Ok(())
        })?;
        let object = "journal".to_owned();
        match problem {
            Some(problem) => Err(VolumeError::Damaged { object, at: end, problem }),
            None => Ok((bodies, next)),
        }
    }

    fn log_of(bodies: &[&[u8]]) -> Box<dyn Log + Sync> {
        let mut log = MemoryFolder::new().log("journal").unwrap();
        for (number, body) in (7..).zip(bodies) {
            append(&mut *log, OWNER, number, body).unwrap();
        }
        log
    }

    #[test]
    fn a_frame_is_the_same_in_a_log_and_by_itself() {
        let log = log_of(&[b"one"]);
        let mut bytes = vec![0; log.len() as usize];
        log.read(0, &mut bytes).unwrap();
        let frame = Frame { number: 7, writer: OWNER.writer, body: b"one" };
        assert_eq!((frame.encode(OWNER.pool), frame.len()), (bytes.clone(), bytes.len()));
        let more = [&bytes[..], b"what follows"].concat();
        assert_eq!(Frame::decode(OWNER.pool, &more), Some(frame));
        assert_eq!(Frame::decode(ObjectId::from_bytes([5; 16]), &bytes), None);
        for len in 0..bytes.len() {
            assert_eq!(Frame::decode(OWNER.pool, &bytes[..len]), None, "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = more.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::decode(OWNER.pool, &damaged), None, "{bit}");
        }
    }

    #[test]
    fn frames_come_back_and_a_torn_one_ends_them() {
        let whole = log_of(&[b"one", b"", b"three"]);
        let (found, next) = bodies(&*whole, OWNER, 7, End::Torn).unwrap();
        assert_eq!((found, next), (vec![b"one".to_vec(), vec![], b"three".to_vec()], 10));
        for len in 0..whole.len() {
            let mut log = log_of(&[b"one", b"", b"three"]);
            log.truncate(len).unwrap();
            let (found, next) = bodies(&*log, OWNER, 7, End::Torn).unwrap();
            assert!(found.len() < 3, "{len}");
            assert_eq!(next, 7 + found.len() as u64);
            // unless all are known to have been there
            assert!(bodies(&*log, OWNER, 7, End::Before(10)).is_err(), "{len}");
        }
    }

    #[test]
    fn frames_from_a_bound_on_are_left_out() {
        let log = log_of(&[b"one", b"two", b"three"]);
        for until in 7..=10 {
            let (found, next) = bodies(&*log, OWNER, 7, End::Before(until)).unwrap();
            assert_eq!((found.len() as u64, next), (until - 7, until));
        }
        assert!(bodies(&*log, OWNER, 7, End::Before(11)).is_err());
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
            match bodies(&*log, OWNER, 7, End::Torn) {
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
            assert!(into.len() <= WINDOW.max(MAX_BATCH), "{} bytes at once", into.len());
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
        let error = bodies(&log, OWNER, 7, End::Torn).unwrap_err();
        assert!(matches!(error, VolumeError::Backend(BackendError::NotFound { .. })), "{error}");
        assert_eq!(log.reads.get(), 0);
    }

    #[test]
    fn zeros_behind_the_last_frame_are_passed_over_and_what_follows_them_is_found() {
        for gap in [0, 1, HEAD - 1, HEAD, 4096, BEGINNINGS - 1, BEGINNINGS, BEGINNINGS + HEAD] {
            // frame 0 of writer 0 begins with twenty zeros if it is short
            let owner = Owner { writer: Writer(0), ..OWNER };
            for number in [0, 8] {
                let mut log = MemoryFolder::new().log("journal").unwrap();
                log.append(&vec![0; gap]).unwrap();
                append(&mut *log, owner, number, b"").unwrap();
                log.append(&vec![0; gap]).unwrap();
                let found = later_frame(&*log, owner.pool, 0, 0).unwrap();
                assert_eq!(found, Some(gap as u64), "{gap} {number}");
            }
        }
    }

    #[test]
    fn without_a_power_cut_only_a_part_of_the_next_frame_may_follow() {
        let whole = log_of(&[b"one", b"two"]);
        let first = (HEAD + 3) as u64;
        let mut bytes = vec![0; whole.len() as usize];
        whole.read(0, &mut bytes).unwrap();
        let log = |bytes: &[u8]| {
            let mut log = MemoryFolder::new().log("journal").unwrap();
            log.append(bytes).unwrap();
            log
        };
        for len in first as usize..bytes.len() {
            let (found, next) = bodies(&*log(&bytes[..len]), OWNER, 7, End::CutShort).unwrap();
            assert_eq!((found.len(), next), (1, 8), "{len}");
        }
        for bit in first as usize * 8..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let result = bodies(&*log(&damaged), OWNER, 7, End::CutShort);
            let is_told = matches!(&result, Err(VolumeError::Damaged { at, .. }) if *at == first);
            assert!(is_told, "{bit}: {result:?}");
        }
        let zeros = [&bytes[..first as usize], &[0; HEAD]].concat();
        assert!(bodies(&*log(&zeros), OWNER, 7, End::CutShort).is_err());
        assert!(bodies(&*log(&zeros), OWNER, 7, End::Torn).is_ok());
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
        assert_eq!(bodies(&*log, OWNER, 8, End::Torn).unwrap().0.len(), 0);
        let other = Owner { pool: ObjectId::from_bytes([5; 16]), ..OWNER };
        assert_eq!(bodies(&*log, other, 7, End::Torn).unwrap().1, 7);
        // a whole frame of somebody else is damage
        let other = Owner { writer: Writer(4), ..OWNER };
        assert!(matches!(
            bodies(&*log, other, 7, End::Torn),
            Err(VolumeError::Damaged { at: 0, .. })
        ));
    }
}
