//! Errors of taking a client's key back, made on purpose: each must be caught, and none is found
//! otherwise.

use std::fmt::{Debug, Display};

use onefold_store::prune::{self, Unused};
use onefold_store::seeded::{self, Bug};
use onefold_store::{Cancel, Progress};

use crate::Turn;
use crate::common::taken_back::TakenBack;
use crate::common::trials::Trial;
use crate::common::{chain, copy, expect_clean, names, open, replace, restored};

#[test]
fn every_bug_of_taking_a_key_back_is_caught() {
    let _turn = Turn::take();
    let scene = TakenBack::new();
    for bug in Bug::OF_CLIENTS {
        expect_caught(*bug, || scene.try_every_order());
    }
    // One object names one snapshot from now on, so that two take parts.
    seeded::shorten_words(true);
    let scene = TakenBack::twice();
    let count = scene.cut_power_everywhere(3).unwrap();
    println!("taking a key back whose snapshots take several objects: {count}");
    for bug in Bug::OF_PARTS {
        expect_caught(*bug, || scene.cut_power_everywhere(3));
    }
    what_parts_name_stays_and_a_part_that_is_gone_or_changed_is_damage(&scene);
}

fn expect_caught<T: Display, E: Debug + Display>(bug: Bug, tried: impl FnOnce() -> Result<T, E>) {
    seeded::activate(Some(bug));
    let tried = tried();
    seeded::activate(None);
    match tried {
        Ok(count) => panic!("{bug:?} was not caught: {count}"),
        Err(broken) => println!("{bug:?}: {broken}"),
    }
}

fn what_parts_name_stays_and_a_part_that_is_gone_or_changed_is_damage(scene: &TakenBack) {
    let objects = copy(&*scene.objects);
    assert_eq!(scene.take_back(&objects).unwrap(), scene.all);
    let parts: Vec<_> = names(&*objects, "clients/");
    let parts: Vec<_> = parts.iter().filter(|name| !name.contains("000000000000000")).collect();
    assert_eq!(parts.len(), 2, "one for each snapshot");
    expect_clean(&open(&objects)).unwrap();
    restored(&open(&objects), &scene.made.1).unwrap().expect(&scene.picture).unwrap();
    // Who takes it back again makes no more of them.
    assert_eq!(scene.take_back(&objects).unwrap(), scene.all);
    assert_eq!(names(&*objects, "clients/").len(), 5);
    for part in parts {
        for is_gone in [true, false] {
            let damaged = copy(&*objects);
            match is_gone {
                true => damaged.delete(part).unwrap(),
                false => replace(&*damaged, part, b"something else".to_vec()),
            }
            let (snapshots, errors) = open(&damaged).snapshots().unwrap();
            assert_eq!((snapshots.len(), errors.len()), (0, 2));
            assert!(chain(&errors[0]).contains(part), "{}", chain(&errors[0]));
            let options =
                prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
            let (progress, cancel) = (Progress::default(), Cancel::default());
            let error = prune::prune(&open(&damaged), &options, &progress, &cancel).unwrap_err();
            assert!(chain(&error).contains(part), "{}", chain(&error));
        }
    }
}
