//! `onefold mount`

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fuser::{Config, MountOption, SessionACL};

use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::interrupt::cancel_on_signal;
use crate::mount::files::Files;
use crate::mount::shelf::arrange;
use crate::repository::RepositoryArgs;

const AFTER_HELP: &str = "\
DIR then holds, read-only:
  snapshots/TIME          every snapshot by its time, and the link `latest`
  ids/ID                  every snapshot by its id
  hosts/HOST, tags/TAG    the snapshots of one host or with one tag, by time

Later snapshots appear only after another mount. Every byte is verified when it is read. If the
repository is remote and a program reads a file sequentially, the mount reads ahead. The mount ends with
Ctrl-C or with `umount DIR` (for users: `fusermount3 -u DIR`).

Examples:
  onefold mount --repo /mnt/backup /mnt/snapshots
  diff -r /mnt/snapshots/snapshots/latest/etc /etc";

/// How often it is looked whether to end.
const PAUSE: Duration = Duration::from_millis(100);

/// Mount the snapshots as a read-only file system
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Mount {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Allow other users to read too, as file modes permit
    #[arg(long)]
    allow_other: bool,
    /// An empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Mount {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let place = self.directory.display();
        let mut held = self
            .directory
            .read_dir()
            .with_context(|| format!("cannot mount on '{place}', expected a directory"))?;
        if held.next().is_some() {
            bail!(
                "cannot mount on '{place}': it is not empty, and the mount would hide its content"
            );
        }
        let cancel = cancel_on_signal(console, "the file system is unmounted")?;
        // The kernel may ask as long as the process lives.
        let repository = Box::leak(Box::new(self.repository.open(console)?.repository));
        let (mut snapshots, damaged) = repository.snapshots()?;
        snapshots.retain(|(_, snapshot)| self.filter.wants(snapshot));
        for error in &damaged {
            console.warn(format_args!("a snapshot cannot be read and is left out: {error}"));
        }
        let from_clients = snapshots.iter().filter(|(_, snapshot)| snapshot.is_from_client).count();
        if from_clients > 0 {
            console.warn(format_args!(
                "write-only keys signed {from_clients} of the snapshots; these may name any host and \
                 time, and so become `latest`; `onefold snapshots` marks them with a star"
            ));
        }
        let files = Files::new(repository.view()?, arrange(&snapshots), console.clone());
        let outage = files.outage();
        let mut session = Some(
            fuser::spawn_mount(files, &self.directory, &self.config())
                .with_context(|| format!("cannot mount on '{place}'"))?,
        );
        let found = count(snapshots.len() as u64, "snapshot", "snapshots");
        console.notice(format_args!("{found} in '{place}'; Ctrl-C or `umount` ends it"));
        while session.as_ref().is_some_and(|session| !session.guard.is_finished()) {
            let is_over = cancel.is_cancelled() || outage.has_come();
            if is_over && let Some(session) = session.take() {
                session.umount_and_join().with_context(|| format!("cannot unmount '{place}'"))?;
                break;
            }
            thread::sleep(PAUSE);
        }
        if let Some(session) = session {
            session
                .join()
                .with_context(|| format!("the file system on '{place}' was unmounted"))?;
        }
        match outage.take() {
            Some(error) if !cancel.is_cancelled() => Err(error.into()),
            _ => Ok(Exit::Fine),
        }
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoAtime,
            MountOption::DefaultPermissions,
            MountOption::FSName("onefold".into()),
            MountOption::Subtype("onefold".into()),
        ];
        config.acl = if self.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = thread::available_parallelism().ok().map(NonZero::get);
        config
    }
}
