//! What an engine cannot be faster than: fingerprints alone, and compression alone.

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use onefold_fingerprint::Fingerprinter;

use super::page::{Batch, HALVES};

/// Level of zstd at which pages are compressed: the engine's own for pages like these, of digits.
const LEVEL: i32 = 1;

/// Seconds for the fingerprints of `count` pages, `depth` at a time, each batch just made.
pub(super) fn fingerprint(fingerprinter: &Fingerprinter, count: u64, depth: usize) -> f64 {
    let mut batch = Batch::new(depth);
    let mut seconds = 0.0;
    for first in (0..count).step_by(depth) {
        batch.clear();
        (first..count.min(first + depth as u64)).for_each(|number| batch.push(0, number));
        let pages = batch.pages();
        let mut fingerprints = Vec::with_capacity(depth);
        let begun = Instant::now();
        fingerprinter.fingerprint_many(&pages, &mut fingerprints);
        seconds += begun.elapsed().as_secs_f64();
        black_box(fingerprints);
    }
    seconds
}

/// Seconds to compress `count` pages that become half as long, one after another into one buffer,
/// `depth` of them just made.
pub(super) fn compress(count: u64, depth: usize) -> Result<f64> {
    let mut zstd = zstd::bulk::Compressor::new(LEVEL)?;
    let mut stored = Vec::with_capacity(zstd::zstd_safe::compress_bound(super::page::PAGE));
    let (mut batch, mut seconds) = (Batch::new(depth), 0.0);
    for first in (HALVES..HALVES + count).step_by(depth) {
        batch.clear();
        let end = (HALVES + count).min(first + depth as u64);
        (first..end).for_each(|number| batch.push(0, number));
        let pages = batch.pages();
        let begun = Instant::now();
        for page in pages {
            zstd.compress_to_buffer(page, &mut stored)?;
            black_box(&stored);
        }
        seconds += begun.elapsed().as_secs_f64();
    }
    Ok(seconds)
}

/// Bytes a second of SHA3-256 by the system's OpenSSL, in its own measurement of pages that lie in
/// the cache, on the CPU that this thread is kept to, by the same clock as everything here.
pub(super) fn openssl() -> Result<f64> {
    let output = Command::new("openssl")
        .args(["speed", "-elapsed", "-mr", "-seconds", "1", "-bytes", "4096", "-evp", "sha3-256"])
        .output()
        .context("openssl speed")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "openssl speed ended with {}: {}", output.status, told.trim());
    let text = String::from_utf8_lossy(&output.stdout);
    rate(&text).with_context(|| format!("openssl speed: no rate in {text:?}"))
}

/// The rate in what `openssl speed -mr` prints: `+F:22:sha3-256:512345678.90`.
fn rate(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("+F:"))?;
    let rate: f64 = line.rsplit(':').next()?.trim().parse().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// Which OpenSSL there is, once it has been measured.
pub fn find_openssl() -> Result<String> {
    let output = Command::new("openssl").arg("version").output().context("openssl version")?;
    ensure!(output.status.success(), "openssl version ended with {}", output.status);
    openssl()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_what_stands_last() {
        assert_eq!(rate("+R:1:sha3-256:1.0\n+F:22:sha3-256:1234.50\n"), Some(1234.5));
        for none in ["nothing", "+F:22:sha3-256:-1.0", "+F:22:sha3-256:inf", "+F:22:sha3-256:"] {
            assert_eq!(rate(none), None, "{none}");
        }
    }
}
