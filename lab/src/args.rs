//! The command line as a whole.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use onefold_terminal::outputs::STANDARD_OUTPUT;
use onefold_terminal::{Console, with_joined_lines};

use crate::commands;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Times count on a machine that has nothing else to do. What users measure, chunkers on their own data, is
`onefold bench`.

Examples:
  cargo lab dataset build numpy --dir /data
  cargo lab paper vectorcdc --dir /data --quick
  cargo lab trace generate --like mail --operations 1000000 > mail";

/// Measure Onefold: papers, datasets, traces, backups, volumes.
#[derive(Debug, Parser)]
#[command(name = "cargo lab", bin_name = "cargo lab", after_help = AFTER_HELP)]
#[command(max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    fn described() -> clap::Command {
        with_joined_lines(Self::command())
    }

    /// The arguments in `words`, the first of which is the program's name.
    pub(crate) fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::described().try_get_matches_from(words)?)
    }
}

/// Whether `words`, which could not be parsed, ask for JSON on standard output.
pub(crate) fn ask_for_json(words: &[OsString]) -> bool {
    // `paper` takes a place for JSON
    onefold_terminal::ask_for_json(words, &["paper"])
}

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Common {
    /// Write JSON to standard output instead of text
    // A place, since `paper` takes one: there it is where the JSON goes.
    #[arg(long, global = true, num_args = 0, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
    /// Show no progress, notices and summaries; warnings and errors are still shown
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say on standard error what is being done
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Common {
    /// Whether standard output is for programs.
    pub(crate) fn is_json(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STANDARD_OUTPUT))
    }
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Dataset(commands::dataset::Dataset),
    Paper(commands::paper::Paper),
    Trace(commands::trace::Trace),
    Bench(Box<commands::bench::Bench>),
    Rivals(commands::rivals::Rivals),
    Campaign(Box<commands::campaign::Campaign>),
}

impl Command {
    /// Does what was asked.
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self {
            Self::Dataset(dataset) => dataset.run(console),
            Self::Paper(paper) => paper.run(console),
            Self::Trace(trace) => trace.run(console),
            Self::Bench(bench) => bench.run(),
            Self::Rivals(rivals) => rivals.run(),
            Self::Campaign(campaign) => campaign.run(),
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
        assert_eq!(unhelpful(&Arguments::described(), "cargo lab", true), [""; 0]);
    }

    #[test]
    fn json_goes_to_standard_output_unless_a_command_lets_it_be_placed() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' ')).unwrap().common;
        assert!(!parse("lab dataset list").is_json());
        assert!(parse("lab dataset list --json").is_json());
        assert!(parse("lab paper vectorcdc --dir d --json").is_json());
        assert!(!parse("lab paper vectorcdc --dir d --json out.json").is_json());
    }
}
