//! The command line as a whole: the commands and what they have in common.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::console::Console;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  onefold init /mnt/backup
  onefold backup --repo /mnt/backup ~/Documents ~/Pictures
  onefold snapshots --repo /mnt/backup
  onefold restore --repo /mnt/backup latest --target /tmp/restored
  onefold forget --repo /mnt/backup --keep-daily 7 --keep-weekly 5 --prune
  onefold check --repo /mnt/backup --read-data

Exit codes:
    0  all went well
    1  the command failed, or check found damage
    3  some files could not be read; the snapshot or measurement was made without them;
       or the snapshot was made, and its receipt or log entry could not be put
   10  there is no repository at the given place
   11  something the command needs is in use by another process
   12  wrong password, or a write-only key that was taken back
   13  all went well, but the repository went back, or snapshots are missing that nobody forgot
  130  stopped by a signal
Where two apply, 13 goes before 3 and all others before 13. With --json a last line on standard error
has both.

With --json, standard output is for programs: one document a command, or one JSON object a line
where the command's help says so. Sizes are in bytes, times in RFC 3339 with nanoseconds. A name
that is not UTF-8 is shown as near as may be, and exactly in a second field that ends in _hex.";

/// Deduplicating backup: keep each chunk once.
#[derive(Debug, Parser)]
#[command(name = "onefold", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Write JSON to standard output instead of text
    // A place, since commands of `onefold bench` take one: there it is where the JSON goes.
    #[arg(long, global = true, num_args = 0, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
    /// Show no progress, notices and summaries; warnings and errors are still shown
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say on standard error what is being done
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

/// The place of JSON for which none was named.
pub(crate) const STANDARD_OUTPUT: &str = "-";

impl Common {
    /// Whether standard output is for programs.
    pub(crate) fn is_json(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STANDARD_OUTPUT))
    }
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(commands::init::Init),
    Backup(commands::backup::Backup),
    Snapshots(commands::snapshots::Snapshots),
    Ls(commands::ls::Ls),
    Restore(commands::restore::Restore),
    Mount(commands::mount::Mount),
    Copy(commands::copy::Copy),
    Diff(commands::diff::Diff),
    Forget(Box<commands::forget::Forget>),
    Prune(commands::prune::Prune),
    Check(commands::check::Check),
    Stats(commands::stats::Stats),
    Chunk(commands::chunk::Chunk),
    Algorithms(commands::algorithms::Algorithms),
    Bench(commands::bench::Bench),
    Key(commands::key::Key),
    Cache(commands::cache::Cache),
    Volume(commands::volume::Volume),
    Serve(commands::serve::Serve),
    Trace(commands::trace::Trace),
    Completion(commands::completion::Completion),
}

impl Command {
    /// Does what was asked.
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self {
            Self::Init(init) => init.run(console),
            Self::Backup(backup) => backup.run(console),
            Self::Snapshots(snapshots) => snapshots.run(console),
            Self::Ls(ls) => ls.run(console),
            Self::Restore(restore) => restore.run(console),
            Self::Mount(mount) => mount.run(console),
            Self::Copy(copy) => copy.run(console),
            Self::Diff(diff) => diff.run(console),
            Self::Forget(forget) => forget.run(console),
            Self::Prune(prune) => prune.run(console),
            Self::Check(check) => check.run(console),
            Self::Stats(stats) => stats.run(console),
            Self::Chunk(chunk) => chunk.run(console),
            Self::Algorithms(algorithms) => algorithms.run(console),
            Self::Bench(bench) => bench.run(console),
            Self::Key(key) => key.run(console),
            Self::Cache(cache) => cache.run(console),
            Self::Volume(volume) => volume.run(console),
            Self::Serve(serve) => serve.run(console),
            Self::Trace(trace) => trace.run(console),
            Self::Completion(completion) => completion.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_gives_an_example() {
        assert_helpful(&Arguments::command(), "onefold");
    }

    fn assert_helpful(above: &clap::Command, path: &str) {
        for command in above.get_subcommands() {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} says nothing of itself");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&path), "{path} gives no example");
            assert_helpful(command, &path);
        }
    }

    #[test]
    fn json_goes_to_standard_output_unless_a_command_lets_it_be_placed() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' ')).unwrap().common;
        assert!(!parse("onefold algorithms").is_json());
        assert!(parse("onefold algorithms --json").is_json());
        assert!(parse("onefold --json bench run --data x").is_json());
        assert!(parse("onefold bench run --data x --json").is_json());
        assert!(!parse("onefold bench run --data x --json out.json").is_json());
    }
}
