//! Races between work-items: there are none, and those that are seeded are found.

use std::env;
use std::path::Path;
use std::process::Command;

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{Device, Memory, OpenCl, Work};
use onefold_testkit::{low_entropy, skip};

use crate::shim::{THREAD, build, opencl_with_tests, seeded};

/// Oclgrind as a driver that OpenCL's loader takes.
const ORACLE: &str = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";
/// Tells a run of the test program that it is watched, and which error to make.
const WATCHED: &str = "ONEFOLD_GPU_WATCHED";

/// Errors that are made on purpose: the file, the text that is right, and the one that is wrong.
const SEEDED: [(&str, &str, &str); 4] = [
    // tiles are searched before they are there
    ("tile.h", "    WAIT_FOR_COPIES();\n", "    ;\n"),
    // candidates of one work-item over those of another
    ("candidates.h", "list[start + before] = found[0];", "list[start] = found[0];"),
    // the least key of a group is read before all have given theirs
    (
        "primitives.h",
        "    BARRIER(); /* the last call's result may still be read */\n    scratch[ITEM] = key;\n    BARRIER();",
        "    BARRIER(); /* the last call's result may still be read */\n    scratch[ITEM] = key;",
    ),
    // a value is joined before its neighbour has read it
    (
        "blake3.h",
        "            BARRIER();\n            if (pair < pairs) {\n                for (u32 i = 0; i < 8; i++) {\n                    own",
        "            if (pair < pairs) {\n                for (u32 i = 0; i < 8; i++) {\n                    own",
    ),
];

/// Cuts and fingerprints a few KiB.
fn work_a_little(device: &dyn Device) -> Result<(), String> {
    let data = low_entropy(1, 11_000, 4);
    for algorithm in [Algorithm::FastCdc, Algorithm::Rabin, Algorithm::Gear16, Algorithm::MinCdc] {
        let sizes = ChunkSizes::new(64, 100, 400).unwrap();
        let sizes = if algorithm == Algorithm::MinCdc {
            ChunkSizes::new(6000, 8000, 10_000).unwrap()
        } else {
            sizes
        };
        let chunker = Chunker::new(&Params::new(algorithm, sizes)).unwrap();
        let work = Work::new(&chunker, Some(&Fingerprinter::blake3())).unwrap();
        let mut lane = device.lane(data.len(), Memory::Pinned).map_err(|e| e.to_string())?;
        lane.input().copy_from_slice(&data);
        let (cuts, _) = work.whole(&mut *lane, data.len()).map_err(|e| e.to_string())?;
        if !chunker.cut_points(&data).eq(cuts) {
            return Err(format!("{algorithm} cuts elsewhere"));
        }
    }
    Ok(())
}

/// What oclgrind says of a run with seeded error `number`, or with none.
fn watched(number: Option<usize>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let vendor = folder.path().join("oclgrind.icd");
    write(&vendor, ORACLE);
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "races::oclgrind_finds_seeded_races_and_no_others", "--nocapture"])
        .env(WATCHED, number.map_or("none".into(), |number| number.to_string()))
        .env("OCL_ICD_VENDORS", &vendor)
        .env("OCLGRIND_DATA_RACES", "1")
        // it lacks some of what an optimiser calls
        .env("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable")
        // it adds up the memory of all kernels whose names begin alike
        .env("OCLGRIND_LOCAL_MEM_SIZE", "1048576")
        .env("OCLGRIND_MAX_ERRORS", "10")
        .output()
        .unwrap();
    let texts = [output.stdout, output.stderr].concat();
    let texts = String::from_utf8_lossy(&texts).into_owned();
    assert!(texts.contains("watched: Oclgrind"), "{texts}");
    assert!(number.is_some() || output.status.success(), "{texts}");
    texts
}

#[expect(clippy::disallowed_methods, reason = "the name of a driver, no durable byte")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn oclgrind_finds_seeded_races_and_no_others() {
    if let Ok(number) = env::var(WATCHED) {
        let seeded = number.parse().ok().map(|number: usize| SEEDED[number]);
        let source = opencl_with_tests(seeded.map(|(_, right, wrong)| (right, wrong)));
        let device = OpenCl::with_source(0, &source).unwrap();
        println!("watched: {}", device.info().driver);
        work_a_little(&device).unwrap();
        return;
    }
    if !Path::new(ORACLE).exists() {
        return skip("oclgrind is not installed");
    }
    let report = watched(None);
    assert!(!report.contains("data race"), "{report}");
    for number in 0..SEEDED.len() {
        let report = watched(Some(number));
        assert!(report.contains("data race"), "seeded error {number}: {report}");
    }
}

#[test]
fn the_thread_sanitizer_finds_seeded_races() {
    for (file, right, wrong) in SEEDED {
        let kernels = seeded(file, right, wrong);
        let Some(device) = build(THREAD, kernels.path()) else { return };
        let found = work_a_little(&device.device());
        let error = found.expect_err(wrong);
        let is_told =
            error.contains("data race") || error.contains("a copy that nothing waited for");
        assert!(is_told, "{file}: {error}");
    }
}
