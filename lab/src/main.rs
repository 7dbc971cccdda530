//! `cargo lab`: the commands that measure Onefold and are no part of it.

#![allow(
    clippy::disallowed_methods,
    reason = "writes records, plots and scratch trees; no byte here belongs to a repository"
)]

mod args;
mod commands;
mod exit;
mod failure;
mod interrupt;
mod measuring;
mod pool;

use std::ffi::OsString;
use std::process::ExitCode;

use onefold_terminal::Console;

use crate::args::Arguments;
use crate::exit::Exit;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments = match Arguments::parse_words(&words) {
        Ok(arguments) => arguments,
        Err(answer) if answer.use_stderr() && args::ask_for_json(&words) => {
            failure::report_misuse(&answer);
            return Exit::Fatal.into();
        }
        Err(answer) => {
            // A terminal that went away is no reason to say more.
            let _ = answer.print();
            return if answer.use_stderr() { Exit::Fatal } else { Exit::Fine }.into();
        }
    };
    let common = &arguments.common;
    let console = Console::new(common.is_json(), common.quiet, common.verbose);
    let result = arguments.command.run(&console);
    let exit = result.unwrap_or_else(|error| {
        failure::report(&error, &console);
        Exit::of(&error)
    });
    exit.into()
}
