//! Exit codes are restic's, and every refusal names the value and what was expected of it.

use std::fs;

use crate::lab::Lab;

#[test]
fn a_missing_repository_is_10_and_the_way_out_is_told() {
    let lab = Lab::new();
    for command in ["snapshots", "stats", "check", "ls latest", "diff 1 2", "backup ."] {
        let ran = lab.run(&format!("{command} --repo nowhere")).expect(10);
        ran.says(&["no repository in 'nowhere'", "hint: create one with `onefold init nowhere`"]);
    }
    lab.run("restore --repo nowhere latest --target out").expect(10);
    assert!(!lab.path("out").exists() && !lab.path("nowhere").exists());
}

#[test]
fn what_is_no_repository_is_10() {
    let lab = Lab::new();
    fs::create_dir(lab.path("empty")).unwrap();
    lab.run("snapshots --repo empty").expect(10).says(&["hint: create one"]);
    lab.write("file", "x");
    lab.run("snapshots --repo file").expect(10).says(&["'file'", "no directory"]);
    lab.run("snapshots --repo file/below").expect(10);
    for name in ["data/00/0012", "index/34", "keys/56", "snapshots/78"] {
        lab.write(format!("restic/{name}"), "x");
    }
    lab.write("restic/config", [0xa5; 155]);
    let ran = lab.run("snapshots --repo restic").expect(10);
    ran.says(&["no repository in 'restic'", "not written by Onefold", "hint: name the location"]);
    lab.write("documents/letter.txt", "x");
    lab.run("snapshots --repo documents").expect(10).says(&["documents"]);
    lab.run("backup --init --no-encryption --repo documents file")
        .expect(1)
        .says(&["'letter.txt'", "hint:"]);
    assert!(!lab.path("documents/config").exists());
}

#[test]
fn a_damaged_repository_is_1_and_not_mistaken_for_none() {
    let lab = Lab::with_repository();
    let mut config = fs::read(lab.path("repo/config")).unwrap();
    *config.last_mut().unwrap() ^= 1;
    fs::write(lab.path("repo/config"), config).unwrap();
    lab.run("snapshots --repo repo").expect(1).says(&["config", "damaged"]);
}

#[test]
fn init_refuses_what_is_taken() {
    let lab = Lab::with_repository();
    lab.run("init repo --no-encryption")
        .expect(1)
        .says(&["there is a repository already", "hint:"]);
    // Before it asks for a password.
    lab.run("init repo").expect(1).says(&["there is a repository already"]);
    lab.write("documents/letter.txt", "x");
    lab.run("init documents --no-encryption")
        .expect(1)
        .says(&["'letter.txt' is already there", "hint:"]);
    lab.write("file", "x");
    lab.run("init file --no-encryption").expect(1).says(&["file", "no directory"]);
    // What has no name of an object is in nobody's way, and is told.
    for name in ["Photos/Rome 2019.jpg", "Thesis.TXT", "lost+found/#12"] {
        lab.write(format!("disk/{name}"), "x");
    }
    lab.ok("init disk --no-encryption").says(&["warning:", "'Photos', 'Thesis.TXT',"]);
    lab.write("second/Thesis.TXT", "x");
    let ran = lab.ok("backup --init --no-encryption --repo second file");
    ran.says(&["warning:", "'Thesis.TXT'"]);
    assert!(lab.path("second/Thesis.TXT").exists());
    assert!(!lab.ok("backup --repo second file").stderr.contains("warning"));
    lab.ok("init made/with/parents --no-encryption");
}

#[test]
fn sizes_out_of_order_or_absurd_are_1_and_told_by_value() {
    let lab = Lab::new();
    lab.write("file", "x");
    let refusals: &[(&str, &[&str])] = &[
        ("--min 0", &["minimum chunk size is 0", "at least 1"]),
        ("--avg 0", &["average chunk size 0", "below the minimum 1"]),
        ("--max 0", &["maximum chunk size 0", "below the average 16384"]),
        ("--min 9k --avg 8k", &["average chunk size 8192", "below the minimum 9216"]),
        ("--avg 8k --max 4KiB", &["maximum chunk size 4096", "below the average 8192"]),
        ("--min 1 --avg 2 --max 1", &["maximum chunk size 1", "below the average 2"]),
        ("--avg 64k --max 1G", &["maximum chunk size 1073741824", "limit 67108864"]),
        ("--avg 1G", &["average chunk size 1073741824", "limit 67108864"]),
        ("--avg 99999999999G", &["99999999999G", "cannot be counted"]),
        ("--avg -8", &["-8"]),
        ("--avg 8XB", &["8XB", "expected bytes"]),
        ("--avg 1.5k", &["1.5k", "expected bytes"]),
        ("--algorithm gear2", &["gear2", "possible values: fixed, rabin, gear"]),
        (
            "--algorithm mincdc --min 1k --avg 2k --max 8k",
            &["average chunk size 2048", "expected 4608"],
        ),
    ];
    for (sizes, texts) in refusals {
        lab.run(&format!("init refused {sizes}")).expect(1).says(texts);
        lab.run(&format!("chunk file {sizes}")).expect(1).says(texts);
    }
    assert!(!lab.path("refused").exists());
}

#[test]
fn wrong_usage_is_1_and_told() {
    let lab = Lab::with_repository();
    for (line, text) in [
        ("", "Usage: onefold"),
        ("explode", "unrecognized subcommand 'explode'"),
        ("snapshots", "--repo <REPO>"),
        ("init", "REPO"),
        ("backup --repo repo", "<PATH>"),
        ("backup --repo repo --no-encryption .", "--init"),
        ("backup --repo repo --threads 0 .", "--threads"),
        ("restore --repo repo latest", "--target"),
        (
            "restore --repo repo latest --target out --overwrite perhaps",
            "always, if-changed, never",
        ),
        ("ls --repo repo newest", "expected 'latest' or the first digits"),
        ("check --repo repo --read-data-subset 0%", "expected a percentage"),
        ("check --repo repo --read-data --read-data-subset 5%", "cannot be used with"),
        ("chunk --kernel mmx file", "possible values: auto, scalar"),
        ("chunk missing-file", "cannot open 'missing-file'"),
        ("snapshots --quiet --verbose --repo repo", "cannot be used with"),
    ] {
        lab.run(line).expect(1).says(&[text]);
    }
}

#[test]
fn help_and_version_are_0_and_go_to_standard_output() {
    let lab = Lab::new();
    assert!(lab.ok("--version").stdout.starts_with("onefold "));
    assert!(lab.ok("--help").stdout.contains("Exit codes:"));
    assert!(lab.ok("help restore").stdout.contains("--overwrite"));
    for line in ["backup --help", "restore -h", "chunk --help", "completion --help"] {
        let ran = lab.ok(line);
        assert!(ran.stdout.contains("Examples:") && ran.stderr.is_empty(), "{ran:#?}");
    }
}

#[test]
fn what_a_snapshot_lacks_is_1_and_named() {
    let lab = Lab::with_repository();
    lab.run("ls --repo repo latest").expect(1).says(&["no snapshot 'latest'", "has none yet"]);
    lab.write("src/a", "x");
    lab.ok("backup --repo repo src");
    lab.run("ls --repo repo 0123456789abcdef").expect(1).says(&["0123456789abcdef", "hint:"]);
    lab.run("ls --repo repo latest:b").expect(1).says(&["has no 'b'", "`onefold ls`"]);
    lab.run("diff --repo repo latest:a latest").expect(1).says(&["'a'", "expected a directory"]);
    let ran = lab.run("backup --repo repo missing").expect(1);
    ran.says(&["cannot back up 'missing'", "No such file"]);
    let ran = lab.run("backup --repo repo --exclude a{b src").expect(1);
    ran.says(&["'a{b' is not a glob"]);
}

#[test]
fn errors_are_json_when_json_is_asked_for() {
    let lab = Lab::new();
    let ran = lab.run("snapshots --repo nowhere --json").expect(10);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((&error["type"], &error["code"]), (&"error".into(), &10.into()));
    assert!(error["hint"].as_str().unwrap().contains("onefold init"), "{error}");
    assert!(ran.stdout.is_empty());
}
