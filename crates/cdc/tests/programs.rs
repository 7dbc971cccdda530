//! Presets cut where the programs themselves cut.
#![expect(clippy::disallowed_methods, reason = "scratch files for other programs to read")]

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use onefold_cdc::{ChunkSizes, Chunker, Params, Preset, cut_points};
use onefold_testkit::{cycle, low_entropy, random, skip, text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Random bytes, prose, runs and repetition, `len` bytes of each of five kinds.
fn mixture(seed: u64, len: usize) -> Vec<u8> {
    let again = random(seed, len);
    [again.clone(), text(seed, len), cycle(&[0], len), low_entropy(seed, len, 2), again].concat()
}

/// What the program printed, or `None` if there is no such program.
fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
            Some(output)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(&format!("{}: {error}", command.get_program().display()));
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

fn sizes(min: usize, avg: usize, max: usize) -> ChunkSizes {
    ChunkSizes::new(min, avg, max).unwrap()
}

/// The Python that Debian's borg runs on, which need not be the first on `PATH`.
const PYTHON: &str = "/usr/bin/python3";

/// Prints the ends of the chunks for each of the cases in the first file, in the second file's data.
const BORG_CUTS: &str = "
import io, json, sys
from borg.chunker import Chunker
data = open(sys.argv[2], 'rb').read()
for case in json.load(open(sys.argv[1])):
    part = io.BytesIO(data[case['start']:case['end']])
    ends, end = [], 0
    for chunk in Chunker(*case['params']).chunkify(part):
        end += chunk.meta['size'] if hasattr(chunk, 'meta') else len(chunk)
        ends.append(end)
    print(json.dumps(ends))
";

/// Parameters with the part of `data` to cut.
fn borg_cases(data: &[u8]) -> Vec<(Params, usize, usize)> {
    let standard = Preset::Borg.params();
    let mut cases = vec![
        (standard, 0, data.len()),
        (Params { seed: 0x8000_0001, ..standard }, 0, data.len()),
        (Params { sizes: sizes(1 << 15, 1 << 17, 1 << 19), ..standard }, 0, data.len()),
        (Params { sizes: sizes(1 << 14, 1 << 14, 1 << 15), ..standard }, 7, data.len() - 7),
    ];
    for (min, avg, max) in [(1, 1, 4), (2, 4, 1 << 23), (16, 64, 128), (64, 512, 1024)] {
        for (window, seed) in [(1, 0), (2, 1), (31, 2), (32, 3), (63, 1 << 31), (64, u32::MAX)] {
            let params =
                Params { sizes: sizes(min, avg, max), window, seed: seed.into(), ..standard };
            if min + window >= max {
                continue;
            }
            cases.push((params, 0, 20_000));
            let around_min = (0..4).map(|more| min + window - 1 + more);
            let around_max = (0..3).map(|more| max.min(9_000) - 1 + more);
            for len in (0..260).step_by(13).chain(around_min).chain(around_max) {
                let start = data.len() / 5 - len / 2;
                cases.push((params, start, start + len));
            }
        }
    }
    cases
}

#[test]
fn borg_cuts_where_its_preset_cuts() {
    let found = Command::new(PYTHON).args(["-c", "import borg.chunker"]).output();
    if !found.as_ref().is_ok_and(|output| output.status.success()) {
        return skip(&format!("no borg 1 for {PYTHON}: {found:?}"));
    }
    let data = mixture(1, 4 << 20);
    let cases = borg_cases(&data);
    let described: Vec<Value> = cases
        .iter()
        .map(|(params, start, end)| {
            let exponent = |size: usize| size.ilog2();
            let sizes = params.sizes;
            json!({
                "start": start,
                "end": end,
                "params": [
                    params.seed as u32 as i32,
                    exponent(sizes.min()),
                    exponent(sizes.max()),
                    exponent(sizes.avg()),
                    params.window,
                ],
            })
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let (list, input) = (folder.path().join("cases"), folder.path().join("data"));
    fs::write(&list, serde_json::to_vec(&described).unwrap()).unwrap();
    fs::write(&input, &data).unwrap();
    let output = run(Command::new(PYTHON).args(["-c", BORG_CUTS]).args([list, input])).unwrap();

    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), cases.len());
    for ((params, start, end), line) in cases.iter().zip(printed.lines()) {
        let expected: Vec<usize> = serde_json::from_str(line).unwrap();
        let found = cut_points(params, &data[*start..*end]).unwrap();
        assert_eq!(found, expected, "{params:?}, bytes {start} to {end}");
    }
}

/// The ends of the chunks by casync's index of `data`; `None` if there is no casync.
fn by_casync(folder: &Path, sizes: ChunkSizes, data: &[u8]) -> Option<Vec<usize>> {
    let index = folder.join("index.caibx");
    fs::write(folder.join("data"), data).unwrap();
    run(Command::new("casync")
        .current_dir(folder)
        .env("HOME", folder)
        .arg(format!("--chunk-size={}:{}:{}", sizes.min(), sizes.avg(), sizes.max()))
        .args(["--store=store.castr", "make"])
        .arg(&index)
        .arg("data"))?;
    Some(ends_in_index(&fs::read(index).unwrap()))
}

/// What a `.caibx` says: a header of 48 bytes, a table with 16 bytes in front, in which the end of
/// each chunk stands before its digest of 32 bytes, and a tail that begins with 0. All numbers are
/// little-endian.
fn ends_in_index(index: &[u8]) -> Vec<usize> {
    let number = |at: usize| u64::from_le_bytes(index[at..at + 8].try_into().unwrap());
    assert_eq!(number(0), 48, "the length of the header");
    assert_eq!(number(48), u64::MAX, "the mark of the table");
    (64..).step_by(40).map(number).take_while(|&end| end > 0).map(|end| end as usize).collect()
}

#[test]
fn casync_cuts_where_its_preset_cuts() {
    let large = mixture(2, 2 << 20);
    let small = mixture(3, 20_000);
    let mut cases = vec![(Preset::Casync.params().sizes, &large[..])];
    for (min, avg, max) in [
        (64, 200, 700),
        (48, 48, 60),
        (100, 100, 100),
        (1, 300, 1000),
        (47, 2000, 2000),
        (500, 1000, 1001),
    ] {
        cases.push((sizes(min, avg, max), &small[..]));
    }
    // tails: the last chunk short, at min and at max
    for len in [1, 47, 48, 49, 4095, 4096, 4097, 65535, 65536, 65537] {
        cases.push((sizes(4096, 16384, 65536), &large[..len]));
        cases.push((sizes(4096, 16384, 65536), &large[4 << 20..][..len]));
    }
    let folder = tempfile::tempdir().unwrap();
    for (sizes, data) in cases {
        let params = Params { sizes, ..Preset::Casync.params() };
        let Some(expected) = by_casync(folder.path(), sizes, data) else { return };
        let found = cut_points(&params, data).unwrap();
        assert_eq!(found, expected, "{sizes:?}, {} bytes", data.len());
    }
}

/// restic's answer to a command on its repository in `folder`; `None` if there is no restic.
fn restic(folder: &Path, words: &[&str]) -> Option<Vec<u8>> {
    let output = run(Command::new("restic")
        .current_dir(folder)
        .env("HOME", folder)
        .env("RESTIC_PASSWORD", "not secret")
        .args(["--repo=repository", "--no-cache", "--json"])
        .args(words))?;
    Some(output.stdout)
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// restic draws a polynomial for the repository, so every run compares another.
#[test]
fn restic_cuts_where_its_preset_cuts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let data = mixture(4, 5 << 20);
    fs::write(folder.join("data"), &data).unwrap();
    if restic(folder, &["init"]).is_none() {
        return;
    }
    let object = |words: &[&str]| -> Value {
        let answer = restic(folder, words).unwrap();
        let last = answer.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap();
        serde_json::from_slice(if words[0] == "backup" { last } else { &answer }).unwrap()
    };
    let summary = object(&["backup", "data"]);
    let snapshot = object(&["cat", "snapshot", summary["snapshot_id"].as_str().unwrap()]);
    let tree = object(&["cat", "blob", snapshot["tree"].as_str().unwrap()]);
    let config = object(&["cat", "config"]);

    let polynomial = config["chunker_polynomial"].as_str().unwrap();
    let seed = u64::from_str_radix(polynomial, 16).unwrap();
    let chunker = Chunker::new(&Params { seed, ..Preset::Restic.params() }).unwrap();
    let mut start = 0;
    let mut found = Vec::new();
    for end in chunker.cut_points(&data) {
        found.push(hex(&Sha256::digest(&data[start..end])));
        start = end;
    }
    let node = &tree["nodes"][0];
    assert_eq!(node["name"], "data");
    let expected: Vec<&str> =
        node["content"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(found, expected, "polynomial {polynomial}");
}
