//! `onefold cluster simulate`: what it promises of its outputs, and what it refuses.

use std::fs;

use onefold_bench::trace::Shape;
use serde_json::Value;

use crate::lab::{Lab, number};

/// The points of each routing in a record.
fn points(record: &Value) -> Vec<(String, Vec<Value>)> {
    let series = record["results"].as_array().unwrap().iter();
    let points = |one: &Value| one["points"].as_array().unwrap().clone();
    series.map(|one| (one["routing"].as_str().unwrap().to_owned(), points(one))).collect()
}

#[test]
fn a_simulation_is_shown_recorded_and_plotted() {
    let lab = Lab::new();
    let line = "cluster simulate --nodes 1..12 --like even --times streamdedup";
    let ran = lab.ok(&format!("{line} --json out.json --html out/page.html --svg out/plot.svg"));
    for routing in ["direct", "chord", "chord-both"] {
        let head = format!("times of streamdedup; {routing}; latencies at 0.5");
        assert!(ran.stdout.contains(&head), "{ran:#?}");
    }
    let record: Value = serde_json::from_slice(&fs::read(lab.path("out.json")).unwrap()).unwrap();
    assert!(record["notes"][0].as_str().unwrap().contains("simulated"), "{record}");
    let series = points(&record);
    assert_eq!(series.len(), 3);
    for (routing, points) in &series {
        let gateways: Vec<u64> = points.iter().map(|point| number(point, "gateways")).collect();
        assert_eq!(gateways, [1, 2, 4, 8, 10, 12]);
        assert_eq!(number(&points[0], "most_hops"), 0);
        let most = points.iter().map(|point| number(point, "most_hops")).max().unwrap();
        let expected = match &routing[..] {
            "direct" => 1..=1,
            // 11 = 8 + 2 + 1
            "chord" => 3..=3,
            _ => 2..=2,
        };
        assert!(expected.contains(&most), "{routing}: {most}");
        // between powers of two the widest range, which bounds all, is as wide as before
        let rates: Vec<f64> = points
            .iter()
            .filter(|point| number(point, "gateways").is_power_of_two())
            .map(|point| point["pages_per_second"].as_f64().unwrap())
            .collect();
        assert!(rates.len() == 4 && rates.is_sorted_by(|a, b| a < b), "{rates:?}");
    }
    let page = fs::read_to_string(lab.path("out/page.html")).unwrap();
    for text in ["not measured", "figures 13 and 14: chord-both", "about 125 GB", "<svg "] {
        assert!(page.contains(text), "{text}");
    }
    let plot = fs::read_to_string(lab.path("out/plot.svg")).unwrap();
    assert!(plot.contains("chord-both") && plot.matches("<svg ").count() == 4, "{plot}");
}

#[test]
fn the_same_arguments_give_the_same_points() {
    let lab = Lab::new();
    let line = "cluster simulate --nodes 3,1 --like web --times onefold --routing chord --json";
    let of = |more: &str| points(&lab.ok(&format!("{line} {more}")).json());
    let one = of("");
    assert_eq!(one, of(""));
    assert_ne!(one, of("--seed 2"));
    // a slower commit is later, and nothing else
    let later = of("--commit-us 5000");
    let value =
        |points: &[(String, Vec<Value>)], name: &str| points[0].1[0][name].as_f64().unwrap();
    assert_eq!(value(&one, "pages_per_second"), value(&later, "pages_per_second"));
    let added = value(&later, "p50_us") - value(&one, "p50_us");
    assert!((added - 2300.0).abs() < 1e-6, "{added}");
}

#[test]
fn writes_of_a_trace_are_simulated() {
    let lab = Lab::new();
    let operations = Shape::Mail.plan(2000).generate().unwrap();
    let lines: Vec<String> = operations.map(|operation| format!("{operation}\n")).collect();
    let written = lines.iter().filter(|line| line.contains(" W ")).count();
    lab.write("mail.trace", lines.concat());
    let line = "cluster simulate --nodes 2 --routing direct --trace mail.trace --json";
    let record = lab.ok(line).json();
    assert_eq!(record["results"].as_array().unwrap().len(), 2, "the times of both");
    let workload = &record["results"][0]["workload"];
    assert_eq!(
        (workload["name"].as_str(), number(workload, "pages")),
        (Some("mail.trace"), written as u64)
    );
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let lab = Lab::new();
    lab.write("rubbish", "no trace\n");
    lab.write("reads", "0 1 x 0 8 R 6 0 531e779bf7ab92d45f28e1a4d4e9c2f1\n");
    for (more, expected) in [
        ("--nodes 0", "0 gateways, expected 1 to 1000"),
        ("--nodes 10..1", "10..1 descends, expected 1..10"),
        ("--nodes 1..2000", "2000 gateways, expected 1 to 1000"),
        ("--routing ring", "chord-both"),
        ("--like post", "homes"),
        ("--like mail --trace rubbish", "cannot be used with"),
        ("--trace nowhere", "trace 'nowhere'"),
        ("--trace .", "expected a file"),
        ("--trace rubbish", "trace 'rubbish', line 1"),
        ("--trace reads", "it writes nothing, expected a line with W"),
        ("--like even --load 1", "a load of 1, expected more than 0 and less than 1"),
        ("--like even --batch 0", "pages of a write is 0, expected 1 to 65536"),
        ("--like even --link-gbit 0", "bytes a second of a link is 0"),
        ("--like even --hop-us=-1", "the time of a hop is -1"),
        ("--like even --json .", "it is a folder"),
    ] {
        lab.run(&format!("cluster simulate {more}")).expect(1).says(&[expected]);
    }
}
