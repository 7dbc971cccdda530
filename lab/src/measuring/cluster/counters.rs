//! What gateways count, by their metrics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use onefold_testkit::ceph::Gateways;

/// Gateways that run, from number 0 on, and where each tells its metrics.
pub(super) struct Counted(Vec<SocketAddr>);

/// The metrics of one gateway at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// The value of a metric, with its labels; 0 if the gateway does not tell it.
    pub(super) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// By how much the counter `name` is greater than it was.
    pub(super) fn since(&self, before: &Self, name: &str) -> u64 {
        (self.get(name) - before.get(name)).max(0.0) as u64
    }
}

impl Counted {
    /// Starts `count` gateways, which wait so many milliseconds for hints, and waits until all of them are connected
    /// with each other.
    pub(super) fn start(
        gateways: &mut Gateways,
        count: usize,
        hints_wait: Option<u64>,
    ) -> Result<Self> {
        let wait = hints_wait.map(|wait| format!("--hints-wait={wait}"));
        let mut addresses = Vec::new();
        for number in 0..count {
            // free until the gateway listens there, unless another program is faster
            let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            let address_text = address.to_string();
            let options = ["--metrics", &address_text].into_iter().chain(wait.as_deref());
            gateways.start(number, &options.collect::<Vec<_>>());
            addresses.push(address);
        }
        Self::at(gateways, addresses)
    }

    /// Waits until gateways that were started, which tell their metrics at these addresses, are connected with each
    /// other.
    pub(super) fn at(gateways: &mut Gateways, addresses: Vec<SocketAddr>) -> Result<Self> {
        let count = addresses.len();
        for number in 0..count {
            if let Err(ended) = gateways.wait_until_it_listens(number) {
                bail!("gateway {number} ended, {}: {}", ended.status, ended.said);
            }
        }
        let this = Self(addresses);
        this.wait_until("are connected with each other", |this| {
            let others = count as f64 - 1.0;
            Ok(this.all()?.iter().all(|one| one.get("onefold_connected_peers") == others))
        })?;
        // each may follow the members a look later
        thread::sleep(Duration::from_secs(3));
        Ok(this)
    }

    /// The metrics of gateway `number`.
    pub(super) fn of(&self, number: usize) -> Result<Metrics> {
        let address = self.0[number];
        let place = || format!("metrics of gateway {number} at {address}");
        let mut stream = TcpStream::connect(address).with_context(place)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).with_context(place)?;
        ensure!(text.starts_with("HTTP/1.1 200"), "{}: {:?}", place(), text.lines().next());
        let (_, body) = text.split_once("\r\n\r\n").with_context(place)?;
        let lines = body.lines().filter(|line| !line.starts_with('#'));
        let values = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Ok(Metrics(values.collect()))
    }

    /// The metrics of each gateway.
    pub(super) fn all(&self) -> Result<Vec<Metrics>> {
        (0..self.0.len()).map(|number| self.of(number)).collect()
    }

    /// Waits until no hint is on its way any more.
    pub(super) fn wait_for_hints(&self) -> Result<()> {
        let messages = |this: &Self| -> Result<f64> {
            let all = this.all()?;
            Ok(all.iter().map(|one| one.get("onefold_hint_messages_total{kind=\"add\"}")).sum())
        };
        let mut last = messages(self)?;
        self.wait_until("have told all hints", |this| {
            thread::sleep(Duration::from_millis(500));
            let now = messages(this)?;
            Ok(std::mem::replace(&mut last, now) == now)
        })
    }

    /// Waits until the gateways have read the dumps of hints of the ranges that they hold, which they do when they
    /// start and once more ten seconds later: until they send few `queries`.
    pub(super) fn wait_for_dumps(&self, queries: &str) -> Result<()> {
        thread::sleep(Duration::from_secs(12));
        let all = |this: &Self| -> Result<f64> {
            Ok(this.all()?.iter().map(|one| one.get(queries)).sum())
        };
        let mut last = all(self)?;
        self.wait_until("have read all dumps", |this| {
            thread::sleep(Duration::from_secs(2));
            let now = all(this)?;
            // each asks for leases a few times a second
            Ok(now - std::mem::replace(&mut last, now) < 30.0 * this.0.len() as f64)
        })
    }

    fn wait_until(
        &self,
        what: &str,
        mut condition: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            // a gateway that starts may not tell metrics yet
            let said = condition(self);
            if matches!(said, Ok(true)) {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(120) {
                bail!("gateways do not say that they {what} within two minutes: {said:?}");
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}
