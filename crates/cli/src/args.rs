//! The command line as a whole: the commands and what they have in common.

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
  onefold check --repo /mnt/backup --read-data

Exit codes:
    0  all went well
    1  the command failed, or check found damage
    3  some files could not be read; the snapshot was made without them
   10  there is no repository at the given place
   11  something the command needs is in use by another process
   12  wrong password (reserved: nothing is encrypted yet)
  130  stopped by a signal

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
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show no progress, notices and summaries; warnings and errors are still shown
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say on standard error what is being done
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(commands::init::Init),
    Backup(commands::backup::Backup),
    Snapshots(commands::snapshots::Snapshots),
    Ls(commands::ls::Ls),
    Restore(commands::restore::Restore),
    Diff(commands::diff::Diff),
    Check(commands::check::Check),
    Stats(commands::stats::Stats),
    Chunk(commands::chunk::Chunk),
    Algorithms(commands::algorithms::Algorithms),
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
            Self::Diff(diff) => diff.run(console),
            Self::Check(check) => check.run(console),
            Self::Stats(stats) => stats.run(console),
            Self::Chunk(chunk) => chunk.run(console),
            Self::Algorithms(algorithms) => algorithms.run(console),
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
    fn only_passwords_are_reserved() {
        for command in Arguments::command().get_subcommands() {
            for argument in command.get_arguments().filter(|one| one.get_help_heading().is_some()) {
                let name = argument.get_id();
                assert!(name.as_str().starts_with("password_"), "{name} of {command}");
            }
        }
    }

    #[test]
    fn every_command_says_what_it_does_and_gives_an_example() {
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} says nothing of itself");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("onefold {name}")), "{name} gives no example");
        }
    }
}
