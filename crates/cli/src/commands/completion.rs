//! `onefold completion`

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::exit::Exit;
use crate::output::Output;

const AFTER_HELP: &str = "\
Examples:
  onefold completion bash > ~/.local/share/bash-completion/completions/onefold
  onefold completion zsh > \"${fpath[1]}/_onefold\"
  onefold completion fish > ~/.config/fish/completions/onefold.fish";

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::described(), "onefold", &mut script);
        let mut output = Output::new();
        output.line(script.trim_ascii_end())?;
        output.finish()?;
        Ok(Exit::Fine)
    }
}
