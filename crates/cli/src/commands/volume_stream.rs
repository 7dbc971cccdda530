//! `onefold volume export` and `import`

use std::io::{self, BufReader, BufWriter, IsTerminal};

use anyhow::{Result, ensure};
use clap::Args;
use onefold_volume::Transferred;

use super::volume::show;
use crate::console::Console;
use crate::domain::Volumes;
use crate::exit::Exit;
use crate::pool::{Doer, OpenPool, PoolArgs};

/// Bytes of a stream that are read or written per call.
const STREAMED: usize = 1 << 20;

const EXPORT_HELP: &str = "\
Writes a volume or snapshot to standard output as a stream, from which `onefold volume import` creates
it in this or another pool. The stream has all blocks except holes, uncompressed, with a checksum for
each record. With --from it has only the differences from another volume of the pool, such as an earlier
snapshot. Both volumes are then read completely, to record which content the stream changes. The command
writes nothing to the pool. Meanwhile the pool must not be served, except with --read-only.

Examples:
  onefold volume export --pool /srv/pool disk-monday | zstd > monday.zst
  onefold volume export --pool /srv/pool --from monday tuesday > changes
  onefold volume export --pool /srv/pool disk-monday \\
      | ssh other onefold volume import --pool /srv/pool disk-monday";

const IMPORT_HELP: &str = "\
Creates a volume from the stream of `onefold volume export` on standard input. A snapshot becomes a
snapshot again. A stream of changes needs --onto: a volume with the same content as the one that
`export` had as --from. The command reads that volume completely to verify this, and does not change it.
The new volume gets its name when the whole stream is durable. A truncated or damaged stream is refused,
and nothing of it stays. If the command is killed, a volume with '.importing' after its name is left,
which you can delete.

Examples:
  zstd -dc monday.zst | onefold volume import --pool /srv/pool disk-monday
  onefold volume import --pool /srv/pool --onto monday tuesday < changes

With --json: one document, the volume as `onefold volume info` shows it.";

/// Write a volume, or its differences from another, to standard output
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(super) struct Export {
    #[command(flatten)]
    pool: PoolArgs,
    /// Write only the differences from this volume
    #[arg(long, value_name = "SNAPSHOT")]
    from: Option<String>,
    /// The volume or snapshot
    name: String,
}

/// Create a volume from the output of `export`
#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub(super) struct Import {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume that the stream's changes are relative to
    #[arg(long, value_name = "SNAPSHOT")]
    onto: Option<String>,
    /// The name of the new volume
    name: String,
}

impl Export {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let output = io::stdout();
        ensure!(
            !output.is_terminal(),
            "a stream cannot be written to a terminal: redirect standard output to a file or a pipe"
        );
        let OpenPool { pool, .. } = &self.pool.open_to_read(&self.name, console)?;
        let into = BufWriter::with_capacity(STREAMED, output.lock());
        let Transferred { data_blocks, hole_blocks } =
            pool.export_volume(&self.name, self.from.as_deref(), into)?;
        let name = &self.name;
        console.notice(match &self.from {
            None => format!("exported volume '{name}', blocks: {data_blocks}"),
            Some(base) => format!(
                "exported the changes of '{name}' since '{base}', blocks: {data_blocks}, new holes: \
                 {hole_blocks}"
            ),
        });
        Ok(Exit::Fine)
    }
}

impl Import {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let from = BufReader::with_capacity(STREAMED, io::stdin().lock());
        let (imported, mut doer) = match self.pool.in_cluster(console)? {
            Some(volumes) => self.import_to_cluster(volumes, from)?,
            None => {
                let open = self.pool.open_in(console)?;
                for error in open.pool.fill_index(|| true) {
                    console.warn(format!("pages are not found again: {error}"));
                }
                (open.pool.import_volume(&self.name, self.onto.as_deref(), from)?, Doer::Here(open))
            }
        };
        let done = format!("imported volume '{}', blocks: {}", self.name, imported.data_blocks);
        console.notice(&done);
        if console.is_json() {
            show(&mut doer, self.name, &done)?;
        }
        Ok(Exit::Fine)
    }

    #[cfg(not(feature = "cluster"))]
    fn import_to_cluster(
        &self,
        volumes: Volumes,
        _: impl io::Read,
    ) -> Result<(Transferred, Doer<'static>)> {
        match volumes {}
    }

    /// Imports into a new shard, or into that of the volume to which the stream's changes are relative.
    #[cfg(feature = "cluster")]
    fn import_to_cluster(
        &self,
        mut volumes: Volumes,
        from: impl io::Read,
    ) -> Result<(Transferred, Doer<'static>)> {
        use anyhow::Context;

        let Self { name, onto, .. } = self;
        let imported = match onto {
            Some(base) => {
                let shard = volumes.open(base)?;
                shard.pool().fill_index(|| true);
                let mut changing = shard.change();
                changing.claim(name)?;
                let imported = shard.pool().import_volume(name, Some(base), from);
                changing.sync()?;
                imported?
            }
            None => {
                let mut imported = None;
                volumes.create(name, |pool| {
                    imported = Some(pool.import_volume(name, None, from)?);
                    Ok(())
                })?;
                imported.context("nothing was imported")?
            }
        };
        Ok((imported, Doer::Cluster(Box::new(volumes))))
    }
}
