//! The `onefold` command: arguments, terminal and exit codes around the store.
//!
//! Each command has one file under `commands`, which reads the arguments, calls the library and prints
//! the result. Results go to standard output, as text or as JSON; progress, warnings and errors go to
//! standard error.

#![cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "what only clusters use stays beside what others use")
)]

mod args;
mod chunking;
#[cfg(feature = "cluster")]
mod cluster;
mod commands;
mod console;
#[cfg(feature = "gpu")]
mod device;
#[cfg(feature = "cluster")]
mod domain;
mod encryption;
mod exit;
mod failure;
mod files_from;
mod filter;
mod grouping;
mod host;
mod index_place;
mod interrupt;
mod memory;
mod memory_place;
#[cfg(target_os = "linux")]
mod mount;
mod output;
mod place;
mod pool;
mod progress;
mod repository;
mod requests;
mod secret_file;
mod service;
mod signer;
mod snapshot_path;
mod tags;
mod tar;
mod time;
#[cfg(not(feature = "cluster"))]
mod without_cluster;

use std::ffi::OsString;
use std::process::ExitCode;
#[cfg(feature = "cluster")]
use std::time::Duration;

#[cfg(feature = "cluster")]
use onefold_backend::rados::wait_for_connections;
use onefold_terminal::{count, name, ratio, size, table};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::Arguments;
use crate::console::Console;
use crate::exit::Exit;
#[cfg(not(feature = "cluster"))]
use crate::without_cluster::{self as cluster, domain};

#[cfg(feature = "cluster")]
/// How long the program waits at its end for connections to Ceph: some operation may be in flight.
const CONNECTIONS: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    memory::give_back_large_blocks();
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
    raise_descriptor_limit();
    let console = Console::new(&arguments.common);
    let result = arguments.command.run(&console);
    // if servers of Ceph are dead an operation takes longer, which is no reason to stay
    #[cfg(feature = "cluster")]
    wait_for_connections(CONNECTIONS);
    requests::tell(&console);
    let exit = result.unwrap_or_else(|error| {
        failure::report(&error, &console);
        Exit::of(&error)
    });
    match console.is_alarmed() {
        false => exit.into(),
        true => failure::both(exit, Exit::NotAsSeen, &console).into(),
    }
}

/// Raises the limit of open files to the maximum: restore keeps each directory on the path to the current
/// file open, and trees can be deeper than the default limit.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Where it cannot be raised, only trees that deep fail, and say so.
    let _ = setrlimit(Resource::Nofile, raised);
}
