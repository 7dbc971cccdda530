//! The programs that are measured, and their command lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Host;

/// A program that makes backups.
pub(super) struct Tool {
    /// What it is called in the measurements, and the name of its repository.
    pub(super) name: String,
    program: PathBuf,
    language: Language,
    /// Words before each command.
    options: Vec<String>,
    /// What a restore puts the source below, in its target.
    above: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Onefold,
    Restic,
    Rustic,
    Kopia,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Tool {
    pub(super) fn onefold(program: &Path) -> Self {
        Self::new("onefold", program, Language::Onefold, "-q", Path::new(""))
    }

    /// The rivals that are installed, at their defaults and with more connections.
    pub(super) fn rivals(source: &Path) -> Vec<Self> {
        let source = source.strip_prefix("/").expect("it is absolute");
        let tools = [
            Self::new("restic", "restic", Language::Restic, "-q", source),
            Self::new("restic-32", "restic", Language::Restic, "-q -o s3.connections=32", source),
            Self::new("rustic", "rustic", Language::Rustic, "--no-progress", source),
            Self::new("kopia", "kopia", Language::Kopia, "--no-progress", Path::new("")),
        ];
        let is_there = |tool: &Self| {
            let version = Command::new(&tool.program).arg(tool.version_word()).output();
            match &version {
                Ok(version) => {
                    let said = String::from_utf8_lossy(&version.stdout);
                    println!("far-away: {}: {}", tool.name, said.lines().next().unwrap_or(""));
                }
                Err(_) => println!("far-away: {} is not installed", tool.name),
            }
            version.is_ok()
        };
        tools.into_iter().filter(is_there).collect()
    }

    fn new(
        name: &str,
        program: impl Into<PathBuf>,
        language: Language,
        options: &str,
        above: &Path,
    ) -> Self {
        let (name, program, above) = (name.into(), program.into(), above.into());
        Self { name, program, language, options: words(options), above }
    }

    fn version_word(&self) -> &'static str {
        match self.language {
            Language::Restic => "version",
            _ => "--version",
        }
    }

    /// A command of it on `host`, to the service at `url`.
    pub(super) fn command(&self, host: &Host<'_>, url: &str, args: &[String]) -> Command {
        let mut command = host.command(&self.program);
        let repository = host.home.parent().and_then(Path::file_name).expect("it has a name");
        let repository = repository.to_str().expect("it is called so here");
        match self.language {
            Language::Onefold => {
                command.env("ONEFOLD_REPOSITORY", format!("s3://bucket/{repository}"));
            }
            Language::Restic => {
                command.env("RESTIC_REPOSITORY", format!("s3:{url}/bucket/{repository}"));
            }
            Language::Rustic => {
                command.env("RUSTIC_REPOSITORY", "opendal:s3");
                for (key, value) in [
                    ("BUCKET", "bucket"),
                    ("ROOT", &format!("/{repository}")),
                    ("ENDPOINT", url),
                    ("REGION", "us-east-1"),
                    ("ACCESS_KEY_ID", "test"),
                    ("SECRET_ACCESS_KEY", "testtest"),
                ] {
                    command.env(format!("RUSTIC_REPO_OPT_{key}"), value);
                }
            }
            Language::Kopia => {}
        }
        command.args(args);
        // Kopia keeps in its configuration where the repository is.
        if self.language == Language::Kopia && args[0] == "repository" {
            command.args(words(&format!(
                "s3 --bucket bucket --prefix {repository}/ --endpoint {} --disable-tls \
                 --access-key test --secret-access-key testtest --region us-east-1",
                url.trim_start_matches("http://")
            )));
        }
        command
    }

    fn words(&self, text: &str) -> Vec<String> {
        match self.language {
            // Not every command of it takes the options.
            Language::Kopia => words(text),
            _ => [self.options.clone(), words(text)].concat(),
        }
    }

    pub(super) fn init(&self) -> Vec<String> {
        self.words(match self.language {
            Language::Kopia => "repository create",
            _ => "init",
        })
    }

    pub(super) fn backup(&self, source: &str) -> Vec<String> {
        self.words(&match self.language {
            Language::Kopia => format!("snapshot create --no-progress {source}"),
            _ => format!("backup {source}"),
        })
    }

    /// How the last snapshot is named.
    pub(super) fn latest(&self, host: &Host<'_>, url: &str) -> String {
        if self.language != Language::Kopia {
            return "latest".into();
        }
        let list = self.command(host, url, &words("snapshot list --json")).output().unwrap();
        let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
        let last = list.as_array().and_then(|list| list.last()).expect("there are snapshots");
        last["id"].as_str().unwrap().to_owned()
    }

    /// Tells another host of the repository, where that is a step of its own.
    pub(super) fn connect(&self, host: &Host<'_>, url: &str) {
        if self.language == Language::Kopia {
            let output = self.command(host, url, &words("repository connect")).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Restores `snapshot` below `out`.
    pub(super) fn restore(&self, snapshot: &str) -> Vec<String> {
        self.words(&match self.language {
            Language::Onefold | Language::Restic => format!("restore {snapshot} --target out"),
            Language::Rustic => format!("restore {snapshot} out"),
            Language::Kopia => format!("snapshot restore --no-progress {snapshot} out"),
        })
    }

    /// Where the source comes by a restore.
    pub(super) fn restored(&self, host: &Host<'_>) -> PathBuf {
        host.home.join("out").join(&self.above)
    }

    /// The other commands, with labels.
    pub(super) fn others(&self, latest: &str) -> Vec<(&'static str, Vec<String>)> {
        let commands: &[(&str, &str)] = match self.language {
            Language::Kopia => &[
                ("snapshots", "snapshot list"),
                ("ls", "ls -r LATEST"),
                ("check", "snapshot verify"),
                ("check --read-data", "snapshot verify --verify-files-percent=100"),
            ],
            _ => &[
                ("snapshots", "snapshots"),
                ("ls", "ls LATEST"),
                ("check", "check"),
                ("check --read-data", "check --read-data"),
                ("forget and prune", "forget --keep-last 1 --prune"),
            ],
        };
        let told = |(label, text): &(&'static str, &str)| {
            (*label, self.words(&text.replace("LATEST", latest)))
        };
        commands.iter().map(told).collect()
    }
}
