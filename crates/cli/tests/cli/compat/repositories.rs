//! Repositories that are kept: how they are made, and what must come of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::random;

use super::source::{copy, make_source, manifest_of};
use crate::lab::{Lab, ONEFOLD, Ran};

const PASSWORDS: [&str; 2] = ["correct horse battery staple", "zweites Passwort"];

/// The tags of the snapshots, and of which state of the source each is.
const SNAPSHOTS: [(&str, u64); 2] = [("first", 1), ("second", 2)];

/// By clients that cannot read: the key of the one was taken back.
const WRITE_ONLY: [(&str, u64); 2] = [("third", 2), ("fourth", 2)];

/// A repository, and how it is opened.
struct Kept {
    name: &'static str,
    /// What it is made with.
    init: &'static str,
    is_encrypted: bool,
    snapshots: &'static [(&'static str, u64)],
}

const ALL: [Kept; 3] = [
    Kept { name: "plain", init: "--no-encryption", is_encrypted: false, snapshots: &SNAPSHOTS },
    Kept {
        name: "repository",
        init: "--password-file password-0",
        is_encrypted: true,
        snapshots: &[SNAPSHOTS[0], SNAPSHOTS[1], WRITE_ONLY[0], WRITE_ONLY[1]],
    },
    Kept {
        name: "padded",
        init: "--padding --password-file password-0",
        is_encrypted: true,
        snapshots: &SNAPSHOTS,
    },
];

impl Kept {
    /// What opens it where it lies at `place`.
    fn opened(&self, place: &str) -> String {
        match self.is_encrypted {
            true => format!("--repo {place} --password-file password-0"),
            false => format!("--repo {place}"),
        }
    }
}

fn lab() -> Lab {
    let lab = Lab::new();
    for (at, password) in PASSWORDS.iter().enumerate() {
        lab.write(format!("password-{at}"), password);
    }
    lab
}

/// The manifest of each state: `state-1` and `state-2`.
fn manifest_name(state: u64) -> String {
    format!("state-{state}")
}

/// Whether the version whose `folder` this is brought another format of repositories.
pub(super) fn are_in(folder: &Path) -> bool {
    ALL.iter().any(|kept| folder.join(kept.name).exists())
}

/// Makes the repositories and the manifests in `folder`, of a source that lies at `root` meanwhile.
pub(super) fn make(folder: &Path, root: &Path) {
    let lab = lab();
    let place = |name: &str| folder.join(name).into_os_string().into_string().unwrap();
    for kept in &ALL {
        lab.ok(&format!("init {} {}", place(kept.name), kept.init));
    }
    let back_up = |how: &str, tag: &str| {
        let line = format!("backup {how} --host fixture --tag {tag} {}", root.display());
        let mut command = lab.command(&line);
        command.env("USER", "somebody");
        Ran::of(&line, command.output().unwrap()).expect(0);
    };
    let [_, repository, _] = &ALL;
    let main = place(repository.name);
    let owner = repository.opened(&main);
    // A backup that died and was given up, whose snapshot's place a fence has.
    die(&lab, &owner, Path::new(&main));
    lab.ok(&format!("prune {owner} --fence-after 0h"));
    // What is forgotten in the end.
    fs::create_dir(root).unwrap();
    fs::write(root.join("forgotten"), random(9, 30_000)).unwrap();
    lab.settle();
    back_up(&owner, "forgotten");
    fs::remove_dir_all(root).unwrap();
    for (tag, state) in SNAPSHOTS {
        make_source(root, state);
        fs::write(folder.join(manifest_name(state)), manifest_of(root)).unwrap();
        lab.settle();
        for kept in &ALL {
            back_up(&kept.opened(&place(kept.name)), tag);
        }
        if tag == "first" {
            lab.ok(&format!("key add {owner} --new-password-file password-1 --label second"));
            lab.ok(&format!("key rotate {owner}"));
            fs::remove_dir_all(root).unwrap();
        }
    }
    let [taken_back, good] = WRITE_ONLY;
    let client = lab.ok(&format!("key add {owner} --write-only stolen.key --json"));
    back_up(&format!("--repo {main} --key-file stolen.key"), taken_back.0);
    let id = client.json()["id"].as_str().unwrap().to_owned();
    lab.ok(&format!("key remove {owner} {id}"));
    lab.ok(&format!("key add {owner} --write-only client.key"));
    back_up(&format!("--repo {main} --key-file client.key"), good.0);
    lab.write("pair.pub", lab.ok("key generate pair.key").stdout);
    let trust = lab.ok(&format!("key add {owner} --public-key pair.pub --label pair")).stdout;
    let private = fs::read_to_string(lab.path("pair.key")).unwrap();
    fs::write(folder.join("pair.key"), format!("{private}{trust}")).unwrap();
    fs::copy(lab.path("client.key"), folder.join("client.key")).unwrap();
    // A mark, which waits for a backup that died.
    die(&lab, &owner, Path::new(&main));
    let forgotten = by_tag(&lab, &owner).remove("forgotten").unwrap();
    lab.ok(&format!("forget {owner} {forgotten}"));
    lab.ok(&format!("prune {owner} --max-unused 0"));
    fs::remove_dir_all(root).unwrap();
    for (below, least) in [
        ("containers", 4),
        ("index", 3),
        // Four, and a fence.
        ("snapshots", 5),
        ("receipts", 4),
        ("keys", 3),
        ("epochs", 1),
        ("intents", 1),
        ("marks", 1),
        ("logs", 5),
        ("clients", 4),
    ] {
        let count = fs::read_dir(Path::new(&main).join(below)).unwrap().count();
        assert!(count >= least, "{count} in {below}");
    }
}

/// Begins a backup as another machine would, with a state folder of its own, and kills it once it has
/// given notice of itself. A prune of its own machine would know at once that it is dead.
fn die(lab: &Lab, owner: &str, repository: &Path) {
    let intents = || fs::read_dir(repository.join("intents")).map_or(0, Iterator::count);
    let before = intents();
    let mut command = lab.command(&format!("backup {owner} --host fixture --stdin"));
    command.env("USER", "somebody").env("ONEFOLD_STATE_DIR", lab.path("elsewhere"));
    command.stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while intents() == before {
        assert!(Instant::now() < patience, "no intent");
        thread::sleep(Duration::from_millis(5));
    }
    // What it was put by is gone, too.
    thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(intents(), before + 1);
}

fn by_tag(lab: &Lab, repo: &str) -> BTreeMap<String, String> {
    let listed = lab.ok(&format!("snapshots {repo} --json")).json();
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let listed = listed.as_array().unwrap();
    listed.iter().map(|one| (word(&one["tags"][0]), word(&one["id"]))).collect()
}

/// `program` opens every repository in `folder` with every key, finds nothing wrong with it, restores
/// what the manifests say, and goes on to write, prune and check it. So does the program under test
/// afterwards.
pub(super) fn expect_usable(folder: &Path, program: &Path) {
    for kept in &ALL {
        let mut lab = lab();
        lab.program = program.into();
        // Neither may the fixture be changed, nor is a checkout more than a folder of files.
        copy(&folder.join(kept.name), &lab.path("repo"));
        let repo = kept.opened("repo");
        lab.ok(&format!("check {repo} --read-data"));
        expect_restored(&lab, kept, &repo, folder, kept.snapshots);
        if kept.name == "repository" {
            fs::copy(folder.join("pair.key"), lab.path("pair.key")).unwrap();
            fs::copy(folder.join("client.key"), lab.path("client.key")).unwrap();
            lab.ok("snapshots --repo repo --password-file password-1");
            lab.ok("snapshots --repo repo --key-file pair.key");
        }
        go_on(&lab, kept, &repo);
        expect_restored(&lab, kept, &repo, folder, &kept.snapshots[1..]);
        if program != Path::new(ONEFOLD) {
            lab.program = ONEFOLD.into();
            lab.ok(&format!("check {repo} --read-data"));
            expect_restored(&lab, kept, &repo, folder, &kept.snapshots[1..]);
        }
    }
}

fn expect_restored(lab: &Lab, kept: &Kept, repo: &str, folder: &Path, snapshots: &[(&str, u64)]) {
    let mut there = by_tag(lab, repo);
    there.remove("later");
    let tags: Vec<_> = there.keys().map(String::as_str).collect();
    let mut expected: Vec<_> = snapshots.iter().map(|(tag, _)| *tag).collect();
    expected.sort_unstable();
    assert_eq!(tags, expected, "{}", kept.name);
    for (tag, state) in snapshots {
        let out = lab.path("out");
        lab.ok(&format!("restore {repo} {} --target out", there[*tag]));
        let expected = fs::read_to_string(folder.join(manifest_name(*state))).unwrap();
        let found = manifest_of(&out);
        for (expected, found) in expected.lines().zip(found.lines()) {
            assert_eq!(found, expected, "{}, {tag}", kept.name);
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{}, {tag}", kept.name);
        fs::remove_dir_all(out).unwrap();
    }
}

/// Writes to a copy, forgets, prunes and checks.
fn go_on(lab: &Lab, kept: &Kept, repo: &str) {
    let more = random(20, 50_000);
    lab.write("more/file", &more);
    lab.settle();
    lab.ok(&format!("backup {repo} --host fixture --tag later more"));
    if kept.name == "repository" {
        lab.ok("backup --repo repo --key-file client.key --host fixture --tag later more");
        lab.ok(&format!("key rotate {repo}"));
    }
    let first = by_tag(lab, repo).remove("first").unwrap();
    lab.ok(&format!("forget {repo} {first}"));
    lab.ok(&format!("prune {repo} --max-unused 0 --fence-after 0h"));
    for left in ["intents", "marks"] {
        let left = fs::read_dir(lab.path(format!("repo/{left}"))).into_iter().flatten();
        assert_eq!(left.count(), 0, "{}", kept.name);
    }
    lab.ok(&format!("check {repo} --read-data"));
    let later = by_tag(lab, repo).remove("later").unwrap();
    lab.ok(&format!("restore {repo} {later} --target later"));
    assert!(fs::read(lab.path("later/file")).unwrap() == more);
}
