//! The library as C programs see it, with the sanitizers for addresses and undefined behaviour.

#![allow(clippy::disallowed_methods, reason = "scratch files of the tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use onefold_testkit::{cycle, random, skip};
use serde_json::Value;
use sha2::{Digest, Sha256};

const VECTORS: &str = include_str!("../../vectors/cdc.json");
const PRESETS: &str = include_str!("../../vectors/presets.json");

/// What a static library of Rust needs on Linux.
const SYSTEM: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The static and the shared library, built as this test was.
fn libraries() -> &'static [PathBuf; 2] {
    static BUILT: OnceLock<[PathBuf; 2]> = OnceLock::new();
    BUILT.get_or_init(|| {
        let output = Command::new(env!("CARGO"))
            .args(["build", "--package", "onefold-capi", "--message-format", "json"])
            .current_dir(package())
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(output.status.success(), "the libraries do not build");
        let files: Vec<PathBuf> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|told| told["target"]["name"] == "onefold_capi")
            .flat_map(|told| told["filenames"].as_array().cloned().unwrap_or_default())
            .map(|file| PathBuf::from(file.as_str().unwrap()))
            .collect();
        ["a", "so"].map(|kind| {
            let is_kind = |file: &&PathBuf| file.extension().is_some_and(|end| end == kind);
            files.iter().find(is_kind).unwrap_or_else(|| panic!("no {kind}: {files:?}")).clone()
        })
    })
}

/// Compiles `source` with all warnings as errors; `None` after a skip if there is no compiler.
fn compile(source: &str, folder: &Path, more: &[&str]) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").stdout(Stdio::null()).status().is_err() {
        skip("no C compiler: install gcc and libc6-dev");
        return None;
    }
    let program = folder.join("program");
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-D_GNU_SOURCE"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(package().join("include"))
        .arg(package().join(source))
        .args(more)
        .args(SYSTEM)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn succeeded(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// The input that a case describes, or `None` if it takes more than C programs are given here.
fn input(spec: &Value) -> Option<Vec<u8>> {
    let len = spec["len"].as_u64()? as usize;
    match spec["kind"].as_str()? {
        "splitmix64" => {
            let mask = spec["mask"].as_u64().unwrap_or(255) as u8;
            let data = random(spec["seed"].as_u64()?, len);
            Some(data.into_iter().map(|byte| byte & mask).collect())
        }
        "cycle" => Some(cycle(&bytes(spec["hex"].as_str()?), len)),
        _ => None,
    }
}

/// A case, the line that the program reads of it, and its input.
struct Case {
    told: Value,
    line: String,
}

fn cases(text: &str, name: &str, folder: &Path) -> Vec<Case> {
    let all: Value = serde_json::from_str(text).unwrap();
    let mut cases = Vec::new();
    for told in all["cases"].as_array().unwrap() {
        let Some(data) = input(&told["input"]) else { continue };
        let file = folder.join(format!("input-{}", cases.len()));
        fs::write(&file, data).unwrap();
        let algorithm = told[name].as_str().unwrap().to_owned();
        let takes = onefold_cdc_takes(&algorithm);
        let number = |key: &str| told[key].as_u64().unwrap();
        // With a secret a seed counts for every algorithm that takes one.
        let is_keyed = told["secret"].is_string();
        let chosen = |key: &str| match takes(key) || (key == "seed" && is_keyed) {
            true => number(key).to_string(),
            false => "-".into(),
        };
        let text = |key: &str| told[key].as_str().unwrap_or("-").to_owned();
        let fields = [
            algorithm.clone(),
            number("min").to_string(),
            number("avg").to_string(),
            number("max").to_string(),
            chosen("window"),
            chosen("level"),
            chosen("seed"),
            text("secret"),
            text("divisors"),
            file.display().to_string(),
        ];
        cases.push(Case { told: told.clone(), line: fields.join(" ") });
    }
    cases
}

/// Whether an algorithm or preset takes a parameter, so that cases can leave out what it refuses.
fn onefold_cdc_takes(name: &str) -> impl Fn(&str) -> bool + use<> {
    let scheme: onefold_cdc::Scheme = name.parse().unwrap();
    move |key| {
        scheme.takes(match key {
            "window" => onefold_cdc::Parameter::Window,
            "level" => onefold_cdc::Parameter::Level,
            "seed" => onefold_cdc::Parameter::Seed,
            other => panic!("{other}"),
        })
    }
}

/// What the program prints of each case.
fn cut_by_c(program: &Path, cases: &[Case], folder: &Path) -> Vec<Vec<u64>> {
    let list = folder.join("cases");
    let lines: Vec<&str> = cases.iter().map(|case| &case.line[..]).collect();
    fs::write(&list, lines.join("\n")).unwrap();
    let printed = succeeded(&Command::new(program).arg(&list).output().unwrap());
    let ends = |line: &str| line.split(' ').map(|end| end.parse().unwrap()).collect();
    printed.lines().map(ends).collect()
}

#[test]
fn c_cuts_where_the_golden_vectors_say() {
    let folder = tempfile::tempdir().unwrap();
    let [archive, _] = libraries();
    let archive = archive.to_str().unwrap();
    let Some(program) = compile("tests/c/vectors.c", folder.path(), &[archive]) else {
        return;
    };
    let cases = cases(VECTORS, "algorithm", folder.path());
    assert!(cases.len() > 500, "{} cases", cases.len());
    let cut = cut_by_c(&program, &cases, folder.path());
    assert_eq!(cut.len(), cases.len());
    for (case, ends) in cases.iter().zip(cut) {
        assert_eq!(case.told["count"], ends.len(), "{}", case.line);
        let encoded: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let digest: String =
            Sha256::digest(encoded).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(case.told["sha256"], digest, "{}", case.line);
    }
}

#[test]
fn c_cuts_where_other_tools_do() {
    let folder = tempfile::tempdir().unwrap();
    let [archive, _] = libraries();
    let archive = archive.to_str().unwrap();
    let Some(program) = compile("tests/c/vectors.c", folder.path(), &[archive]) else {
        return;
    };
    let cases = cases(PRESETS, "preset", folder.path());
    assert!(!cases.is_empty());
    for (case, ends) in cases.iter().zip(cut_by_c(&program, &cases, folder.path())) {
        let lengths = case.told["lengths"].as_array().unwrap();
        let mut end = 0;
        let expected: Vec<u64> = lengths
            .iter()
            .map(|len| {
                end += len.as_u64().unwrap();
                end
            })
            .collect();
        assert_eq!(ends, expected, "{}", case.line);
    }
}

#[test]
fn wrong_arguments_are_refused_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let [archive, _] = libraries();
    let archive = archive.to_str().unwrap();
    let Some(program) = compile("tests/c/misuse.c", folder.path(), &[archive]) else { return };
    let output = Command::new(program).output().unwrap();
    assert_eq!(succeeded(&output), "refused as expected\n");
}

#[test]
fn the_example_names_the_chunks_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let [_, shared] = libraries();
    let directory = shared.parent().unwrap();
    let run_path = format!("-Wl,-rpath,{}", directory.display());
    let link = [shared.to_str().unwrap(), &run_path];
    let Some(program) = compile("examples/chunks.c", folder.path(), &link) else { return };
    let data = random(1, 200_000);
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&data).unwrap();
    let printed = succeeded(&child.wait_with_output().unwrap());

    let params = onefold_cdc::Params::for_mean(onefold_cdc::Algorithm::MinCdc, 8192).unwrap();
    let mut start = 0;
    let mut expected = String::new();
    for end in onefold_cdc::cut_points(&params, &data).unwrap() {
        let chunk = &data[start..end];
        let fingerprint = onefold_fingerprint::Fingerprinter::blake3().fingerprint(chunk);
        expected += &format!("{start} {} {fingerprint}\n", chunk.len());
        start = end;
    }
    assert_eq!(printed, expected);
}

/// cargo-c installs the library, its header and a file for pkg-config.
#[test]
fn what_cargo_c_installs_compiles_by_pkg_config() {
    let has = |program: &str| {
        let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    if !has("cargo-cinstall") {
        return skip("no cargo-c; it takes minutes to build: `cargo xtask dist cargo-c`");
    }
    if !has("pkg-config") {
        return skip("no pkg-config: install pkgconf");
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    let installed = Command::new("cargo-cinstall")
        .args(["cinstall", "--package", "onefold-capi", "--profile", "dev", "--libdir", "lib"])
        .arg("--prefix")
        .arg(&prefix)
        .current_dir(package())
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "onefold_cdc"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .unwrap();
    let flags = succeeded(&flags);
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let Some(program) = compile("examples/chunks.c", folder.path(), &flags) else { return };
    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(succeeded(&output), "");
}
