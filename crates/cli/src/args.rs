//! The command line as a whole: the commands and what they have in common.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use onefold_terminal::outputs::STANDARD_OUTPUT;
use onefold_terminal::with_joined_lines;

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
    0  success
    1  the command failed, or check found damage
    3  some files could not be read, and the snapshot or measurement lacks them;
       or the snapshot was made, but its receipt or log entry was not written
   10  there is no repository at the given location
   11  another process uses something that the command needs
   12  wrong password, or a revoked write-only key
   13  success, but the repository went back to an older state, or lacks
       snapshots that were never forgotten
  130  stopped by a signal
If two codes apply, 13 takes precedence over 3, and every other code over 13. With --json, a last line on
standard error has both.

Names are escaped in lines of text: control characters as \\n or \\u{1b}, bytes that are not UTF-8 as
\\xff. `ls -0` and `find -0` write names unchanged, each followed by a NUL.

With --json, standard output is for programs: one document per command, or one JSON object per line if
the command's help says so. Sizes are in bytes, times in RFC 3339 with nanoseconds. A name that is not
UTF-8 is shown approximately, and exactly in a second field that ends in _hex. A command that reached an
S3 service ends with one object of type \"requests\" on standard error: get, head, list, put, delete and
multipart count requests, sent_bytes and received_bytes the bytes transferred, retries the requests
repeated after an error, hedges the requests sent a second time because no answer began.";

/// Deduplicating backup: store each chunk once.
#[derive(Debug, Parser)]
#[command(name = "onefold", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// The command line, whose help wraps to the terminal.
    pub(crate) fn described() -> clap::Command {
        with_joined_lines(Self::command())
            .mut_subcommand("volume", commands::volume::showing_what_matters)
    }

    /// The arguments in `words`, the first of which is the program's name.
    pub(crate) fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::described().try_get_matches_from(words)?)
    }
}

/// Whether `words`, which could not be parsed, ask for JSON on standard output.
pub(crate) fn ask_for_json(words: &[OsString]) -> bool {
    // commands of `onefold bench`, and a simulation, take a place for JSON
    onefold_terminal::ask_for_json(words, &["bench", "simulate"])
}

/// The options of all commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Common {
    /// Write JSON to standard output instead of text
    // A place, since commands of `onefold bench` and a simulation take one: there it is where the JSON goes.
    #[arg(long, global = true, num_args = 0, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
    /// Show no progress, notices or summaries, only warnings and errors
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print details to standard error; given twice, or as --verbose=2, also name each file of a backup
    #[arg(long, short, global = true, value_name = "N", value_parser = clap::value_parser!(u8))]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    #[arg(action = clap::ArgAction::Append)]
    verbose: Vec<u8>,
}

impl Common {
    /// How many times --verbose is given.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbose.iter().fold(0, |sum, times| sum.saturating_add(*times))
    }

    /// Whether standard output is for programs.
    pub(crate) fn is_json(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STANDARD_OUTPUT))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(commands::init::Init),
    Backup(commands::backup::Backup),
    Snapshots(commands::snapshots::Snapshots),
    Ls(commands::ls::Ls),
    Find(commands::find::Find),
    Dump(commands::dump::Dump),
    Restore(commands::restore::Restore),
    #[cfg(target_os = "linux")]
    Mount(commands::mount::Mount),
    #[cfg(not(target_os = "linux"))]
    #[command(hide = true)]
    Mount(commands::absent::Absent),
    Copy(commands::copy::Copy),
    Import(Box<commands::import::Import>),
    Diff(commands::diff::Diff),
    Forget(Box<commands::forget::Forget>),
    Prune(commands::prune::Prune),
    Check(commands::check::Check),
    Stats(commands::stats::Stats),
    Chunk(commands::chunk::Chunk),
    Algorithms(commands::algorithms::Algorithms),
    #[cfg(feature = "gpu")]
    Devices(commands::devices::Devices),
    #[cfg(not(feature = "gpu"))]
    #[command(hide = true)]
    Devices(commands::absent::Absent),
    Bench(commands::bench::Bench),
    Key(commands::key::Key),
    Cache(commands::cache::Cache),
    Volume(commands::volume::Volume),
    Serve(commands::serve::Serve),
    #[cfg(feature = "cluster")]
    Cluster(commands::cluster::Cluster),
    #[cfg(not(feature = "cluster"))]
    #[command(hide = true)]
    Cluster(commands::absent::Absent),
    Incremental(commands::incremental::Incremental),
    #[command(hide = true)]
    Trace(commands::moved::Moved),
    Completion(commands::completion::Completion),
    Manual(commands::manual::Manual),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self {
            Self::Init(init) => init.run(console),
            Self::Backup(backup) => backup.run(console),
            Self::Snapshots(snapshots) => snapshots.run(console),
            Self::Ls(ls) => ls.run(console),
            Self::Find(find) => find.run(console),
            Self::Dump(dump) => dump.run(console),
            Self::Restore(restore) => restore.run(console),
            #[cfg(target_os = "linux")]
            Self::Mount(mount) => mount.run(console),
            #[cfg(not(target_os = "linux"))]
            Self::Mount(absent) => absent.refuse(commands::absent::Lack::Mounts),
            Self::Copy(copy) => copy.run(console),
            Self::Import(import) => import.run(console),
            Self::Diff(diff) => diff.run(console),
            Self::Forget(forget) => forget.run(console),
            Self::Prune(prune) => prune.run(console),
            Self::Check(check) => check.run(console),
            Self::Stats(stats) => stats.run(console),
            Self::Chunk(chunk) => chunk.run(console),
            Self::Algorithms(algorithms) => algorithms.run(console),
            #[cfg(feature = "gpu")]
            Self::Devices(devices) => devices.run(console),
            #[cfg(not(feature = "gpu"))]
            Self::Devices(absent) => absent.refuse(commands::absent::Lack::Gpus),
            Self::Bench(bench) => bench.run(console),
            Self::Key(key) => key.run(console),
            Self::Cache(cache) => cache.run(console),
            Self::Volume(volume) => volume.run(console),
            Self::Serve(serve) => serve.run(console),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.run(console),
            #[cfg(not(feature = "cluster"))]
            Self::Cluster(absent) => absent.refuse(crate::cluster::Unavailable),
            Self::Incremental(incremental) => incremental.run(),
            Self::Trace(moved) => moved.refuse("trace", "trace"),
            Self::Completion(completion) => completion.run(),
            Self::Manual(manual) => manual.run(console),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_terminal::unhelpful;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Arguments::described().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_gives_an_example() {
        assert_eq!(unhelpful(&Arguments::described(), "onefold", false), [""; 0]);
    }

    /// The help of `command` and those below it as a terminal of 80 columns shows it.
    fn helps(command: &clap::Command, path: &str) -> Vec<(String, String)> {
        let help = command.clone().term_width(80).render_long_help().to_string();
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in examples.lines().filter(|line| line.starts_with(' ')) {
            assert!(help.lines().any(|shown| shown == line), "{path} breaks '{line}'");
        }
        let mut all = vec![(path.to_owned(), help)];
        let is_shown = |below: &&clap::Command| below.get_name() != "help" && !below.is_hide_set();
        for below in command.get_subcommands().filter(is_shown) {
            all.extend(helps(below, &format!("{path} {}", below.get_name())));
        }
        all
    }

    fn built() -> clap::Command {
        let mut command = Arguments::described();
        command.build();
        command
    }

    #[test]
    fn help_fills_80_columns_and_breaks_no_example() {
        for (path, help) in helps(&built(), "onefold") {
            let lines: Vec<&str> = help.lines().collect();
            for line in &lines {
                assert!(line.chars().count() <= 80, "{path}: {line}");
            }
            let prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let paragraphs = lines.windows(2).filter(|pair| prose(pair[0]) && prose(pair[1]));
            for pair in paragraphs.filter(|pair| !pair[0].ends_with(':')) {
                let word = pair[1].split(' ').next().unwrap();
                let fits = pair[0].chars().count() + 1 + word.chars().count() <= 80;
                assert!(!fits, "{path}: '{word}' fits behind '{}'", pair[0]);
            }
        }
    }

    #[test]
    fn global_options_come_last() {
        for (path, help) in helps(&built(), "onefold") {
            let heading = |name: &str| help.find(&format!("\n{name}:\n"));
            let global = heading("Global options").unwrap_or_else(|| panic!("{path}: {help}"));
            let own = heading("Options").unwrap_or_else(|| panic!("{path}: {help}"));
            assert!(own < global, "{path}: {help}");
            let options = &help[own..global];
            assert!(
                !options.contains("-q, --quiet") && !options.contains("-v, --verbose"),
                "{path}"
            );
            assert!(help[global..].contains("-q, --quiet"), "{path}");
        }
    }

    #[test]
    fn wrong_arguments_ask_for_json_unless_it_is_to_be_placed() {
        let asks =
            |line: &str| ask_for_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("onefold ls --nonsense --json") && asks("onefold --json nosuch"));
        assert!(asks("onefold bench run --json --nonsense") && asks("onefold bench --json"));
        assert!(asks("onefold --json bench") && asks("onefold --json bench run --nonsense"));
        assert!(!asks("onefold bench run --json out.json --nonsense"));
        assert!(!asks("onefold ls --nonsense") && !asks("onefold ls --nonsense -- --json"));
    }

    #[test]
    fn verbosity_is_counted_or_given() {
        let of =
            |line: &str| Arguments::try_parse_from(line.split(' ')).unwrap().common.verbosity();
        assert_eq!(of("onefold algorithms"), 0);
        assert_eq!([of("onefold algorithms -v"), of("onefold -v algorithms")], [1, 1]);
        assert_eq!([of("onefold algorithms -v -v"), of("onefold algorithms -vv")], [2, 2]);
        assert_eq!(of("onefold algorithms --verbose=2"), 2);
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
