//! `cargo lab dataset build` stopped after each of its steps and run again.
//!
//! The programs that recipes run are scripts here, found first on PATH. One of them sends the signal
//! of Ctrl-C when it has done its work as often as `STOP_AFTER` says.

use std::fs;
use std::path::Path;
use std::process::Command;

use onefold_testkit::skip;

use crate::lab::{Lab, PROGRAM, Ran};

/// Ends a script that may be the one to stop at.
const MAYBE_STOP: &str = r#"
echo >> "$HOME/stops"
if [ "$(wc -l < "$HOME/stops")" = "$STOP_AFTER" ]; then
    kill -INT $PPID
    sleep 0.1
fi
"#;

/// Notes down what is installed, as one file each.
const APT_GET: &str = r#"#!/bin/sh
for package; do :; done
echo "$package" >> "$HOME/downloads"
echo "$package" > package.deb
"#;

const DPKG_DEB: &str = r#"#!/bin/sh
package=$(cat "$2")
case $1 in
-x) mkdir -p "$3/usr/bin"; echo "$package" > "$3/usr/bin/$package"; chmod 4750 "$3/usr/bin/$package"
    mkdir -p -m 1777 "$3/tmp"; ln -f "$3/usr/bin/$package" "$3/usr/bin/also-$package" ;;
-f) echo "Package: $package" ;;
-c) echo "usr/bin/$package" ;;
esac
"#;

/// The real one; what it packs are the steps.
const TAR: &str = r#"#!/bin/sh
PATH=${PATH#*:} tar "$@" || exit
case " $* " in *" -c "*) ;; *) exit 0 ;; esac
"#;

const INITDB: &str = r#"#!/bin/sh
for data; do :; done
echo >> "$HOME/databases"
mkdir -m 700 "$data" && mkdir "$data/empty" && echo 15 > "$data/PG_VERSION"
"#;

/// What PostgreSQL asks of the folder of a database.
const PG_CTL: &str = r#"#!/bin/sh
case $1 in
start)
    for word; do [ "$before" = -D ] && data=$word; before=$word; done
    [ "$(stat -c %a "$data")" = 700 ] && [ -d "$data/empty" ] || exit 1 ;;
esac
"#;

const PGBENCH: &str = r#"#!/bin/sh
echo round >> "$3/rounds"
"#;

const PG_DUMP: &str = "#!/bin/sh\ncat \"$3/rounds\"\n";

const PSQL: &str = "#!/bin/sh\ncp \"$8\" \"$3/rounds\"\n";

const RUNUSER: &str = "#!/bin/sh\nshift 3\nexec \"$@\"\n";

const CHOWN: &str = "#!/bin/sh\n";

/// Answers each line with OK; a snapshot is the number of its process and how many keys were set.
const REDIS_SERVER: &str = r#"#!/usr/bin/env python3
import os, signal, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
client = server.accept()[0]
sets, stops = 0, 0
for line in client.makefile("rb"):
    sets += 1
    if line == b"SAVE\r\n":
        sets -= 1
        stops += 1
        with open("dump.rdb", "w") as dump:
            dump.write(f"{os.getpid()} {sets}")
        if stops == int(os.environ["STOP_AFTER"]):
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.1)
    client.sendall(b"+OK\r\n")
"#;

/// A lab whose PATH begins with these scripts.
struct Shelf(Lab);

impl Shelf {
    fn new(scripts: &[(&str, String)]) -> Self {
        let lab = Lab::new();
        for (name, text) in scripts {
            let path = Path::new("bin").join(name);
            lab.write(&path, text);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(lab.path(&path), mode).unwrap();
        }
        Self(lab)
    }

    /// Builds until the so many-th step is done, or to the end.
    fn build(&self, order: &str, dir: &str, stop_after: usize) -> Ran {
        let mut path = self.0.path("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let _ = fs::remove_file(self.0.path("stops"));
        let line = format!("dataset build {order} --dir {dir}");
        let mut command = self.0.command(&line);
        command.env("PATH", path).env("HOME", self.0.path("")).env("TMPDIR", self.0.path(""));
        let output = command.env("STOP_AFTER", stop_after.to_string()).output().unwrap();
        Ran::of(&line, output)
    }

    /// Builds, stopped after each step; how often it was stopped.
    fn build_in_steps(&self, order: &str) -> usize {
        for stopped in 0..20 {
            let ran = self.build(order, "broken", 1);
            if ran.code == 0 {
                return stopped;
            }
            ran.expect(130).says(&["parts of datasets that are done are kept"]);
        }
        panic!("{order}: does not come to an end");
    }

    /// The lines of a file that scripts append to.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.0.path(name)).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Name and bytes of each file below a folder.
    fn files(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.0.path(folder)).unwrap().map(Result::unwrap);
        let mut files: Vec<_> = entries
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }
}

/// What has its name counts as whole, so its bytes must be on the disk before, and the name after.
#[test]
fn parts_and_the_receipt_are_flushed_before_and_after_they_get_their_names() {
    let strace = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !strace.is_ok_and(|output| output.status.success()) {
        return skip("no strace here that can see what is flushed");
    }
    let lab = Lab::new();
    let mut command = Command::new("strace");
    command
        .args(["-f", "-y", "-e", "trace=/^(fsync|syncfs|rename.*)$", "-o"])
        .arg(lab.path("calls"));
    let line = "dataset build series:versions=2,bytes=1000,edits=1 --dir d";
    command.arg(PROGRAM).args(line.split(' ')).current_dir(lab.path(""));
    Ran::of(line, command.output().unwrap()).expect(0);

    let calls = fs::read_to_string(lab.path("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().filter(|line| line.contains('(')).collect();
    let mut named = 0;
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.contains(" rename")) {
        let unfinished = call.split('"').nth(1).unwrap();
        assert!(
            calls[at - 1].contains("sync(") && calls[at - 1].contains(unfinished),
            "{calls:#?}"
        );
        let home = Path::new(call.split('"').nth(3).unwrap()).parent().unwrap().file_name();
        let folder = format!("/{}>)", home.unwrap().to_str().unwrap());
        assert!(calls[at + 1].contains("fsync(") && calls[at + 1].contains(&folder), "{calls:#?}");
        named += 1;
    }
    assert_eq!(named, 3, "two versions and a receipt: {calls:#?}");
}

#[test]
fn file_systems_stopped_after_each_state_come_out_the_same_and_nothing_is_fetched_twice() {
    const ORDER: &str = "roots:count=5";
    let tar = format!("{TAR}{MAYBE_STOP}");
    let shelf =
        Shelf::new(&[("apt-get", APT_GET.into()), ("dpkg-deb", DPKG_DEB.into()), ("tar", tar)]);
    shelf.build(ORDER, "whole", 0).expect(0);
    let packages = shelf.lines("downloads");
    fs::remove_file(shelf.0.path("downloads")).unwrap();

    assert!(shelf.build_in_steps(ORDER) >= 4);
    assert_eq!(shelf.lines("downloads"), packages);
    let whole = shelf.files("whole/roots-count-5");
    assert_eq!(whole.len(), 5);
    assert!(whole.windows(2).all(|two| two[0].1 != two[1].1));
    // not `assert_eq`, which would print the bytes
    assert!(shelf.files("broken/roots-count-5") == whole, "other bytes after a stop");
}

/// A shelf with what stands in for PostgreSQL.
fn databases(tar: &str, pg_dump: &str) -> Shelf {
    Shelf::new(&[
        ("initdb", INITDB.into()),
        ("pg_ctl", PG_CTL.into()),
        ("pgbench", PGBENCH.into()),
        ("pg_dump", pg_dump.into()),
        ("psql", PSQL.into()),
        ("runuser", RUNUSER.into()),
        ("chown", CHOWN.into()),
        ("tar", tar.into()),
    ])
}

#[test]
fn a_database_stopped_after_each_state_goes_on_from_it() {
    let shelf = databases(&format!("{TAR}{MAYBE_STOP}"), PG_DUMP);
    assert!(shelf.build_in_steps("postgres:count=4,scale=1") >= 3);
    assert_eq!(shelf.lines("databases").len(), 1);
    let folder = shelf.0.path("broken/postgres-count-4-scale-1");
    for number in 0..4 {
        let mut tar = Command::new("tar");
        tar.arg("-xOf").arg(folder.join(format!("{number:02}.tar"))).arg("./rounds");
        let rounds = tar.output().unwrap().stdout;
        assert_eq!(rounds, b"round\n".repeat(number + 1), "state {number}");
    }
}

#[test]
fn a_database_stopped_after_each_dump_goes_on_from_it() {
    let shelf = databases(TAR, &format!("{PG_DUMP}{MAYBE_STOP}"));
    assert!(shelf.build_in_steps("postgres:count=4,scale=1,form=dump") >= 3);
    let dumps = shelf.files("broken/postgres-count-4-scale-1-form-dump");
    let expected = (0..4).map(|number| (format!("{number:02}.sql"), b"round\n".repeat(number + 1)));
    assert!(dumps.into_iter().eq(expected));
}

#[test]
fn snapshots_of_a_server_are_all_of_one_server_after_a_stop() {
    const ORDER: &str = "redis:snapshots=3";
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("no python3 here to stand in for a server");
    }
    let shelf = Shelf::new(&[("redis-server", REDIS_SERVER.into())]);
    shelf.build(ORDER, "broken", 2).expect(130);
    let before = shelf.files("broken/redis-snapshots-3");
    assert!(before.len() >= 2);
    shelf.build(ORDER, "broken", 0).expect(0);
    let words: Vec<Vec<String>> = shelf
        .files("broken/redis-snapshots-3")
        .into_iter()
        .map(|(_, text)| String::from_utf8(text).unwrap().split(' ').map(str::to_owned).collect())
        .collect();
    assert_eq!(
        words.iter().map(|words| &*words[1]).collect::<Vec<_>>(),
        ["400000", "404000", "408000"]
    );
    assert!(words.iter().all(|snapshot| snapshot[0] == words[0][0]), "{words:?}");
    assert_ne!(before[0].1, shelf.files("broken/redis-snapshots-3")[0].1);
}
