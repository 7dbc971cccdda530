//! Loops over the real program: backups, prunes and restores that are killed at any moment, and
//! several at once. Whatever was acknowledged is restored and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::digest;
use crate::outcome::Outcome;
use crate::sample_tree::{self, SplitMix64};
use crate::workspace;

/// Snapshots that are kept at most, so that prunes always have something to delete.
const MAX_KEPT: usize = 6;
/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs each loop `rounds` times with what `seed` draws, and writes what they did to `out`.
pub(crate) fn run(rounds: u32, seed: u64, out: Option<&Path>) -> Result<()> {
    let mut outcome = Outcome::begin("cargo xtask")?;
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--release", "--locked", "-p", "onefold"]);
    ensure!(build.current_dir(workspace::root()).status()?.success(), "the program does not build");
    outcome.note("a kill counts that came before the command had ended; every restore is compared");
    outcome.tell(killed_backups_and_prunes(rounds, &mut Lab::new("kills", seed)?)?);
    outcome.tell(several_at_once(rounds, &mut Lab::new("several", seed)?)?);
    outcome.tell(killed_restores(rounds, &mut Lab::new("restores", seed)?)?);
    println!("campaign: nothing that was acknowledged was lost");
    outcome.write(out)
}

/// Backups and prunes take turns and are killed; after each round one snapshot is restored.
fn killed_backups_and_prunes(rounds: u32, lab: &mut Lab) -> Result<String> {
    let source = lab.source("source")?;
    let (mut backups, mut prunes, mut restores) = (Kills::default(), Kills::default(), 0);
    for _ in 0..rounds {
        lab.change(&source)?;
        let mut backup = lab.onefold(&["backup", "--json", "--host", "a"]);
        let ended = backups.kill(backup.arg(&source), &mut lab.random)?;
        lab.acknowledge(&ended, &source)?;
        lab.forget_some()?;
        prunes.kill(&mut lab.onefold(&["prune", "--max-unused", "0"]), &mut lab.random)?;
        restores += lab.compare_one()?;
    }
    restores += lab.compare_all_after_prune()?;
    Ok(format!(
        "of {rounds} backups {} were killed, of as many prunes {}; {restores} restores compared",
        backups.killed, prunes.killed
    ))
}

/// Three writers and two prunes at once, none of them killed.
fn several_at_once(rounds: u32, lab: &mut Lab) -> Result<String> {
    let sources = ["one", "two", "three"].map(|name| lab.source(name));
    let sources = sources.into_iter().collect::<Result<Vec<_>>>()?;
    let (mut restores, mut refused) = (0, 0);
    for _ in 0..rounds {
        for source in &sources {
            lab.change(source)?;
        }
        let writers = sources.iter().map(|source| {
            let host = source.file_name().expect("it has a name").to_owned();
            let mut backup = lab.onefold(&["backup", "--json", "--host"]);
            start(backup.arg(host).arg(source))
        });
        let writers = writers.collect::<Result<Vec<_>>>()?;
        lab.forget_some()?;
        let prune = || start(&mut lab.onefold(&["prune", "--max-unused", "0"]));
        for prune in [prune()?, prune()?] {
            // Two prunes may meet: one of them then says that the other is at work.
            refused += u32::from(!ended(prune)?.status.success());
        }
        for (writer, source) in writers.into_iter().zip(&sources) {
            let output = ended(writer)?;
            ensure!(output.status.success(), "a backup failed: {}", text(&output.stderr));
            lab.acknowledge(&output, source)?;
        }
        restores += lab.compare_one()?;
    }
    restores += lab.compare_all_after_prune()?;
    Ok(format!(
        "{rounds} rounds of three writers and two prunes at once, of which {refused} gave way; \
         {restores} restores compared"
    ))
}

/// Restores are killed until one gets through.
fn killed_restores(rounds: u32, lab: &mut Lab) -> Result<String> {
    let source = lab.source("source")?;
    lab.change(&source)?;
    let output = succeeding(lab.onefold(&["backup", "--json"]).arg(&source))?;
    lab.acknowledge(&output, &source)?;
    let (mut kills, mut restores) = (Kills::default(), 0);
    for _ in 0..rounds {
        let target = lab.folder.join("target");
        let arguments = ["restore", "latest", "--overwrite", "if-changed", "--target"];
        for _ in 0..3 {
            kills.kill(lab.onefold(&arguments).arg(&target), &mut lab.random)?;
        }
        succeeding(lab.onefold(&arguments).arg(&target))?;
        restores += 1;
        let (expected, found) = (&lab.kept[0].digest, digest::of_tree(&target)?.digest);
        ensure!(*expected == found, "a continued restore differs in {}", target.display());
        fs::remove_dir_all(&target)?;
    }
    Ok(format!("{} restores killed, {restores} continued and compared", kills.killed))
}

/// Kills commands, and learns how long they take so that most kills come while they run.
#[derive(Default)]
struct Kills {
    longest: Duration,
    killed: u32,
}

impl Kills {
    /// Starts `command` and kills it after a while, unless it ends before.
    fn kill(&mut self, command: &mut Command, random: &mut SplitMix64) -> Result<Output> {
        let begun = Instant::now();
        let mut child = start(command)?;
        let longest = self.longest.max(Duration::from_millis(50)).as_micros() as u64;
        let after = Duration::from_micros(random.draw() % (longest * 5 / 4));
        while begun.elapsed() < after && child.try_wait()?.is_none() {
            thread::sleep(Duration::from_micros(500));
        }
        if child.try_wait()?.is_none() {
            child.kill()?;
            self.killed += 1;
        } else {
            self.longest = self.longest.max(begun.elapsed());
        }
        let output = child.wait_with_output()?;
        let was_killed = output.status.code().is_none();
        let failed = !was_killed && !output.status.success();
        ensure!(!failed, "{command:?} failed: {}", text(&output.stderr));
        Ok(output)
    }
}

/// A snapshot that was acknowledged.
struct Kept {
    id: String,
    /// Of the tree that it is of.
    digest: String,
}

/// A repository, sources, and what was acknowledged.
struct Lab {
    folder: PathBuf,
    random: SplitMix64,
    kept: Vec<Kept>,
}

impl Lab {
    fn new(name: &str, seed: u64) -> Result<Self> {
        let folder = workspace::target_dir().join("loops").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let lab = Self { folder, random: SplitMix64(seed), kept: Vec::new() };
        succeeding(lab.onefold(&["init", "--no-encryption"]).arg(lab.folder.join("repository")))?;
        Ok(lab)
    }

    fn onefold(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(workspace::target_dir().join("release/onefold"));
        if arguments[0] != "init" {
            command.env("ONEFOLD_REPOSITORY", self.folder.join("repository"));
        }
        command
            .args(arguments)
            .env("HOME", &self.folder)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("ONEFOLD_PASSWORD");
        command
    }

    /// A tree to back up.
    fn source(&self, name: &str) -> Result<PathBuf> {
        let source = self.folder.join(name);
        sample_tree::create(&source)?;
        Ok(source)
    }

    /// Changes a few files, adds one and removes one.
    fn change(&mut self, source: &Path) -> Result<()> {
        for _ in 0..3 {
            let path = source.join(format!("distinct/{:03}.bin", self.random.draw() % 40));
            let mut bytes = fs::read(&path).unwrap_or_default();
            let at = self.random.draw() as usize % (bytes.len() + 1);
            bytes.splice(at..at, self.random.draw().to_le_bytes().repeat(500));
            fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        }
        let path = source.join(format!("copies/{:03}.bin", self.random.draw() % 40));
        match path.exists() {
            true => fs::remove_file(&path),
            false => fs::write(&path, self.random.draw().to_le_bytes().repeat(4000)),
        }
        .with_context(|| path.display().to_string())
    }

    /// Takes up what a backup acknowledged, if it came so far.
    fn acknowledge(&mut self, output: &Output, source: &Path) -> Result<()> {
        for line in text(&output.stdout).lines() {
            // The last line may be cut off by a kill.
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            if let (Some("summary"), Some(id)) = (line["type"].as_str(), line["snapshot"].as_str())
            {
                let digest = digest::of_tree(source)?.digest;
                self.kept.push(Kept { id: id.to_owned(), digest });
            }
        }
        Ok(())
    }

    /// Forgets snapshots beyond those that are kept at most.
    fn forget_some(&mut self) -> Result<()> {
        while self.kept.len() > MAX_KEPT {
            let chosen = self.random.draw() as usize % self.kept.len();
            let Kept { id, .. } = self.kept.remove(chosen);
            succeeding(self.onefold(&["forget"]).arg(id))?;
        }
        Ok(())
    }

    /// Restores one of the kept snapshots, if there is any; how many were.
    fn compare_one(&mut self) -> Result<u32> {
        if self.kept.is_empty() {
            return Ok(0);
        }
        let chosen = self.random.draw() as usize % self.kept.len();
        self.compare(&self.kept[chosen])?;
        Ok(1)
    }

    /// Prunes and checks, reading everything, and restores all; how many were.
    fn compare_all_after_prune(&self) -> Result<u32> {
        succeeding(&mut self.onefold(&["prune", "--max-unused", "0"]))?;
        succeeding(&mut self.onefold(&["check", "--read-data"]))?;
        for kept in &self.kept {
            self.compare(kept)?;
        }
        Ok(self.kept.len() as u32)
    }

    fn compare(&self, Kept { id, digest }: &Kept) -> Result<()> {
        let target = self.folder.join("compared");
        succeeding(self.onefold(&["restore", id, "--target"]).arg(&target))?;
        let found = digest::of_tree(&target)?.digest;
        ensure!(found == *digest, "snapshot {id} restores to {found}, expected {digest}");
        fs::remove_dir_all(&target).with_context(|| target.display().to_string())
    }
}

fn start(command: &mut Command) -> Result<Child> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().with_context(|| format!("{piped:?}"))
}

/// Waits for a command that nobody kills.
fn ended(mut child: Child) -> Result<Output> {
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            bail!("a command did not end within {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(child.wait_with_output()?)
}

fn succeeding(command: &mut Command) -> Result<Output> {
    let output = ended(start(command)?)?;
    ensure!(output.status.success(), "{command:?} failed: {}", text(&output.stderr));
    Ok(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
