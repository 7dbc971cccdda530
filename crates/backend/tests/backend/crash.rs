//! Crashes after every step of a program, and every promise checked in what they leave.
//!
//! Each of the three checks must pass on a sound disk, and together they must catch every error
//! a disk can be told to make.

use std::collections::BTreeMap;

use bytes::Bytes;
use onefold_backend::crash::{CrashDisk, DiskBug};
use onefold_backend::{BackendError, Folder, Log, Objects, Pages};

/// States drawn after each step.
const CUTS: usize = 256;

/// A broken promise, or how many states were looked at.
type Checked = Result<usize, String>;

/// Runs `check` with a disk that crashes after each possible number of steps of `program`.
fn after_every_step(
    make: impl Fn() -> CrashDisk,
    program: impl Fn(&CrashDisk),
    check: impl Fn(&CrashDisk) -> Checked,
) -> Checked {
    let whole = make();
    program(&whole);
    let mut states = 0;
    for steps in 0..=whole.operations() {
        let disk = make();
        disk.crash_after(steps);
        states += check(&disk).map_err(|broken| {
            let last = disk.trace().last().map(ToString::to_string).unwrap_or_default();
            format!("{broken}, if the power goes after step {steps} ({last})")
        })?;
    }
    Ok(states)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Put(&'static str, usize),
    Delete(&'static str),
    List,
}

/// Puts to the root, to old and new directories, twice, refused, and after a deletion.
const CALLS: [Call; 12] = [
    Call::Put("config", 40),
    Call::Put("containers/00/aa", 9_000),
    Call::Put("containers/00/ab", 3),
    Call::Put("containers/00/aa", 9_000),
    Call::Put("containers/00/aa", 9_001),
    Call::Put("containers/01/aa", 600),
    Call::List,
    Call::Delete("containers/00/ab"),
    Call::Put("empty", 0),
    Call::Delete("containers/01/aa"),
    Call::Put("containers/01/aa", 600),
    Call::Put("snapshots/1", 700),
];

fn content(size: usize) -> Bytes {
    (0..size).map(|n| (n % 251 + 1) as u8).collect()
}

/// What may be under a name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Expected {
    /// The size it has if it is there; its content follows.
    size: usize,
    acknowledged: bool,
}

/// Makes the calls of the program until one crashes; what is then known of each name.
fn make_calls(place: &dyn Objects) -> BTreeMap<&'static str, Expected> {
    let mut known: BTreeMap<_, Expected> = BTreeMap::new();
    for call in CALLS {
        let result = match call {
            Call::Put(name, size) => {
                let result = place.put(name, content(size));
                let expected = known.entry(name).or_insert(Expected { size, ..Default::default() });
                expected.acknowledged |= result.is_ok();
                result
            }
            Call::Delete(name) => {
                known.get_mut(name).expect("it was put").acknowledged = false;
                place.delete(name)
            }
            Call::List => place.list("").map(|_| ()),
        };
        match result {
            Err(BackendError::Crashed { .. }) => break,
            Ok(()) | Err(BackendError::AlreadyExists { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    known
}

/// Objects are whole or absent; acknowledged ones are there; others were asked for.
fn check_objects(place: &dyn Objects, known: &BTreeMap<&str, Expected>) -> Result<(), String> {
    let listed = place.list("").unwrap();
    for object in &listed {
        let Some(expected) = known.get(object.name.as_str()) else {
            return Err(format!("{} was never put", object.name));
        };
        if place.get(&object.name).unwrap() != content(expected.size) {
            return Err(format!("{} is torn", object.name));
        }
        assert_eq!(object.size, expected.size as u64);
    }
    for (name, expected) in known {
        let is_listed = listed.iter().any(|object| object.name == *name);
        assert_eq!(place.size(name).is_ok(), is_listed, "lists and reads agree");
        if expected.acknowledged && !is_listed {
            return Err(format!("{name} is lost"));
        }
    }
    Ok(())
}

fn objects_survive(make: impl Fn() -> CrashDisk) -> Checked {
    let program = |disk: &CrashDisk| {
        make_calls(&disk.objects());
    };
    after_every_step(make, program, |disk| {
        let known = make_calls(&disk.objects());
        let mut states = 0;
        for (seed, state) in disk.durable_states(CUTS, disk.operations()).enumerate() {
            check_objects(&state.objects(), &known)?;
            // Whatever is there, the program can be run again, and its result lasts.
            let again = make_calls(&state.objects());
            for state in state.durable_states(4, seed as u64) {
                check_objects(&state.objects(), &again)
                    .map_err(|broken| format!("{broken} when the program was run again"))?;
                states += 1;
            }
            states += 1;
        }
        Ok(states)
    })
}

/// A program that is killed leaves names that only the cache has. The next one may rely on those
/// it finds with `find`.
fn found_names_survive(find: impl Fn(&dyn Objects, &BTreeMap<String, Bytes>)) -> Checked {
    let program = |disk: &CrashDisk| {
        make_calls(&disk.objects());
    };
    after_every_step(CrashDisk::new, program, |disk| {
        program(disk);
        disk.crash_after(u64::MAX);
        let mut found = BTreeMap::new();
        for (path, bytes) in disk.files() {
            let name = path.strip_prefix("objects/").unwrap();
            if !name.contains('#') {
                found.insert(name.to_owned(), bytes);
            }
        }
        find(&disk.objects(), &found);
        let mut states = 0;
        for state in disk.durable_states(CUTS, disk.operations()) {
            for (name, bytes) in &found {
                if state.objects().get(name).ok().as_ref() != Some(bytes) {
                    return Err(format!("{name} was found and is lost"));
                }
            }
            states += 1;
        }
        Ok(states)
    })
}

/// What a program knows of its log.
#[derive(Debug, Default)]
struct LogKnown {
    /// Bytes that must be there.
    synced: Vec<u8>,
    /// How far it may reach.
    most: usize,
}

fn write_log(disk: &CrashDisk) -> LogKnown {
    let mut known = LogKnown::default();
    // An error ends the program.
    let _ = append_and_sync(disk, &mut known);
    known
}

fn append_and_sync(disk: &CrashDisk, known: &mut LogKnown) -> Result<(), BackendError> {
    let mut log = disk.log("journal")?;
    let mut content = Vec::new();
    for round in 1..=6_u8 {
        for record in 0..round {
            let bytes = vec![16 * round + record; 700 * usize::from(record) + 5];
            content.extend_from_slice(&bytes);
            known.most = known.most.max(content.len());
            log.append(&bytes)?;
        }
        if round % 2 == 0 {
            // from beside and by the handle
            if round == 4 { log.sync() } else { log.syncer().sync() }?;
            known.synced.clone_from(&content);
        }
        if round == 4 {
            // From here on only what is left after it is sure.
            content.truncate(1_000);
            known.synced.clone_from(&content);
            log.truncate(1_000)?;
            known.most = content.len();
        }
        if round == 5 {
            // A handle opened anew makes what it finds durable.
            drop(log);
            log = disk.log("journal")?;
            known.synced.clone_from(&content);
        }
    }
    Ok(())
}

fn logs_survive(make: impl Fn() -> CrashDisk) -> Checked {
    let program = |disk: &CrashDisk| {
        write_log(disk);
    };
    after_every_step(make, program, |disk| {
        let known = write_log(disk);
        let mut states = 0;
        for state in disk.durable_states(CUTS, disk.operations()) {
            let log = state.log("journal").unwrap();
            let mut bytes = vec![0; log.len() as usize];
            log.read(0, &mut bytes).unwrap();
            if !bytes.starts_with(&known.synced) {
                return Err(format!("{} synced bytes of the log are lost", known.synced.len()));
            }
            assert!(bytes.len() <= known.most, "{} bytes, {} written", bytes.len(), known.most);
            states += 1;
        }
        Ok(states)
    })
}

const PAGE_SIZE: usize = 8_192;

/// What a program knows of its pages: of each, the bytes it was last synced with and those
/// written since.
#[derive(Debug, Default)]
struct PagesKnown {
    /// Pages that must be there.
    least: usize,
    may_hold: BTreeMap<u64, Vec<u8>>,
}

impl PagesKnown {
    fn synced(&mut self, count: u64) {
        self.least = count as usize;
        self.may_hold.values_mut().for_each(|bytes| *bytes = vec![*bytes.last().unwrap()]);
    }
}

fn write_pages(disk: &CrashDisk) -> PagesKnown {
    let mut known = PagesKnown::default();
    // An error ends the program.
    let _ = grow_write_and_sync(disk, &mut known);
    known
}

fn grow_write_and_sync(disk: &CrashDisk, known: &mut PagesKnown) -> Result<(), BackendError> {
    let mut pages = disk.pages("table", PAGE_SIZE)?;
    for round in 1..=5_u8 {
        let count = u64::from(round) + 1;
        for page in 0..count {
            known.may_hold.entry(page).or_insert_with(|| vec![0]);
        }
        pages.set_count(count)?;
        for page in [0, u64::from(round), u64::from(round) / 2] {
            let byte = 16 * round + page as u8;
            known.may_hold.get_mut(&page).unwrap().push(byte);
            pages.write(page, &[byte; PAGE_SIZE])?;
        }
        if round != 2 {
            pages.sync()?;
            known.synced(count);
        }
    }
    known.least = 2;
    pages.set_count(2)?;
    known.may_hold.retain(|page, _| *page < 2);
    known.synced(2);
    Ok(())
}

fn pages_survive(make: impl Fn() -> CrashDisk) -> Checked {
    let program = |disk: &CrashDisk| {
        write_pages(disk);
    };
    after_every_step(make, program, |disk| {
        let known = write_pages(disk);
        let mut states = 0;
        for state in disk.durable_states(CUTS, disk.operations()) {
            let pages = state.pages("table", PAGE_SIZE).unwrap();
            if pages.count() < known.least as u64 {
                return Err(format!("{} pages of {} are left", pages.count(), known.least));
            }
            for page in 0..pages.count() {
                let mut bytes = vec![0; PAGE_SIZE];
                pages.read(page, &mut bytes).unwrap();
                let Some(may_hold) = known.may_hold.get(&page) else {
                    return Err(format!("page {page} was removed"));
                };
                // A page that was just added may be there before its bytes.
                let is_new = page >= known.least as u64;
                if !bytes.iter().all(|byte| may_hold.contains(byte) || is_new && *byte == 0) {
                    return Err(format!("page {page} lost what was synced"));
                }
            }
            states += 1;
        }
        Ok(states)
    })
}

#[test]
fn acknowledged_objects_survive_every_crash() {
    let states = objects_survive(CrashDisk::new).unwrap();
    println!("{states} states");
    assert!(states > 2_000, "{states}");
}

#[test]
fn names_listed_after_a_killed_put_survive_every_crash() {
    let states = found_names_survive(|place, found| {
        let listed: Vec<_> = place.list("").unwrap().into_iter().map(|info| info.name).collect();
        assert!(listed.iter().eq(found.keys()));
    });
    println!("{} states", states.unwrap());
}

#[test]
fn names_put_again_after_a_killed_put_survive_every_crash() {
    let states = found_names_survive(|place, found| {
        for (name, bytes) in found {
            place.put(name, bytes.clone()).unwrap();
        }
    });
    println!("{} states", states.unwrap());
}

#[test]
fn the_synced_part_of_a_log_survives_every_crash() {
    let states = logs_survive(CrashDisk::new).unwrap();
    println!("{states} states");
    assert!(states > 1_000, "{states}");
}

#[test]
fn synced_pages_survive_every_crash() {
    let states = pages_survive(CrashDisk::new).unwrap();
    println!("{states} states");
    assert!(states > 1_000, "{states}");
}

#[test]
fn a_name_that_is_replaced_is_of_either_file_whole_at_every_crash() {
    let read = |disk: &CrashDisk| -> Vec<u8> {
        let reader = disk.folder().reader("a").expect("it has the name, or the other has");
        let mut bytes = vec![0; reader.len() as usize];
        reader.read(0, &mut bytes).unwrap();
        bytes
    };
    let replace = |disk: &CrashDisk| -> Result<(), BackendError> {
        let folder = disk.folder();
        let mut new = folder.log("b")?;
        new.append(&[2; 5_000])?;
        new.sync()?;
        folder.rename("b", "a")
    };
    let make = || {
        let disk = CrashDisk::new();
        let mut old = disk.log("a").unwrap();
        old.append(&[1; 3_000]).unwrap();
        old.sync().unwrap();
        drop(old);
        disk
    };
    let (whole, before) = (make(), make().operations());
    replace(&whole).unwrap();
    let mut found = [0, 0];
    for steps in before..=whole.operations() {
        let disk = make();
        disk.crash_after(steps);
        let is_done = replace(&disk).is_ok();
        for state in disk.durable_states(CUTS, steps) {
            let bytes = read(&state);
            let is_new = bytes == [2; 5_000];
            assert!(is_new || (bytes == [1; 3_000] && !is_done), "step {steps}");
            found[usize::from(is_new)] += 1;
        }
    }
    assert!(found[0] > 1 && found[1] > 1, "{found:?}");
}

#[test]
fn every_seeded_bug_is_caught() {
    for bug in DiskBug::ALL {
        let make = || CrashDisk::new().with_bug(bug);
        let checked = match bug {
            DiskBug::LogSyncDoesNothing => logs_survive(make),
            DiskBug::PagesSyncDoesNothing => pages_survive(make),
            DiskBug::SkipFileSync | DiskBug::SkipDirectorySync | DiskBug::NameBeforeBytes => {
                objects_survive(make)
            }
        };
        let broken = checked.expect_err(&format!("{bug:?} passes unseen"));
        println!("{bug:?}: {broken}");
    }
}

#[test]
fn a_disk_that_crashed_does_nothing_more() {
    let disk = CrashDisk::new();
    let place = disk.objects();
    place.put("a", "1".into()).unwrap();
    let mut log = disk.log("journal").unwrap();
    let mut pages = disk.pages("table", 512).unwrap();
    let (files, steps) = (disk.files(), disk.operations());
    disk.crash_after(steps);
    let crashed = |error| matches!(error, BackendError::Crashed { .. });
    assert!(crashed(place.put("b", "2".into()).unwrap_err()));
    assert!(crashed(place.get("a").unwrap_err()));
    assert!(crashed(place.list("").unwrap_err()));
    assert!(crashed(place.delete("a").unwrap_err()));
    assert!(crashed(log.append(b"a").unwrap_err()));
    assert!(crashed(log.sync().unwrap_err()));
    assert!(crashed(pages.set_count(1).unwrap_err()));
    assert!(crashed(disk.log("other").unwrap_err()));
    assert!(crashed(disk.folder().rename("journal", "other").unwrap_err()));
    assert_eq!((disk.files(), disk.operations()), (files, steps));
}

#[test]
fn states_include_both_extremes_and_repeat_with_the_seed() {
    let disk = CrashDisk::new();
    let mut log = disk.log("journal").unwrap();
    log.append(&[1; 5_000]).unwrap();
    let lens = |seed| -> Vec<u64> {
        disk.durable_states(16, seed).map(|state| state.log("journal").unwrap().len()).collect()
    };
    assert_eq!(lens(7)[..2], [0, 5_000]);
    assert_eq!(lens(7), lens(7));
    assert_ne!(lens(7), lens(8));
    log.sync().unwrap();
    assert_eq!(lens(7), [5_000], "nothing is left to chance");
}

#[test]
fn what_was_deleted_and_then_listed_stays_deleted() {
    for others in [0, 2] {
        let disk = CrashDisk::new();
        let objects = disk.objects();
        objects.put("a/gone", Bytes::from_static(b"1")).unwrap();
        for other in 0..others {
            objects.put(&format!("a/{other}"), Bytes::from_static(b"2")).unwrap();
        }
        objects.delete("a/gone").unwrap();
        let is_back = |state: CrashDisk| state.objects().get("a/gone").is_ok();
        assert!(disk.durable_states(4, 0).any(is_back), "a delete alone is not durable");
        assert_eq!(disk.objects().list("a/").unwrap().len(), others);
        assert!(!disk.durable_states(16, 0).any(is_back), "with {others} others");
    }
}
