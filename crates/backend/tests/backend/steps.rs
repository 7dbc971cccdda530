//! The simulated disk takes the steps that local storage takes, as the kernel sees them.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use onefold_backend::crash::{CrashDisk, Step};
use onefold_backend::{
    BackendError, Folder, LocalFolder, LocalLog, LocalObjects, LocalPages, Log, Objects, Pages,
};
use onefold_testkit::skip;

const PAGE_SIZE: usize = 512;

/// Tells the test that it is the traced program, and where to work.
const ROOT: &str = "ONEFOLD_TRACED_ROOT";

/// Every call, in every case that changes its steps.
fn program<L: Log, P: Pages>(
    place: impl Objects,
    log: impl Fn() -> Result<L, BackendError>,
    pages: impl Fn() -> Result<P, BackendError>,
    folder: &dyn Folder,
) {
    place.put("config", Bytes::from_static(b"1")).unwrap();
    place.put("a/b/one", Bytes::from_static(b"22")).unwrap();
    place.put("a/b/one", Bytes::from_static(b"22")).unwrap();
    place.put("a/b/one", Bytes::from_static(b"33")).unwrap_err();
    place.put("a/c/empty", Bytes::new()).unwrap();
    place.get("a/b/one").unwrap();
    place.get_range("config", 0..1).unwrap();
    place.size("config").unwrap();
    place.list("").unwrap();
    place.list("a/b/").unwrap();
    place.list("none/").unwrap();
    place.delete("a/b/one").unwrap();
    place.delete("a/b/one").unwrap();
    place.list("a/b/").unwrap();

    for _ in 0..2 {
        let mut log = log().unwrap();
        log.append(b"abc").unwrap();
        log.append(b"").unwrap();
        log.sync().unwrap();
        log.truncate(1).unwrap();
        log.read(0, &mut [0]).unwrap();

        let mut pages = pages().unwrap();
        pages.set_count(3).unwrap();
        pages.write(2, &[1; PAGE_SIZE]).unwrap();
        pages.sync().unwrap();
        pages.set_count(1).unwrap();
    }
    folder.rename("table", "journal").unwrap();
    folder.rename("table", "journal").unwrap_err();
}

fn run_locally(root: &Path) {
    program(
        LocalObjects::open(&root.join("objects")).unwrap(),
        || LocalLog::open(&root.join("local/journal")),
        || LocalPages::open(&root.join("local/table"), PAGE_SIZE),
        &LocalFolder::open(&root.join("local")).unwrap(),
    );
}

fn run_simulated() -> Vec<Step> {
    let disk = CrashDisk::new();
    let (log, pages) = (|| disk.log("journal"), || disk.pages("table", PAGE_SIZE));
    program(disk.objects(), log, pages, &disk.folder());
    disk.trace()
}

#[test]
fn local_storage_takes_the_steps_of_the_simulated_disk() {
    if let Some(root) = env::var_os(ROOT) {
        return run_locally(Path::new(&root));
    }
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    fs::create_dir(root.join("objects")).unwrap();
    fs::create_dir(root.join("local")).unwrap();
    let Some(calls) = traced_calls(&root) else { return };
    let local: Vec<Step> = calls.lines().filter_map(|call| step_of(call, &root)).collect();
    let simulated = run_simulated();
    for (number, (local, simulated)) in local.iter().zip(&simulated).enumerate() {
        assert_eq!(local, simulated, "step {number}");
    }
    assert_eq!(local.len(), simulated.len());
    let kinds: HashSet<_> = local.iter().map(std::mem::discriminant).collect();
    assert_eq!(kinds.len(), 9, "every kind of step was taken");
}

/// Runs this test once more under strace; the calls it made that change a disk, a line each.
fn traced_calls(root: &Path) -> Option<String> {
    let output = tempfile::NamedTempFile::new().unwrap();
    let calls = "mkdir,mkdirat,open,openat,creat,write,pwrite64,writev,pwritev,fsync,fdatasync,\
        sync_file_range,link,linkat,rename,renameat,renameat2,unlink,unlinkat,truncate,ftruncate,\
        fallocate";
    let result = Command::new("strace")
        .args(["-f", "-y", "-s", "0", "-e", &format!("trace={calls}"), "-o"])
        .arg(output.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", "steps::local_storage_takes_the_steps_of_the_simulated_disk"])
        .env(ROOT, root)
        .output();
    match result {
        Ok(ran) if ran.status.success() => Some(fs::read_to_string(output.path()).unwrap()),
        Ok(ran) if !String::from_utf8_lossy(&ran.stderr).contains("ptrace") => {
            panic!("the traced program failed: {ran:?}")
        }
        refused => {
            skip(&format!("strace cannot trace here: {refused:?}"));
            None
        }
    }
}

/// The step a line such as `7 link("/r/objects/a#1", "/r/objects/a") = 0` shows, if it is on a
/// path below `root` and changes or syncs something.
fn step_of(line: &str, root: &Path) -> Option<Step> {
    let (call, arguments) = line.split_once(' ')?.1.trim_start().split_once('(')?;
    // The last path below the root: the new name of a link or a rename, the file of everything else.
    let below = format!("{}/", root.display());
    let (call_only, _) = arguments.rsplit_once(" = ")?;
    let rest = call_only.rsplit_once(below.as_str())?.1;
    let (path, after) = rest.split_at(rest.find(['"', '>']).unwrap());
    // A name in an open directory, as `openat(8</r/local>, "journal", ...)` has it.
    let name = after.strip_prefix(">, \"").and_then(|name| name.split_once('"'));
    let path = match name {
        Some((name, _)) if !name.is_empty() => format!("{path}/{name}"),
        _ => path.to_owned(),
    };
    match call {
        "mkdir" | "mkdirat" => Some(Step::MakeDirectory(path)),
        "open" | "openat" if arguments.contains("O_CREAT") => Some(Step::Create(path)),
        "open" | "openat" => {
            assert!(!arguments.contains("O_TRUNC"), "{line}");
            None
        }
        "write" | "pwrite64" => Some(Step::Write(path)),
        "ftruncate" => Some(Step::Resize(path)),
        "fsync" | "fdatasync" if root.join(&path).is_dir() => Some(Step::SyncDirectory(path)),
        "fsync" | "fdatasync" => Some(Step::SyncFile(path)),
        "link" | "linkat" => Some(Step::Link(path)),
        // one that fails changes nothing
        "renameat" | "renameat2" => line.ends_with("= 0").then_some(Step::Rename(path)),
        "unlink" | "unlinkat" => Some(Step::Unlink(path)),
        other => panic!("{other} is no step the simulated disk knows: {line}"),
    }
}
