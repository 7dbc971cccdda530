//! The clock by which leases end.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time that passes also while the machine sleeps, since any moment.
pub trait LeaseClock: Send + Sync {
    /// The time now.
    fn now(&self) -> Duration;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl LeaseClock for BootClock {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    }
}
