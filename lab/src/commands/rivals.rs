//! `cargo lab rivals`

use anyhow::Result;
use clap::Args;

use crate::exit::Exit;
use crate::measuring::rivals;

const AFTER_HELP: &str = "\
Examples:
  cargo lab rivals --data DIR --out docs/records/NAME.json";

/// Cut the same data by Onefold and by the chunkers of other crates; --help for its options
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = AFTER_HELP)]
pub(crate) struct Rivals {
    /// Handed on to the package in bench/rivals
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Rivals {
    pub(crate) fn run(self) -> Result<Exit> {
        rivals::run(&self.arguments)?;
        Ok(Exit::Fine)
    }
}
