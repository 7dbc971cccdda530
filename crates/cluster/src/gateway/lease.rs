//! The lease of a gateway.
//!
//! Guards fence a superseded gateway's writes, but not its reads: it would answer from memory what its
//! successor has changed. A gateway therefore holds a lease, a record that it renews every [`RENEWAL`]. It
//! answers a read only within [`VALID`] of *sending* the last renewal that succeeded. A successor that saw
//! no change of the record for [`WAIT`] of its own clock removes the record by an update that compares its
//! value: it *breaks* the lease. From then on every renewal is refused, and the record never returns,
//! because each gateway draws an id of its own. Only then may the successor take shards of that gateway.
//!
//! Clocks need not agree, only run at about the same rate: [`WAIT`] is a third longer than [`VALID`]. They
//! count while a machine sleeps.
//!
//! A lease counts only after its first renewal, and a record is made once and never again: a creation that
//! arrives a second time brings back a value that no renewal compares.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{RadosError, RadosPool, Refusal};
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::records::{About, GatewayRecord};
use super::table::{Changed, Table, before_id};
use crate::clock::LeaseClock;
use crate::error::failed;

/// How often a lease is renewed.
pub const RENEWAL: Duration = Duration::from_secs(2);
/// How long after a renewal was sent reads are answered.
pub const VALID: Duration = Duration::from_secs(6);
/// How long a lease must not change before another gateway breaks it.
pub const WAIT: Duration = Duration::from_secs(8);

/// Times that one renewal is tried: an earlier one whose answer was lost may come first.
const TRIES: u32 = 3;

/// The table of gateways.
pub(super) fn gateways_table(pool: &Arc<dyn RadosPool>) -> Table {
    Table::new(pool, "gateways")
}

/// The lease of one gateway under one id.
pub struct GatewayLease {
    table: Table,
    clock: Arc<dyn LeaseClock>,
    id: ObjectId,
    key: String,
    /// Until when reads may be answered, in nanoseconds of the clock; 0 once it is over.
    until: AtomicU64,
    is_lost: AtomicBool,
    sent: Mutex<Sent>,
}

/// What was sent for a lease.
struct Sent {
    about: About,
    renewals: u64,
    /// The value that the record had when that was last known.
    known: Bytes,
    /// Values that were sent since without an answer: the record may have one of them, now or later.
    unanswered: Vec<Bytes>,
}

impl std::fmt::Debug for GatewayLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayLease").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Sent {
    fn value(&self) -> Bytes {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let renewed_at = now.map_or(0, |now| now.as_millis() as u64);
        let about = self.about.clone();
        GatewayRecord { renewals: self.renewals, renewed_at, about }.encode()
    }
}

impl GatewayLease {
    /// Takes a lease under a new id.
    ///
    /// # Errors
    /// If the pool refuses it or gives no answer. A record that is left is broken by others after [`WAIT`].
    pub fn claim(
        pool: &Arc<dyn RadosPool>,
        clock: &Arc<dyn LeaseClock>,
        about: About,
    ) -> Result<Self, VolumeError> {
        let (table, id) = (gateways_table(pool), ObjectId::random());
        let mut sent = Sent { about, renewals: 0, known: Bytes::new(), unanswered: Vec::new() };
        sent.known = sent.value();
        let key = id.to_string();
        let write = |error| failed(Operation::Write, error);
        // never sent again: see the head
        if table.change(&key, None, Some(sent.known.clone())).map_err(write)? == Changed::Refused {
            let problem = format!("there is a gateway {id}, expected a new random id to be unused");
            return Err(VolumeError::Damaged { object: table.object().to_owned(), at: 0, problem });
        }
        let lease = Self {
            table,
            clock: Arc::clone(clock),
            id,
            key,
            until: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            sent: Mutex::new(sent),
        };
        lease.renew().map_err(write)?;
        Ok(lease)
    }

    /// The id of the gateway.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Whether a read whose answer is ready now may be answered.
    pub fn is_valid(&self) -> bool {
        self.clock.now().as_nanos() < u128::from(self.until.load(Ordering::Acquire))
    }

    /// How long reads may still be answered.
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::Acquire)).saturating_sub(self.clock.now())
    }

    /// Whether the lease was broken. It never becomes valid again.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells others `about` from the next renewal on.
    pub fn tell(&self, about: About) {
        self.sent().about = about;
    }

    /// Renews the lease. After an error without an answer it is as valid as before, and may be renewed
    /// again.
    ///
    /// # Errors
    /// [`Refusal::Guard`]: another gateway has broken it, and it [is lost](Self::is_lost).
    pub fn renew(&self) -> Result<(), RadosError> {
        let mut sent = self.sent();
        if self.is_lost() {
            return Err(self.lost());
        }
        for _ in 0..TRIES {
            if !sent.unanswered.is_empty() {
                self.find_out(&mut sent)?;
            }
            sent.renewals += 1;
            let (from, to, when) = (sent.known.clone(), sent.value(), self.clock.now());
            match self.table.change(&self.key, Some(&from), Some(to.clone())) {
                Ok(Changed::Done) => {
                    // what is late expects a value that never comes again
                    sent.unanswered.clear();
                    sent.known = to;
                    let until = u64::try_from((when + VALID).as_nanos()).unwrap_or(u64::MAX);
                    self.until.store(until, Ordering::Release);
                    return Ok(());
                }
                // broken, or one that was late came first
                Ok(Changed::Refused) => self.find_out(&mut sent)?,
                Err(error) => {
                    if error.refusal().is_none() {
                        sent.unanswered.push(to);
                    }
                    return Err(error);
                }
            }
        }
        Err(self.refused(Refusal::Guard))
    }

    /// Reads which of the values that were sent the record has.
    fn find_out(&self, sent: &mut Sent) -> Result<(), RadosError> {
        let found = self.table.get(before_id(&self.key), &self.key)?;
        match found {
            Some(value) if value == sent.known => Ok(()),
            Some(value) if sent.unanswered.contains(&value) => {
                sent.known = value;
                Ok(())
            }
            _ => Err(self.lost()),
        }
    }

    fn lost(&self) -> RadosError {
        self.until.store(0, Ordering::Release);
        self.is_lost.store(true, Ordering::Release);
        self.refused(Refusal::Guard)
    }

    fn refused(&self, why: Refusal) -> RadosError {
        self.table.refused(why)
    }

    /// Gives the lease back, so that no other gateway waits for its end. Reads are not answered any more.
    ///
    /// # Errors
    /// If that is not known to be done. Others break the lease after [`WAIT`] then.
    pub fn release(&self) -> Result<(), RadosError> {
        let mut sent = self.sent();
        self.until.store(0, Ordering::Release);
        if self.is_lost.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        for _ in 0..TRIES {
            if self.table.change(&self.key, Some(&sent.known), None)? == Changed::Done {
                return Ok(());
            }
            match self.find_out(&mut sent) {
                // broken, or an earlier try was applied
                Err(error) if error.refusal() == Some(Refusal::Guard) => return Ok(()),
                found => found?,
            }
        }
        Err(self.refused(Refusal::Guard))
    }
}
