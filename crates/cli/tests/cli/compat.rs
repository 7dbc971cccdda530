//! Repositories that an earlier program made are read as they were meant, byte for byte.
//!
//! They lie in compat/ with a manifest each of what their snapshots hold. `cargo xtask compat` makes
//! those of the format that is not frozen yet.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use onefold_fingerprint::Fingerprinter;
use onefold_testkit::{random, text};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

use crate::lab::{Lab, Ran};

/// The format that is not frozen yet.
const CANDIDATE: &str = "v1-candidate";

/// How each repository is opened: by no password, or by any of these.
const REPOSITORIES: [(&str, &[&str]); 2] =
    [("plain", &[]), ("encrypted", &["correct horse battery staple", "zweites Passwort"])];

/// The tags of the snapshots, and of which state of the source each is.
const SNAPSHOTS: [(&str, u64); 2] = [("first", 1), ("second", 2)];

/// Of the encrypted repository also one that a client made which cannot read.
const WRITE_ONLY: (&str, u64) = ("third", 2);

fn tags(repository: &str) -> Vec<&'static str> {
    let third = (repository == "encrypted").then_some(WRITE_ONLY);
    SNAPSHOTS.iter().chain(&third).map(|(tag, _)| *tag).collect()
}

/// The manifest of each state: `state-1` and `state-2`.
fn manifest_name(tag: &str) -> String {
    let mut all = SNAPSHOTS.iter().chain([&WRITE_ONLY]);
    let (_, state) = all.find(|(known, _)| *known == tag).expect("a known tag");
    format!("state-{state}")
}

/// Makes the source in its first or its second state: every kind of entry that needs no rights.
fn make_source(root: &Path, state: u64) {
    let write = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("text", &text(1, 30_000 * state as usize));
    let mut bytes = random(2, 40_000);
    if state == 2 {
        bytes.splice(21_000..21_000, *b"put in later");
        write("new/file", b"new");
    } else {
        write("empty", b"");
    }
    write("random", &bytes);
    write("copy", &bytes);
    write("deep/er/and/deeper/file", b"at the end of a path");
    write("grüße 😀", "a name in UTF-8".as_bytes());
    fs::write(root.join(OsStr::from_bytes(b"no utf-8: \xff\xfe")), "a name in no encoding")
        .unwrap();
    // So many that the directory is a tree of its own.
    for number in 0..120 {
        write(&format!("many/{number:03}"), format!("number {number}").as_bytes());
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    sparse.write_all_at(&random(3, 5_000), 500_000).unwrap();
    fs::hard_link(root.join("text"), root.join("second name of text")).unwrap();
    symlink("text", root.join("link")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, mode, 0).unwrap();
    for (at, path) in (0..).zip(below(root).iter().rev()) {
        set_facts(&root.join(path), at);
    }
}

/// Gives the `at`-th entry a mode and a time that follow from its kind and number.
fn set_facts(path: &Path, at: i64) {
    let kind = path.symlink_metadata().unwrap().file_type();
    if !kind.is_symlink() {
        let mode = match at % 3 {
            _ if kind.is_dir() => 0o755,
            0 => 0o644,
            1 => 0o600,
            _ => 0o751,
        };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let time = Timespec { tv_sec: 1_600_000_000 + 86_400 * at, tv_nsec: 1_000_003 * at };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// The paths of all that is below `root`, and its own, sorted.
fn below(root: &Path) -> Vec<PathBuf> {
    let (mut paths, mut open) = (Vec::new(), vec![PathBuf::from(".")]);
    while let Some(path) = open.pop() {
        if root.join(&path).symlink_metadata().unwrap().is_dir() {
            let names =
                fs::read_dir(root.join(&path)).unwrap().map(|entry| entry.unwrap().file_name());
            open.extend(names.map(|name: OsString| path.join(name)));
        }
        paths.push(path);
    }
    paths.sort();
    paths
}

/// What a tree holds: a line for each entry, with kind, mode, time of the last change, names, length,
/// SHA-256 or where a link leads, and the path.
fn manifest_of(root: &Path) -> String {
    let line = |path: PathBuf| {
        let full = root.join(&path);
        let metadata = full.symlink_metadata().unwrap();
        let kind = FileType::from_raw_mode(metadata.mode());
        let (kind, content) = match kind {
            FileType::RegularFile => {
                let digest = Fingerprinter::sha256().fingerprint(&fs::read(&full).unwrap());
                ("file", format!("{} {} {digest}", metadata.nlink(), metadata.len()))
            }
            FileType::Directory => ("directory", "- - -".into()),
            FileType::Symlink => {
                let target = fs::read_link(&full).unwrap();
                ("link", format!("- - {}", target.as_os_str().as_bytes().escape_ascii()))
            }
            FileType::Fifo => ("pipe", "- - -".into()),
            other => panic!("{other:?} in the source"),
        };
        let mode = metadata.mode() & 0o7777;
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        let name = path.as_os_str().as_bytes().escape_ascii();
        format!("{kind} {mode:o} {seconds}.{nanoseconds:09} {content} {name}\n")
    };
    below(root).into_iter().map(line).collect()
}

/// Makes the repositories and the manifests in `folder`, of a source that lies at `root` meanwhile.
fn make(folder: &Path, root: &Path) {
    let lab = Lab::new();
    let place = |name: &str| folder.join(name).into_os_string().into_string().unwrap();
    let (plain, encrypted) = (place("plain"), place("encrypted"));
    for path in [&plain, &encrypted].into_iter().filter(|path| Path::new(path).exists()) {
        fs::remove_dir_all(path).unwrap();
    }
    let [_, (_, passwords)] = REPOSITORIES;
    lab.write("password", passwords[0]);
    lab.write("other", passwords[1]);
    let secret = "--password-file password";
    lab.ok(&format!("init {plain} --no-encryption"));
    lab.ok(&format!("init {encrypted} {secret}"));
    let back_up = |how: &str, tag: &str| {
        let line = format!("backup {how} --host fixture --tag {tag} {}", root.display());
        let mut command = lab.command(&line);
        command.env("USER", "somebody");
        Ran::of(&line, command.output().unwrap()).expect(0);
    };
    for (tag, state) in SNAPSHOTS {
        make_source(root, state);
        fs::write(folder.join(manifest_name(tag)), manifest_of(root)).unwrap();
        lab.settle();
        back_up(&format!("--repo {plain}"), tag);
        back_up(&format!("--repo {encrypted} {secret}"), tag);
        if tag == "first" {
            let other = "--new-password-file other --label second";
            lab.ok(&format!("key add --repo {encrypted} {secret} {other}"));
            lab.ok(&format!("key rotate --repo {encrypted} {secret}"));
            fs::remove_dir_all(root).unwrap();
        }
    }
    let client =
        lab.ok(&format!("key add --repo {encrypted} {secret} --write-only client.key --json"));
    back_up(&format!("--repo {encrypted} --key-file client.key"), WRITE_ONLY.0);
    let id = client.json()["id"].as_str().unwrap().to_owned();
    lab.ok(&format!("key remove --repo {encrypted} {secret} {id}"));
    fs::remove_dir_all(root).unwrap();
}

/// Every repository in `folder` opens with every password, has nothing wrong with it, and restores
/// to what the manifests say.
fn expect_readable(folder: &Path) {
    for (name, passwords) in REPOSITORIES {
        let lab = Lab::new();
        // Neither may the fixture be changed, nor is a checkout more than a folder of files.
        copy(&folder.join(name), &lab.path("repo"));
        for (at, password) in passwords.iter().enumerate() {
            lab.write(format!("password-{at}"), password);
            lab.ok(&format!("snapshots --repo repo --password-file password-{at}"));
        }
        let repo = match passwords {
            [] => "--repo repo",
            _ => "--repo repo --password-file password-0",
        };
        lab.ok(&format!("check {repo} --read-data"));
        let listed = lab.ok(&format!("snapshots {repo} --json")).json();
        let listed = listed.as_array().unwrap();
        let by_tag: BTreeMap<&str, &str> = listed
            .iter()
            .map(|one| (one["tags"][0].as_str().unwrap(), one["id"].as_str().unwrap()))
            .collect();
        assert_eq!(by_tag.keys().copied().collect::<Vec<_>>(), tags(name), "{name}");
        for (tag, id) in by_tag {
            let out = format!("out-{tag}");
            lab.ok(&format!("restore {repo} {id} --target {out}"));
            let expected = fs::read_to_string(folder.join(manifest_name(tag))).unwrap();
            let found = manifest_of(&lab.path(out));
            for (expected, found) in expected.lines().zip(found.lines()) {
                assert_eq!(found, expected, "{name}, {tag}");
            }
            assert_eq!(found.lines().count(), expected.lines().count(), "{name}, {tag}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for path in below(from) {
        match from.join(&path).is_dir() {
            true => fs::create_dir_all(to.join(&path)).unwrap(),
            false => drop(fs::copy(from.join(&path), to.join(&path)).unwrap()),
        }
    }
}

#[test]
fn the_candidate_of_version_1_is_read_as_it_was_meant() {
    expect_readable(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat").join(CANDIDATE));
}

/// With `ONEFOLD_COMPAT` the fixture is made there, to be kept.
#[test]
fn a_fixture_that_is_made_now_is_read_as_it_was_meant() {
    let temporary = tempfile::tempdir().unwrap();
    let (folder, root) = match env::var_os("ONEFOLD_COMPAT") {
        // Snapshots record the path of the source, which should say nothing of the machine.
        Some(folder) => (Path::new(&folder).join(CANDIDATE), PathBuf::from("/tmp/onefold-source")),
        None => (temporary.path().join("made"), temporary.path().join("source")),
    };
    fs::create_dir_all(&folder).unwrap();
    assert!(!root.exists(), "{} is in the way", root.display());
    make(&folder, &root);
    expect_readable(&folder);
}
