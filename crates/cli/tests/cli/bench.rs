//! `onefold bench`: what it reports is what was planted, and what it cannot do it says.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use onefold_testkit::random;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::{Lab, Ran, number, unprivileged};

/// Of each dataset the results, by way of a file.
fn results(lab: &Lab, arguments: &str) -> Vec<Value> {
    let ran = lab.ok(&format!("bench run {arguments} --json out.json"));
    assert!(ran.stdout.contains("Dedup ratio"), "{ran:#?}");
    read_results(lab)
}

fn read_results(lab: &Lab) -> Vec<Value> {
    let text = fs::read_to_string(lab.path("out.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    record["results"].as_array().unwrap().clone()
}

#[test]
fn planted_duplicates_are_reported_to_the_byte() {
    let lab = Lab::new();
    // the second file twice, and so often that chunks at its borders do not matter
    lab.write("data/a", random(1, 300_000));
    lab.write("data/b", random(2, 500_000));
    lab.write("data/c/b", random(2, 500_000));
    let results = results(&lab, "--data data --per-file --rounds 1 --mean 2KiB,8KiB");
    let [results] = &results[..] else { panic!("{results:#?}") };
    assert_eq!(results["dataset"]["name"], "data");
    assert_eq!(
        (number(&results["dataset"], "bytes"), number(&results["dataset"], "files")),
        (1_300_000, 3)
    );
    let all = [random(1, 300_000), random(2, 500_000), random(2, 500_000)].concat();
    let digest = results["dataset"]["digest"].as_str().unwrap();
    assert_eq!(
        digest,
        format!("blake3:{}", onefold_fingerprint::Fingerprinter::blake3().fingerprint(&all))
    );
    let entries = results["entries"].as_array().unwrap();
    assert!(entries.len() >= 2 * 20, "{}", entries.len());
    for entry in entries {
        let metrics = &entry["findings"]["metrics"];
        assert_eq!(number(metrics, "bytes"), 1_300_000, "{entry}");
        assert_eq!(number(metrics, "unique_bytes"), 800_000, "{entry}");
        assert!(!entry["timings"].as_array().unwrap().is_empty(), "{entry}");
    }
}

#[test]
fn blocks_of_zeros_are_reported_apart() {
    let lab = Lab::new();
    lab.write("image", [vec![0; 64 << 10], random(1, 32 << 10), vec![0; 32 << 10]].concat());
    let line = "--data image --algorithms fixed --mean 4KiB --rounds 0";
    let results = results(&lab, line);
    let findings = &results[0]["entries"][0]["findings"];
    let zeros = &findings["zeros"];
    assert_eq!((number(zeros, "chunks"), number(zeros, "bytes")), (24, 96 << 10));
    assert_eq!(number(zeros, "unique_bytes"), 4096);
    assert_eq!(number(&findings["metrics"], "unique_bytes"), (32 << 10) + 4096);
}

#[test]
fn each_path_is_a_dataset_and_json_can_go_to_standard_output() {
    let lab = Lab::new();
    lab.write("a", random(1, 100_000));
    lab.write("b", random(2, 50_000));
    let line = "bench run --data a b --algorithms ram --mean 1KiB --rounds 1 --json";
    let record = lab.ok(line).json();
    let names: Vec<&Value> =
        record["results"].as_array().unwrap().iter().map(|one| &one["dataset"]["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    for field in ["command_line", "commit", "cpu_model", "rustc_version", "kernel_version"] {
        assert!(!record[field].is_null(), "{field}");
    }
}

#[test]
fn files_can_be_cut_apart_and_together_in_one_run() {
    let lab = Lab::new();
    lab.write("data/a", random(1, 10_000));
    lab.write("data/b", random(2, 10_000));
    let line = "--data data --algorithms fixed --mean 4KiB --rounds 0 --one-stream --per-file";
    let results = results(&lab, line);
    let cut = |results: &Value| {
        let metrics = &results["entries"][0]["findings"]["metrics"];
        (results["borders"].clone(), number(metrics, "chunks"))
    };
    // 20,000 bytes in chunks of 4096, and twice 10,000
    let found: Vec<_> = results.iter().map(cut).collect();
    assert_eq!(found, [("stream".into(), 5), ("files".into(), 6)]);
    let same = lab.ok("bench compare out.json out.json").stdout;
    assert!(!same.contains("note: data"), "{same}");
}

#[test]
fn means_are_equal_where_that_is_asked_for() {
    let lab = Lab::new();
    lab.write("data", random(1, 3_000_000));
    let line = "--data data --algorithms ae-max,ram,gear,fastcdc --mean 2000 --rounds 0";
    let results = results(&lab, &format!("{line} --equalise-mean"));
    for entry in results[0]["entries"].as_array().unwrap() {
        let mean = entry["findings"]["metrics"]["mean"].as_f64().unwrap();
        assert!((mean / 2000.0 - 1.0).abs() < 0.02, "{entry}");
    }
}

#[test]
fn bad_input_is_named() {
    let lab = Lab::new();
    lab.write("empty/a", "");
    lab.ok("bench run --help");
    lab.run("bench run").expect(1).says(&["--data"]);
    lab.run("bench run --data nowhere").expect(1).says(&["cannot read 'nowhere'"]);
    lab.run("bench run --data empty").expect(1).says(&["empty: no bytes to cut"]);
    let ran = lab.run("bench run --data empty --algorithms fastcdd,ram").expect(1);
    ran.says(&["invalid value 'fastcdd'", "'fastcdc'"]);
    lab.run("bench run --data empty --kernels avx3").expect(1).says(&["'avx2'"]);
    lab.run("bench run --data empty --mean 0").expect(1).says(&["expected at least 256"]);
}

#[test]
fn a_path_or_place_that_is_not_there_is_known_before_anything_is_measured() {
    let lab = Lab::new();
    lab.write("data", random(1, 10_000));
    let line = "bench run --algorithms ram --mean 1KiB --rounds 1 --verbose --data data";
    let failures = [
        ("nowhere", "cannot read 'nowhere'"),
        ("--html data/page.html", "cannot write 'data/page.html'"),
        ("--json data/out.json", "cannot write 'data/out.json'"),
        ("--json .", "cannot write '.': it is a folder"),
    ];
    for (more, reason) in failures {
        let ran = lab.run(&format!("{line} {more}")).expect(1).says(&[reason]);
        assert!(!ran.stderr.contains("taking times") && ran.stdout.is_empty(), "{ran:#?}");
    }
}

#[test]
fn a_kernel_that_does_not_run_here_is_not_replaced_by_another() {
    let lab = Lab::new();
    lab.write("data", random(1, 10_000));
    let foreign = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    let line = "--data data --algorithms ram,gear --mean 1KiB --rounds 1 --threads 2 --kernels";
    let results = results(&lab, &format!("{line} {foreign}"));
    for entry in results[0]["entries"].as_array().unwrap() {
        let cuts = |timing: &&Value| timing["work"] == "cut" && timing["threads"] == 1;
        assert_eq!(entry["timings"].as_array().unwrap().iter().find(cuts), None);
    }
    let missing = results[0]["missing"].to_string();
    assert!(missing.contains("cutting by gear, ram: none of the kernels"), "{missing}");
}

#[test]
fn what_was_measured_before_an_error_is_shown_and_written() {
    let lab = Lab::new();
    lab.write("data", random(1, 10_000));
    lab.write("empty", "");
    let line =
        "bench run --data data empty --algorithms ram --mean 1KiB --rounds 1 --json out.json";
    let ran = lab.run(line).expect(1).says(&["empty: no bytes to cut"]);
    assert!(ran.stdout.contains("Dedup ratio"), "{ran:#?}");
    let results = read_results(&lab);
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["dataset"]["name"], "data");
}

#[test]
fn names_that_are_no_utf_8_and_outputs_that_are_no_files_are_taken() {
    let lab = Lab::new();
    let name = OsStr::from_bytes(b"data\xff");
    fs::write(lab.path("").join(name), random(1, 10_000)).unwrap();
    let line = "bench run --algorithms ram --mean 1KiB --rounds 1 --json /dev/null --data";
    let mut command = lab.command(line);
    Ran::of(line, command.arg(name).output().unwrap()).expect(0);
}

#[test]
fn what_cannot_be_read_is_named_counted_and_known_by_the_exit_code() {
    let lab = Lab::new();
    lab.write("data/open", random(1, 50_000));
    lab.write("data/forbidden", "x");
    fs::set_permissions(lab.path("data/forbidden"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(lab.path(""), Permissions::from_mode(0o777)).unwrap();
    let Some(run) = unprivileged(&lab) else { return };
    let line = "bench run --data data --algorithms ram --mean 1KiB --rounds 1 --per-file \
                --one-stream --json out.json";
    let ran = run(line).expect(3);
    ran.says(&["data/forbidden'", "Permission denied", "warning: 1 could not be read"]);
    let results = read_results(&lab);
    assert_eq!(results[0]["unreadable"].as_array().unwrap().len(), 1);
    assert_eq!(number(&results[0]["dataset"], "bytes"), 50_000);
}

#[test]
fn a_folder_that_takes_no_files_is_known_before_anything_is_measured() {
    let lab = Lab::new();
    lab.write("data", random(1, 10_000));
    lab.write("closed/old.json", "{}");
    fs::set_permissions(lab.path("closed/old.json"), Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(lab.path("closed"), Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(lab.path(""), Permissions::from_mode(0o777)).unwrap();
    let Some(run) = unprivileged(&lab) else { return };
    let command = "bench run --algorithms ram --mean 1KiB --rounds 1 --data data";
    for out in ["--json closed/new.json", "--json closed/old.json", "--html closed/new.html"] {
        let (_, place) = out.split_once(' ').unwrap();
        let ran = run(&format!("{command} --verbose {out}")).expect(1);
        let ran = ran.says(&[&format!("cannot write '{place}'"), "Permission denied"]);
        assert!(ran.stdout.is_empty() && !ran.stderr.contains("cutting"), "{ran:#?}");
    }
}

#[test]
fn a_measurement_that_is_stopped_keeps_what_it_has() {
    let lab = Lab::new();
    lab.write("data", random(1, 2 << 20));
    let line = "bench run --verbose --data data --algorithms ram,gear --kernels auto \
                --mean 4KiB,8KiB --rounds 1000000 --json out.json";
    let mut command = lab.command(line);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "taking times"));
    thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = Ran::of(line, child.wait_with_output().unwrap()).expect(130);
    assert!(ran.stdout.contains("STOPPED"), "{ran:#?}");
    let results = read_results(&lab);
    assert_eq!(results[0]["is_complete"], false);
    for entry in results[0]["entries"].as_array().unwrap() {
        assert_eq!(number(&entry["findings"]["metrics"], "bytes"), 2 << 20, "{entry}");
    }
    let first = &results[0]["entries"][0]["timings"][0]["samples"];
    assert!(!first.as_array().unwrap().is_empty());
}

#[test]
fn a_recommendation_names_sizes_that_a_repository_takes_and_a_runner_up() {
    let lab = Lab::new();
    lab.write("data/a", random(1, 2_000_000));
    lab.write("data/b", random(1, 2_000_000));
    let advice = lab.ok("bench recommend --data data --sample 1MiB --json").json();
    let choice = &advice["choice"];
    assert_eq!(choice["dedup_ratio"], 2.0, "{advice:#}");
    // 2,000,000 bytes, 36 for each chunk and 79 for each that is distinct
    let kept = number(choice, "kept_bytes") as f64 - 2_000_000.0;
    let chunks = 4_000_000.0 / choice["mean"].as_f64().unwrap();
    assert!((kept / (36.0 * chunks + 79.0 * chunks / 2.0) - 1.0).abs() < 0.01, "{advice:#}");
    assert_ne!(advice["runner_up"]["algorithm"], choice["algorithm"]);

    let answer = lab.ok("bench recommend --data data --sample 1MiB").stdout;
    let taken = answer.lines().find_map(|line| line.strip_prefix("take  ")).unwrap();
    lab.ok(&format!("init repo --no-encryption {taken}"));
}

#[test]
fn a_recommendation_takes_a_hundred_chunks_of_each_mean() {
    let lab = Lab::new();
    lab.write("data", random(1, 200_000));
    let refused = |arguments: &str, parts: &[&str]| {
        let ran = lab.run(&format!("bench recommend --data data {arguments}")).expect(1);
        assert!(ran.says(parts).stdout.is_empty());
    };
    let few = ["the data are too small to recommend a chunker: 200000 bytes"];
    refused("", &[few[0], "needs at least 409600, which is 100 chunks", "more files", "--mean"]);
    refused("--mean 512,2KiB", &[few[0], "a mean of 2048 bytes needs at least 204800"]);
    refused("--mean 1KiB --sample 50kB", &["the sample is too small", "give --sample 102400"]);
    refused("--mean 255", &["255 bytes are too few for a mean, expected at least 256"]);

    lab.write("data", random(1, 500_000));
    let advice = lab.ok("bench recommend --data data --json").json();
    assert_eq!(number(&advice["choice"], "avg"), 4096);
    let cautions = advice["cautions"].to_string();
    assert!(cautions.contains("fewer than 100 chunks at means of 8192, 16384,"), "{cautions}");
}

#[test]
fn one_round_has_no_spread() {
    let lab = Lab::new();
    lab.write("data", random(1, 10_000));
    let line = "bench run --data data --algorithms ram --kernels auto --mean 1KiB --rounds";
    let said = "each was timed once: one round has no spread";
    for (rounds, is_one) in [(0, false), (1, true), (3, false)] {
        let shown = lab.ok(&format!("{line} {rounds}")).stdout;
        assert_eq!(shown.contains(said), is_one, "{shown}");
        let row = shown.lines().find(|line| line.starts_with("ram ")).unwrap();
        // that of savings, and that of the spread
        assert_eq!(row.matches(" %").count(), if rounds == 3 { 2 } else { 1 }, "{row}");
    }
}

#[test]
fn two_runs_are_compared_and_what_is_not_the_same_is_said() {
    let lab = Lab::new();
    lab.write("data", random(1, 1_000_000));
    let run = |out: &str, more: &str| {
        let line = "bench run --data data --algorithms ram,gear --mean 4KiB --kernels auto --json";
        lab.ok(&format!("{line} {out} {more}"));
    };
    run("a.json", "");
    run("few.json", "--rounds 2");
    let same = lab.ok("bench compare a.json a.json --all").stdout;
    // as many of the intervals are narrow as the machine is quiet
    assert!(same.contains("0 slower, 0 faster"), "{same}");
    assert!(same.contains("of 7 intervals of 99 %, 0.1 are expected to miss"), "{same}");
    assert!(same.contains("0 of 0 changes would remain significant"), "{same}");
    assert!(same.contains("on the same data: the same"), "{same}");
    let few = lab.ok("bench compare a.json few.json").stdout;
    assert!(few.contains("7 with too few rounds"), "{few}");

    // half the time of every sample of one contender
    let text = fs::read_to_string(lab.path("a.json")).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    for sample in
        record["results"][0]["entries"][1]["timings"][0]["samples"].as_array_mut().unwrap()
    {
        let seconds = sample["thread_seconds"].as_f64().unwrap();
        sample["thread_seconds"] = (seconds / 10.0).into();
    }
    record["cpu_model"] = "another".into();
    record["results"][0]["entries"][0]["findings"]["metrics"]["chunks"] = 1.into();
    lab.write("b.json", record.to_string());
    let told = lab.ok("bench compare a.json b.json").stdout;
    let stands = "1 of 1 change would remain significant";
    for part in ["another machine", "0 slower, 1 faster", stands, "1 number differs", "chunks"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let json = lab.ok("bench compare a.json b.json --json").json();
    assert_eq!(json["findings"][0]["after"], 1.0);

    lab.write("data", random(2, 1_000_000));
    run("c.json", "");
    let other = lab.ok("bench compare a.json c.json").stdout;
    assert!(other.contains("other data"), "{other}");
    lab.write("no.json", "{}");
    lab.run("bench compare a.json no.json").expect(1).says(&["no.json: no record"]);
}

#[test]
fn commands_of_the_laboratory_say_where_they_went() {
    let lab = Lab::new();
    let moved = [
        ("bench dataset build rand --dir d", "dataset"),
        ("bench paper vectorcdc --dir d --quick", "paper"),
        ("trace replay --pool pool --verify-reads mail.gz", "trace"),
        ("trace --help", "trace"),
    ];
    for (line, word) in moved {
        let now = format!("is `cargo lab {word}` now");
        lab.run(line).expect(1).says(&[&now, "hint: run `cargo lab", "Onefold's source"]);
    }
    assert!(!lab.ok("--help").stdout.contains("trace"));
    assert!(!lab.ok("bench --help").stdout.contains("paper"));
}
