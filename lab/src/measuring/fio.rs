//! Running fio against a server, and reading what it reports.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use xtask::programs::run_while;

/// How often it is checked whether fio and the server have ended: times are those of fio's own clock.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What fio reports of one phase, of all its jobs together, as `--group_reporting` has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reported {
    /// From the first request to the last reply, of the job that took longest.
    pub(crate) seconds: f64,
    /// Without flushes.
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// A command of fio with the options that all measurements over NBD share: `jobs` connections to `uri`,
/// queue depth 16, blocks and buffers that are drawn from `seed`, half of each buffer compressible. The
/// report goes to `report`.
pub(crate) fn over_nbd(uri: &str, jobs: u64, dedupe: u64, seed: u64, report: &Path) -> Command {
    let mut fio = Command::new("fio");
    fio.args(["--name=nbd", "--ioengine=nbd", "--iodepth=16", "--output-format=json"]);
    fio.args(["--refill_buffers=1", "--buffer_compress_percentage=50"]);
    fio.arg(format!("--output={}", report.display()));
    fio.arg(format!("--uri={uri}"));
    fio.arg(format!("--numjobs={jobs}")).arg("--group_reporting");
    // unless told not to repeat itself, fio 3.33 draws the same blocks whatever the seed
    fio.arg(format!("--randseed={seed}")).arg("--randrepeat=0");
    fio.arg(format!("--dedupe_percentage={dedupe}"));
    fio
}

/// Runs `fio` to its end. Ends it early if `check` fails, because fio may wait for a server that ended.
pub(crate) fn run(fio: &mut Command, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let ran = run_while(fio.stdin(Stdio::null()), LOOK_EVERY, &mut check);
    // where the server ended, that is why fio failed
    check()?;
    ran
}

impl Reported {
    /// Reads the report in `file`, of reads or of writes.
    pub(crate) fn read(file: &Path, is_read: bool, expected_bytes: u64) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Self::of(&serde_json::from_str(&text).context("fio's report")?, is_read, expected_bytes)
    }

    /// The same of a report that was read.
    pub(crate) fn of(report: &Value, is_read: bool, expected_bytes: u64) -> Result<Self> {
        let jobs = report["jobs"].as_array().context("fio's report has no jobs")?;
        let [group] = jobs.as_slice() else {
            bail!("fio reported {} groups of jobs, expected one", jobs.len());
        };
        let kind = if is_read { "read" } else { "write" };
        let number = |place: &str| {
            let found = group.pointer(place).and_then(Value::as_f64);
            found.with_context(|| format!("fio's report has no {place}"))
        };
        let latency =
            |percent: &str| number(&format!("/{kind}/clat_ns/percentile/{percent}.000000"));
        ensure!(number("/error")? == 0.0, "fio had an error");
        let flushes = number("/sync/total_ios")?;
        ensure!(flushes > 0.0 || is_read, "fio sent no flush");
        let bytes = number(&format!("/{kind}/io_bytes"))? as u64;
        ensure!(
            bytes == expected_bytes,
            "fio had {bytes} bytes of {kind}s, expected {expected_bytes}"
        );
        Ok(Self {
            seconds: number(&format!("/{kind}/runtime"))? / 1e3,
            operations: number(&format!("/{kind}/total_ios"))? as u64,
            bytes,
            flushes: flushes as u64,
            p50_us: latency("50")? / 1e3,
            p99_us: latency("99")? / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_of_all_jobs_together() {
        let group = serde_json::json!({
            "error": 0,
            "sync": { "total_ios": 8 },
            "write": {
                "runtime": 250,
                "total_ios": 4096,
                "io_bytes": 16 << 20,
                "clat_ns": { "percentile": { "50.000000": 7000, "99.000000": 9500 } },
            },
        });
        let read =
            |jobs: &[&Value]| Reported::of(&serde_json::json!({ "jobs": jobs }), false, 16 << 20);
        let found = read(&[&group]).unwrap();
        assert_eq!((found.seconds, found.operations, found.bytes), (0.25, 4096, 16 << 20));
        assert_eq!((found.flushes, found.p50_us, found.p99_us), (8, 7.0, 9.5));
        let error = read(&[&group, &group]).unwrap_err().to_string();
        assert_eq!(error, "fio reported 2 groups of jobs, expected one");
        let mut one_job = group;
        one_job["write"]["io_bytes"] = (2 << 20).into();
        let error = read(&[&one_job]).unwrap_err().to_string();
        assert_eq!(error, "fio had 2097152 bytes of writes, expected 16777216");
    }

    #[test]
    fn blocks_are_those_of_the_seed() {
        if !xtask::programs::on_path("fio") {
            onefold_testkit::skip("no fio here");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let drawn = |seed| {
            let mut fio = over_nbd(
                "nbd+unix:///none?socket=none",
                1,
                50,
                seed,
                &folder.path().join("report"),
            );
            // no server: what would be asked for goes to a log
            fio.args([
                "--ioengine=null",
                "--rw=randread",
                "--bs=4k",
                "--size=64m",
                "--io_size=64k",
            ]);
            fio.args(["--log_offset=1", "--write_bw_log=log"]).current_dir(folder.path());
            run(&mut fio, || Ok(())).unwrap();
            let log = fs::read_to_string(folder.path().join("log_bw.1.log")).unwrap();
            log.lines().filter_map(|line| line.split(", ").nth(4)?.parse().ok()).collect()
        };
        let (one, again, other): (Vec<u64>, Vec<u64>, Vec<u64>) = (drawn(16), drawn(16), drawn(17));
        assert_eq!((one.len(), &one), (16, &again));
        assert_ne!(one, other);
    }

    #[test]
    fn a_server_that_ended_ends_fio() {
        let error = run(Command::new("sleep").arg("60"), || bail!("the server ended")).unwrap_err();
        assert_eq!(error.to_string(), "the server ended");
        run(&mut Command::new("true"), || Ok(())).unwrap();
        assert!(run(&mut Command::new("false"), || Ok(())).is_err());
    }
}
