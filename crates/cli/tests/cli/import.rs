//! Snapshots taken over from archives, and from repositories that restic and borg made.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use onefold_testkit::{random, skip};

use crate::lab::{Lab, Ran, number};
use crate::tree_equality::assert_same_tree;

/// Whether a program runs; a skip if not.
fn has(program: &str) -> bool {
    let runs = Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !runs {
        skip(&format!("there is no {program}; `cargo xtask test` installs it"));
    }
    runs
}

fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Files of every kind that an archive and a snapshot have, at `root`.
fn make_files(lab: &Lab, root: &str) {
    lab.write(format!("{root}/empty"), "");
    lab.write(format!("{root}/text"), "text\n");
    lab.write(format!("{root}/long"), random(1, 3_000_000));
    lab.write(format!("{root}/deep/er/file"), random(2, 100_000));
    lab.write(format!("{root}/{}", "n".repeat(150)), "a long name");
    lab.write(format!("{root}/ümläut"), "x");
    fs::set_permissions(lab.path(format!("{root}/text")), fs::Permissions::from_mode(0o4751))
        .unwrap();
    symlink("text", lab.path(format!("{root}/link"))).unwrap();
    symlink("y".repeat(200), lab.path(format!("{root}/long-link"))).unwrap();
    fs::create_dir(lab.path(format!("{root}/empty-dir"))).unwrap();
    let fifo = lab.path(format!("{root}/fifo"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o640),
        0,
    )
    .unwrap();
}

/// Restores the latest snapshot to `out`.
fn restore(lab: &Lab) {
    lab.ok("restore --repo repo latest --target out");
}

#[test]
fn an_archive_of_tar_becomes_a_snapshot_of_the_same_tree() {
    let lab = Lab::with_repository();
    make_files(&lab, "src");
    fs::hard_link(lab.path("src/long"), lab.path("src/deep/other")).unwrap();
    for format in ["posix", "gnu"] {
        succeed(
            Command::new("tar")
                .args(["--format", format, "--xattrs", "-cf"])
                .arg(lab.path("a.tar"))
                .arg("-C")
                .arg(lab.path("src"))
                .arg("."),
        );
        let line = format!(
            "import tar --repo repo a.tar --host h --tag {format} --time 2020-02-03T04:05:06Z"
        );
        lab.ok(&line);
        restore(&lab);
        // GNU's own form has whole seconds only.
        if format == "posix" {
            assert_same_tree(&lab.path("src"), &lab.path("out"));
        }
        let inode = |name: &str| lab.path(name).metadata().unwrap().ino();
        assert_eq!(inode("out/long"), inode("out/deep/other"), "{format}");
        assert_eq!(fs::read(lab.path("out/long")).unwrap(), random(1, 3_000_000));
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
    let listed = lab.ok("snapshots --repo repo --json").json();
    assert_eq!(listed[0]["host"], "h", "{listed}");
    assert!(listed[0]["time"].as_str().unwrap().starts_with("2020-02-03T04:05:06"), "{listed}");
    lab.ok("check --repo repo --read-data");
}

#[test]
fn holes_of_an_archive_are_holes_of_the_snapshot() {
    let lab = Lab::with_repository();
    lab.write("src/sparse", "");
    let file = fs::File::options().write(true).open(lab.path("src/sparse")).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"start", 0).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"middle", 8 << 20).unwrap();
    file.set_len(20 << 20).unwrap();
    drop(file);
    for format in [
        &["--format=gnu"][..],
        &["--format=posix"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=0.0"],
    ] {
        let mut tar = Command::new("tar");
        tar.args(format).args(["--sparse", "-cf"]).arg(lab.path("a.tar")).arg("-C");
        succeed(tar.arg(lab.path("src")).arg("sparse"));
        let made = lab.ok("import tar --repo repo a.tar --json").json_lines();
        assert!(number(&made[made.len() - 2], "bytes") < 1 << 20, "{format:?} {made:?}");
        restore(&lab);
        let (from, to) = (fs::read(lab.path("src/sparse")), fs::read(lab.path("out/sparse")));
        assert!(from.unwrap() == to.unwrap(), "{format:?}");
        assert!(lab.path("out/sparse").metadata().unwrap().blocks() < 4_096, "{format:?}");
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
}

#[test]
fn an_archive_that_is_cut_off_leaves_no_snapshot() {
    let lab = Lab::with_repository();
    make_files(&lab, "src");
    succeed(
        Command::new("tar")
            .arg("-cf")
            .arg(lab.path("a.tar"))
            .arg("-C")
            .arg(lab.path("src"))
            .arg("."),
    );
    let whole = fs::read(lab.path("a.tar")).unwrap();
    for part in [0, 100, 1_000_000, whole.len() - 10_240] {
        fs::write(lab.path("cut.tar"), &whole[..part]).unwrap();
        lab.run("import tar --repo repo cut.tar").expect(1).says(&[
            "'cut.tar' was not imported",
            "no snapshot was made",
            &format!("the archive ends after {part} bytes"),
        ]);
    }
    fs::write(lab.path("bad.tar"), random(1, 10_000)).unwrap();
    lab.run("import tar --repo repo bad.tar").expect(1).says(&["byte 0 of the archive: expected"]);
    assert_eq!(lab.ok("snapshots --repo repo --json").json(), serde_json::json!([]));
    lab.ok("check --repo repo --read-data");
}

#[test]
fn entries_that_cannot_be_taken_over_are_named() {
    let lab = Lab::with_repository();
    lab.write("src/a", "x");
    // A label of a volume, and a path that leads out.
    let mut tar = Command::new("tar");
    tar.args(["--format=gnu", "--label=backup", "-P", "-cf"]).arg(lab.path("a.tar"));
    succeed(tar.arg("-C").arg(lab.path("src")).arg("a").arg("../src/a"));
    lab.run("import tar --repo repo a.tar").expect(3).says(&[
        "'backup' was not imported: entries of type 'V' are not known",
        "'../src/a' was not imported: its path leads out of the archive",
        "2 entries were not imported",
    ]);
    assert!(lab.ok("ls --repo repo latest").stdout.contains("a"));
}

/// The same content, kinds, modes, owners, and times to a second, but for hard links.
#[track_caller]
fn assert_taken_over(from: &Path, to: &Path) {
    let names = |folder: &Path| -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(from), names(to));
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        let (old, new) = (from.symlink_metadata().unwrap(), to.symlink_metadata().unwrap());
        let of = |meta: &fs::Metadata| (meta.mode(), meta.uid(), meta.gid());
        assert_eq!(of(&old), of(&new), "{}", from.display());
        // restic rounds times to the nearest second.
        assert!((old.mtime() - new.mtime()).abs() <= 1, "{}", from.display());
        match () {
            () if old.is_dir() => assert_taken_over(&from, &to),
            () if old.is_symlink() => {
                assert_eq!(fs::read_link(&from).unwrap(), fs::read_link(&to).unwrap());
            }
            () if old.is_file() => assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap()),
            () => {}
        }
    }
}

#[test]
fn snapshots_of_restic_are_taken_over_and_skipped_the_second_time() {
    if !has("restic") {
        return;
    }
    let lab = Lab::with_repository();
    make_files(&lab, "src");
    let restic = |words: &[&str]| {
        let mut command = Command::new("restic");
        command.args(words).current_dir(lab.path("")).env("RESTIC_PASSWORD", "x");
        command
            .env("RESTIC_REPOSITORY", lab.path("restic"))
            .env("RESTIC_CACHE_DIR", lab.path("rc"));
        succeed(&mut command);
    };
    restic(&["init"]);
    restic(&["backup", "src", "--host", "laptop", "--tag", "a,b", "--time", "2021-02-03 04:05:06"]);
    lab.write("src/new", random(3, 50_000));
    restic(&["backup", "src", "--host", "laptop"]);
    let import = |options: &str| {
        let line = format!("import restic --repo repo restic --json {options}");
        let mut command = lab.command(&line);
        command.env("RESTIC_PASSWORD", "x").env("RESTIC_CACHE_DIR", lab.path("rc"));
        Ran::of(&line, command.output().unwrap())
    };
    let counts = |ran: Ran| {
        let summary = ran.expect(0).summary();
        (number(&summary, "imported"), number(&summary, "there"))
    };
    assert_eq!(counts(import("latest")), (1, 0));
    assert_eq!(counts(import("")), (1, 1));
    assert_eq!(counts(import("")), (0, 2));
    let listed = lab.ok("snapshots --repo repo --json").json();
    let first = &listed[0];
    assert_eq!(first["host"], "laptop", "{listed}");
    assert_eq!(first["tags"], serde_json::json!(["a", "b"]), "{listed}");
    restore(&lab);
    // `restic dump` leaves named pipes out.
    fs::remove_file(lab.path("src/fifo")).unwrap();
    assert_taken_over(&lab.path("src"), &lab.path("out/src"));
    lab.ok("check --repo repo --read-data");
    // A wrong password is restic's to tell.
    let mut command = lab.command("import restic --repo repo restic");
    command.env("RESTIC_PASSWORD", "wrong").env("RESTIC_CACHE_DIR", lab.path("rc"));
    Ran::of("wrong", command.output().unwrap()).expect(1).says(&["'restic' failed"]);
}

#[test]
fn archives_of_borg_are_taken_over_with_hard_links_and_skipped_the_second_time() {
    if !has("borg") {
        return;
    }
    let lab = Lab::with_repository();
    make_files(&lab, "src");
    fs::hard_link(lab.path("src/long"), lab.path("src/deep/other")).unwrap();
    let borg = |command: &mut Command| {
        command.env("BORG_BASE_DIR", lab.path("borg-base")).env("BORG_PASSPHRASE", "x");
    };
    let run = |words: &[&str]| {
        let mut command = Command::new("borg");
        command.args(words).current_dir(lab.path(""));
        borg(&mut command);
        succeed(&mut command);
    };
    run(&["init", "-e", "repokey", "borg"]);
    run(&["create", "--timestamp", "2021-02-03T04:05:06", "borg::first", "src"]);
    run(&["create", "borg::second", "src"]);
    let import = || {
        let line = "import borg --repo repo borg --json";
        let mut command = lab.command(line);
        borg(&mut command);
        let summary = Ran::of(line, command.output().unwrap()).expect(0).summary();
        (number(&summary, "imported"), number(&summary, "there"))
    };
    assert_eq!(import(), (2, 0));
    assert_eq!(import(), (0, 2));
    let listed = lab.ok("snapshots --repo repo --json").json();
    assert_eq!(listed[0]["tags"], serde_json::json!(["first"]), "{listed}");
    assert!(listed[0]["time"].as_str().unwrap().starts_with("2021-02-0"), "{listed}");
    restore(&lab);
    assert_taken_over(&lab.path("src"), &lab.path("out/src"));
    let inode = |name: &str| lab.path(name).metadata().unwrap().ino();
    assert_eq!(inode("out/src/long"), inode("out/src/deep/other"));
    lab.ok("check --repo repo --read-data");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let lab = Lab::with_repository();
    let mut command = lab.command("import restic --repo repo restic");
    command.env("PATH", lab.path("nothing"));
    Ran::of("import", command.output().unwrap()).expect(1).says(&["cannot run 'restic'"]);
}
