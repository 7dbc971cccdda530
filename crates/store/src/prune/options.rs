//! How a prune is done.

use std::time::Duration;

/// How much may stay though nobody needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unused {
    /// So many percent of what stays.
    Percent(f64),
    /// So many bytes.
    Bytes(u64),
    /// Any amount: only containers of which nothing is needed are deleted, and nothing is copied.
    Unlimited,
}

impl Unused {
    /// In bytes, where `used` bytes are needed.
    pub(super) fn of(self, used: u64) -> u64 {
        match self {
            Self::Percent(percent) if percent < 100.0 => {
                (used as f64 * percent / (100.0 - percent)) as u64
            }
            Self::Bytes(bytes) => bytes,
            Self::Percent(_) | Self::Unlimited => u64::MAX,
        }
    }
}

/// How a prune is done.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much may stay though nobody needs it.
    pub max_unused: Unused,
    /// How many bytes of containers are repacked and merged at most.
    pub max_repack: u64,
    /// A backup that began longer ago is taken for dead. If it is not, it fails when it ends.
    pub fence_after: Duration,
    /// Whether it is only found out what would be done.
    pub dry_run: bool,
    /// Length in bytes at which a new container is sealed. Containers below a quarter of it are
    /// merged, if there are many.
    pub container_len: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_unused: Unused::Percent(5.0),
            max_repack: u64::MAX,
            fence_after: Duration::from_secs(7 * 24 * 3600),
            dry_run: false,
            container_len: 16 << 20,
        }
    }
}
