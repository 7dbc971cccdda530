//! `onefold serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use onefold_nbd::{Config, Event, Export, Listen, Server, Tls, TlsMode};

use crate::console::Console;
use crate::exit::Exit;
use crate::interrupt::cancel_on_signal;
use crate::pool::PoolArgs;

const AFTER_HELP: &str = "\
Serves every volume of a pool under its name, by the NBD protocol: to qemu, libnbd, nbdkit, fio, the
Linux kernel and other clients. A write is durable once a flush after it is acknowledged; at a power
cut earlier ones may be lost, block by block. Snapshots are served read-only. What is acknowledged to
one connection is there for all.

Ctrl-C, or SIGTERM, ends it: requests that are under way end, everything is flushed.

Examples:
  onefold serve --pool /srv/pool
  onefold serve --pool /srv/pool --unix /run/onefold.sock
  onefold serve --pool /srv/pool --listen 0.0.0.0:10809 --tls-cert c.pem --tls-key k.pem \\
      --tls-client-ca ca.pem
  qemu-img convert -n disk.qcow2 nbd://localhost/disk
  nbd-client -unix /run/onefold.sock -N disk /dev/nbd0";

/// How long requests may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked whether a signal came.
const PAUSE: Duration = Duration::from_millis(100);

/// How often what was done is made durable and shorter to read again, though nobody asked.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(300);

/// Serve the volumes of a pool by NBD
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Serve {
    #[command(flatten)]
    pool: PoolArgs,
    /// Where to listen; may be given several times [default: 127.0.0.1:10809, if no --unix is given]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// A Unix socket to listen on; may be given several times
    #[arg(long, value_name = "PATH")]
    unix: Vec<PathBuf>,
    /// The certificates of the server, its own first, in PEM: clients must use TLS then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key that belongs to them, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate that one of these, in PEM, has signed
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Let clients resize volumes
    #[arg(long)]
    allow_resize: bool,
}

impl Serve {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let cancel = cancel_on_signal(console, "requests that are under way end first")?;
        let pool = self.pool.open(console)?;
        let mut exports = Vec::new();
        for info in pool.volumes() {
            let export = Export::new(&info.name, Arc::new(pool.volume(&info.name)?));
            let may_resize = self.allow_resize && !info.is_read_only;
            exports.push(if may_resize { export.resizable() } else { export });
        }
        ensure!(
            !exports.is_empty(),
            "the pool has no volumes; make one with `onefold volume create`"
        );
        let mut config = Config::new(self.places(), exports);
        config.tls = self.tls()?;
        let heard = console.clone();
        config.on_event = Arc::new(move |event| tell(&heard, &event));
        let server = Server::start(config)?;
        for address in server.addresses() {
            console.notice(format_args!("serving on {address}"));
        }
        let mut last = Instant::now();
        while !cancel.is_cancelled() {
            thread::sleep(PAUSE);
            if let Some(why) = pool.stopped() {
                bail!(
                    "the pool stopped taking changes when {why}; see docs/volumes.md before it is used again"
                );
            }
            if last.elapsed() >= CHECKPOINT_EVERY {
                if let Err(error) = pool.maintain() {
                    console.warn(format_args!("the pool could not be maintained: {error}"));
                }
                last = Instant::now();
            }
        }
        server.shutdown(PATIENCE)?;
        pool.checkpoint()
            .context("what was served is durable, but no checkpoint of it was made")?;
        Ok(Exit::Fine)
    }

    fn places(&self) -> Vec<Listen> {
        let tcp = self.listen.iter().copied().map(Listen::Tcp);
        let mut places: Vec<Listen> =
            tcp.chain(self.unix.iter().cloned().map(Listen::Unix)).collect();
        if places.is_empty() {
            places.push(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 10809))));
        }
        places
    }

    fn tls(&self) -> Result<Option<Tls>> {
        let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let client_ca = self.tls_client_ca.as_deref();
        Ok(Some(Tls::from_pem_files(TlsMode::Required, certificates, key, client_ca)?))
    }
}

fn tell(console: &Console, event: &Event<'_>) {
    match event {
        Event::Served { peer, name, is_encrypted } => {
            let how = if *is_encrypted { " over TLS" } else { "" };
            console.detail(format_args!("{peer} uses '{name}'{how}"));
        }
        Event::Ended { peer, error: None, .. } => console.detail(format_args!("{peer} has gone")),
        Event::Ended { peer, error: Some(error), .. } => {
            console.warn(format_args!("the connection of {peer} ended: {error}"));
        }
        Event::NotAccepted { error } => {
            console.warn(format_args!("a client could not be let in: {error}"));
        }
        _ => {}
    }
}
