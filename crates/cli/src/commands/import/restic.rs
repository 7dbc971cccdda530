//! `onefold import restic`

use std::process::Command;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use onefold_store::import::Described;
use serde::Deserialize;

use super::program::{self, Whole};
use super::{EXAMPLES_OF_RESTIC, Importer};
use crate::console::Console;
use crate::exit::Exit;
use crate::repository::RepositoryArgs;
use crate::time;

/// Import snapshots of a restic repository
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES_OF_RESTIC)]
pub(super) struct Restic {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The repository as restic writes it
    #[arg(value_name = "REPO")]
    from: String,
    /// The snapshots to import [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
}

/// A snapshot as restic tells it.
#[derive(Debug, Deserialize)]
struct Told {
    id: String,
    time: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    username: String,
    paths: Vec<String>,
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl Told {
    fn described(&self) -> Result<Described> {
        let time = time::parse(&self.time).map_err(|error| {
            anyhow!("snapshot {} was made at '{}': {error}", self.id, self.time)
        })?;
        Ok(Described {
            time,
            host: self.hostname.clone(),
            user: self.username.clone(),
            paths: self.paths.iter().map(|path| path.clone().into_bytes()).collect(),
            tags: self.tags.clone().unwrap_or_default(),
            program: "restic".into(),
        })
    }
}

impl Restic {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let command = |words: &[&str]| {
            let mut command = Command::new("restic");
            command.args(["-r", &self.from]).args(words);
            command
        };
        let mut list = command(&["snapshots", "--json"]);
        list.args(&self.snapshots);
        // None is null.
        let told: Option<Vec<Told>> = program::json(&mut list)?;
        let mut told = told.unwrap_or_default();
        let described = told.iter().map(Told::described).collect::<Result<Vec<_>>>()?;
        let mut all: Vec<_> = told.drain(..).zip(described).collect();
        all.sort_by_key(|(_, described)| described.time);
        let mut importer = Importer::new(&self.repository, console)?;
        for (told, described) in all {
            if importer.skips(&described) {
                continue;
            }
            let archive = Whole::start(&mut command(&["dump", "--archive", "tar", &told.id, "/"]))
                .context("restic writes the archive of a snapshot")?;
            importer.import(&told.id, archive, &described)?;
        }
        importer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_read_as_restic_tells_them() {
        let text = r#"[{"time":"2024-02-03T04:05:06.123456789+01:00","tree":"t","paths":["/a","/b"],
            "hostname":"h","username":"u","uid":1,"tags":["x"],"id":"i","short_id":"s"},
            {"time":"2024-02-03T04:05:06Z","tree":"t","paths":["/a"],"id":"j","short_id":"s"}]"#;
        let told: Vec<Told> = serde_json::from_str(text).unwrap();
        let first = told[0].described().unwrap();
        assert_eq!(time::rfc3339(first.time), "2024-02-03T03:05:06.123456789Z");
        assert_eq!((&first.host[..], &first.user[..]), ("h", "u"));
        assert_eq!((first.paths.len(), first.tags), (2, vec!["x".to_owned()]));
        assert_eq!(told[1].described().unwrap().tags, [""; 0]);
    }
}
