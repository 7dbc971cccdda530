//! Every command on its good days, in text and in JSON.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use onefold_testkit::random;
use serde_json::json;

use crate::lab::{Lab, Ran, number};

/// A repository with two snapshots of a small source.
fn lab() -> Lab {
    let lab = Lab::with_repository();
    lab.write("src/sub/a", random(1, 300_000));
    lab.write("src/b", "b");
    symlink("b", lab.path("src/link")).unwrap();
    lab.ok("backup --repo repo --tag first --host atlas src");
    lab.write("src/c", "c");
    lab.write("src/b", "B2");
    lab.ok("backup --repo repo --tag second --tag even --host atlas src");
    lab
}

#[test]
fn init_tells_what_was_made() {
    let lab = Lab::new();
    let ran = lab.ok("init one --no-encryption");
    for text in ["made repository ", "mincdc: 8192 to 24576 bytes, 16384", "not encrypted"] {
        assert!(ran.stdout.contains(text), "{ran:#?}");
    }
    let sizes = "--algorithm gear --min 2KiB --avg 8k --max 1MiB";
    let made = lab.ok(&format!("init two --no-encryption --json {sizes}")).json();
    assert_eq!(made["id"].as_str().unwrap().len(), 32);
    assert_eq!(made["encrypted"], false);
    assert_eq!(made["algorithm"], "gear");
    let found = ["min", "avg", "max"].map(|field| number(&made, field));
    assert_eq!(found, [2048, 8192, 1 << 20]);
    let made = lab.ok("init three --no-encryption --json --algorithm mincdc --avg 32KiB").json();
    assert_eq!([number(&made, "min"), number(&made, "max")], [16384, 49152]);
}

#[test]
fn the_environment_names_the_repository() {
    let lab = Lab::new();
    lab.write("src/a", "x");
    let run = |line: &str| {
        let output = lab.command(line).env("ONEFOLD_REPOSITORY", "repo").output().unwrap();
        Ran::of(line, output).expect(0)
    };
    run("init --no-encryption");
    run("backup src");
    assert!(run("snapshots").stdout.contains("src"));
    assert!(lab.path("repo/config").exists());
}

#[test]
fn backup_tells_what_was_new() {
    let lab = Lab::with_repository();
    lab.write("src/a", random(1, 200_000));
    lab.write("src/copy", random(1, 200_000));
    lab.settle();
    let ran = lab.ok("backup --repo repo src");
    for text in
        ["2 files: 2 new or changed, 0 unchanged", "1 directory, 0 others", "dedup ", "snapshot "]
    {
        assert!(ran.stdout.contains(text), "{text}: {ran:#?}");
    }
    lab.write("src/b", "b");
    let summary = lab.ok("backup --repo repo --json src").summary();
    assert_eq!([number(&summary, "files"), number(&summary, "unchanged_files")], [3, 2]);
    assert_eq!(number(&summary, "bytes"), 400_001);
    assert!(number(&summary, "new_bytes") < 10_000, "{summary}");
    assert_eq!(summary["parent"].as_str().unwrap().len(), 32);
    let forced = lab.ok("backup --repo repo --json --force --threads 1 src").summary();
    assert_eq!([number(&forced, "unchanged_files"), number(&forced, "new_bytes")], [0, 0]);
}

#[test]
fn snapshots_are_listed_oldest_first() {
    let lab = lab();
    let ran = lab.ok("snapshots --repo repo");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{ran:#?}");
    assert!(lines[0].starts_with("ID") && lines[1].contains("first"), "{ran:#?}");
    assert!(lines[2].contains("second,even") && lines[2].contains("atlas"), "{ran:#?}");
    let listed = lab.ok("snapshots --repo repo --json").json();
    assert_eq!(listed[1]["tags"], json!(["second", "even"]));
    assert_eq!(listed[1]["parent"], listed[0]["id"]);
    assert_eq!(listed[0]["paths"], json!([lab.path("src").canonicalize().unwrap()]));
    let time: &str = listed[0]["time"].as_str().unwrap();
    assert!(time.len() == "2026-01-01T00:00:00.000000000Z".len() && time.ends_with('Z'), "{time}");
    let count = |filter: &str| {
        let listed = lab.ok(&format!("snapshots --repo repo --json {filter}")).json();
        listed.as_array().unwrap().len()
    };
    assert_eq!(count("--tag even"), 1);
    assert_eq!(count("--tag even,first"), 0);
    assert_eq!(count("--tag even --tag first"), 2);
    assert_eq!([count("--host atlas"), count("--host other")], [2, 0]);
}

#[test]
fn ls_lists_what_a_snapshot_holds() {
    let lab = lab();
    assert_eq!(lab.ok("ls --repo repo latest").stdout, "b\nc\nlink\nsub\nsub/a\n");
    assert_eq!(lab.ok("ls --repo repo latest:sub").stdout, "sub/a\n");
    assert_eq!(lab.ok("ls --repo repo latest:/sub//a/").stdout, "sub/a\n");
    let long = lab.ok("ls --repo repo --long latest").stdout;
    assert!(long.starts_with("-rw") && long.contains(" link -> b\n"), "{long}");
    let entries = lab.ok("ls --repo repo --json latest").json_lines();
    assert_eq!(entries.len(), 5);
    let link = &entries[2];
    assert_eq!((&link["kind"], &link["target"]), (&json!("symlink"), &json!("b")));
    assert_eq!((&entries[4]["path"], number(&entries[4], "size")), (&json!("sub/a"), 300_000));
    let id = lab.ok("snapshots --repo repo --json").json()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(lab.ok(&format!("ls --repo repo {}", &id[..12])).stdout, "b\nlink\nsub\nsub/a\n");
}

#[test]
fn names_that_are_not_utf8_come_exactly() {
    let lab = Lab::with_repository();
    let name = OsStr::from_bytes(b"caf\xe9");
    lab.write(lab.path("src").join(name), "x");
    symlink(name, lab.path("src/link")).unwrap();
    lab.ok("backup --repo repo src");
    let output = lab.command("ls --repo repo -0 latest").output().unwrap();
    assert_eq!(output.stdout, b"caf\xe9\0link\0");
    let entries = lab.ok("ls --repo repo --json latest").json_lines();
    assert_eq!(entries[0]["path"], "caf\u{fffd}");
    assert_eq!(entries[0]["path_hex"], "636166e9");
    assert_eq!(entries[1]["target_hex"], "636166e9");
    assert!(entries[1].get("path_hex").is_none());
    let mut command = lab.command("ls --repo repo");
    let output = command.arg(OsStr::from_bytes(b"latest:caf\xe9")).output().unwrap();
    assert_eq!(output.stdout, b"caf\\xe9\n");
}

#[test]
fn a_pipe_gets_one_line_a_name_and_no_escape() {
    let lab = Lab::with_repository();
    lab.write("src/a\nb", "x");
    lab.write("src/\x1b[31m", "x");
    lab.ok("backup --repo repo src");
    let expected = "\\u{1b}[31m\na\\nb\n";
    assert_eq!(lab.ok("ls --repo repo latest").stdout, expected);
    assert_eq!(lab.ok("ls --repo repo -0 latest").stdout, "\x1b[31m\0a\nb\0");
    let found = lab.ok("find --repo repo *").stdout;
    assert!(found.ends_with(&format!(":\n{expected}\n")), "{found}");
    let id = lab.ok("snapshots --repo repo --json").json()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(lab.ok("find --repo repo -0 a*").stdout, format!("{id}:a\nb\0"));
    lab.ok("dump --repo repo -v latest / --target tar").says(&[expected]);
    lab.run("ls --repo repo -0 --json latest").expect(1).says(&["either of the two"]);
}

#[test]
fn snapshots_are_narrowed_and_grouped() {
    let lab = Lab::with_repository();
    for name in ["a", "b", "a"] {
        lab.write(format!("{name}/file"), name);
        for host in ["atlas", "boreas"] {
            lab.ok(&format!("backup --repo repo --host {host} --tag {name} {name}"));
        }
    }
    let count = |line: &str| {
        let listed = lab.ok(&format!("snapshots --repo repo --json {line}")).json();
        listed.as_array().unwrap().len()
    };
    let path = lab.path("a").canonicalize().unwrap();
    assert_eq!([count(""), count(&format!("--path {}", path.display()))], [6, 4]);
    assert_eq!(count("--path /nowhere"), 0);
    // Two hosts, two paths.
    assert_eq!([count("--latest 1"), count("--latest 2")], [4, 6]);
    let newest = lab.ok("snapshots --repo repo --json --latest 1 --host atlas").json();
    let all = lab.ok("snapshots --repo repo --json --host atlas").json();
    assert_eq!([&newest[0], &newest[1]], [&all[1], &all[2]]);
    let groups = lab.ok("snapshots --repo repo --json --group-by tags").json();
    assert_eq!([&groups[0]["tags"], &groups[1]["tags"]], [&json!(["a"]), &json!(["b"])]);
    assert_eq!(groups[0]["snapshots"].as_array().unwrap().len(), 4);
    assert!(groups[0].get("host").is_none());
    let text = lab.ok("snapshots --repo repo --group-by host").stdout;
    assert!(text.starts_with("host atlas:\nID") && text.contains("\n\nhost boreas:\nID"), "{text}");
    lab.run("snapshots --repo repo --latest 0").expect(1);
    lab.run("snapshots --repo repo --group-by user").expect(1).says(&["host, paths and tags"]);
}

#[test]
fn restore_tells_what_it_did() {
    let lab = lab();
    let ran = lab.ok("restore --repo repo latest --target out --verify");
    assert!(ran.stdout.contains("restored 3 files"), "{ran:#?}");
    assert!(ran.stdout.contains("3 verified"), "{ran:#?}");
    let summary = lab.ok("restore --repo repo latest:sub --target sub --json").summary();
    assert_eq!([number(&summary, "files"), number(&summary, "bytes")], [1, 300_000]);
    assert_eq!([number(&summary, "failed"), number(&summary, "kept")], [0, 0]);
    assert_eq!(summary["path"], "sub");
}

#[test]
fn diff_tells_every_kind_of_change() {
    let lab = Lab::with_repository();
    for name in ["changed", "gone", "same", "touched", "turned"] {
        lab.write(format!("src/{name}"), name);
    }
    lab.ok("backup --repo repo src");
    let before =
        lab.ok("snapshots --repo repo --json").json()[0]["id"].as_str().unwrap().to_owned();
    lab.write("src/changed", "otherwise");
    lab.write("src/new/below", "12345");
    fs::remove_file(lab.path("src/gone")).unwrap();
    fs::remove_file(lab.path("src/turned")).unwrap();
    symlink("same", lab.path("src/turned")).unwrap();
    let touched = fs::File::options().write(true).open(lab.path("src/touched")).unwrap();
    touched.set_modified(std::time::UNIX_EPOCH).unwrap();
    lab.ok("backup --repo repo src");
    let ran = lab.ok(&format!("diff --repo repo {before} latest"));
    let lines: Vec<_> = ran.stdout.lines().collect();
    let expected =
        ["U ./", "M changed", "- gone", "+ new/", "+ new/below", "U touched", "T turned"];
    assert_eq!(lines[..7], expected, "{ran:#?}");
    assert!(
        lines[7].starts_with("2 added (5 B), 1 removed (4 B), 1 with other content"),
        "{ran:#?}"
    );
    let changes = lab.ok(&format!("diff --repo repo --json {before} latest")).json_lines();
    assert_eq!(changes.len(), 8);
    assert_eq!((&changes[1]["change"], number(&changes[1], "size_after")), (&json!("content"), 9));
    assert_eq!(changes[6]["kind_after"], "symlink");
    assert_eq!((number(&changes[7], "added"), number(&changes[7], "kind")), (2, 1));
    let same = lab.ok("diff --repo repo --json latest latest").summary();
    assert_eq!((number(&same, "content"), number(&same, "metadata")), (0, 0));
}

#[test]
fn check_says_that_nothing_is_wrong() {
    let lab = lab();
    for how_much in ["", "--read-data", "--read-data-subset 50%"] {
        let ran = lab.ok(&format!("check --repo repo {how_much}"));
        assert!(ran.stdout.contains("2 snapshots") && ran.stdout.contains("nothing is wrong"));
        let checked = lab.ok(&format!("check --repo repo --json {how_much}")).json();
        assert_eq!(checked["findings"], json!([]));
        assert_eq!(number(&checked, "snapshots"), 2);
    }
    let checked = lab.ok("check --repo repo --json --read-data").json();
    assert!(number(&checked, "read_bytes") > 300_000);
}

#[test]
fn check_finds_what_is_missing_and_what_is_damaged() {
    let lab = lab();
    let mut containers = Vec::new();
    let mut open = vec![lab.path("repo/containers")];
    while let Some(path) = open.pop() {
        match path.is_dir() {
            true => open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => containers.push(path),
        }
    }
    let largest = containers.iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let good = fs::read(largest).unwrap();
    let mut bad = good.clone();
    bad[1000] ^= 1;
    fs::write(largest, bad).unwrap();
    let name = largest.file_name().unwrap().to_str().unwrap();
    let ran = lab.run("check --repo repo --read-data").expect(1);
    assert!(ran.stdout.contains(name) && ran.stdout.contains("wrong"), "{ran:#?}");
    lab.run("restore --repo repo latest --target out").expect(1).says(&["sub/a"]);
    assert_eq!(fs::read_to_string(lab.path("out/c")).unwrap(), "c", "the rest is restored");
    fs::remove_file(largest).unwrap();
    let checked = lab.run("check --repo repo --json").expect(1).json();
    let findings = checked["findings"].as_array().unwrap();
    assert!(!findings.is_empty() && findings[0]["problem"].is_string(), "{checked}");
    fs::write(largest, good).unwrap();
    lab.ok("check --repo repo --read-data");
}

#[test]
fn stats_tell_ratios_and_sizes() {
    let lab = lab();
    let ran = lab.ok("stats --repo repo");
    for text in ["logical", "unique", "stored", "dedup ratio", "compression ratio", "median"] {
        assert!(ran.stdout.contains(text), "{text}: {ran:#?}");
    }
    let stats = lab.ok("stats --repo repo --json").json();
    assert_eq!(number(&stats, "logical_bytes"), 600_001 + 3);
    assert!(stats["dedup_ratio"].as_f64().unwrap() > 1.9, "{stats}");
    let sizes = &stats["chunk_sizes"];
    let quantiles = ["min", "p10", "p25", "median", "p75", "p90", "p99", "max"];
    assert!(quantiles.map(|field| number(sizes, field)).is_sorted(), "{stats}");
    let hosts = lab.ok("stats --repo repo --by-host --json").json();
    assert_eq!(number(&hosts[0], "logical_bytes"), number(&stats, "logical_bytes"));
    assert_eq!(number(&hosts[0], "own_bytes"), number(&stats, "unique_bytes"));
    let tags = lab.ok("stats --repo repo --by-tag");
    assert!(tags.stdout.contains("own") && tags.stdout.lines().count() >= 2, "{tags:#?}");
    let empty = Lab::with_repository();
    let stats = empty.ok("stats --repo repo --json").json();
    assert!(stats["dedup_ratio"].is_null() && stats["chunk_sizes"].is_null(), "{stats}");
    empty.ok("stats --repo repo");
}

#[test]
fn chunks_cover_the_input_and_are_the_same_from_standard_input() {
    let lab = Lab::new();
    let bytes = random(3, 1_000_000);
    lab.write("file", &bytes);
    for algorithm in ["fixed", "rabin", "gear", "fastcdc", "ae-max", "ae-min", "ram", "mincdc"] {
        let line = format!("chunk --algorithm {algorithm} --avg 8KiB --kernel scalar");
        let from_file = lab.ok(&format!("{line} file")).stdout;
        let mut end = 0;
        for line in from_file.lines() {
            let fields: Vec<_> = line.split(' ').collect();
            let [offset, length, fingerprint] = fields[..] else { panic!("{line}") };
            assert_eq!((offset.parse(), fingerprint.len()), (Ok(end), 64));
            end += length.parse::<usize>().unwrap();
        }
        assert_eq!(end, bytes.len(), "{algorithm}");
        let mut child = lab
            .command(&format!("{line} -"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| bytes.chunks(777).try_for_each(|part| stdin.write_all(part)).unwrap());
        });
        drop(stdin);
        let from_pipe = child.wait_with_output().unwrap().stdout;
        assert!(from_pipe == from_file.as_bytes(), "{algorithm} cuts a pipe elsewhere");
    }
    let chunks = lab.ok("chunk --json file").json_lines();
    assert_eq!(number(&chunks[0], "offset"), 0);
    let sum: u64 = chunks.iter().map(|chunk| number(chunk, "length")).sum();
    assert_eq!(sum, 1_000_000);
    lab.ok("chunk --summary file").says(&["chunks", "in the mean"]);
    lab.write("empty", "");
    assert!(lab.ok("chunk empty").stdout.is_empty());
}

#[test]
fn a_secret_moves_the_cut_points_and_is_refused_where_it_would_not() {
    let lab = Lab::new();
    lab.write("file", random(4, 300_000));
    lab.write("bytes", [0xab; 32]);
    lab.write("digits", format!("{}\n", "aB".repeat(32)));
    lab.write("other", [0xac; 32]);
    lab.write("short", [0xab; 31]);
    let cuts = |line: &str| lab.ok(&format!("chunk --avg 8KiB file {line}")).stdout;
    for algorithm in ["gear-aes", "fastcdc", "mincdc"] {
        let open = cuts(&format!("--algorithm {algorithm}"));
        let keyed = |file| cuts(&format!("--algorithm {algorithm} --secret-file {file}"));
        assert_eq!(keyed("bytes"), keyed("digits"), "{algorithm}");
        assert!(keyed("bytes") != open && keyed("bytes") != keyed("other"), "{algorithm}");
    }
    let refused = |line: &str| lab.run(&format!("chunk file {line}")).expect(1);
    refused("--algorithm ram --secret-file bytes").says(&["ram has nothing to key"]);
    refused("--secret-file short").says(&["'short'", "32 bytes or 64 hexadecimal digits"]);
    refused("--secret-file missing").says(&["cannot read 'missing'"]);
}

#[test]
fn algorithms_are_listed_with_their_kernels() {
    let lab = Lab::new();
    let listed = lab.ok("algorithms --json").json();
    let text = lab.ok("algorithms").stdout;
    assert_eq!(text.lines().count(), 1 + listed.as_array().unwrap().len());
    for algorithm in listed.as_array().unwrap() {
        assert!(text.contains(algorithm["name"].as_str().unwrap()));
        let kernels = algorithm["kernels"].as_array().unwrap();
        assert!(kernels.contains(&json!("scalar")), "{algorithm}");
    }
    let presets = listed.as_array().unwrap().iter().filter(|one| one["preset"] == true);
    let names: Vec<&str> = presets.map(|one| one["name"].as_str().unwrap()).collect();
    let expected = ["fastcdc-2016", "fastcdc-2020", "xet", "restic", "borg", "casync", "desync"];
    assert_eq!(names, expected);
}

#[test]
fn completions_know_the_commands() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = lab.ok(&format!("completion {shell}")).stdout;
        assert!(script.contains("snapshots") && script.contains("overwrite"), "{shell}");
    }
}
