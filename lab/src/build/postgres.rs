//! A PostgreSQL database between rounds of transactions, as tars of its folder or as dumps.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::order::{Allowed, Choice};
use crate::build::site::{Site, create};
use crate::build::tool::{output, run, run_into};
use crate::build::{Cost, MB, Recipe, Sameness, Tool, apt};

const INITDB: Tool = Tool::new("initdb", "postgresql");
const PG_CTL: Tool = Tool::new("pg_ctl", "postgresql");
const PGBENCH: Tool = Tool::new("pgbench", "postgresql-contrib");
const PG_DUMP: Tool = Tool::new("pg_dump", "postgresql-client");
const PSQL: Tool = Tool::new("psql", "postgresql-client");
const CHOWN: Tool = Tool::new("chown", "coreutils");
const RUNUSER: Tool = Tool::new("runuser", "util-linux");

pub(super) const POSTGRES: Recipe = Recipe {
    name: "postgres",
    kind: "database",
    about: "a database of pgbench between rounds of 10,000 transactions, as tars or dumps",
    source: None,
    choices: &[
        Choice { name: "count", about: "states", standard: "6", allowed: Allowed::Number(1, 99) },
        Choice {
            name: "scale",
            about: "of pgbench: hundreds of thousands of accounts",
            standard: "30",
            allowed: Allowed::Number(1, 1000),
        },
        Choice {
            name: "form",
            about: "tar of the database's folder, or what pg_dump writes",
            standard: TAR,
            allowed: Allowed::Word(&[TAR, DUMP]),
        },
    ],
    sameness: Sameness::NotBytes("the database notes down times"),
    tools: &[INITDB, PG_CTL, PGBENCH, PG_DUMP, PSQL, CHOWN, RUNUSER, apt::TAR],
    cost: |choices| {
        const MOST_LOG: u64 = 1000;
        // the tables, and the log that is kept of changes to them
        let scale = choices.number("scale");
        let state = (60 + 15 * scale + (13 * scale).min(MOST_LOG)) * MB;
        let scratch = state + MOST_LOG * MB;
        let built = if choices.word("form") == TAR { state } else { 10 * scale * MB };
        Cost { built: choices.number("count") * built, download: 0, scratch }
    },
    build,
};

const TAR: &str = "tar";
const DUMP: &str = "dump";

/// One database goes through all states; a state is all that it needs to go on from.
fn build(site: &Site) -> Result<()> {
    let count = site.count("count");
    let is_dump = site.choices.word("form") == DUMP;
    let ending = if is_dump { "sql" } else { "tar" };
    let parts: Vec<String> = (0..count).map(|number| format!("{number:02}.{ending}")).collect();
    let done = site.done(&parts);
    if done == count {
        return Ok(());
    }
    let home = site.room("postgres")?;
    let database = Database { data: home.join("data"), home };
    match done.checked_sub(1).map(|last| &parts[last]) {
        None => {
            site.step(0, count, "an empty database")?;
            database.create()?;
        }
        Some(last) => {
            site.step(done, count, &format!("back to {last}"))?;
            let last = site.folder.join(last);
            if is_dump { database.load(&last) } else { database.restore(&last) }?;
        }
    }
    for (number, part) in parts.iter().enumerate().skip(done) {
        site.step(number, count, part)?;
        let unfinished = site.work.join(part);
        database.start()?;
        let worked = match number {
            0 => {
                database.bench(&["--initialize", "--quiet", "--scale", site.choices.word("scale")])
            }
            _ => database.bench(&["--client=2", "--transactions=5000", "--no-vacuum"]),
        };
        let worked = match is_dump {
            true => worked.and_then(|()| database.dump(&unfinished)),
            false => worked,
        };
        // also what writes everything to the tables
        database.stop()?;
        worked?;
        if !is_dump {
            database.pack(&unfinished)?;
        }
        site.keep(part, &unfinished)?;
    }
    Ok(())
}

struct Database {
    /// Of its socket and log too.
    home: PathBuf,
    data: PathBuf,
}

impl Database {
    fn create(&self) -> Result<()> {
        self.give_to_user()?;
        let mut command = self.command(INITDB);
        run(command.args(["--no-sync", "--auth=trust", "--username=bench", "-D"]).arg(&self.data))
    }

    /// The state that `tar` holds, in place of a new database.
    fn restore(&self, tar: &Path) -> Result<()> {
        create(&self.data)?;
        apt::unpack_tar(tar, &self.data)?;
        self.give_to_user()
    }

    /// The state that `dump` holds, in a new database.
    fn load(&self, dump: &Path) -> Result<()> {
        // where the user that the server runs as can read it
        let copy = self.home.join("dump");
        fs::copy(dump, &copy).with_context(|| dump.display().to_string())?;
        self.create()?;
        self.start()?;
        let mut command = self.client(PSQL)?;
        command.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"]).arg(copy);
        let loaded = run(command.arg("postgres"));
        self.stop()?;
        loaded
    }

    fn dump(&self, into: &Path) -> Result<()> {
        let mut command = self.client(PG_DUMP)?;
        run_into(command.arg("postgres"), into)
    }

    fn give_to_user(&self) -> Result<()> {
        if rustix::process::geteuid().is_root() {
            run(CHOWN.command().args(["-R", USER]).arg(&self.home))?;
        }
        Ok(())
    }

    fn start(&self) -> Result<()> {
        let options = "-c listen_addresses= -c unix_socket_directories=. -c fsync=off";
        let mut command = self.command(PG_CTL);
        command.args(["start", "--wait", "--silent", "-o", options, "-D"]).arg(&self.data);
        // the server keeps the streams that it is given
        let log = self.home.join("log");
        run_into(command.arg("--log").arg(log), &self.home.join("start"))
    }

    fn stop(&self) -> Result<()> {
        let mut command = self.command(PG_CTL);
        run(command.args(["stop", "--wait", "--silent", "--mode=fast", "-D"]).arg(&self.data))
    }

    fn bench(&self, arguments: &[&str]) -> Result<()> {
        output(self.client(PGBENCH)?.args(arguments).arg("postgres")).map(|_| ())
    }

    /// A program that connects to the server.
    fn client(&self, tool: Tool) -> Result<Command> {
        let mut command = self.command(tool);
        // the server's folder, by a name that is short enough for a socket
        command.args(["--username=bench", "--host"]).arg(self.short_socket()?);
        Ok(command)
    }

    /// A link to the server's folder, made if it is not there.
    fn short_socket(&self) -> Result<PathBuf> {
        let link = self.short_name()?;
        match std::os::unix::fs::symlink(&self.data, &link) {
            Err(error) if !self.is_ours(&link) => {
                Err(error).with_context(|| link.display().to_string())
            }
            _ => Ok(link),
        }
    }

    fn short_name(&self) -> Result<PathBuf> {
        let inode = self.data.metadata().with_context(|| self.data.display().to_string())?.ino();
        Ok(std::env::temp_dir().join(format!("onefold-{inode}")))
    }

    /// The name can be guessed, and what another put there leads elsewhere.
    fn is_ours(&self, link: &Path) -> bool {
        std::fs::read_link(link).is_ok_and(|target| target == self.data)
    }

    /// PostgreSQL refuses to be run by root, who therefore becomes the user of Debian's package.
    fn command(&self, tool: Tool) -> Command {
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = RUNUSER.command();
            command.args(["-u", USER, "--"]).arg(tool.place());
            command
        } else {
            tool.command()
        };
        command.current_dir(&self.home);
        command
    }

    fn pack(&self, tar: &Path) -> Result<()> {
        let mut command = apt::TAR.command();
        command.args(["--sort=name", "--format=gnu", "--numeric-owner"]);
        command.args(["--owner=0", "--group=0", "-C"]).arg(&self.data).args(["-c", "."]);
        run_into(&mut command, tar)
    }
}

/// As which the database runs where root builds it.
const USER: &str = "postgres";

impl Drop for Database {
    fn drop(&mut self) {
        // where nothing runs any more this fails, and that is as well
        let _ = self.stop();
        if let Some(link) = self.short_name().ok().filter(|link| self.is_ours(link)) {
            let _ = std::fs::remove_file(link);
        }
    }
}
