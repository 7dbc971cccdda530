//! The campaign on a GPU, in parts: each ends in time, has a record of its own, and leaves what it measured when
//! it is cut off.

mod pack;

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;

use self::pack::{SANITIZER_WHEEL, pack, sanitizer_folder};
use crate::outcome::Outcome;
use crate::programs::{on_path, run_while};
use crate::record::Commit;
use crate::workspace::{self, Cargo};

/// How long before the end of its time `bench gpu` stops by itself, so that it can write its record.
const MARGIN: Duration = Duration::from_secs(20);

/// What to measure on a GPU, and with what.
#[derive(Args)]
pub(crate) struct Options {
    /// The device, as `onefold devices` names it
    #[arg(long, default_value = "cuda:0")]
    device: String,
    /// Bytes of random data in memory, as `bench gpu` takes them
    #[arg(long, default_value = "1GiB")]
    bytes: String,
    /// Bytes of mixed data on which every chunk is compared
    #[arg(long, default_value = "64GiB")]
    equality: String,
    /// MiB of the image that is backed up with and without the device
    #[arg(long, default_value_t = 4096)]
    image: u64,
    /// A program that was built elsewhere, for a machine without a compiler
    #[arg(long)]
    program: Option<PathBuf>,
    /// The compute-sanitizer of the part `sanitizer`, if not the one of PATH or of NVIDIA's package
    #[arg(long)]
    sanitizer: Option<PathBuf>,
    /// The parts to run, separated by commas, if not all
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// How many minutes each part may take; all five take 45 at most
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=9))]
    minutes: u64,
    /// The folder of records, e.g. docs/records/NAME: the parts write equality.json and so on there
    #[arg(long, required_unless_present = "pack")]
    out: Option<PathBuf>,
    /// The commit that a packed program was built from
    #[arg(long, hide = true)]
    commit: Option<Commit>,
    /// Run nothing: gather in this folder what a machine with a GPU needs
    #[arg(long, value_name = "FOLDER")]
    pack: Option<PathBuf>,
}

/// A part of the campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Compares all chunks of mixed data
    Equality,
    /// The steps of Shredder
    Shredder,
    /// Copies, algorithms, pages and energy
    Rates,
    /// Backs up an image with and without the device
    Backup,
    /// Runs every kernel under compute-sanitizer
    Sanitizer,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Equality => "equality",
            Self::Shredder => "shredder",
            Self::Rates => "rates",
            Self::Backup => "backup",
            Self::Sanitizer => "sanitizer",
        })
    }
}

/// Runs the parts one after another. One that fails or is cut off does not keep the others from running.
pub(crate) fn run(cargo: Cargo, options: &Options) -> Result<()> {
    if let Some(folder) = &options.pack {
        return pack(cargo, folder);
    }
    let program = match &options.program {
        Some(program) => std::path::absolute(program)?,
        None => build(cargo, "onefold", None)?,
    };
    ensure_device(&program, &options.device)?;
    let out = options.out.as_deref().context("no --out")?;
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let all = Part::value_variants();
    let parts = if options.parts.is_empty() { all } else { &options.parts };
    let mut failed = Vec::new();
    for &part in parts {
        println!("campaign: {part}");
        let run = Run {
            options,
            program: &program,
            out: out.join(format!("{part}.json")),
            end: Instant::now() + Duration::from_secs(60 * options.minutes),
        };
        if let Err(error) = run.part(cargo, part) {
            println!("campaign: {part}: {error:#}");
            failed.push(part.to_string());
        }
    }
    ensure!(
        failed.is_empty(),
        "not to the end: {}; the rest is in {}",
        failed.join(", "),
        out.display()
    );
    println!("campaign: all parts ran to their end, see {}", out.display());
    Ok(())
}

/// One part.
struct Run<'a> {
    options: &'a Options,
    program: &'a Path,
    out: PathBuf,
    end: Instant,
}

impl Run<'_> {
    fn part(&self, cargo: Cargo, part: Part) -> Result<()> {
        match part {
            Part::Equality => self.bench("equality"),
            Part::Shredder => self.bench("copies,overlap,tiles,versions"),
            Part::Rates => self.bench("copies,algorithms,pages,energy"),
            Part::Backup => self.recorded(|outcome, scratch| self.back_up(outcome, scratch)),
            Part::Sanitizer => {
                let sanitizer = sanitizer(cargo, self.options.sanitizer.as_deref())?;
                self.recorded(|outcome, _| self.watch_kernels(&sanitizer, outcome))
            }
        }
    }

    /// `bench gpu`, which stops by itself before the time is over.
    fn bench(&self, parts: &str) -> Result<()> {
        let Options { device, bytes, equality, .. } = self.options;
        let left = self.end.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
        let limit = left.as_secs().to_string();
        let mut bench = Command::new(self.program);
        bench.args(["bench", "gpu", "--device", device, "--bytes", bytes, "--equality", equality]);
        bench.args(["--parts", parts, "--limit", &limit, "--json"]).arg(&self.out);
        bench.arg("--html").arg(self.out.with_extension("html"));
        run_until(&mut bench, self.end)
    }

    /// Does `what` in a folder that is deleted afterwards, and writes what it told even if it failed.
    fn recorded(&self, what: impl FnOnce(&mut Outcome, &Path) -> Result<()>) -> Result<()> {
        let scratch = std::env::temp_dir().join(format!("onefold-gpu-{}", std::process::id()));
        fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
        let commit = self.options.commit.clone().unwrap_or_else(Commit::current);
        let mut outcome = Outcome::of(commit, "cargo xtask");
        let done = what(&mut outcome, &scratch);
        if let Err(error) = &done {
            outcome.tell(format!("not to the end: {error:#}"));
        }
        let removed = fs::remove_dir_all(&scratch).with_context(|| scratch.display().to_string());
        outcome.write(Some(&self.out))?;
        done.and(removed)
    }

    /// Cuts and fingerprints a little with every kernel under `sanitizer`, which looks for accesses outside of memory
    /// and for races.
    fn watch_kernels(&self, sanitizer: &Path, outcome: &mut Outcome) -> Result<()> {
        let device = &self.options.device;
        for tool in ["memcheck", "racecheck"] {
            let mut watched = Command::new(sanitizer);
            watched.args(["--tool", tool, "--error-exitcode", "9"]).arg(self.program);
            watched.args(["bench", "gpu", "--device", device, "--rounds", "1"]);
            watched.args(["--bytes", "1MiB", "--parts", "tiles,algorithms,pages"]);
            run_until(&mut watched, self.end).with_context(|| tool.to_owned())?;
            outcome.tell(format!("{tool} found nothing in any kernel"));
        }
        Ok(())
    }

    /// Times backups of an image of random bytes by the CPU and by the device, each to a new repository, and checks
    /// that the device finds nothing new in what the CPU stored.
    fn back_up(&self, outcome: &mut Outcome, scratch: &Path) -> Result<()> {
        let (device, bytes) = (&self.options.device, self.options.image << 20);
        outcome.note("one image of random bytes, which the page cache holds; not compressed");
        let image = scratch.join("image");
        write_random(&image, bytes)?;
        let repository = |name: &str| scratch.join(name.replace(':', "-"));
        for compute in ["cpu", device] {
            let mut init = Command::new(self.program);
            run_until(init.args(["init", "--no-encryption"]).arg(repository(compute)), self.end)?;
            let mut backup = Command::new(self.program);
            backup.args(["backup", "--compression", "off", "--compute", compute, "--repo"]);
            let start = Instant::now();
            run_until(backup.arg(repository(compute)).arg(&image), self.end)?;
            let seconds = start.elapsed().as_secs_f64();
            outcome.tell(format!("{bytes} bytes by {compute}: {seconds:.2} s"));
        }
        let told = scratch.join("told");
        let mut again = Command::new(self.program);
        again.args(["backup", "--force", "--compute", device, "--repo"]).arg(repository("cpu"));
        run_until(again.arg(&image).stdout(fs::File::create(&told)?), self.end)?;
        let found = fs::read_to_string(&told)?;
        ensure!(found.contains("nothing new"), "{device} finds other chunks than the CPU: {found}");
        outcome.tell(format!("{device} found nothing new in what the CPU stored"));
        Ok(())
    }
}

/// Runs `command`, and kills it if it has not ended at `end`.
fn run_until(command: &mut Command, end: Instant) -> Result<()> {
    let name = format!("{command:?}");
    run_while(command, Duration::from_millis(20), || {
        ensure!(Instant::now() < end, "{name} was cut off: its time was over");
        Ok(())
    })
}

/// Checks that `program` can use `device`.
///
/// # Errors
/// Why it cannot.
fn ensure_device(program: &Path, device: &str) -> Result<()> {
    let mut list = Command::new(program);
    let listed = list.args(["devices", "--quick", "--json"]).output();
    let listed = listed.with_context(|| program.display().to_string())?;
    ensure!(listed.status.success(), "{list:?} ended with {}", listed.status);
    let devices: Vec<Value> =
        serde_json::from_slice(&listed.stdout).with_context(|| format!("{list:?}"))?;
    let (api, number) = device.split_once(':').unwrap_or((device, "0"));
    let name = format!("{api}:{number}");
    if devices.iter().any(|one| one["name"] == *name) {
        return Ok(());
    }
    let reason = devices.iter().find(|one| one["name"] == *api);
    match reason.and_then(|one| one["reason"].as_str()) {
        Some(reason) => bail!("nothing was measured: {reason}"),
        None => bail!("nothing was measured: no device {device} here; `onefold devices` lists all"),
    }
}

/// The compute-sanitizer that was `given`, or the one of PATH, or that of NVIDIA's package.
fn sanitizer(cargo: Cargo, given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        ensure!(given.is_file(), "{}: no compute-sanitizer there", given.display());
        return Ok(std::path::absolute(given)?);
    }
    if on_path("compute-sanitizer") {
        return Ok("compute-sanitizer".into());
    }
    let folder = sanitizer_folder(cargo).with_context(|| {
        format!(
            "no compute-sanitizer on PATH; name one with --sanitizer, which {SANITIZER_WHEEL} has"
        )
    })?;
    Ok(folder.join("compute-sanitizer"))
}

/// Builds `program` for this kind of machine, with the machine code for GPUs that is in `cubins`.
fn build(cargo: Cargo, program: &str, cubins: Option<&Path>) -> Result<PathBuf> {
    let mut build = cargo.command();
    build.args(["build", "--release", "--package", program, "--bin", program]);
    build.envs(cubins.map(|cubins| ("ONEFOLD_CUBINS", cubins)));
    ensure!(build.status()?.success(), "{build:?} failed");
    Ok(workspace::target_dir().join("release").join(program))
}

fn write_random(path: &Path, bytes: u64) -> Result<()> {
    let random = fs::File::open("/dev/urandom").context("/dev/urandom")?;
    let mut file = fs::File::create(path).with_context(|| path.display().to_string())?;
    io::copy(&mut random.take(bytes), &mut file).with_context(|| path.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// A shell script in `folder`, which lists `cuda:0` as a device.
    fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        let devices = r#"test "$1" = devices && echo '[{"name": "cuda:0"}]' && exit"#;
        fs::write(&path, format!("#!/bin/sh\n{devices}\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Runs the campaign with `program` as `onefold` and `more` arguments; the records' folder.
    fn campaign(folder: &Path, program: &Path, more: &[&str]) -> (Result<()>, PathBuf) {
        let out = folder.join("out");
        let line = ["gpu", "--program", program.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let line = Line::parse_from(line.iter().chain(more));
        (run(Cargo { offline: true }, &line.options), out)
    }

    #[test]
    fn kernels_run_under_both_tools_of_the_sanitizer() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let program = script(at, "onefold", &format!("echo \"$@\" >> {}/ran", at.display()));
        let stand_in = script(
            at,
            "sanitizer",
            &format!("echo \"$2 $4\" >> {}/ran\nshift 4\nexec \"$@\"", at.display()),
        );
        let stand_in = stand_in.to_str().unwrap();
        let more = ["--parts", "sanitizer", "--sanitizer", stand_in, "--commit", "0123"];
        let (outcome, out) = campaign(at, &program, &more);
        outcome.unwrap();
        let ran = fs::read_to_string(at.join("ran")).unwrap();
        let lines: Vec<&str> = ran.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[2]), (4, "memcheck 9", "racecheck 9"), "{ran}");
        assert!(lines[1].starts_with("bench gpu --device cuda:0") && lines[1] == lines[3], "{ran}");
        let record = fs::read_to_string(out.join("sanitizer.json")).unwrap();
        assert!(record.contains("racecheck found nothing in any kernel"), "{record}");
        assert!(record.contains(r#""id": "0123""#), "{record}");
    }

    #[test]
    fn what_the_sanitizer_finds_is_a_failure_and_what_was_done_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "onefold", "");
        let stand_in = script(folder.path(), "sanitizer", "test $2 = memcheck || exit 9");
        let more = ["--parts", "sanitizer", "--sanitizer", stand_in.to_str().unwrap()];
        let (outcome, out) = campaign(folder.path(), &program, &more);
        assert!(outcome.unwrap_err().to_string().starts_with("not to the end: sanitizer"));
        let record = fs::read_to_string(out.join("sanitizer.json")).unwrap();
        assert!(record.contains("memcheck found nothing in any kernel"), "{record}");
        assert!(record.contains("not to the end: racecheck: "), "{record}");
    }

    #[test]
    fn a_sanitizer_that_is_missing_is_named_with_what_to_do() {
        let error = sanitizer(Cargo { offline: true }, Some(Path::new("/nowhere/it"))).unwrap_err();
        assert_eq!(error.to_string(), "/nowhere/it: no compute-sanitizer there");
    }

    #[test]
    fn why_a_device_cannot_be_used_is_said_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let listed = |text: &str| {
            let text = format!("test \"$1\" = devices || exit 9\necho '{text}'");
            let program = folder.path().join("onefold");
            fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let (outcome, out) = campaign(folder.path(), &program, &[]);
            assert!(!out.exists());
            outcome.unwrap_err().to_string()
        };
        let none = listed(r#"[{"name": "cpu"}, {"name": "cuda", "reason": "no driver"}]"#);
        assert_eq!(none, "nothing was measured: no driver");
        let other = listed(r#"[{"name": "cpu"}, {"name": "cuda:1"}]"#);
        assert_eq!(
            other,
            "nothing was measured: no device cuda:0 here; `onefold devices` lists all"
        );
    }

    #[test]
    fn a_part_that_fails_does_not_keep_the_next_from_running() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let text = "case \"$*\" in *'--parts equality'*) exit 130;; esac; echo \"$@\" >> ";
        let program = script(at, "onefold", &format!("{text}{}/ran", at.display()));
        let (outcome, _) =
            campaign(at, &program, &["--parts", "equality,shredder,rates", "--minutes", "1"]);
        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with("not to the end: equality; "), "{error}");
        let ran = fs::read_to_string(at.join("ran")).unwrap();
        let expected = ["copies,overlap,tiles,versions", "copies,algorithms,pages,energy"];
        for (line, parts) in ran.lines().zip(expected) {
            assert!(line.contains(&format!("--parts {parts} --limit ")), "{line}");
        }
        assert_eq!(ran.lines().count(), 2, "{ran}");
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let end = Instant::now() + Duration::from_millis(100);
        let error = run_until(Command::new("sleep").arg("60"), end).unwrap_err().to_string();
        assert!(error.contains("was cut off"), "{error}");
        assert!(end.elapsed() < Duration::from_secs(30));
    }
}
