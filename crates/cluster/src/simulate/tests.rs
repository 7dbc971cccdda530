//! What is simulated against what is known in closed form.

use super::*;

/// One server a unit, and nothing takes time but what a test sets.
fn idle() -> Times {
    let step = |unit| Step { unit, us: 0.0 };
    let units = ["fingerprints", "look-ups", "compression", "storage", "messages"];
    Times {
        name: "test".into(),
        units: units.map(|name| Unit { name: name.into(), servers: 1 }).to_vec(),
        fingerprint: step(0),
        look_up: step(1),
        compress: step(2),
        store: step(3),
        message: step(4),
        commit_us: 0.0,
        hop_us: 0.0,
        link_bytes_per_second: 1e15,
        batch: 1,
        window: 8,
        message_bytes: 10,
        request_bytes: 32,
        answer_bytes: 8,
        tells_hints: false,
        kept_hints: 0,
        sources: Vec::new(),
    }
}

fn point(
    gateways: usize,
    routing: Routing,
    times: &Times,
    workload: &Workload,
    load: f64,
) -> Point {
    simulate(&Plan { gateways, routing, times, workload, load, seed: 7 }).unwrap()
}

#[track_caller]
fn ensure_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found}, expected {expected}");
}

#[test]
fn one_gateway_does_a_page_each_time_of_its_slowest_step() {
    let page = |content| Page { prefix: 0, content, is_new: content % 2 == 0 };
    let pages = (0..1024).map(page).collect();
    let workload = Workload { name: "half".into(), page_bytes: 4096, pages };
    let at = |unit, us| Step { unit, us };
    for (times, page_us, busiest) in [
        (Times { fingerprint: at(0, 10.0), ..idle() }, 10.0, "fingerprints"),
        (Times { fingerprint: at(0, 2.0), look_up: at(1, 5.0), ..idle() }, 5.0, "look-ups"),
        (Times { compress: at(2, 30.0), ..idle() }, 15.0, "compression"),
        // what shares a unit adds up
        (
            Times { fingerprint: at(0, 2.0), look_up: at(0, 1.0), store: at(0, 8.0), ..idle() },
            7.0,
            "fingerprints",
        ),
        // 4 KiB at 1 GB/s
        (Times { link_bytes_per_second: 1e9, ..idle() }, 4.096, "link"),
    ] {
        for batch in [1, 16] {
            let times = Times { batch, ..times.clone() };
            let point = point(1, Routing::Direct, &times, &workload, 0.5);
            ensure_near(point.pages_per_second, 1e6 / page_us, 0.005);
            assert_eq!(point.busiest, busiest);
            assert!(point.busiest_share > 0.99, "{}", point.busiest_share);
            assert_eq!((point.hops, point.messages_per_page), (0.0, 0.0));
        }
    }
}

#[test]
fn writes_that_come_by_chance_wait_as_at_a_server_of_constant_time() {
    // M/D/1: service s, load r, a mean wait of r s / (2 (1 - r)), by Pollaczek and Khinchine
    let times = Times { fingerprint: Step { unit: 0, us: 10.0 }, ..idle() };
    let workload = Workload::even(0.5, 1);
    for load in [0.05, 0.2, 0.5, 0.7] {
        let point = point(1, Routing::Direct, &times, &workload, load);
        let wait = load * 10.0 / (2.0 * (1.0 - load));
        ensure_near(point.mean_us - 10.0, wait, 0.06);
        // a write that finds the server free, which a share of 1 - r does, takes s
        if load < 0.5 {
            ensure_near(point.p50_us, 10.0, 1e-5);
        }
        assert!(point.p99_us > point.mean_us);
    }
}

#[test]
fn a_write_takes_its_steps_hops_and_commit_one_after_another() {
    let at = |unit, us| Step { unit, us };
    let times = Times {
        fingerprint: at(0, 1.0),
        look_up: at(1, 0.5),
        compress: at(2, 3.0),
        store: at(3, 4.0),
        message: at(4, 0.25),
        commit_us: 100.0,
        hop_us: 20.0,
        ..idle()
    };
    let workload = |prefix, is_new| Workload {
        name: "one".into(),
        page_bytes: 4096,
        pages: vec![Page { prefix, content: 0, is_new }],
    };
    // hardly any load, so that nothing waits; of two gateways the first holds the prefix
    let known = point(1, Routing::Direct, &times, &workload(0, false), 1e-6);
    ensure_near(known.p50_us, 101.5, 1e-6);
    let new = point(1, Routing::Direct, &times, &workload(0, true), 1e-6);
    ensure_near(new.p50_us, 108.5, 1e-6);
    let two = point(2, Routing::Direct, &times, &workload(0, true), 1e-6);
    ensure_near(two.p99_us, 108.5 + 2.0 * 20.25, 1e-6);
    // five of sixteen gateways ahead are two hops there; eleven back are three
    let far = point(16, Routing::Chord, &times, &workload(0, false), 1e-6);
    ensure_near(far.p99_us, 101.5 + 5.0 * 20.25, 0.01);
}

#[test]
fn a_workload_of_the_same_seed_does_not_tell_where_its_pages_come_to() {
    let times = Times { hop_us: 20.0, fingerprint: Step { unit: 0, us: 1.0 }, ..idle() };
    let workload = Workload::even(0.5, 7);
    let two = point(2, Routing::Direct, &times, &workload, 1e-6);
    // half of the pages are asked for elsewhere, there and back
    ensure_near(two.mean_us, 1.0 + 0.5 * 40.0, 0.03);
}

#[test]
fn hops_are_those_of_the_routing() {
    let workload = Workload::even(0.5, 1);
    let times = Times { fingerprint: Step { unit: 0, us: 1.0 }, ..idle() };
    for bits in [1, 3, 5, 7] {
        let count = 1 << bits;
        let chord = point(count, Routing::Chord, &times, &workload, 0.5);
        ensure_near(chord.hops, f64::from(bits) / 2.0, 0.03);
        assert_eq!(chord.most_hops, bits);
        let direct = point(count, Routing::Direct, &times, &workload, 0.5);
        ensure_near(direct.hops, 1.0 - 1.0 / count as f64, 0.03);
        assert_eq!(direct.most_hops, 1);
        // a request and an answer for each page that another gateway holds
        ensure_near(direct.messages_per_page, 2.0 * direct.hops, 0.02);
        ensure_near(direct.index_bytes_per_page, (42.0 + 18.0) * direct.hops, 0.02);
        let both = point(count, Routing::ChordBoth, &times, &workload, 0.5);
        if bits > 1 {
            assert!(both.hops < chord.hops && both.most_hops < chord.most_hops, "{both:?}");
        }
    }
}

#[test]
fn look_ups_that_go_the_same_way_share_messages() {
    let workload = Workload::even(0.5, 1);
    let times = |batch| Times { fingerprint: Step { unit: 0, us: 1.0 }, batch, ..idle() };
    let messages =
        |batch, routing| point(64, routing, &times(batch), &workload, 0.5).messages_per_page;
    for routing in Routing::ALL {
        assert!(messages(64, routing) < messages(1, routing), "{routing:?}");
    }
    // 64 prefixes fall on 40 of 64 gateways in the mean: 64 (1 - (63/64)^64), less the own one
    let others = 63.0 * (1.0 - (63.0_f64 / 64.0).powi(64));
    ensure_near(messages(64, Routing::Direct), 2.0 * others / 64.0, 0.02);
}

#[test]
fn throughput_grows_with_gateways_until_one_holds_what_all_ask_for() {
    let at = |unit, us| Step { unit, us };
    let times = Times { fingerprint: at(0, 10.0), look_up: at(1, 1.0), window: 32, ..idle() };
    let even = Workload::even(0.5, 1);
    for gateways in [1, 4, 32] {
        for routing in Routing::ALL {
            let point = point(gateways, routing, &times, &even, 0.5);
            ensure_near(point.pages_per_second, gateways as f64 * 1e5, 0.02);
        }
    }
    let page = Page { prefix: 9, content: 0, is_new: false };
    let hot = Workload { name: "hot".into(), page_bytes: 4096, pages: vec![page] };
    let bound = point(32, Routing::Direct, &times, &hot, 0.5);
    ensure_near(bound.pages_per_second, 1e6, 0.01);
    assert_eq!(bound.busiest, "look-ups");
    // whoever keeps the hint asks for it once
    let keeping = Times { kept_hints: 16, ..times };
    let kept = point(32, Routing::Direct, &keeping, &hot, 0.5);
    ensure_near(kept.pages_per_second, 32e5, 0.02);
    assert!(kept.messages_per_page < 0.001, "{}", kept.messages_per_page);
}

#[test]
fn hints_of_new_pages_are_told_besides() {
    let workload = Workload::even(0.5, 1);
    let asks = Times { fingerprint: Step { unit: 0, us: 1.0 }, ..idle() };
    let tells = Times { tells_hints: true, ..asks.clone() };
    let [asks, tells] =
        [asks, tells].map(|times| point(8, Routing::Direct, &times, &workload, 0.5));
    // half of the pages are new, and nobody answers
    ensure_near(tells.messages_per_page / asks.messages_per_page, 1.25, 0.02);
    ensure_near(tells.hops, asks.hops, 0.02);
}

#[test]
fn the_same_plan_gives_the_same_point() {
    let workload = Workload::even(0.5, 1);
    for times in [Times::streamdedup(), Times::onefold()] {
        for routing in Routing::ALL {
            let one = point(10, routing, &times, &workload, 0.5);
            assert_eq!(one, point(10, routing, &times, &workload, 0.5));
            let plan = Plan {
                gateways: 10,
                routing,
                times: &times,
                workload: &workload,
                load: 0.5,
                seed: 8,
            };
            assert_ne!(one, simulate(&plan).unwrap());
        }
    }
}

#[test]
fn one_gateway_of_the_engine_is_as_fast_as_it_was_measured() {
    // docs/records/2026-11-23-engine.json: 1.30 µs a known page, 7.0 a new one, by one core
    let times = Times { store: Step { unit: 1, us: 0.0 }, ..Times::onefold() };
    for (duplicates, us) in [(1.0, 1.30), (0.0, 7.0)] {
        let workload = Workload::even(duplicates, 1);
        let point = point(1, Routing::Direct, &times, &workload, 0.5);
        ensure_near(point.pages_per_second, 2e6 / us, 0.02);
    }
}

#[test]
fn a_plan_that_makes_no_sense_is_refused() {
    let (times, workload) = (idle(), Workload::even(0.5, 1));
    let good = Plan {
        gateways: 1,
        routing: Routing::Chord,
        times: &times,
        workload: &workload,
        load: 0.5,
        seed: 1,
    };
    let empty = Workload { name: "empty".into(), page_bytes: 4096, pages: Vec::new() };
    let bad_times = Times { hop_us: f64::INFINITY, ..idle() };
    for (plan, expected) in [
        (Plan { gateways: 0, ..good }, "0 gateways, expected 1 to 4096"),
        (Plan { gateways: 4097, ..good }, "4097 gateways, expected 1 to 4096"),
        (Plan { workload: &empty, ..good }, "workload 'empty' has no page"),
        (Plan { load: 1.0, ..good }, "a load of 1, expected more than 0 and less than 1"),
        (Plan { load: f64::NAN, ..good }, "a load of NaN"),
        (Plan { times: &bad_times, ..good }, "the time of a hop is inf"),
    ] {
        let error = simulate(&plan).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
