//! The chunkers of other tools, by name on the command line.

use onefold_cdc::{Params, Preset, cut_points};
use onefold_testkit::{random, text};
use serde_json::Value;

use crate::lab::{Lab, number};

/// The ends of the chunks that `chunk` prints of `file`.
fn ends(lab: &Lab, arguments: &str) -> Vec<usize> {
    let cuts = lab.ok(&format!("chunk file --json {arguments}")).json_lines();
    cuts.iter().map(|cut| (number(cut, "offset") + number(cut, "length")) as usize).collect()
}

#[test]
fn chunk_cuts_where_the_tool_of_a_preset_cuts() {
    let lab = Lab::new();
    let data = [random(1, 3 << 20), text(2, 2 << 20)].concat();
    lab.write("file", &data);
    for &preset in Preset::ALL {
        let expected = cut_points(&preset.params(), &data).unwrap();
        assert_eq!(ends(&lab, &format!("--algorithm {preset}")), expected, "{preset}");
    }
    let with = |seed| Params { seed, ..Preset::Restic.params() };
    let expected = cut_points(&with(0x20_a839_7b1d_ce27), &data).unwrap();
    assert_ne!(expected, cut_points(&Preset::Restic.params(), &data).unwrap());
    for given in ["--polynomial 20a8397b1dce27", "--seed 0x20a8397b1dce27"] {
        assert_eq!(ends(&lab, &format!("--algorithm restic {given}")), expected, "{given}");
    }
    let borg = "--algorithm borg --chunker-params buzhash,10,16,12,63 --seed -7";
    let sizes = "--algorithm borg --min 1KiB --avg 4KiB --max 64KiB --window 63 --seed 0xfffffff9";
    assert_eq!(ends(&lab, borg), ends(&lab, sizes));
    assert!(ends(&lab, borg).len() > 100);
}

#[test]
fn what_a_preset_cannot_have_is_refused_by_name() {
    let lab = Lab::new();
    lab.write("file", "x");
    let refused = |line: &str, reason: &str| {
        lab.run(&format!("chunk file --algorithm {line}")).expect(1).says(&[reason]);
    };
    refused("restic --avg 10000", "restic cannot have these parameters, expected a power of two");
    refused("restic --polynomial 8", "expected an irreducible one of degree 53");
    refused("casync --window 47", "casync takes no --window");
    refused("borg --kernel ssse3", "kernel 'ssse3' cannot run borg here");
    lab.write("key", [7; 32]);
    refused("xet --secret-file key", "no secret");
    lab.run("init repo --no-encryption --algorithm restic").expect(1).says(&["'restic'"]);
}

#[test]
fn presets_are_measured_by_name_or_together() {
    let lab = Lab::new();
    lab.write("data", random(1, 1 << 20));
    let names = |arguments: &str| -> Vec<String> {
        let line = "bench run --data data --rounds 1 --json --kernels auto --mean";
        let record = lab.ok(&format!("{line} {arguments}")).json();
        let entries = record["results"][0]["entries"].as_array().unwrap().clone();
        let name = |entry: &Value| entry["algorithm"].as_str().unwrap().to_owned();
        entries.iter().map(name).collect()
    };
    assert_eq!(names("8KiB --algorithms restic,ram"), ["ram", "restic"]);
    let all: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
    assert_eq!(names("8KiB --algorithms presets"), all);
    assert_eq!(names("9000 --algorithms presets --equalise-mean"), all);
    let line = "bench run --data data --rounds 0 --mean 9000 --algorithms restic";
    lab.run(line).expect(1).says(&["restic at a mean of 9000 bytes", "a power of two"]);
}
