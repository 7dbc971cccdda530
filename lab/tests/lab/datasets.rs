//! `cargo lab dataset` and `paper`: what is told before, and what is told when it cannot be.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use onefold_testkit::skip;
use serde_json::{Value, json};

use crate::lab::{Lab, Ran, unprivileged};

/// A port where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:9";

#[test]
fn what_can_be_built_is_listed_and_what_was() {
    let lab = Lab::new();
    let orders = "rand:bytes=50000 series:versions=2,bytes=9000,edits=3";
    let built = lab.ok(&format!("dataset build {orders} --dir d --json")).json();
    assert_eq!(built[0]["bytes"], 50_000);
    let bytes = fs::read(lab.path("d/rand-bytes-50000/random.bin")).unwrap();
    assert_eq!(bytes.len(), 50_000);
    assert_eq!(built[1]["files"], 2);

    let listed = lab.ok("dataset list --dir d --json").json();
    let of = |name: &str| {
        let found = listed.as_array().unwrap().iter().find(|one| one["name"] == name);
        found.unwrap().clone()
    };
    assert_eq!(of("rand")["built"][0]["digest"], built[0]["digest"]);
    assert_eq!(of("series")["built"].as_array().unwrap().len(), 1);
    assert_eq!(of("fio")["built"].as_array().unwrap().len(), 0);
    assert_eq!(of("rand")["download_bytes"], 0);
    assert!(of("rand")["source"].is_null());
    assert!(of("kubernetes")["download_bytes"].as_u64().unwrap() > 100_000_000);
    let table = lab.ok("dataset list").stdout;
    for text in ["kubernetes", "Go module proxy", "kind=insert-delete"] {
        assert!(table.contains(text), "{text}: {table}");
    }
}

#[test]
fn with_json_an_error_is_one_object() {
    let lab = Lab::new();
    let error = |line: &str| {
        let ran = lab.run(line).expect(1);
        assert!(ran.stdout.is_empty(), "{ran:#?}");
        let error: Value = serde_json::from_str(&ran.stderr).unwrap_or_else(|_| panic!("{ran:#?}"));
        assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!(1)), "{error}");
        error
    };
    let unknown = error("dataset build kubernets --dir d --json");
    assert!(unknown["message"].as_str().unwrap().contains("no dataset 'kubernets'"), "{unknown}");
    assert!(unknown["hint"].as_str().unwrap().contains("cargo lab dataset list"), "{unknown}");
    for line in ["dataset --nonsense --json", "--json trace replay --nonsense", "nosuch --json"] {
        let misuse = error(line);
        let message = misuse["message"].as_str().unwrap();
        assert!(message.contains("--nonsense") || message.contains("nosuch"), "{misuse}");
    }
    // there it is where the JSON goes
    let said = lab.run("paper vectorcdc --json out.json --nonsense").expect(1).stderr;
    assert!(said.starts_with("error: unexpected argument"), "{said}");
}

#[test]
fn a_name_that_there_is_not_is_told_the_nearest() {
    let lab = Lab::new();
    let ran = lab.run("dataset build rand:bytes=1 kubernets --dir d").expect(1);
    ran.says(&["no dataset 'kubernets'", "like kubernetes", "hint: `cargo lab dataset list`"]);
    assert!(!lab.path("d").exists(), "nothing is built before all names are known");
    lab.run("dataset build series:edits=many --dir d").expect(1).says(&["edits as a whole"]);
}

#[test]
fn a_disk_too_small_is_told_before_the_download() {
    let lab = Lab::new();
    let ran = lab.run("dataset build rand:bytes=900000000000000 --dir d").expect(1);
    ran.says(&["takes 900000000 MB in 'd'", "nothing was downloaded", "hint: name a folder"]);
    assert!(!lab.path("d").exists());
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let lab = Lab::new();
    let mut command = lab.command("dataset build typescript --dir d");
    let ran = Ran::of("without a PATH", command.env("PATH", lab.path("")).output().unwrap());
    ran.expect(1).says(&["npm (package npm)", "hint: on Debian: apt-get install npm"]);
    assert!(!lab.path("d").exists());
}

#[test]
fn offline_it_is_told_what_could_not_be_fetched_and_from_where() {
    let downloads = [
        ("go", "kubernetes:count=1", "k8s.io/kubernetes@v1.26.0", "Go module proxy"),
        ("npm", "esbuild", "@esbuild/linux-x64@0.20.0", "npm registry"),
        ("python3", "numpy", "numpy==1.26.0", "Python Package Index"),
    ];
    for (program, name, what, source) in downloads {
        if Command::new(program).arg("--help").output().is_err() {
            skip(&format!("no {program} here to fail without a network"));
            continue;
        }
        let lab = Lab::new();
        let mut command = lab.command(&format!("dataset build {name} --dir d"));
        command.env("GOPROXY", NOWHERE).env("PIP_INDEX_URL", NOWHERE);
        command.env("npm_config_registry", NOWHERE).env("HOME", lab.path(""));
        command.env("npm_config_cache", lab.path("npm"));
        let ran = Ran::of(name, command.output().unwrap()).expect(1);
        ran.says(&[
            "about",
            what,
            source,
            "could not be fetched",
            "hint: check the network",
            "run it again",
        ]);
        assert!(!lab.path("d").join(format!("{name}.json")).exists());
    }
}

/// apt and debootstrap are told of the nowhere that they fetch from in their own ways.
#[test]
fn offline_the_archive_is_named_too() {
    for (program, name, choice, what) in [
        ("apt-get", "pdf", "", "texlive-humanities-doc"),
        ("debootstrap", "vm", ":count=1", "a Debian 12 system"),
    ] {
        if Command::new(program).arg("--version").output().is_err() {
            skip(&format!("no {program} here to fail without a network"));
            continue;
        }
        if name == "vm" && !rustix::process::geteuid().is_root() {
            skip("only root may make a vm");
            continue;
        }
        let lab = Lab::new();
        lab.write("apt.conf", format!("Acquire::http::Proxy \"{NOWHERE}\";\n"));
        let mut command = lab.command(&format!("dataset build {name}{choice} --dir d"));
        command.env("APT_CONFIG", lab.path("apt.conf")).env("http_proxy", NOWHERE);
        let ran = Ran::of(name, command.output().unwrap()).expect(1);
        ran.says(&[
            what,
            "could not be fetched from the Debian archive",
            "hint: check the network",
        ]);
        let receipt = format!("{name}{}.json", choice.replace([':', '='], "-"));
        assert!(!lab.path("d").join(receipt).exists());
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let lab = Lab::new();
    lab.write("file", "");
    for dir in ["file", "file/below", "/proc/nowhere"] {
        let ran = lab.run(&format!("dataset build rand:bytes=10 --dir {dir}")).expect(1);
        ran.says(&[dir]);
    }
}

#[test]
fn a_paper_that_is_not_known_is_told_those_that_are() {
    let lab = Lab::new();
    let ran = lab.run("paper vectorcd --dir d").expect(1);
    ran.says(&["vectorcd", "vectorcdc", "rapidcdc", "investigation"]);
}

#[test]
fn a_folder_that_takes_no_files_is_known_before_a_paper_is_measured() {
    let lab = Lab::new();
    lab.write("closed/old.json", "{}");
    fs::set_permissions(lab.path("closed/old.json"), Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(lab.path("closed"), Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(lab.path(""), Permissions::from_mode(0o777)).unwrap();
    let Some(run) = unprivileged(&lab) else { return };
    for out in ["--json closed/new.json", "--json closed/old.json", "--html closed/new.html"] {
        let (_, place) = out.split_once(' ').unwrap();
        let ran = run(&format!("paper vectorcdc --quick --dir . --verbose {out}")).expect(1);
        let ran = ran.says(&[&format!("cannot write '{place}'"), "Permission denied"]);
        assert!(ran.stdout.is_empty() && !ran.stderr.contains("cutting"), "{ran:#?}");
    }
}
