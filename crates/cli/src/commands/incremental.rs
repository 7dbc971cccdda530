//! `onefold incremental`

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::exit::Exit;

/// Names the jar that does the work.
const JAR: &str = "ONEFOLD_HADOOP_JAR";

/// Lists Hadoop's jars where there is no `hadoop` command.
const CLASS_PATH: &str = "HADOOP_CLASSPATH";

const JAR_NAME: &str = "onefold-hadoop.jar";

const AFTER_HELP: &str = "\
Commands:
  put [--mean 64MiB] [--records lines|delimiter:X|length:N] [--shared]
      [--overwrite] LOCAL|- TARGET
  run --memo DIR [--verify N%] -- JOB.jar [MainClass] ARGUMENTS...
  diff OLD NEW
  explain --memo DIR JOB NEW
  ls FILE
  gc [--dry-run] --memo DIR NEEDED-FILE... | --shared FOLDER
  stats --memo DIR

The commands are those of onefold-hadoop.jar, which this program starts by `hadoop jar`; without a
`hadoop` command it uses `java` and the jars of HADOOP_CLASSPATH. ONEFOLD_HADOOP_JAR names the jar
unless it lies beside this program. Files are on any file system of Hadoop: hdfs, s3a, file.

Examples:
  onefold incremental put log.txt hdfs:///logs/today
  onefold incremental diff hdfs:///logs/yesterday hdfs:///logs/today
  onefold incremental run --memo hdfs:///memo -- jobs.jar wordcount /logs /out";

/// Run Hadoop jobs that recompute only what changed
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Incremental {
    /// A command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Incremental {
    /// Becomes the program that does the work, so that signals reach it and its exit code is seen.
    pub(crate) fn run(self) -> Result<Exit> {
        let jar = jar()?;
        match launch(&jar, &self.words)? {}
    }
}

fn launch(jar: &Path, words: &[OsString]) -> Result<Infallible> {
    let mut command = match on_path("hadoop") {
        Some(hadoop) => {
            let mut command = Command::new(hadoop);
            command.arg("jar").arg(jar);
            command
        }
        None => java(jar)?,
    };
    let error = command.args(words).exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// Java with the jar and those of `HADOOP_CLASSPATH`.
fn java(jar: &Path) -> Result<Command> {
    let Some(hadoop) = env::var_os(CLASS_PATH).filter(|path| !path.is_empty()) else {
        bail!(
            "there is no `hadoop` command on the PATH; install Hadoop, or set {CLASS_PATH} to the \
             jars hadoop-client-api, hadoop-client-runtime and what they need"
        );
    };
    let of_home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    let java = of_home.filter(|java| java.is_file()).or_else(|| on_path("java"));
    let Some(java) = java else {
        bail!("neither JAVA_HOME nor the PATH has `java`; install Java 17 or newer");
    };
    let mut class_path = jar.as_os_str().to_owned();
    class_path.push(":");
    class_path.push(hadoop);
    let mut command = Command::new(java);
    command.arg("-cp").arg(class_path).arg("onefold.incremental.mapreduce.Main");
    Ok(command)
}

/// The jar that the user names, or the one beside this program.
fn jar() -> Result<PathBuf> {
    if let Some(named) = env::var_os(JAR) {
        let jar = PathBuf::from(named);
        if !jar.is_file() {
            bail!("{JAR} names {}, which is no file", jar.display());
        }
        return Ok(jar);
    }
    let program = env::current_exe().context("cannot tell where this program is")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(JAR_NAME), folder.join("../share/onefold").join(JAR_NAME)];
    match places.iter().find(|place| place.is_file()) {
        Some(jar) => Ok(jar.clone()),
        None => bail!(
            "{JAR_NAME} is not at {}; build it with `mvn package` in the folder jvm, and set {JAR} \
             to its path",
            places.map(|place| place.display().to_string()).join(" or ")
        ),
    }
}

/// Where a command called `program` is, if the shell would find one.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|place| place.is_file())
}
