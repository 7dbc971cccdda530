//! Snapshots of a Redis server between rounds of updates.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use onefold_bench::Dataset;

use crate::build::order::{Allowed, Choice};
use crate::build::site::Site;
use crate::build::{Cost, MB, Recipe, Sameness, Tool};

const SERVER: Tool = Tool::new("redis-server", "redis-server");

pub(super) const REDIS: Recipe = Recipe {
    name: "redis",
    kind: "database snapshots",
    about: "snapshots of 400,000 keys between rounds of updates to 4,000; starts over if stopped",
    source: None,
    choices: &[Choice {
        name: "snapshots",
        about: "files",
        standard: "8",
        allowed: Allowed::Number(1, 99),
    }],
    sameness: Sameness::NotBytes("the server orders keys by a hash of its own choice"),
    tools: &[SERVER],
    cost: |choices| Cost {
        built: choices.number("snapshots") * 58 * MB,
        download: 0,
        scratch: 120 * MB,
    },
    build,
};

const KEYS: usize = 400_000;
const UPDATES: usize = 4_000;
/// Bytes of a value; printable, so that half of them could be compressed away.
const VALUE: usize = 128;

/// One server writes all snapshots, since another would order the keys otherwise: no snapshot can
/// be gone on from.
fn build(site: &Site) -> Result<()> {
    let snapshots = site.count("snapshots");
    let parts: Vec<String> = (0..snapshots).map(|number| format!("{number:02}.rdb")).collect();
    if site.done(&parts) == snapshots {
        return Ok(());
    }
    site.start_over()?;
    let mut server = Server::start(&site.room("redis")?)?;
    site.step(0, snapshots, "400,000 keys")?;
    server.set(0..KEYS, 0)?;
    for (number, part) in parts.iter().enumerate() {
        site.step(number, snapshots, part)?;
        if number > 0 {
            server.set(skewed(number), number)?;
        }
        let snapshot = server.save()?;
        site.keep(part, &snapshot)?;
    }
    Ok(())
}

/// Keys to update, low numbers more often: the cube of an even draw.
fn skewed(round: usize) -> impl Iterator<Item = usize> {
    let draws = Dataset::random(round as u64, 4 * UPDATES);
    let draws: Vec<f64> = draws
        .bytes()
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&draw| f64::from(u32::from_le_bytes(draw)) / 2_f64.powi(32))
        .collect();
    draws.into_iter().map(|draw| (draw.powi(3) * KEYS as f64) as usize)
}

/// A server that listens to nobody else, ended when dropped.
struct Server {
    child: Child,
    room: PathBuf,
    requests: BufWriter<UnixStream>,
    answers: BufReader<UnixStream>,
}

impl Server {
    fn start(room: &Path) -> Result<Self> {
        // a name relative to the room, since those of sockets must be short
        let mut child = SERVER
            .command()
            .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"])
            .args(["--dbfilename", "dump.rdb"])
            .current_dir(room)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("run redis-server")?;
        let socket = match connected(&room.join("socket"), &mut child) {
            Ok(socket) => socket,
            Err(error) => {
                end(&mut child);
                return Err(error);
            }
        };
        let answers = BufReader::new(socket.try_clone().context("a second handle of a socket")?);
        Ok(Self { child, room: room.to_owned(), requests: BufWriter::new(socket), answers })
    }

    /// Gives each of `keys` the value of a round.
    fn set(&mut self, keys: impl Iterator<Item = usize>, round: usize) -> Result<()> {
        // requests and answers wait in the socket, which holds so many
        const TOGETHER: usize = 500;
        let keys: Vec<usize> = keys.collect();
        for keys in keys.chunks(TOGETHER) {
            for &key in keys {
                let value = value(key, round);
                write!(self.requests, "SET key:{key:08} {value}\r\n")
                    .context("ask redis-server")?;
            }
            self.requests.flush().context("ask redis-server")?;
            for _ in keys {
                self.answer()?;
            }
        }
        Ok(())
    }

    /// Writes a snapshot, and says where it is.
    fn save(&mut self) -> Result<PathBuf> {
        self.requests.write_all(b"SAVE\r\n").context("ask redis-server")?;
        self.requests.flush().context("ask redis-server")?;
        self.answer()?;
        Ok(self.room.join("dump.rdb"))
    }

    fn answer(&mut self) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("hear redis-server")?;
        ensure!(line == "+OK\r\n", "redis-server answers '{}', expected OK", line.trim());
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // one that has ended already cannot be ended, and that is as well
    let _ = child.kill();
    let _ = child.wait();
}

fn connected(socket: &Path, child: &mut Child) -> Result<UnixStream> {
    const PATIENCE: Duration = Duration::from_secs(20);
    // the folder by descriptor, for the same reason as above
    let folder = fs::File::open(socket.parent().expect("the socket lies in a folder"))?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&folder);
    let short = PathBuf::from(format!("/proc/self/fd/{descriptor}/socket"));
    let begun = Instant::now();
    loop {
        if let Ok(connection) = UnixStream::connect(&short) {
            return Ok(connection);
        }
        if let Some(status) = child.try_wait().context("wait for redis-server")? {
            bail!("redis-server ended with {status} before it could be asked anything");
        }
        ensure!(begun.elapsed() < PATIENCE, "redis-server does not answer for {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Hexadecimal digits.
fn value(key: usize, round: usize) -> String {
    let mut bytes = [0; VALUE / 2];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(key as u64).to_le_bytes()).update(&(round as u64).to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_prefer_low_keys_and_stay_below_the_last() {
        let keys: Vec<usize> = skewed(1).collect();
        assert_eq!(keys.len(), UPDATES);
        assert!(keys.iter().all(|&key| key < KEYS));
        // the cube of a half is an eighth
        let low = keys.iter().filter(|&&key| key < KEYS / 8).count();
        assert!((1800..2200).contains(&low), "{low}");
        assert_ne!(keys, skewed(2).collect::<Vec<_>>());
    }
}
