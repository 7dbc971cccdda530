//! Who may answer reads of a shard.
//!
//! Guards fence a superseded gateway's writes, but not its reads: it would answer from memory what its
//! successor has changed. A gateway therefore holds a lease, which it renews every [`RENEWAL`], and answers
//! a read only within [`VALID`] of having *sent* the last renewal that succeeded. A successor takes a lease
//! over that did not change for [`WAIT`] of its own clock. Clocks need not agree, only run at about the same
//! rate: [`WAIT`] is a third longer than [`VALID`]. The clock counts while a machine sleeps.
//!
//! The object `S.lease` has the attributes `holder`, 16 random bytes or nothing when it is free, and `name`,
//! for people. A renewal compares the holder and changes the version.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;
use rustix::time::{ClockId, clock_gettime};

use crate::error::failed;

/// How often a lease is renewed.
pub const RENEWAL: Duration = Duration::from_secs(2);
/// How long after a renewal was sent reads are answered.
pub const VALID: Duration = Duration::from_secs(6);
/// How long a lease must not change before another gateway takes it over.
pub const WAIT: Duration = Duration::from_secs(8);
/// How often a gateway that waits looks.
const LOOK: Duration = Duration::from_millis(500);

const HOLDER: &str = "holder";
const NAME: &str = "name";
const RENEWALS: &str = "renewals";

/// Time that passes also while the machine sleeps, since any moment, and waiting for it.
pub trait LeaseClock: Send + Sync {
    /// The time now.
    fn now(&self) -> Duration;
    /// Returns after `time`, or earlier.
    fn sleep(&self, time: Duration);
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl LeaseClock for BootClock {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// What taking a lease came to.
#[derive(Debug)]
pub enum Claim {
    /// It is taken.
    Taken(LeaseHold),
    /// The gateway of this name renews it.
    Held(String),
    /// The caller's `go_on` said no.
    Stopped,
}

/// A lease that is held, and not yet renewed by anybody.
pub struct LeaseHold {
    pool: Arc<dyn RadosPool>,
    clock: Arc<dyn LeaseClock>,
    object: String,
    holder: Bytes,
    name: String,
    /// Until when reads may be answered, in nanoseconds of the clock; 0 once it is lost.
    until: AtomicU64,
    renewals: AtomicU64,
}

impl std::fmt::Debug for LeaseHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseHold").field("object", &self.object).finish_non_exhaustive()
    }
}

/// What the object said at one moment.
struct Seen {
    version: u64,
    is_free: bool,
    name: String,
}

fn look(pool: &dyn RadosPool, object: &str) -> Result<Option<Seen>, VolumeError> {
    match pool.query(object, &Query { xattrs: true, ..Query::default() }) {
        Ok(answer) => {
            let of = |name: &str| answer.xattrs.get(name).map_or(&b""[..], |value| value);
            let name = String::from_utf8_lossy(of(NAME)).into_owned();
            Ok(Some(Seen { version: answer.version, is_free: of(HOLDER).is_empty(), name }))
        }
        Err(error) if error.refusal() == Some(Refusal::Absent) => Ok(None),
        Err(error) => Err(failed(Operation::Read, error)),
    }
}

/// The name of the gateway that holds the lease of `shard`, or has ended without giving it back; none if the
/// lease is free.
///
/// # Errors
/// If the pool refuses it or gives no answer.
pub fn holder(pool: &dyn RadosPool, shard: ObjectId) -> Result<Option<String>, VolumeError> {
    let seen = look(pool, &format!("{shard}.lease"))?;
    Ok(seen.filter(|seen| !seen.is_free).map(|seen| seen.name))
}

impl LeaseHold {
    /// Takes the lease of `shard`, as the gateway `name`. If another one holds it, waits until it has not
    /// changed for [`WAIT`]. If it changes instead, the answer is [`Claim::Held`], or the wait begins anew if
    /// the caller `is_patient`. `go_on` is asked between two looks.
    ///
    /// # Errors
    /// If the pool refuses it or gives no answer: then the lease may be taken, and is free after [`WAIT`]. A
    /// caller that is patient waits for an answer instead.
    pub fn claim(
        pool: &Arc<dyn RadosPool>,
        clock: &Arc<dyn LeaseClock>,
        shard: ObjectId,
        name: &str,
        is_patient: bool,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Claim, VolumeError> {
        let object = format!("{shard}.lease");
        let hold = Self {
            pool: Arc::clone(pool),
            clock: Arc::clone(clock),
            object,
            holder: Bytes::copy_from_slice(ObjectId::random().as_bytes()),
            name: name.to_owned(),
            until: AtomicU64::new(0),
            renewals: AtomicU64::new(0),
        };
        let mut unchanged: Option<(u64, Duration)> = None;
        loop {
            let now = clock.now();
            let seen = match look(&**pool, &hold.object) {
                Err(VolumeError::Unanswered { .. }) if is_patient => {
                    if !go_on() {
                        return Ok(Claim::Stopped);
                    }
                    clock.sleep(LOOK);
                    continue;
                }
                seen => seen?,
            };
            let update = match seen {
                None => Some(Update::creating()),
                Some(seen) => match unchanged {
                    _ if seen.is_free => Some(seen.version),
                    Some((version, since)) if version == seen.version => {
                        (now.saturating_sub(since) >= WAIT).then_some(version)
                    }
                    Some(_) if !is_patient => return Ok(Claim::Held(seen.name)),
                    _ => {
                        unchanged = Some((seen.version, now));
                        None
                    }
                }
                .map(|version| Update::existing().then(Step::Version(version))),
            };
            let Some(update) = update else {
                if !go_on() {
                    return Ok(Claim::Stopped);
                }
                clock.sleep(LOOK);
                continue;
            };
            let update = update
                .set(HOLDER, hold.holder.clone())
                .set(NAME, hold.name.clone())
                .set(RENEWALS, Bytes::copy_from_slice(&0_u64.to_be_bytes()));
            match pool.update(&hold.object, update.even_if_full()) {
                Ok(_) => {
                    hold.note_sent(now);
                    return Ok(Claim::Taken(hold));
                }
                // another gateway came first, and is looked at like any other
                Err(error)
                    if matches!(
                        error.refusal(),
                        Some(Refusal::Guard | Refusal::Exists | Refusal::Absent)
                    ) =>
                {
                    unchanged = None;
                }
                // it may be taken by this call, or be later: then it is left alone for a while, and taken again
                Err(error) if error.refusal().is_none() && is_patient => unchanged = None,
                Err(error) => return Err(failed(Operation::Write, error)),
            }
        }
    }

    fn note_sent(&self, sent: Duration) {
        let until = u64::try_from((sent + VALID).as_nanos()).unwrap_or(u64::MAX);
        self.until.store(until, Ordering::Release);
    }

    /// Whether a read whose answer is ready now may be answered.
    pub fn is_valid(&self) -> bool {
        self.clock.now().as_nanos() < u128::from(self.until.load(Ordering::Acquire))
    }

    /// Renews the lease. After an error without an answer it is as valid as before, and may be renewed again.
    ///
    /// # Errors
    /// [`Refusal::Guard`] or [`Refusal::Absent`]: another gateway has taken it, and it is not valid any more.
    pub fn renew(&self) -> Result<(), RadosError> {
        let count = self.renewals.fetch_add(1, Ordering::Relaxed) + 1;
        let renewal = Update::existing()
            .expect(HOLDER, self.holder.clone())
            .set(RENEWALS, Bytes::copy_from_slice(&count.to_be_bytes()));
        let sent = self.clock.now();
        match self.pool.update(&self.object, renewal.even_if_full()) {
            Ok(_) => {
                self.note_sent(sent);
                Ok(())
            }
            Err(error) => {
                if error.refusal().is_some() {
                    self.until.store(0, Ordering::Release);
                }
                Err(error)
            }
        }
    }

    /// Gives the lease back, so that nobody waits for it. Reads are not answered any more.
    ///
    /// # Errors
    /// If that is not known to be done. The lease is free after [`WAIT`] then.
    pub fn release(&self) -> Result<(), RadosError> {
        self.until.store(0, Ordering::Release);
        let release = Update::existing().expect(HOLDER, self.holder.clone()).set(HOLDER, "");
        self.pool.update(&self.object, release.even_if_full()).map(|_| ())
    }
}

/// Renews a lease until it is dropped, which releases it.
pub struct Lease {
    hold: Arc<LeaseHold>,
    end: Arc<(Mutex<bool>, Condvar)>,
    renewing: Option<JoinHandle<()>>,
    is_lost: Arc<AtomicBool>,
}

impl Lease {
    /// Renews `hold`. `tell` hears each renewal that failed.
    pub fn start(hold: LeaseHold, tell: impl Fn(RadosError) + Send + 'static) -> Self {
        let (hold, end) = (Arc::new(hold), Arc::<(Mutex<bool>, Condvar)>::default());
        let is_lost = Arc::new(AtomicBool::new(false));
        let renewing = {
            let (hold, end, is_lost) = (Arc::clone(&hold), Arc::clone(&end), Arc::clone(&is_lost));
            std::thread::spawn(move || {
                loop {
                    let (is_over, changed) = &*end;
                    let guard = is_over.lock().unwrap_or_else(PoisonError::into_inner);
                    let waited = changed.wait_timeout_while(guard, RENEWAL, |is_over| !*is_over);
                    if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                        return;
                    }
                    if let Err(error) = hold.renew() {
                        let is_refused = error.refusal().is_some();
                        tell(error);
                        if is_refused {
                            is_lost.store(true, Ordering::Release);
                            return;
                        }
                    }
                }
            })
        };
        Self { hold, end, renewing: Some(renewing), is_lost }
    }

    /// Whether a read whose answer is ready now may be answered.
    pub fn is_valid(&self) -> bool {
        self.hold.is_valid()
    }

    /// Whether another gateway has taken the shard, or the engine refuses renewals for good.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.1.notify_all();
        if let Some(renewing) = self.renewing.take() {
            // it does not panic, and if it did, the lease is released all the same
            let _ = renewing.join();
        }
        // nobody waits longer than WAIT if it cannot be released
        let _ = self.hold.release();
    }
}
