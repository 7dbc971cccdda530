//! Passwords of existing and new repositories: from options, the environment, or a prompt.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use onefold_backend::Objects;
use onefold_seal::{Cost, Password, PublicKey};
use onefold_store::tree::Time;
use onefold_store::{
    Config, KeyPair, KeyRemark, Locked, Repository, StoreError, WriteOnlyKey, parse_public_key,
};
use zeroize::Zeroizing;

/// No password is longer than this, in bytes.
const LIMIT: u64 = 64 << 10;

/// Options for the password of the repository.
#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// Read the password from the first line of FILE; ONEFOLD_PASSWORD can hold it instead
    #[arg(long, value_name = "FILE", conflicts_with = "password_command")]
    password_file: Option<PathBuf>,
    /// Read the password from the first line that COMMAND prints; a shell runs it
    #[arg(long, value_name = "COMMAND")]
    password_command: Option<String>,
    /// Open the repository with the key in FILE: a private key, or a write-only key, which allows only
    /// backups
    #[arg(
        long,
        value_name = "FILE",
        env = "ONEFOLD_KEY_FILE",
        conflicts_with_all = ["password_file", "password_command"]
    )]
    key_file: Option<PathBuf>,
    /// Try only the key whose id begins with these digits; `onefold key list` lists the ids
    #[arg(long, value_name = "ID", env = "ONEFOLD_KEY")]
    key: Option<String>,
    #[arg(skip = &Source::OWN)]
    source: &'static Source,
}

/// The names of a password's sources.
#[derive(Debug)]
struct Source {
    file: &'static str,
    command: &'static str,
    variable: &'static str,
    prompt: &'static str,
}

impl Source {
    /// Of the repository that a command works on.
    const OWN: Self = Self {
        file: "--password-file",
        command: "--password-command",
        variable: "ONEFOLD_PASSWORD",
        prompt: "password of the repository: ",
    };

    /// Of the one that it copies from.
    const OTHER: Self = Self {
        file: "--from-password-file",
        command: "--from-password-command",
        variable: "ONEFOLD_FROM_PASSWORD",
        prompt: "password of the repository to copy from: ",
    };
}

/// Options for the password of the repository to copy from.
#[derive(Debug, Args)]
pub(crate) struct FromPasswordArgs {
    /// Read the other repository's password from the first line of FILE; ONEFOLD_FROM_PASSWORD can
    /// hold it instead
    #[arg(long, value_name = "FILE", conflicts_with = "from_password_command")]
    from_password_file: Option<PathBuf>,
    /// Read the other repository's password from the first line that COMMAND prints
    #[arg(long, value_name = "COMMAND")]
    from_password_command: Option<String>,
}

/// Options for a new password that is to be added.
#[derive(Debug, Args)]
pub(crate) struct NewPasswordArgs {
    /// Read the new password from the first line of FILE
    #[arg(long, value_name = "FILE", conflicts_with = "new_password_command")]
    new_password_file: Option<PathBuf>,
    /// Read the new password from the first line that COMMAND prints; a shell runs it
    #[arg(long, value_name = "COMMAND")]
    new_password_command: Option<String>,
}

/// No password was given, and there is no terminal for a prompt.
#[derive(Debug)]
pub(crate) struct NoPassword;

impl fmt::Display for NoPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a password is needed: none was given, and there is no terminal to ask for it")
    }
}

impl std::error::Error for NoPassword {}

/// A password was given for a repository without encryption. An existing repository may not be the one
/// that the user expects; a new one would be refused by every later command.
#[derive(Debug)]
pub(crate) struct NotEncrypted {
    given_by: &'static str,
    /// Whether the repository does not exist yet.
    is_new: bool,
}

impl NotEncrypted {
    /// Advice for the user.
    pub(crate) fn hint(&self) -> String {
        let without = format!("run it without {}", self.given_by);
        match self.is_new {
            true => format!("{without}, or without --no-encryption"),
            false => format!(
                "{without} if you know that it is not; if it was encrypted, it has been replaced"
            ),
        }
    }
}

impl fmt::Display for NotEncrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given_by = self.given_by;
        match self.is_new {
            true => write!(
                f,
                "a password was given by {given_by}, but --no-encryption creates a repository \
                 without encryption"
            ),
            false => {
                write!(f, "a password was given by {given_by}, but the repository is not encrypted")
            }
        }
    }
}

impl std::error::Error for NotEncrypted {}

impl FromPasswordArgs {
    /// The same as for the repository of a command.
    pub(crate) fn to_args(&self) -> PasswordArgs {
        PasswordArgs {
            password_file: self.from_password_file.clone(),
            password_command: self.from_password_command.clone(),
            key_file: None,
            key: None,
            source: &Source::OTHER,
        }
    }
}

impl PasswordArgs {
    /// The password of an existing repository.
    fn ask(&self) -> Result<Password> {
        match self.given()? {
            Some(password) => Ok(password),
            None => prompt(self.source.prompt),
        }
    }

    /// Fails if a write-only key is given, which can open an existing repository but cannot create one.
    pub(crate) fn expect_no_key_file(&self) -> Result<()> {
        match &self.key_file {
            Some(file) => bail!(
                "there is no repository yet; the key in '{}' can open one, but cannot create one",
                file.display()
            ),
            None => Ok(()),
        }
    }

    /// The password of a new repository; one that is typed must be typed twice.
    pub(crate) fn choose(&self) -> Result<Password> {
        match self.given()? {
            Some(password) => Ok(password),
            None => prompt_twice(),
        }
    }

    /// Fails if a password is given, in the environment or otherwise, for a repository without
    /// encryption. `is_new` says whether the repository is to be created.
    pub(crate) fn ensure_none(&self, is_new: bool) -> Result<()> {
        match self.given_by() {
            Some(given_by) => Err(NotEncrypted { given_by, is_new }.into()),
            None => Ok(()),
        }
    }

    /// Opens an encrypted repository, by a password or a write-only key.
    pub(crate) fn unlock(&self, locked: Locked) -> Result<Repository> {
        let locked = match &self.key {
            Some(digits) => locked.only_key(digits),
            None => locked,
        };
        match &self.key_file {
            Some(path) => open_with_file(locked, path),
            None => Ok(locked.unlock(&self.ask()?)?),
        }
    }

    fn given(&self) -> Result<Option<Password>> {
        if let Some(given) = of_file_or_command(&self.password_file, &self.password_command)? {
            return Ok(Some(given));
        }
        match env::var_os(self.source.variable).filter(|value| !value.is_empty()) {
            Some(value) => Ok(Some(Password::new(value.into_vec()))),
            None => Ok(None),
        }
    }

    fn given_by(&self) -> Option<&'static str> {
        if self.key_file.is_some() {
            return Some("--key-file or ONEFOLD_KEY_FILE");
        }
        if self.password_file.is_some() {
            return Some(self.source.file);
        }
        if self.password_command.is_some() {
            return Some(self.source.command);
        }
        let variable = self.source.variable;
        let in_environment = env::var_os(variable).is_some_and(|value| !value.is_empty());
        in_environment.then_some(variable)
    }
}

impl NewPasswordArgs {
    /// The password to be added; one that is typed must be typed twice.
    pub(crate) fn choose(&self) -> Result<Password> {
        match of_file_or_command(&self.new_password_file, &self.new_password_command)? {
            Some(password) => Ok(password),
            None => prompt_twice(),
        }
    }
}

/// How a new repository is protected.
pub(crate) enum Protection {
    Plain,
    Encrypted(Password),
}

impl Protection {
    /// Encryption, unless the user wants none.
    pub(crate) fn choose(no_encryption: bool, password: &PasswordArgs) -> Result<Self> {
        password.expect_no_key_file()?;
        match no_encryption {
            true => password.ensure_none(true).map(|()| Self::Plain),
            false => password.choose().map(Self::Encrypted),
        }
    }

    /// Makes a repository in `objects`.
    pub(crate) fn init(
        &self,
        objects: Arc<dyn Objects>,
        config: Config,
    ) -> Result<Repository, StoreError> {
        match self {
            Self::Plain => Repository::init(objects, config),
            Self::Encrypted(password) => {
                let remark = remark(String::new());
                Repository::init_encrypted(objects, config, password, Cost::STANDARD, &remark)
            }
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "not encrypted",
            Self::Encrypted(_) => {
                "encrypted; without a password it cannot be read, not even by you"
            }
        })
    }
}

/// The remark for a key that is created here and now.
pub(crate) fn remark(label: String) -> KeyRemark {
    KeyRemark { created: Time::now(), host: crate::host::name(), user: crate::host::user(), label }
}

/// Opens a repository with the private key or the write-only key in a file.
fn open_with_file(locked: Locked, path: &Path) -> Result<Repository> {
    let text = key_in(path)?;
    let cannot = || format!("cannot use '{}'", path.display());
    match KeyPair::is_meant_by(&text) {
        true => Ok(locked.unlock_by(&KeyPair::parse(&text).with_context(cannot)?)?),
        false => Ok(locked.open_write_only(&WriteOnlyKey::parse(&text).with_context(cannot)?)?),
    }
}

/// The public key in a file.
pub(crate) fn public_key(path: &Path) -> Result<PublicKey> {
    let text = key_in(path)?;
    parse_public_key(&text).with_context(|| format!("cannot use '{}'", path.display()))
}

fn key_in(path: &Path) -> Result<Zeroizing<String>> {
    // Allocate the full size: a reallocation would leave a copy that is not wiped.
    let mut content = Zeroizing::new(String::with_capacity(LIMIT as usize));
    File::open(path)
        .and_then(|file| file.take(LIMIT).read_to_string(&mut content))
        .with_context(|| format!("cannot read the key in '{}'", path.display()))?;
    Ok(content)
}

fn of_file_or_command(
    file: &Option<PathBuf>,
    command: &Option<String>,
) -> Result<Option<Password>> {
    if let Some(path) = file {
        return of_file(path).map(Some);
    }
    command.as_ref().map(|command| of_command(command)).transpose()
}

fn of_file(path: &Path) -> Result<Password> {
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT).read_to_end(&mut content))
        .with_context(|| format!("cannot read the password in '{}'", path.display()))?;
    match first_line(content) {
        Some(password) => Ok(password),
        None => bail!("no password in '{}': its first line is empty", path.display()),
    }
}

fn of_command(command: &str) -> Result<Password> {
    let output = Command::new("sh")
        .args(["-c", command])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run '{command}' for the password"))?;
    if !output.status.success() {
        bail!("'{command}', the password command, failed: {}", output.status);
    }
    match first_line(output.stdout) {
        Some(password) => Ok(password),
        None => bail!("no password from '{command}': the first line it prints is empty"),
    }
}

/// The first line without its end, unless it is empty.
fn first_line(mut content: Vec<u8>) -> Option<Password> {
    let end = content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len());
    content.truncate(end);
    if content.last() == Some(&b'\r') {
        content.pop();
    }
    (!content.is_empty()).then(|| Password::new(content))
}

fn prompt_twice() -> Result<Password> {
    let password = prompt("new password: ")?;
    if prompt("repeat the password: ")? != password {
        bail!("the two passwords differ");
    }
    Ok(password)
}

fn prompt(text: &str) -> Result<Password> {
    if !io::stdin().is_terminal() {
        return Err(NoPassword.into());
    }
    let typed = rpassword::prompt_password(text).context("cannot read a password")?;
    if typed.is_empty() {
        bail!("the password is empty");
    }
    Ok(Password::new(typed.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_end() {
        let of = |content: &str| first_line(content.into());
        let expected = Some(Password::new(b" secret ".to_vec()));
        for content in [" secret ", " secret \n", " secret \r\n", " secret \nsecond line"] {
            assert_eq!(of(content), expected, "{content:?}");
        }
        for empty in ["", "\n", "\r\n", "\nsecond"] {
            assert_eq!(of(empty), None, "{empty:?}");
        }
    }
}
