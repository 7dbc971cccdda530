//! `onefold init`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use onefold_cdc::Params;
use onefold_store::Config;
use serde::Serialize;

use crate::chunking::ChunkingArgs;
use crate::console::Console;
use crate::encryption::{PasswordArgs, Protection};
use crate::exit::Exit;
use crate::memory_place::MemoryArgs;
use crate::name::PathFields;
use crate::output::Output;
use crate::place::Access;
use crate::repository::OpenRepository;

const AFTER_HELP: &str = "\
The repository is encrypted. The command asks for the password unless it is given. A lost password
cannot be recovered.

Algorithm and sizes cannot be changed later, because others would cut the same data at other positions.
Sizes take suffixes (8KiB, 64k, 1MiB).

Examples:
  onefold init /mnt/backup
  onefold init /mnt/images --avg 8KiB --password-file ~/.onefold-password
  onefold init /mnt/public --no-encryption
  onefold init /mnt/elsewhere --padding
  onefold init s3://backups/laptop --s3-endpoint https://s3.example.net
  onefold init /mnt/mail --algorithm fastcdc --min 2KiB --avg 8KiB --max 64KiB

With --json: one document with id, path, encrypted, algorithm, min, avg, max, fingerprint,
compression_level and padding.";

/// Create a repository
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Init {
    /// The repository's directory, which must be empty or is created; or s3://BUCKET/PREFIX
    #[arg(env = "ONEFOLD_REPOSITORY")]
    repo: PathBuf,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    chunking: ChunkingArgs,
    /// Create the repository without encryption, so that anyone who can read it can read your files.
    /// Fails if a password is given, even by ONEFOLD_PASSWORD
    #[arg(long)]
    no_encryption: bool,
    /// Pad lengths of objects, so that they reveal less of the content; takes about 3 % more space
    #[arg(long, conflicts_with = "no_encryption")]
    padding: bool,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// A new repository in JSON.
#[derive(Serialize)]
struct Made {
    id: String,
    #[serde(flatten)]
    path: PathFields,
    encrypted: bool,
    algorithm: &'static str,
    min: usize,
    avg: usize,
    max: usize,
    fingerprint: &'static str,
    compression_level: i32,
    padding: bool,
}

impl Init {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let params = self.chunking.params()?;
        let protect = || Protection::choose(self.no_encryption, &self.password);
        let config = Config { params, padding: self.padding, ..Config::standard() };
        let memories = self.memory.memories(console);
        let (made, protection) =
            OpenRepository::init(&self.repo, &self.access, config, protect, &memories, console)?;
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&Made::of(&made))?;
        } else if !console.is_quiet() {
            tell(&made, &protection, &mut output)?;
        }
        output.finish()?;
        if made.repository.is_encrypted() && !params.algorithm.takes_secret() {
            console.warn(format_args!(
                "{} has nothing to key: an attacker can compare lengths of chunks with those of \
                 public files",
                params.algorithm
            ));
        }
        Ok(Exit::Fine)
    }
}

fn tell(made: &OpenRepository, protection: &Protection, output: &mut Output) -> Result<()> {
    let Params { algorithm, sizes, .. } = made.repository.config().params;
    let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
    output.line(format!("made repository {} in '{}'", made.repository.id(), made.place))?;
    output.line(format!("chunks by {algorithm}: {min} to {max} bytes, {avg} in the mean"))?;
    output.line(protection.to_string())
}

impl Made {
    fn of(made: &OpenRepository) -> Self {
        let Config { params, fingerprint, compression_level, padding } = *made.repository.config();
        Self {
            id: made.repository.id().to_string(),
            path: made.place.fields(),
            encrypted: made.repository.is_encrypted(),
            algorithm: params.algorithm.name(),
            min: params.sizes.min(),
            avg: params.sizes.avg(),
            max: params.sizes.max(),
            fingerprint: fingerprint.name(),
            compression_level,
            padding,
        }
    }
}
