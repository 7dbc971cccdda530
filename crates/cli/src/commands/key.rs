//! `onefold key`

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use onefold_seal::Cost;
use onefold_store::check::Finding;
use onefold_store::{ClientInfo, KeyId, KeyInfo, KeyPair, Repository};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::console::Console;
use crate::count::count;
use crate::encryption::{NewPasswordArgs, public_key, remark};
use crate::exit::Exit;
use crate::name::{PathFields, shown};
use crate::output::Output;
use crate::repository::RepositoryArgs;
use crate::signer::client_id;
use crate::table;
use crate::time::{local, rfc3339};

const AFTER_HELP: &str = "\
Each key opens the repository with its own password or private key, or is the key of a write-only
client, for backups and nothing else. To change a password, add a key with the new password, then open
the repository with that password and remove the old key.

Examples:
  onefold key list --repo /mnt/backup
  onefold key add --repo /mnt/backup --label laptop
  onefold key remove --repo /mnt/backup 1a2b3c4d
  onefold key rotate --repo /mnt/backup";

const ADD_HELP: &str = "\
Examples:
  onefold key add --repo /mnt/backup --label laptop
  onefold key add --repo /mnt/backup --new-password-file /etc/onefold/password
  onefold key add --repo /mnt/backup --label laptop --write-only client.key

With --write-only the new key is written to a file, for a client that may back up but not read: with
--key-file the client can open the repository for `backup` and nothing else. Give each client its own
key, which `onefold key remove` can revoke, and its own credentials for the storage, which you must
revoke as well. docs/security.md lists what such a client can learn.

With --public-key the new key opens with the private key of a pair made by `onefold key generate`, given
by --key-file. The command prints a line. Append it to the file of the private key: without it the
private key does not open the repository, because anyone who knows the public key could create a
repository that it opens. The line is not secret, but transfer it in a way that the storage host cannot
tamper with.

With --json: one document with id, also with path for --write-only, or with trust (the line) for
--public-key.";

const GENERATE_HELP: &str = "\
Prints the public key. Pass it to `onefold key add --public-key` on a machine that can open the
repository. The private key stays on this machine.

Examples:
  onefold key generate /etc/onefold/key > key.pub
  onefold key add --repo /mnt/backup --public-key key.pub > trust
  cat trust >> /etc/onefold/key
  onefold restore --repo /mnt/backup --key-file /etc/onefold/key latest \\
      --target /tmp/restored

With --json: one document with public_key and path.";

const LIST_HELP: &str = "\
Examples:
  onefold key list --repo /mnt/backup

With --json: one document, a list, oldest first, clients last. Each key has id, created, host, user,
label, opened_by (password, private key, or write-only key), memory_kib, passes and lanes (null unless
it has a password), in_use (whether the repository was opened with it) and removed: whether the key of a
write-only client was revoked. That is yes, no, begun (remove the key again), or hidden (this client saw
the revocation, but its record is missing).";

const REMOVE_HELP: &str = "\
The password of a removed key no longer opens the repository. This does not lock out people who opened
the repository before and kept the master key, or who kept a copy of the key's object. Only a new
repository locks them out.

The key with which the repository was opened cannot be removed. So the last key cannot be removed.

Removing the key of a write-only client revokes it: the client's existing snapshots stay, and later ones
are ignored. The client gets an error. A thief of the key keeps the knowledge it gave: docs/security.md
says what remains possible, and why you must revoke the client's credentials for the storage as well.

The revocation fails if a snapshot of the client cannot be read, because it would be lost permanently.
It also fails if this machine saw an earlier revocation of the key whose record is now missing: restore
the record from a copy. --even-damaged revokes the key in both cases. All readable snapshots stored
with the key so far then stay: review them.

Anyone who may write objects can put garbage among the keys. If that keeps you from opening the
repository, name your key with --key. --unreadable removes objects that are not keys of this
repository. It keeps and names objects that may be a damaged key, key epoch or revocation: restore
these from a copy if there is one. --even-damaged removes them as well. Removing a key disables its
password. Removing a key epoch loses all data sealed in it: look for a copy first, and keep the damaged
object.

Examples:
  onefold key remove --repo /mnt/backup 1a2b3c4d
  onefold key remove --repo /mnt/backup --key 5e6f --unreadable

With --json: one document with id; for a write-only client's key also kept (snapshots that stay). With
--unreadable: one document with removed and left (object and problem of each that may be damaged).";

const ROTATE_HELP: &str = "\
Begins a new key epoch: objects written from now on are sealed under a new key. Nothing is rewritten,
and every password still opens everything. This limits how much is sealed under one key. It locks no
one out.

Examples:
  onefold key rotate --repo /mnt/backup

With --json: one document with epoch.";

/// Add, list, remove and rotate the keys of an encrypted repository
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(Add),
    Generate(Generate),
    List(List),
    Remove(Remove),
    Rotate(Rotate),
}

/// Add a key: another password or private key that opens the repository, or a write-only key
#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
struct Add {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    password: NewPasswordArgs,
    /// A label that distinguishes the key from others
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Write to FILE, which must not exist, a key with which a client can back up but not read
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["new_password_file", "new_password_command"]
    )]
    write_only: Option<PathBuf>,
    /// Add a key that opens with the private key of the public key in FILE, instead of a password
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["write_only", "new_password_file", "new_password_command"]
    )]
    public_key: Option<PathBuf>,
}

/// Generate a key pair, whose private key can open repositories instead of a password
#[derive(Debug, Args)]
#[command(after_help = GENERATE_HELP)]
struct Generate {
    /// The file for the private key, which must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// List the keys
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    repository: RepositoryArgs,
}

/// Remove a key: it no longer opens the repository
#[derive(Debug, Args)]
#[command(after_help = REMOVE_HELP)]
struct Remove {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The first digits of the key's id
    #[arg(value_name = "ID", required_unless_present = "unreadable")]
    id: Option<String>,
    /// Remove all objects among the keys that are not keys of this repository
    #[arg(long, conflicts_with = "id")]
    unreadable: bool,
    /// With --unreadable: also remove objects that may be damaged keys or key epochs. With the key of a
    /// write-only client: revoke it even if not all of its snapshots can be read, or if the record of
    /// an earlier revocation is missing
    #[arg(long)]
    even_damaged: bool,
}

/// Begin a new key epoch
#[derive(Debug, Args)]
#[command(after_help = ROTATE_HELP)]
struct Rotate {
    #[command(flatten)]
    repository: RepositoryArgs,
}

/// A new key in JSON.
#[derive(Serialize)]
struct Added {
    id: String,
}

/// A new key for a pair in JSON.
#[derive(Serialize)]
struct AddedPublic {
    id: String,
    trust: String,
}

/// A new pair in JSON.
#[derive(Serialize)]
struct Generated {
    public_key: String,
    #[serde(flatten)]
    path: PathFields,
}

/// The removed objects that were not keys, in JSON.
#[derive(Serialize)]
struct Cleared {
    removed: Vec<String>,
    left: Vec<Left>,
}

/// An object that was kept because it may be damaged, in JSON.
#[derive(Serialize)]
struct Left {
    object: String,
    problem: String,
}

/// A new key file in JSON.
#[derive(Serialize)]
struct Written {
    id: String,
    #[serde(flatten)]
    path: PathFields,
}

/// A new epoch in JSON.
#[derive(Serialize)]
struct Rotated {
    epoch: u32,
}

/// A key in JSON.
#[derive(Serialize)]
struct Listed {
    id: String,
    created: String,
    host: String,
    user: String,
    label: String,
    opened_by: &'static str,
    memory_kib: Option<u32>,
    passes: Option<u32>,
    lanes: Option<u32>,
    in_use: bool,
    removed: &'static str,
}

/// A revoked key in JSON.
#[derive(Serialize)]
struct Revoked {
    id: String,
    kept: Vec<String>,
}

impl Key {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.action {
            Action::Add(add) => add.run(console),
            Action::Generate(generate) => generate.run(console),
            Action::List(list) => list.run(console),
            Action::Remove(remove) => remove.run(console),
            Action::Rotate(rotate) => rotate.run(console),
        }
    }
}

impl Add {
    fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open_unloaded(console)?;
        if let Some(path) = &self.write_only {
            let mut id = String::new();
            write_key_file(path, || {
                let key = opened.repository.add_client(&remark(self.label))?;
                id = client_id(key.client());
                Ok(key.to_text())
            })?;
            let text = format!("wrote key {id}, for backups only, to '{}'", path.display());
            return say(console, &Written { id, path: PathFields::of_path(path) }, text);
        }
        if let Some(path) = &self.public_key {
            let public = public_key(path)?;
            let id = opened.repository.add_public_key(&public, &remark(self.label))?;
            let trust = opened.repository.trust_text()?;
            console.notice(format_args!(
                "added key {id}; append the line to the file of the private key"
            ));
            return say(console, &AddedPublic { id: id.to_string(), trust: trust.clone() }, trust);
        }
        // Fail before asking for a password.
        opened.repository.keys()?;
        let password = self.password.choose()?;
        let id = opened.repository.add_key(&password, Cost::STANDARD, &remark(self.label))?;
        say(console, &Added { id: id.to_string() }, format!("added key {id}"))
    }
}

impl Generate {
    fn run(self, console: &Console) -> Result<Exit> {
        let pair = KeyPair::random();
        write_key_file(&self.file, || Ok(pair.private_text()))?;
        let public_key = pair.public_text();
        let mut output = Output::new();
        match console.is_json() {
            true => {
                let path = PathFields::of_path(&self.file);
                output.json_document(&Generated { public_key, path })?;
            }
            false => output.line(public_key)?,
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

impl List {
    fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open_unloaded(console)?;
        let (keys, mut damaged) = opened.repository.keys()?;
        let (clients, others) = opened.repository.clients()?;
        damaged.extend(others);
        let listed: Vec<_> =
            keys.iter().map(Listed::of).chain(clients.iter().map(Listed::of_client)).collect();
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&listed)?;
        } else {
            for line in lines(&keys, &clients) {
                output.line(line)?;
            }
        }
        output.finish()?;
        for client in clients.iter().filter(|client| client.is_hidden) {
            console.warn(format_args!(
                "key {} was revoked, as this host saw, but the record is missing: restore it from a \
                 copy; until then all that is stored with the key is accepted",
                client_id(client.number)
            ));
        }
        for client in clients.iter().filter(|client| client.is_half_removed) {
            console.warn(format_args!(
                "the removal of key {} was interrupted, and all that its client stores is still \
                 accepted: remove it again",
                client_id(client.number)
            ));
        }
        for error in &damaged {
            console.line(format_args!("error: a key cannot be read: {error}"));
        }
        Ok(if damaged.is_empty() { Exit::Fine } else { Exit::Fatal })
    }
}

impl Remove {
    fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open_unloaded(console)?;
        let Some(id) = &self.id else {
            let cleared = opened.repository.remove_unreadable_keys(self.even_damaged)?;
            return say_cleared(cleared, console);
        };
        let id = match opened.repository.find_key(id)? {
            KeyId::Key(id) => id,
            KeyId::Client(client) => {
                return revoke(&opened.repository, client, self.even_damaged, console);
            }
        };
        opened.repository.remove_key(id)?;
        console.notice(
            "its password no longer opens the repository; people who kept the master key or a copy \
             of the key's object are not locked out",
        );
        say(console, &Added { id: id.to_string() }, format!("removed key {id}"))
    }
}

impl Rotate {
    fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open_unloaded(console)?;
        let epoch = opened.repository.rotate()?;
        let text = format!("objects written from now on are sealed in key epoch {epoch}");
        say(console, &Rotated { epoch }, text)
    }
}

/// Revokes the key of a write-only client.
fn revoke(repository: &Repository, client: u32, anyway: bool, console: &Console) -> Result<Exit> {
    let kept = repository.remove_client(client, anyway)?;
    repository.trouble().iter().for_each(|trouble| console.warn(trouble));
    console.notice(
        "all that its client stores from now on is ignored; revoke its credentials for the storage \
         as well",
    );
    let id = client_id(client);
    let snapshots = count(kept.len() as u64, "snapshot", "snapshots");
    let text = format!("removed key {id}; {snapshots} of its client stay");
    let kept = kept.iter().map(ToString::to_string).collect();
    say(console, &Revoked { id, kept }, text)
}

/// Prints the objects that were removed, and those that were kept because they may be damaged.
fn say_cleared(cleared: onefold_store::Cleared, console: &Console) -> Result<Exit> {
    let onefold_store::Cleared { removed, left } = cleared;
    for Finding { object, problem } in &left {
        console.line(format_args!("error: {object} does not open and was not removed: {problem}"));
    }
    if !left.is_empty() {
        console.line(
            "hint: restore it from a copy; if there is none and it never was a key, remove it with \
             --even-damaged",
        );
    }
    let exit = if left.is_empty() { Exit::Fine } else { Exit::Fatal };
    let text = format!("removed {}", count(removed.len() as u64, "object", "objects"));
    let left = left.into_iter().map(|Finding { object, problem }| Left { object, problem });
    say(console, &Cleared { removed, left: left.collect() }, text)?;
    Ok(exit)
}

/// Writes the key that `make` returns to a new file that only its owner can read. If `make` fails, no
/// file is left.
#[expect(clippy::disallowed_methods, reason = "an output of the command, no object")]
fn write_key_file(path: &Path, make: impl FnOnce() -> Result<Zeroizing<String>>) -> Result<()> {
    let cannot = || format!("cannot write the key to '{}'", path.display());
    let mut options = File::options();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).with_context(cannot)?;
    let text = match make() {
        Ok(text) => text,
        Err(error) => {
            std::fs::remove_file(path).with_context(cannot)?;
            return Err(error);
        }
    };
    writeln!(file, "{}", *text).and_then(|()| file.sync_all()).with_context(cannot)
}

fn say(console: &Console, document: &impl Serialize, text: String) -> Result<Exit> {
    let mut output = Output::new();
    if console.is_json() {
        output.json_document(document)?;
    } else if !console.is_quiet() {
        output.line(text)?;
    }
    output.finish()?;
    Ok(Exit::Fine)
}

fn lines(keys: &[KeyInfo], clients: &[ClientInfo]) -> Vec<String> {
    let header = ["", "ID", "Created", "Host", "User", "Opened by", "Label"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for key in keys {
        let KeyInfo { id, remark, in_use, .. } = key;
        rows.push(vec![
            if *in_use { "*" } else { "" }.to_owned(),
            id.short(),
            local(remark.created),
            shown(remark.host.as_bytes()),
            shown(remark.user.as_bytes()),
            opened_by(key).to_owned(),
            shown(remark.label.as_bytes()),
        ]);
    }
    for client in clients {
        let opened_by = if client.is_removed { "nothing: revoked" } else { WRITE_ONLY };
        rows.push(vec![
            String::new(),
            client_id(client.number),
            local(client.remark.created),
            shown(client.remark.host.as_bytes()),
            shown(client.remark.user.as_bytes()),
            opened_by.to_owned(),
            shown(client.remark.label.as_bytes()),
        ]);
    }
    table::lines(&rows, &[])
}

/// How a write-only client opens the repository.
const WRITE_ONLY: &str = "write-only key";

/// What opens the key.
const fn opened_by(key: &KeyInfo) -> &'static str {
    match key.cost {
        Some(_) => "password",
        None => "private key",
    }
}

impl Listed {
    fn of(key: &KeyInfo) -> Self {
        Self {
            id: key.id.to_string(),
            created: rfc3339(key.remark.created),
            host: key.remark.host.clone(),
            user: key.remark.user.clone(),
            label: key.remark.label.clone(),
            opened_by: opened_by(key),
            memory_kib: key.cost.map(|cost| cost.memory_kib),
            passes: key.cost.map(|cost| cost.passes),
            lanes: key.cost.map(|cost| cost.lanes),
            in_use: key.in_use,
            removed: "no",
        }
    }

    fn of_client(client: &ClientInfo) -> Self {
        Self {
            id: client_id(client.number),
            created: rfc3339(client.remark.created),
            host: client.remark.host.clone(),
            user: client.remark.user.clone(),
            label: client.remark.label.clone(),
            opened_by: WRITE_ONLY,
            memory_kib: None,
            passes: None,
            lanes: None,
            in_use: false,
            removed: match client {
                ClientInfo { is_removed: true, .. } => "yes",
                ClientInfo { is_hidden: true, .. } => "hidden",
                ClientInfo { is_half_removed: true, .. } => "begun",
                _ => "no",
            },
        }
    }
}
