//! Passwords, of which no use can be made yet: nobody may believe otherwise.

use std::env;
use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::console::Console;

const PASSWORD_VARIABLE: &str = "ONEFOLD_PASSWORD";
/// Set on each argument: a heading set on all would take in whatever the command adds.
const HEADING: &str = "Reserved for encryption, which this version does not have";

/// How a password is given.
#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// Read the password from the first line of FILE; ONEFOLD_PASSWORD may hold it as well
    #[arg(long, value_name = "FILE", help_heading = HEADING, conflicts_with = "password_command")]
    password_file: Option<PathBuf>,
    /// Take what COMMAND prints for the password
    #[arg(long, value_name = "COMMAND", help_heading = HEADING)]
    password_command: Option<String>,
}

/// A password was given for a new repository, which would not be encrypted.
#[derive(Debug)]
pub(crate) struct CannotEncrypt {
    given_by: &'static str,
}

impl fmt::Display for CannotEncrypt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given_by = self.given_by;
        write!(f, "a password was given by {given_by}, but this version cannot encrypt anything")
    }
}

impl std::error::Error for CannotEncrypt {}

impl PasswordArgs {
    /// Refuses to make a repository for a user who may expect it to be encrypted.
    pub(crate) fn refuse_new(&self, no_encryption: bool) -> Result<()> {
        match self.given_by() {
            Some(given_by) if !no_encryption => Err(CannotEncrypt { given_by }.into()),
            _ => Ok(()),
        }
    }

    /// Tells a user for whom a repository was made, and who has not said that it need not be
    /// encrypted, that it is not.
    pub(crate) fn warn_new(&self, no_encryption: bool, console: &Console) {
        self.check_existing(console);
        if !no_encryption {
            console.warn(
                "nothing in this repository is encrypted, because this version cannot encrypt; \
                 --no-encryption says that you know",
            );
        }
    }

    /// Tells a user who gives a password for a repository without one.
    pub(crate) fn check_existing(&self, console: &Console) {
        if let Some(given_by) = self.given_by() {
            console.warn(unused(given_by));
        }
    }

    fn given_by(&self) -> Option<&'static str> {
        if self.password_file.is_some() {
            return Some("--password-file");
        }
        if self.password_command.is_some() {
            return Some("--password-command");
        }
        let in_environment = env::var_os(PASSWORD_VARIABLE).is_some_and(|value| !value.is_empty());
        in_environment.then_some(PASSWORD_VARIABLE)
    }
}

fn unused(given_by: &str) -> String {
    format!("the repository is not encrypted; the password given by {given_by} is not used")
}
