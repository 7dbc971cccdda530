use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use onefold_testkit::skip;
use xtask::workspace::Cargo;

use crate::root::Root;

/// A root, or none after saying why.
fn root() -> Option<Root> {
    Root::new().map_err(|why| skip(&format!("no clean root: {why}"))).ok()
}

/// The Debian package of the program as the tests have it, made once for all of them.
fn package() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| make_package(&xtask::workspace::target_dir().join("packages/made")))
}

fn make_package(folder: &Path) -> PathBuf {
    if folder.exists() {
        fs::remove_dir_all(folder).unwrap();
    }
    let program = Cargo::default().build_as_tested().unwrap().join("onefold");
    let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
    dist.args(["dist", "deb", "--fast", "--program"]).arg(program).arg("--out").arg(folder);
    assert!(dist.status().unwrap().success(), "no package was made");
    let mut made = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    made.find(|path| path.extension().is_some_and(|extension| extension == "deb")).unwrap()
}

/// A root with the package in its folder `/root`.
fn with_package() -> Option<Root> {
    let root = root()?;
    let package = package();
    let name = package.file_name().unwrap().to_str().unwrap().to_owned();
    fs::copy(package, root.path("/root").join(name)).unwrap();
    Some(root)
}

#[test]
fn the_debian_package_installs_what_it_promises_and_removes_it() {
    let Some(root) = with_package() else { return };
    let before =
        root.ok("find /usr /etc /var/lib/systemd -path /usr/share/doc -prune -o -print | sort");
    root.ok("dpkg --install ./onefold_*.deb");
    assert_eq!(
        root.ok("onefold --version").trim(),
        format!("onefold {}", env!("CARGO_PKG_VERSION"))
    );
    root.ok("onefold cluster --help");

    let page = root.ok("man onefold-volume-create");
    assert!(page.contains("onefold volume create --pool /srv/pool --size 100GiB disk"), "{page}");
    let loaded = ". /usr/share/bash-completion/bash_completion; _completion_loader onefold; complete -p onefold";
    assert!(root.ok(loaded).contains("_onefold"));
    let offered = root.ok("fish -c 'complete --do-complete \"onefold back\"'");
    assert!(offered.contains("backup"), "{offered}");
    let loaded =
        root.ok("zsh -f -c 'autoload -U compinit; compinit -u -D; print $_comps[onefold]'");
    assert_eq!(loaded.trim(), "_onefold");

    for unit in
        ["onefold-backup@home.service", "onefold-backup@home.timer", "onefold-serve@disks.service"]
    {
        let found = root.ok(&format!("systemd-analyze verify {unit} 2>&1"));
        assert!(!found.contains("onefold"), "{unit}: {found}");
    }
    assert!(root.ok("getent passwd onefold").contains("/usr/sbin/nologin"));
    let settings = root.ok("dpkg-query --showformat='${Conffiles}' --show onefold");
    assert!(settings.contains("/etc/onefold/common.conf"), "{settings}");
    root.ok("test -s /usr/share/doc/onefold/copyright");

    root.ok("dpkg --purge onefold");
    let after =
        root.ok("find /usr /etc /var/lib/systemd -path /usr/share/doc -prune -o -print | sort");
    let is_of_users = |line: &&str| {
        // the user stays, and other programs note it
        ![
            "/etc/passwd-",
            "/etc/shadow-",
            "/etc/group-",
            "/etc/gshadow-",
            "/etc/subuid-",
            "/etc/subgid-",
        ]
        .contains(line)
    };
    let names = |all: &str| all.lines().filter(is_of_users).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
}

#[test]
fn the_package_backs_up_checks_and_restores() {
    let Some(root) = with_package() else { return };
    root.ok("dpkg --install ./onefold_*.deb");
    root.ok(
        "export ONEFOLD_PASSWORD=secret ONEFOLD_REPOSITORY=/mnt/backup && onefold backup --init /etc /bin/bash \
         && onefold check --read-data && onefold restore latest --target /tmp/restored \
         && diff -r --no-dereference /etc /tmp/restored/etc && cmp /bin/bash /tmp/restored/bash",
    );
    let refused = root.sh("ONEFOLD_PASSWORD=other onefold snapshots --repo /mnt/backup");
    assert_eq!(refused.status.code(), Some(12));
}

/// Does what systemd does with a service of one instance, as far as this unit goes: settings from files, and the
/// commands of ExecStart and ExecStartPost, one after the other.
const SYSTEMCTL: &str = r#"#!/bin/bash
set -euo pipefail
[ "$1" = start ] || exit 0
instance=${2#*@}; instance=${instance%.service}
unit=/usr/lib/systemd/system/${2%%@*}@.service
mkdir -p /var/cache/onefold /var/lib/onefold
setting() { sed -n "s/^$1=//p" "$unit" | sed "s/%i/$instance/g"; }
while read -r file; do
    while IFS= read -r line; do
        case "$line" in '' | '#'*) ;; *) export "${line%%=*}=${line#*=}" ;; esac
    done < "${file#-}"
done < <(setting EnvironmentFile)
for word in $(setting Environment); do export "$word"; done
setting ExecStart | while read -r line; do eval "$line"; done
setting ExecStartPost | while read -r line; do eval "$line"; done
"#;

/// The lines of shell in a section of a document.
fn lines_of(document: &str, heading: &str) -> Vec<String> {
    let path = xtask::workspace::root().join(document);
    let text = fs::read_to_string(path).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("{document} has no section '{heading}'"));
    let blocks = section.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("\n```").next().unwrap());
    blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn who_follows_the_page_about_the_debian_package_gets_a_nightly_backup() {
    let Some(root) = with_package() else { return };
    root.write("/usr/local/bin/systemctl", SYSTEMCTL, 0o755);
    root.write("/usr/local/bin/journalctl", "#!/bin/sh\n", 0o755);
    root.ok("mkdir -p /home/me && echo mine > /home/me/file");
    let lines = lines_of("docs/install.md", "The Debian package");
    assert!(lines.len() > 8, "{lines:?}");
    for line in lines {
        if line.starts_with("onefold init") {
            // the step that the page leaves to the reader
            root.ok("sed -i 's/NAME/home/' /etc/onefold/backup/home.conf");
        }
        root.ok(&line);
    }
    root.ok("diff -r /home /tmp/restored/home && diff -r --no-dereference /etc/onefold /tmp/restored/etc/onefold");
    let snapshots = "onefold snapshots --json --repo /mnt/backup --password-file /etc/onefold/backup/home.password";
    assert!(root.ok(snapshots).contains("\"/home\""));
}

#[test]
fn a_static_build_names_what_it_lacks() {
    let program = static_program(env::consts::ARCH);
    if !program.exists() {
        return skip("no static program here; `cargo xtask dist static` builds it");
    }
    let Some(root) = root() else { return };
    fs::copy(&program, root.path("/usr/local/bin/onefold")).unwrap();
    for command in
        ["cluster status ceph:a/b", "volume move a --to b", "volume list --cluster ceph:a/b"]
    {
        let output = root.sh(&format!("onefold {command}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("this build of onefold has no clusters"), "{command}: {said}");
        assert!(said.contains("use the Debian package"), "{command}: {said}");
    }
    for command in ["devices", "bench gpu", "chunk --device cuda:0 /bin/bash"] {
        let output = root.sh(&format!("onefold {command}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("this build of onefold has no GPUs"), "{command}: {said}");
        assert!(said.contains("use the Debian package"), "{command}: {said}");
    }
    let help = root.ok("onefold --help");
    assert!(!help.contains("cluster") && !help.contains("devices"), "{help}");
    root.ok(
        "export ONEFOLD_PASSWORD=secret ONEFOLD_REPOSITORY=/mnt/backup && onefold backup --init /etc \
         && onefold check --read-data && onefold restore latest --target /tmp/restored \
         && diff -r --no-dereference /etc /tmp/restored",
    );
}

#[test]
fn the_static_program_for_aarch64_backs_up_and_checks_emulated() {
    let program = static_program("aarch64");
    if !program.exists() {
        return skip("no such program; `cargo xtask dist static --arch aarch64` builds it");
    }
    if !xtask::programs::on_path("qemu-aarch64") {
        return skip("no qemu-aarch64: install qemu-user");
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut emulated = Command::new("qemu-aarch64");
        emulated.arg(&program).args(words).current_dir(folder.path());
        for variable in ["ONEFOLD_STATE_DIR", "ONEFOLD_CACHE_DIR"] {
            emulated.env(variable, folder.path().join(variable));
        }
        let output = emulated.env("ONEFOLD_PASSWORD", "secret").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {}: {said}", output.status);
    };
    let source = xtask::workspace::root().join("docs");
    run(&["backup", "--init", "--repo", "repo", source.to_str().unwrap()]);
    run(&["check", "--read-data", "--repo", "repo"]);
    // No restore: the emulator of Debian 12 has no `openat2`.
}

/// Where `cargo xtask dist static` leaves the program for a kind of CPU.
fn static_program(arch: &str) -> PathBuf {
    xtask::workspace::target_dir().join(format!("dist/programs/{arch}-jemalloc/onefold"))
}
