//! A clock that is set back and ahead between backups, forgets and prunes. It decides how patient a
//! prune is, and nothing else: no intent and no mark is passed over because of it, and none stays.

use std::sync::Arc;
use std::time::Duration;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Objects, Operation};
use onefold_store::prune::{self, Report, Unused};
use onefold_store::{Cancel, Progress, clock, forget};
use onefold_testkit::{SplitMix64, random};

use crate::Turn;
use crate::common::picture::Picture;
use crate::common::play::{Cast, Counts, Sources, play_between};
use crate::common::{
    back_up, expect_clean, in_memory, names, open, options, restored, small_chunks, try_back_up,
    write,
};

const DAY: i64 = 24 * 3600;

#[test]
fn a_clock_that_jumps_between_steps_loses_nothing_in_any_order() {
    let _turn = Turn::take();
    let sources = Sources::new();
    let jump = |numbers: &mut SplitMix64| {
        let days = [-9000, -400, -8, -1, 0, 0, 1, 8, 400, 9000];
        clock::set_ahead(days[numbers.below(days.len())] * DAY);
    };
    let mut counts = Counts::default();
    for seed in 0..120 {
        let deaths = seed % 3 == 0;
        let cast = Cast { writers: 2, pruners: 2, readers: 0, lag: 0, deaths };
        let played = play_between(&sources, cast, seed, &jump);
        clock::set_ahead(0);
        counts.add(played.unwrap_or_else(|broken| panic!("seed {seed}: {broken}")));
    }
    println!("{counts:?}");
    assert!(counts.revoked > 0 && counts.waited > 0 && counts.deleted > 0, "{counts:?}");
}

fn prune_patiently(objects: &Arc<dyn Objects>) -> Report {
    let options = prune::Options {
        max_unused: Unused::Bytes(0),
        fence_after: Duration::from_secs(7 * DAY as u64),
        container_len: 64 << 10,
        ..prune::Options::default()
    };
    prune::prune(&open(objects), &options, &Progress::default(), &Cancel::default()).unwrap()
}

#[test]
fn what_a_dead_backup_left_is_waited_for_a_week_by_any_clock() {
    let _turn = Turn::take();
    // When the backup began, when the prune comes, and whether it waits.
    let cases = [
        (0, 6, true),
        (0, 8, false),
        (0, -1, true),
        (0, -8, false),
        (0, -9000, false),
        (9000, 0, false),
        (-9000, -8995, true),
    ];
    for (began, comes, waits) in cases {
        clock::set_ahead(began * DAY);
        let (source, (objects, repository)) =
            (tempfile::tempdir().unwrap(), in_memory(small_chunks()));
        write(source.path().join("kept"), random(1, 60_000));
        write(source.path().join("changed"), random(2, 60_000));
        let (first, _) = back_up(&repository, source.path());
        write(source.path().join("changed"), random(3, 60_000));
        let (_, kept) = back_up(&repository, source.path());
        // It cannot commit, and cannot take its notice back.
        let faults = Faults::none();
        let cut_off = Faulty::new(Arc::clone(&objects), "", &faults);
        let put = Fault::new(Failure::Io).on(Operation::Put).named("snapshots/");
        faults.add(put.times(u64::MAX));
        let cut_off: Arc<dyn Objects> = Arc::new(cut_off);
        let paths = [source.path()];
        try_back_up(&open(&cut_off), &paths, &options(), &Progress::default()).unwrap_err();
        assert_eq!(names(&*objects, "intents/").len(), 1);
        forget::forget(&repository, &[first]).unwrap();
        assert!(prune_patiently(&objects).waiting_containers > 0);

        clock::set_ahead(comes * DAY);
        let report = prune_patiently(&objects);
        let left = (names(&*objects, "intents/").len(), names(&*objects, "marks/").is_empty());
        let at = format!("{began} to {comes}: {report:?}");
        assert_eq!(left, if waits { (1, false) } else { (0, true) }, "{at}");
        assert_eq!(report.deleted_containers == 0, waits, "{at}");
        expect_clean(&open(&objects)).unwrap();
        let picture = restored(&open(&objects), &kept).unwrap();
        Picture::of(source.path()).expect(&picture).unwrap();

        // In time it goes, whatever happened to the clock.
        clock::set_ahead((began + 8) * DAY);
        prune_patiently(&objects);
        assert_eq!(names(&*objects, "intents/").len() + names(&*objects, "marks/").len(), 0);
        clock::set_ahead(0);
    }
}
