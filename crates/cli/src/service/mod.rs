//! What `onefold serve` runs beside the NBD server: metrics for who watches it, and requests of
//! `onefold volume`, which cannot have the pool meanwhile.
//!
//! | file | what it is |
//! | --- | --- |
//! | request.rs | what can be asked of a pool, done by whoever has it |
//! | control.rs | the socket on which a server is asked |
//! | metrics.rs | what is told of a pool that is served |
//! | http.rs | who asks for that |
//! | logs.rs | what is said of what happens |
//! | systemd.rs | sockets from systemd, and what it is told |

pub(crate) mod control;
pub(crate) mod http;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod request;
pub(crate) mod systemd;

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// How long requests that are under way at the end may take.
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
