//! `onefold import borg`

use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use onefold_store::import::Described;
use serde::Deserialize;

use super::program::{self, Whole};
use super::{EXAMPLES_OF_BORG, Importer};
use crate::console::Console;
use crate::exit::Exit;
use crate::repository::RepositoryArgs;
use crate::time;

/// Import archives of a borg repository
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES_OF_BORG)]
pub(super) struct Borg {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The repository as borg writes it
    #[arg(value_name = "REPO")]
    from: String,
    /// The archives to import [default: all]
    #[arg(value_name = "ARCHIVE")]
    archives: Vec<String>,
}

/// The archives of a repository as borg tells them.
#[derive(Debug, Deserialize)]
struct Told {
    archives: Vec<Archive>,
}

#[derive(Debug, Deserialize)]
struct Archive {
    name: String,
    start: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    username: String,
}

impl Archive {
    /// The times are in UTC, as borg is asked for them. The archive's name becomes a tag.
    fn described(&self) -> Result<Described> {
        let utc = format!("{}Z", self.start.trim_end_matches("+00:00").trim_end_matches('Z'));
        let time = time::parse(&utc).map_err(|error| {
            anyhow!("archive {} was made at '{}': {error}", self.name, self.start)
        })?;
        Ok(Described {
            time,
            host: self.hostname.clone(),
            user: self.username.clone(),
            paths: vec![b"/".to_vec()],
            tags: vec![self.name.clone()],
            program: "borg".into(),
        })
    }
}

impl Borg {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let command = |words: &[&str]| {
            let mut command = Command::new("borg");
            command.env("TZ", "UTC").args(words);
            command
        };
        let format = "{archive}{start}{hostname}{username}";
        let mut list = command(&["list", "--json", "--format", format, &self.from]);
        let Told { mut archives } = program::json(&mut list)?;
        if let Some(missing) = self
            .archives
            .iter()
            .find(|wanted| archives.iter().all(|archive| archive.name != **wanted))
        {
            bail!("there is no archive '{missing}' in '{}'", self.from);
        }
        archives
            .retain(|archive| self.archives.is_empty() || self.archives.contains(&archive.name));
        let mut importer = Importer::new(&self.repository, console)?;
        for archive in archives {
            let described = archive.described()?;
            if importer.skips(&described) {
                continue;
            }
            let place = format!("{}::{}", self.from, archive.name);
            // The form of archive that Debian's borg 1.2 knows, and every later one by default.
            let mut export = command(&["export-tar", &place, "-"]);
            let tar = Whole::start(&mut export).context("borg writes the archive as tar")?;
            importer.import(&archive.name, tar, &described)?;
        }
        importer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_read_as_borg_tells_them() {
        let text = r#"{"archives":[{"archive":"a-1","barchive":"a-1","id":"x","name":"a-1",
            "start":"2024-02-03T04:05:06.000007","time":"2024-02-03T04:05:06.000000",
            "hostname":"h","username":"u"}],"encryption":{"mode":"none"},"repository":{"id":"y"}}"#;
        let told: Told = serde_json::from_str(text).unwrap();
        let described = told.archives[0].described().unwrap();
        assert_eq!(time::rfc3339(described.time), "2024-02-03T04:05:06.000007000Z");
        assert_eq!((&described.host[..], &described.user[..]), ("h", "u"));
        assert_eq!(described.tags, ["a-1"]);
    }
}
