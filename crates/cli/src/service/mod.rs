//! Services of `onefold serve` in addition to the NBD server: metrics for monitoring, and requests of
//! `onefold volume`, which cannot open the pool while the server uses it.
//!
//! | file | content |
//! | --- | --- |
//! | request.rs | requests to a pool, and their execution |
//! | answer.rs | answers to them |
//! | control.rs | the control socket, on which a server receives requests |
//! | fsck.rs | what a check of containers found, as it travels |
//! | space.rs | what containers of a cluster hold, and how they were scrubbed |
//! | peers.rs | other gateways of a cluster |
//! | metrics.rs | the metrics of a served pool |
//! | http.rs | the HTTP endpoint for metrics |
//! | logs.rs | the log of events |
//! | systemd.rs | sockets from systemd, and notifications to it |

pub(crate) mod answer;
pub(crate) mod control;
pub(crate) mod fsck;
pub(crate) mod http;
pub(crate) mod logs;
pub(crate) mod metrics;
#[cfg(feature = "cluster")]
pub(crate) mod peers;
pub(crate) mod request;
pub(crate) mod space;
pub(crate) mod systemd;

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// How long requests in flight may take at the end.
const LINGER: Duration = Duration::from_secs(1);

/// Where both listen: a thread that moves bytes, and some that may wait for the pool.
pub(crate) struct Service(Option<Runtime>);

impl Service {
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(http::CONNECTIONS + control::CONNECTIONS)
            .thread_name("service")
            .enable_all()
            .build()
            .context("cannot start threads")?;
        Ok(Self(Some(runtime)))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("taken when it is dropped")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(LINGER);
        }
    }
}
