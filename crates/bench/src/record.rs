//! The form of a record: everything needed to doubt a number later.
//!
//! Records lie in docs/records/ as JSON. A field's name carries its unit. The words are those of
//! the records of `cargo lab bench`.

#![allow(
    clippy::disallowed_methods,
    reason = "writes records; no byte here belongs to a repository"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Dataset;

/// What was measured, and under which circumstances; `R` is whatever the measurement is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record<R> {
    /// The circumstances.
    #[serde(flatten)]
    pub header: Header,
    /// What was measured, raw samples included.
    pub results: R,
}

/// The circumstances of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The record's own, that of its file.
    pub name: String,
    /// What to type to measure again; see [`command_line`].
    pub command_line: String,
    /// UTC, RFC 3339, to the second, when the record was made.
    pub date: String,
    /// The source that this program is built from.
    pub commit: Commit,
    /// The machine that measured.
    #[serde(flatten)]
    pub machine: Machine,
    /// The compiler that built this program, in its own words.
    pub rustc_version: String,
    /// Which of the data were in memory.
    pub cache_state: String,
    /// Version of each rival.
    pub tools: BTreeMap<String, String>,
    /// What a reader must know to compare the numbers fairly.
    pub notes: Vec<String>,
}

/// The source that a program is built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Its hash, or `unknown`.
    pub id: String,
    /// Whether files of it that matter to a measurement differed from the commit.
    pub dirty: bool,
}

/// The machine that measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// As the system calls it.
    pub cpu_model: String,
    /// The instruction sets that kernels may choose from, of those that this CPU has.
    pub cpu_features: Vec<String>,
    /// Those this process may use.
    pub cores: usize,
    /// All memory.
    pub memory_bytes: u64,
    /// Of the operating system.
    pub kernel_version: String,
}

/// The data that were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetRecord {
    /// The last component of its path, or how it was made.
    pub name: String,
    /// Of the bytes as they were cut; see [`Dataset::digest`].
    pub digest: String,
    /// Files that the bytes are of.
    pub files: u64,
    /// Their sum.
    pub bytes: u64,
}

impl From<&Dataset> for DatasetRecord {
    fn from(dataset: &Dataset) -> Self {
        Self {
            name: dataset.name().to_owned(),
            digest: dataset.digest(),
            files: dataset.files().len() as u64,
            bytes: dataset.bytes().len() as u64,
        }
    }
}

impl Header {
    /// For a record at `path`, of this machine, program and moment, without tools and notes.
    pub fn here(path: &Path, command_line: String, cache_state: &str) -> Result<Self> {
        let now = jiff::Timestamp::now().round(jiff::Unit::Second).context("the clock")?;
        Ok(Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            command_line,
            date: now.to_string(),
            commit: Commit::built(),
            machine: Machine::this(),
            rustc_version: env!("ONEFOLD_BENCH_COMPILER").to_owned(),
            cache_state: cache_state.to_owned(),
            tools: BTreeMap::new(),
            notes: Vec::new(),
        })
    }
}

impl<R: Serialize + DeserializeOwned + PartialEq> Record<R> {
    /// Writes the record whole or not at all, and reads it back; into a device, a pipe or what a
    /// link leads to it is only written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let place = || path.display().to_string();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(place)?;
        }
        let mut text = serde_json::to_string_pretty(self).with_context(place)?;
        text.push('\n');
        // nothing may take the place of /dev/stdout
        if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
            return fs::write(path, text).with_context(place);
        }
        let unfinished = path.with_extension("json.part");
        fs::write(&unfinished, text).with_context(place)?;
        fs::rename(&unfinished, path).with_context(place)?;
        ensure!(Self::read(path)? == *self, "{}: reads back as another record", path.display());
        Ok(())
    }

    /// The record at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| format!("{}: no record", path.display()))
    }
}

/// `command` and its arguments as they go into a record: of a path outside the folder they were
/// typed in, the last component only, since the rest is about one machine.
pub fn command_line(command: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let arguments = arguments.into_iter().map(|argument| match argument.split_once('=') {
        Some((option, value)) if option.starts_with('-') => format!("{option}={}", shown(value)),
        _ => shown(&argument).to_owned(),
    });
    [command.to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

fn shown(argument: &str) -> &str {
    let path = Path::new(argument);
    let is_elsewhere = path.is_absolute() || argument.starts_with("..");
    let last = path.file_name().and_then(|name| name.to_str());
    last.filter(|_| is_elsewhere).unwrap_or(argument)
}

impl Commit {
    /// That of this program, whatever was checked out since; `unknown` and dirty if it was built
    /// without the repository.
    pub fn built() -> Self {
        Self {
            id: env!("ONEFOLD_BENCH_COMMIT").to_owned(),
            dirty: env!("ONEFOLD_BENCH_IS_DIRTY") == "true",
        }
    }
}

impl Machine {
    /// The one that this process runs on.
    pub fn this() -> Self {
        let uname = rustix::system::uname();
        let words = [uname.sysname(), uname.release(), uname.machine()];
        let processor = field("/proc/cpuinfo", "model name");
        Self {
            // Not every architecture's kernel knows a model's name.
            cpu_model: processor.unwrap_or_else(|| words[2].to_string_lossy().into_owned()),
            cpu_features: cpu_features().into_iter().map(String::from).collect(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal")
                .and_then(|size| size.strip_suffix(" kB")?.parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            kernel_version: words.map(|word| word.to_string_lossy().into_owned()).join(" "),
        }
    }
}

/// Those of the instruction sets below that are here.
fn cpu_features() -> Vec<&'static str> {
    macro_rules! present {
        ($detected:ident: $($feature:tt)*) => {
            [$(($feature, std::arch::$detected!($feature))),*]
        };
    }
    #[cfg(target_arch = "x86_64")]
    let known = present!(is_x86_feature_detected:
        "ssse3" "sse4.1" "avx2" "bmi2" "avx512f" "avx512bw" "avx512vl" "avx512vbmi" "avx512vbmi2"
        "gfni" "pclmulqdq" "vpclmulqdq" "vaes" "sha");
    #[cfg(target_arch = "aarch64")]
    let known = present!(is_aarch64_feature_detected: "neon" "aes" "sha2" "sha3" "sve" "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let known: [(&str, bool); 0] = [];
    known.into_iter().filter_map(|(feature, is_here)| is_here.then_some(feature)).collect()
}

/// The value of the first `key : value` line of a file in /proc.
fn field(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records/one.json");
        let mut header = Header::here(&path, "cargo lab rivals".into(), "warm").unwrap();
        header.tools.insert("rival".into(), "0.1".into());
        header.notes.push("made up".into());
        let sample = Sample { round: 1, seconds: 0.1 + 0.2, thread_seconds: 1e-9 };
        let dataset = DatasetRecord::from(&Dataset::random(1, 1000));
        let record = Record { header, results: vec![(dataset, sample)] };
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        assert_eq!(record.header.name, "one");
    }

    #[test]
    fn a_record_does_not_take_the_place_of_what_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link.json"), folder.path().join("file.json"));
        fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let header = Header::here(&link, String::new(), "").unwrap();
        let record = Record { header, results: vec![1] };
        record.write(&link).unwrap();
        assert!(link.is_symlink());
        assert_eq!(Record::read(&file).unwrap(), record);
        let error = record.write(folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("directory"), "{error:#}");
    }

    #[test]
    fn a_record_names_the_commit_and_compiler_of_the_program() {
        let header = Header::here(Path::new("x.json"), String::new(), "").unwrap();
        let Commit { id, dirty } = header.commit;
        let is_hash = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_hash || id == "unknown" && dirty, "{id}, {dirty}");
        assert!(header.rustc_version.starts_with("rustc "), "{}", header.rustc_version);
    }

    #[test]
    fn a_date_is_utc_to_the_second() {
        let date = Header::here(Path::new("x.json"), String::new(), "").unwrap().date;
        assert_eq!(date.len(), "2026-01-01T00:00:00Z".len(), "{date}");
        assert!(date.ends_with('Z'), "{date}");
    }

    #[test]
    fn a_command_line_tells_no_place_on_the_machine() {
        let typed =
            ["--data", "/mnt/x/k8s", "--data=../y/z", "--bytes", "1GiB", "docs/records/a.json"];
        assert_eq!(
            command_line("cargo lab rivals", typed.map(String::from)),
            "cargo lab rivals --data k8s --data=z --bytes 1GiB docs/records/a.json"
        );
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::this();
        assert!(!machine.cpu_model.is_empty() && machine.cores > 0, "{machine:?}");
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert!(!machine.cpu_features.is_empty(), "{machine:?}");
    }
}
