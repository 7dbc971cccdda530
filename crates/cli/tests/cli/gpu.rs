//! Devices on the command line. No test needs a GPU: OpenCL runs on the CPU.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use onefold_testkit::{build_fake_cuda, random, skip, text};
use serde_json::Value;

use crate::lab::{Lab, Ran, number};

/// What `devices` lists, by name.
fn devices(lab: &Lab) -> Vec<Value> {
    lab.ok("devices --quick --json").json().as_array().unwrap().clone()
}

/// Whether there is an OpenCL device; skips if not.
fn has_opencl(lab: &Lab) -> bool {
    let all = devices(lab);
    let has = all.iter().any(|device| device["name"] == "opencl:0");
    if !has {
        skip("no OpenCL device here");
    }
    has
}

/// Whether there is no driver of CUDA; skips if there is one.
fn lacks_cuda(lab: &Lab) -> bool {
    let all = devices(lab);
    let reason = |device: &Value| device["reason"].as_str().unwrap_or_default().to_owned();
    let lacks = all.iter().any(|device| {
        device["name"] == "cuda" && reason(device).starts_with("cuda has no driver here")
    });
    if !lacks {
        skip("CUDA has a driver here");
    }
    lacks
}

#[test]
fn devices_lists_the_cpu_and_says_why_others_cannot_be_used() {
    let lab = Lab::new();
    let all = devices(&lab);
    assert_eq!(all[0]["name"], "cpu");
    assert_eq!(all[0]["is_cpu"], true);
    assert!(all[0]["rates"]["cut_and_blake3"].is_null());
    for device in &all[1..] {
        let name = device["name"].as_str().unwrap();
        let is_device = name.contains(':');
        assert_eq!(device["memory"].is_u64(), is_device, "{device}");
        assert_eq!(device["reason"].is_string(), !is_device, "{device}");
    }
    let shown = lab.ok("devices --quick").stdout;
    for device in &all {
        let name = device["name"].as_str().unwrap();
        assert!(shown.contains(name), "{name}: {shown}");
    }
}

#[test]
fn a_device_finds_the_chunks_that_the_cpu_finds() {
    let lab = Lab::new();
    if !has_opencl(&lab) {
        return;
    }
    lab.write("file", [random(1, 3 << 20), text(2, 1 << 20), vec![0; 300_000]].concat());
    lab.write("empty", "");
    for arguments in
        ["file", "file --json --algorithm gear --avg 8KiB", "file --algorithm fastcdc", "empty"]
    {
        let cpu = lab.ok(&format!("chunk --summary {arguments}"));
        let device = lab.ok(&format!("chunk --summary --device opencl:0 {arguments}"));
        assert!(device.stdout == cpu.stdout, "{arguments}");
        assert_eq!(device.stderr, cpu.stderr, "{arguments}");
    }
}

#[test]
fn a_device_that_cannot_be_used_is_refused_in_a_sentence() {
    let lab = Lab::new();
    lab.write("file", random(1, 100_000));
    let refused = |line: &str, reasons: &[&str]| {
        lab.run(&format!("chunk file {line}")).expect(1).says(reasons);
    };
    refused(
        "--device gpu",
        &["unknown device 'gpu', expected auto, cpu, cuda, cuda:N, opencl or opencl:N"],
    );
    refused("--device cuda --algorithm ram", &["no device cuts by ram; expected one of gear,"]);
    refused(
        "--device cuda --algorithm gear --avg 100",
        &["a minimum of 25 bytes, expected at least its window, 64"],
    );
    refused("--device cuda --algorithm restic", &["no device cuts as restic does"]);
    if lacks_cuda(&lab) {
        refused(
            "--device cuda:1",
            &["cuda has no driver here: libcuda.so.1 was not found; install NVIDIA's driver"],
        );
        lab.run("bench gpu").expect(1).says(&["there is no GPU here", "--device"]);
    }
    if has_opencl(&lab) {
        refused("--device opencl:99", &["opencl has no device 99, expected 0 to "]);
    }
    let line = "chunk file --device opencl";
    let output = lab.command(line).env("OCL_ICD_VENDORS", lab.path("nowhere")).output().unwrap();
    let ran = Ran::of(line, output).expect(1);
    let known = ["opencl has a driver here but no devices", "opencl has no driver here"];
    assert!(known.iter().any(|known| ran.stderr.contains(known)), "{ran:#?}");
}

#[test]
fn auto_uses_the_cpu_where_no_gpu_is_faster_and_says_why() {
    let lab = Lab::new();
    lab.write("file", random(1, 100_000));
    if !lacks_cuda(&lab) {
        return;
    }
    let cpu = lab.ok("chunk file").stdout;
    let auto = lab.ok("chunk file --device auto --verbose");
    assert_eq!(auto.stdout, cpu);
    assert!(auto.stderr.contains("the CPU is used: cuda has no driver here"), "{auto:#?}");
    let ram = lab.ok("chunk file --device auto --verbose --algorithm ram");
    assert!(ram.stderr.contains("the CPU is used: no device cuts by ram"), "{ram:#?}");
}

/// Runs `line` with `input`, and with a driver of CUDA in `drivers` that does `wrong`.
fn with_cuda(lab: &Lab, drivers: &Path, wrong: &str, line: &str, input: &str) -> Ran {
    let mut command = lab.command(line);
    command.env("LD_LIBRARY_PATH", drivers).env("FAKE_CUDA", wrong);
    command.env("ONEFOLD_PASSWORD", "password").stdin(File::open(lab.path(input)).unwrap());
    Ran::of(line, command.output().unwrap())
}

/// The file `/stdin` of the last snapshot of `repo`.
fn last_stdin(lab: &Lab) -> Vec<u8> {
    let mut command = lab.command("dump --repo repo latest /stdin");
    command.env("ONEFOLD_PASSWORD", "password").output().unwrap().stdout
}

/// A lab, and the folder there of a driver of CUDA that runs on the host; none where it cannot be built.
fn fake_cuda() -> Option<(Lab, PathBuf)> {
    let lab = Lab::new();
    let drivers = lab.path("drivers");
    fs::create_dir(&drivers).unwrap();
    build_fake_cuda(&drivers).then_some((lab, drivers))
}

#[test]
fn a_backup_by_a_device_is_that_of_the_cpu() {
    let Some((lab, drivers)) = fake_cuda() else { return };
    let data = [random(1, 900_000), text(2, 200_000), vec![0; 400_000]].concat();
    lab.write("data", &data);
    let run = |wrong: &str, line: &str| with_cuda(&lab, &drivers, wrong, line, "data");
    // of an encrypted repository the fingerprints have a key
    run("nothing", "init repo").expect(0);
    let backup = "backup --repo repo --stdin --json";
    let by_device = run("nothing", &format!("{backup} --compute cuda:0 -v")).expect(0);
    assert!(by_device.stderr.contains("cuda:0 (fake) was chosen"), "{by_device:#?}");
    assert!(last_stdin(&lab) == data);
    let by_cpu = run("nothing", backup).expect(0);
    let summary: Value = serde_json::from_str(by_cpu.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(number(&summary, "bytes"), 1_500_000);
    // the tree has another time
    assert!(number(&summary, "new_bytes") < 1000, "{summary}");
    run("nothing", "check --repo repo --read-data").expect(0);
}

#[test]
fn a_device_that_is_lost_during_a_backup_is_named_and_auto_takes_none_that_is_slower() {
    let Some((lab, drivers)) = fake_cuda() else { return };
    lab.write("data", random(1, 1_000_000));
    let run = |wrong: &str, line: &str| with_cuda(&lab, &drivers, wrong, line, "data");
    run("nothing", "init repo").expect(0);
    let lost = run("lost soon", "backup --repo repo --stdin --compute cuda:0");
    lost.expect(1).says(&["no snapshot was made", "cuda:0 (fake) failed: "]);
    let none = run("no device", "backup --repo repo --stdin --compute cuda:0");
    none.expect(1).says(&["cuda has a driver here but no devices"]);
    // a driver that runs on the host is no faster than the host
    let auto = run("nothing", "backup --repo repo --stdin --compute auto -v").expect(0);
    assert!(auto.stderr.contains("of the CPU"), "{auto:#?}");
    assert!(last_stdin(&lab) == random(1, 1_000_000));
}

#[test]
fn what_is_wrong_with_a_gpu_is_said_with_what_to_do_and_auto_uses_the_cpu() {
    let Some((lab, drivers)) = fake_cuda() else { return };
    lab.write("data", random(1, 100_000));
    let cpu = lab.ok("chunk data").stdout;
    for (wrong, says) in [
        ("none", "cuda has a driver here but no devices"),
        ("ancient driver", "it has CUDA 10.2, expected CUDA 11.0; install NVIDIA's driver 450"),
        ("old driver", "the driver of cuda is too old: an error; install NVIDIA's driver 450"),
        ("old device", "too old for the kernels: compute capability 7, expected 8.0"),
        ("busy", "is in use by a process that shares it with no other; wait for its end, or"),
        ("memory", "has no memory left for "),
        ("memory", "end other programs on it, or use the CPU"),
    ] {
        let run = |line: &str| with_cuda(&lab, &drivers, wrong, line, "data");
        run("chunk data --device cuda").expect(1).says(&[says]);
        let auto = run("chunk data --device auto --verbose").expect(0);
        assert_eq!(auto.stdout, cpu, "{wrong}");
        // what is tried first takes little memory: there the CPU is used because it is faster, or for the rest
        let is_left = wrong == "memory" && auto.stderr.contains("the CPU did the rest");
        assert!(is_left || auto.stderr.contains("the CPU is used"), "{wrong}: {auto:#?}");
        assert!(wrong == "memory" || auto.stderr.contains(says), "{wrong}: {auto:#?}");
    }
}

#[test]
fn bench_run_times_a_device_beside_the_kernels() {
    let lab = Lab::new();
    if !has_opencl(&lab) {
        return;
    }
    lab.write("data", random(1, 2 << 20));
    let line = "bench run --data data --algorithms mincdc,ram --mean 16KiB --rounds 1";
    let ran = lab.ok(&format!("{line} --device opencl:0 --json out.json"));
    assert!(ran.stdout.contains("opencl:0"), "{ran:#?}");
    let record: Value = serde_json::from_slice(&fs::read(lab.path("out.json")).unwrap()).unwrap();
    let results = &record["results"][0];
    let timed = |algorithm: &str| {
        let entries = results["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["algorithm"] == algorithm).unwrap();
        let timings = entry["timings"].as_array().unwrap();
        timings.iter().filter(|timing| timing["kernel"] == "opencl:0").count()
    };
    assert_eq!((timed("mincdc"), timed("ram")), (2, 0));
    let missing = results["missing"].to_string();
    assert!(missing.contains("no device cuts by ram"), "{missing}");
}

#[test]
fn bench_gpu_keeps_what_it_measured() {
    let lab = Lab::new();
    if !has_opencl(&lab) {
        return;
    }
    let line = "bench gpu --device opencl:0 --bytes 1MiB --equality 1MiB --rounds 1";
    lab.ok(&format!("{line} --json out.json --html out.html"));
    let record: Value = serde_json::from_slice(&fs::read(lab.path("out.json")).unwrap()).unwrap();
    let results = &record["results"];
    assert_eq!(number(results, "equal_bytes"), 1 << 20);
    assert_eq!(results["is_complete"], true);
    assert_eq!(results["steps"].as_array().unwrap().len(), 14);
    let is_cpu = results["is_cpu"].as_bool().unwrap();
    let notes = record["notes"].to_string();
    assert_eq!(notes.contains("no figure is of a GPU"), is_cpu, "{notes}");
    assert!(results["energy_missing"].as_str().unwrap().starts_with("opencl:0 "), "{results}");
    let page = fs::read_to_string(lab.path("out.html")).unwrap();
    assert!(page.contains("figure 12"), "{page}");
    let cut_off =
        lab.run("bench gpu --device opencl:0 --parts pages,copies --limit 0 --json cut.json");
    cut_off.expect(130);
    let record: Value = serde_json::from_slice(&fs::read(lab.path("cut.json")).unwrap()).unwrap();
    assert_eq!(record["results"]["is_complete"], false);
    assert_eq!(record["results"]["parts"].as_array().unwrap().len(), 0);
}
