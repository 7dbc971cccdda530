//! The contract of every implementation, as tests that panic if one violates it.
//!
//! A running process cannot observe durability; the crash tests check that.

use std::ops::{ControlFlow, Range};

use bytes::Bytes;

use crate::{BackendError, Folder, Log, LogReader, Objects, Pages, Request, Span};

/// Tests objects; `make` returns a new empty store at each call.
pub fn objects(make: impl Fn() -> Box<dyn Objects>) {
    an_object_is_put_once(&*make());
    one_of_many_puts_wins(&*make());
    equal_puts_all_succeed(&*make());
    ranges_are_exact(&*make());
    limits_are_kept(&*make());
    many_requests_are_answered_each(&*make());
    lists_are_directories(&*make());
    deletes_are_repeatable(&*make());
    many_are_deleted_and_others_stay(&*make());
    bad_names_are_refused(&*make());
    any_size_is_kept(&*make());
}

/// Tests a log; `make` returns a new empty log at each call.
pub fn log(make: impl Fn() -> Box<dyn Log>) {
    appends_are_read_back(&mut *make());
    truncation_cuts_the_end_off(&mut *make());
    room_that_is_asked_for_changes_nothing(&mut *make());
    log_reads_stay_inside(&mut *make());
    appends_go_on_beside_a_syncer(&mut *make());
}

/// Tests pages; `make` returns a new file without pages, of the given page size, at each call.
pub fn pages(make: impl Fn(usize) -> Box<dyn Pages>) {
    for page_size in [1, 100, 4_096] {
        new_pages_are_zero(&mut *make(page_size));
        pages_are_written_in_place(&mut *make(page_size));
        pages_come_back_as_zeros(&mut *make(page_size));
        page_calls_stay_inside(&mut *make(page_size));
    }
}

/// Tests a folder; `make` returns a new empty folder at each call.
pub fn folder(make: impl Fn() -> Box<dyn Folder>) {
    log(|| make().log("log").unwrap());
    pages(|page_size| make().pages("pages", page_size).unwrap());
    files_keep_their_names_and_content(&*make());
    a_log_is_read_beside_its_handle_and_without_one(&*make());
    a_file_that_is_renamed_takes_the_place_of_another(&*make());
    names_with_directories_are_refused(&*make());
}

fn files_keep_their_names_and_content(folder: &dyn Folder) {
    assert!(folder.names().unwrap().is_empty());
    let mut log = folder.log("log").unwrap();
    log.append(b"abc").unwrap();
    log.sync().unwrap();
    drop(log);
    let mut pages = folder.pages("pages", 16).unwrap();
    pages.set_count(3).unwrap();
    pages.write(1, &[7; 16]).unwrap();
    pages.write(2, &[8; 16]).unwrap();
    pages.sync().unwrap();
    drop(pages);
    assert_eq!(folder.names().unwrap(), ["log", "pages"]);
    assert_eq!(log_bytes(&*folder.log("log").unwrap()), b"abc");
    let pages = folder.pages("pages", 16).unwrap();
    let mut both = [0; 32];
    pages.read_many(1, &mut both).unwrap();
    assert_eq!(both, [[7; 16], [8; 16]].as_flattened());
    let behind = pages.read_many(2, &mut both).unwrap_err();
    assert!(matches!(behind, BackendError::OutOfRange { .. }), "{behind:?}");
    folder.remove("pages").unwrap();
    folder.remove("pages").unwrap();
    pages.read(1, &mut both[..16]).expect("an open file stays");
    drop(pages);
    assert_eq!(folder.names().unwrap(), ["log"]);
    assert_eq!(folder.pages("pages", 16).unwrap().count(), 0, "a new file is empty");
}

fn a_log_is_read_beside_its_handle_and_without_one(folder: &dyn Folder) {
    let missing = |name: &str| folder.reader(name).err().expect("there is none");
    assert!(missing("log").is_not_found());
    assert!(folder.names().unwrap().is_empty(), "nothing is made");
    let mut log = folder.log("log").unwrap();
    log.append(b"abcdef").unwrap();
    let beside = folder.reader("log").unwrap();
    let read = |reader: &dyn LogReader| {
        let mut found = [0; 3];
        reader.read(2, &mut found).unwrap();
        found
    };
    assert_eq!((read(&*beside), beside.len()), (*b"cde", 6));
    drop(log);
    let (one, other) = (folder.reader("log").unwrap(), folder.reader("log").unwrap());
    assert_eq!((read(&*one), read(&*other)), (*b"cde", *b"cde"));
    for (offset, len) in [(4, 3), (7, 1), (u64::MAX, 2)] {
        let past = one.read(offset, &mut vec![0; len]).unwrap_err();
        assert!(matches!(past, BackendError::OutOfRange { .. }), "{past:?}");
    }
    one.read(6, &mut []).unwrap();
    folder.log("log").expect("who reads does not own it");
    folder.remove("log").unwrap();
    assert_eq!(read(&*one), *b"cde", "an open file stays");
    assert!(missing("log").is_not_found());
    for bad in ["", "a/b", "../a", "A"] {
        assert!(matches!(missing(bad), BackendError::BadName { .. }), "{bad}");
    }
}

fn a_file_that_is_renamed_takes_the_place_of_another(folder: &dyn Folder) {
    let mut old = folder.log("old").unwrap();
    old.append(b"old").unwrap();
    let mut new = folder.log("new").unwrap();
    new.append(b"new").unwrap();
    let reader = folder.reader("old").unwrap();
    folder.rename("new", "old").unwrap();
    assert_eq!(folder.names().unwrap(), ["old"]);
    let missing = folder.rename("new", "old").unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    assert_eq!(new.append(b" and more").unwrap(), 3);
    old.append(b" and gone").unwrap();
    old.sync().unwrap();
    new.sync().unwrap();
    assert_eq!(
        (log_bytes(&*old), log_bytes(&*new)),
        (b"old and gone".into(), b"new and more".into())
    );
    let mut found = [0; 3];
    reader.read(0, &mut found).unwrap();
    assert_eq!(&found, b"old", "an open file stays");
    drop((old, new, reader));
    assert_eq!(log_bytes(&*folder.log("old").unwrap()), b"new and more");
    folder.rename("old", "old").unwrap();
    assert_eq!(folder.reader("old").unwrap().len(), 12);
    folder.rename("old", "free").unwrap();
    assert_eq!(folder.names().unwrap(), ["free"]);
    assert!(folder.log("old").unwrap().is_empty(), "the name is free");
    let mut pages = folder.pages("pages", 16).unwrap();
    pages.set_count(2).unwrap();
    pages.sync().unwrap();
    drop(pages);
    folder.rename("pages", "others").unwrap();
    assert_eq!(folder.pages("others", 16).unwrap().count(), 2);
}

fn names_with_directories_are_refused(folder: &dyn Folder) {
    for bad in ["", "a/b", "../a", "A"] {
        assert!(matches!(folder.log(bad), Err(BackendError::BadName { .. })), "{bad}");
        assert!(matches!(folder.pages(bad, 1), Err(BackendError::BadName { .. })), "{bad}");
        assert!(matches!(folder.remove(bad), Err(BackendError::BadName { .. })), "{bad}");
        for (from, to) in [(bad, "a"), ("a", bad)] {
            let refused = folder.rename(from, to);
            assert!(matches!(refused, Err(BackendError::BadName { .. })), "{bad}");
        }
    }
}

fn an_object_is_put_once(place: &dyn Objects) {
    place.put("a/b", Bytes::from_static(b"first")).unwrap();
    place.put("a/b", Bytes::from_static(b"first")).expect("the same bytes may be put again");
    for other in ["other", "firs", "first and more", ""] {
        let error = place.put("a/b", Bytes::from(other)).unwrap_err();
        assert!(matches!(error, BackendError::AlreadyExists { .. }), "{error:?}");
    }
    assert_eq!(place.get("a/b").unwrap(), "first");
    assert_eq!(place.size("a/b").unwrap(), 5);
    assert_eq!(names(place, ""), ["a/b"], "a refused put leaves nothing");
}

fn one_of_many_puts_wins(place: &dyn Objects) {
    let contents: Vec<Bytes> = (0..8).map(|n| Bytes::from(vec![n; 10_000])).collect();
    let results: Vec<_> = std::thread::scope(|scope| {
        let put = |bytes: &Bytes| {
            let bytes = bytes.clone();
            scope.spawn(move || place.put("d/e/f", bytes))
        };
        let threads: Vec<_> = contents.iter().map(put).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<_> = (0..8).filter(|&n| results[n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    assert_eq!(place.get("d/e/f").unwrap(), contents[winners[0]]);
    let refused = |result: &_| matches!(result, Err(BackendError::AlreadyExists { .. }));
    assert_eq!(results.iter().filter(|result| refused(result)).count(), 7, "{results:?}");
    assert_eq!(names(place, ""), ["d/e/f"]);
}

fn equal_puts_all_succeed(place: &dyn Objects) {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| place.put("same", Bytes::from(vec![7; 10_000])).unwrap());
        }
    });
    assert_eq!(place.get("same").unwrap(), vec![7; 10_000]);
    assert_eq!(names(place, ""), ["same"]);
}

fn ranges_are_exact(place: &dyn Objects) {
    place.put("r", Bytes::from_static(b"0123456789")).unwrap();
    let get = |range: Range<u64>| place.get_range("r", range);
    for range in [0..10, 0..1, 9..10, 3..7, 0..0, 5..5, 10..10] {
        let expected = &b"0123456789"[range.start as usize..range.end as usize];
        assert_eq!(get(range.clone()).unwrap(), expected, "{range:?}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a reversed range is what is tested")]
    for range in [0..11, 9..11, 10..11, 11..11, 11..12, 5..4, 0..u64::MAX, u64::MAX..u64::MAX] {
        match get(range.clone()).unwrap_err() {
            BackendError::OutOfRange { name, range: asked, size } => {
                assert_eq!((name.as_str(), asked, size), ("r", range, 10));
            }
            other => panic!("{range:?}: {other:?}"),
        }
    }
    assert!(place.get_range("none", 0..1).unwrap_err().is_not_found());
    assert!(place.get_range("none", 0..0).unwrap_err().is_not_found());
    assert!(place.get("none").unwrap_err().is_not_found());
    assert!(place.size("none").unwrap_err().is_not_found());
}

fn limits_are_kept(objects: &dyn Objects) {
    objects.put("a", Bytes::from_static(b"0123456789")).unwrap();
    assert_eq!(objects.get_limited("a", 10).unwrap(), "0123456789");
    let long = objects.get_limited("a", 9).unwrap_err();
    assert!(matches!(long, BackendError::TooLong { size: 10, max: 9, .. }), "{long:?}");
    assert!(objects.get_limited("b", 9).unwrap_err().is_not_found());
}

fn many_requests_are_answered_each(objects: &dyn Objects) {
    const COUNT: usize = 300;
    let name = |at: usize| format!("many/{}", at % 7);
    for at in 0..7 {
        objects.put(&name(at), vec![at as u8; 1_000].into()).unwrap();
    }
    let request = |at: usize| {
        let span = match at % 3 {
            0 => Span::Whole { max: 1_000 },
            1 => Span::Whole { max: 999 },
            _ => Span::Range(at as u64..at as u64 + 100),
        };
        let name = if at % 11 == 10 { "many/missing".to_owned() } else { name(at) };
        Request { name, span }
    };
    let mut answered = [false; COUNT];
    let flow = objects.get_many(&mut (0..COUNT).map(request), &mut |at, answer| {
        assert!(!std::mem::replace(&mut answered[at], true), "request {at} was answered twice");
        match (answer, at % 11, at % 3) {
            (Err(error), 10, _) => assert!(error.is_not_found(), "request {at}: {error:?}"),
            (Err(BackendError::TooLong { size, max, .. }), _, 1) => {
                assert_eq!((size, max), (1_000, 999));
            }
            (Ok(bytes), _, kind @ (0 | 2)) => {
                let len = if kind == 0 { 1_000 } else { 100 };
                assert_eq!(bytes, vec![(at % 7) as u8; len], "request {at}");
            }
            (answer, ..) => panic!("request {at}: {answer:?}"),
        }
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue() && answered.iter().all(|answered| *answered));
    let mut taken = 0;
    let flow = objects.get_many(&mut (0..COUNT).map(request), &mut |_, _| {
        taken += 1;
        if taken == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(flow.is_break() && taken == 5, "{taken} answers came after the break");
}

fn lists_are_directories(place: &dyn Objects) {
    assert!(names(place, "").is_empty());
    assert!(names(place, "a/").is_empty(), "a missing directory is empty");
    for name in ["a/c", "ab/x", "a/b/c", "b", "a-/x", "a.x"] {
        place.put(name, Bytes::from(name)).unwrap();
    }
    assert_eq!(names(place, ""), ["a-/x", "a.x", "a/b/c", "a/c", "ab/x", "b"]);
    assert_eq!(names(place, "a/"), ["a/b/c", "a/c"]);
    assert_eq!(names(place, "a/b/"), ["a/b/c"]);
    assert!(names(place, "b/").is_empty(), "an object is no directory");
    assert!(names(place, "c/").is_empty());
    for prefix in ["", "a/", "a/b/", "b/", "c/"] {
        assert_eq!(place.list_names(prefix).unwrap(), names(place, prefix), "{prefix:?}");
    }
    for object in place.list("").unwrap() {
        assert_eq!(object.size, object.name.len() as u64);
    }
    for bad in ["a", "/", "a//", "A/", "../"] {
        let errors = [place.list(bad).unwrap_err(), place.list_names(bad).unwrap_err()];
        for error in errors {
            assert!(matches!(error, BackendError::BadName { .. }), "{error:?}");
        }
    }
}

fn deletes_are_repeatable(place: &dyn Objects) {
    place.delete("x/y").expect("nothing there");
    place.put("x/y", Bytes::from_static(b"1")).unwrap();
    place.delete("x/y").unwrap();
    place.delete("x/y").unwrap();
    assert!(place.get("x/y").unwrap_err().is_not_found());
    assert!(names(place, "").is_empty());
    place.put("x/y", Bytes::from_static(b"2")).expect("a deleted name is free");
    assert_eq!(place.get("x/y").unwrap(), "2");
}

fn many_are_deleted_and_others_stay(place: &dyn Objects) {
    let all: Vec<String> = (0..150).map(|number| format!("x/{number:03}")).collect();
    all.iter().for_each(|name| place.put(name, Bytes::from_static(b"1")).unwrap());
    let (gone, left) = all.split_at(140);
    let absent = ["x/absent".to_owned()];
    place.delete_many(&[gone, &absent].concat()).unwrap();
    assert_eq!(names(place, "x/"), left);
    place.delete_many(&[]).unwrap();
    place.delete_many(left).unwrap();
    let bad = ["x/y".to_owned(), "A".to_owned()];
    let error = place.delete_many(&bad).unwrap_err();
    assert!(matches!(&error, BackendError::BadName { name, .. } if name == "A"), "{error:?}");
}

fn bad_names_are_refused(place: &dyn Objects) {
    let long = "a".repeat(201);
    for bad in ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "A", "a b", "a#1", "ä", &long] {
        let errors = [
            place.put(bad, Bytes::new()).unwrap_err(),
            place.get(bad).unwrap_err(),
            place.get_range(bad, 0..0).unwrap_err(),
            place.size(bad).unwrap_err(),
            place.delete(bad).unwrap_err(),
        ];
        for error in errors {
            let named = matches!(&error, BackendError::BadName { name, .. } if name == bad);
            assert!(named, "{bad:?}: {error:?}");
        }
    }
    let longest = "a".repeat(200);
    place.put(&longest, Bytes::new()).unwrap();
    assert_eq!(names(place, ""), [longest]);
}

fn any_size_is_kept(place: &dyn Objects) {
    place.put("empty", Bytes::new()).unwrap();
    assert_eq!(place.get("empty").unwrap(), "");
    assert_eq!(place.size("empty").unwrap(), 0);
    place.put("empty", Bytes::new()).unwrap();

    let large: Bytes = (0..20_u32 << 20).map(|n| (n ^ (n >> 8)) as u8).collect();
    place.put("large", large.clone()).unwrap();
    assert!(place.get("large").unwrap() == large, "20 MiB come back");
    let end = large.len() as u64;
    assert_eq!(place.get_range("large", end - 3..end).unwrap(), large[large.len() - 3..]);
}

fn names(place: &dyn Objects, prefix: &str) -> Vec<String> {
    place.list(prefix).unwrap().into_iter().map(|object| object.name).collect()
}

fn appends_are_read_back(log: &mut dyn Log) {
    assert!(log.is_empty());
    assert_eq!(log.append(b"abc").unwrap(), 0);
    assert_eq!(log.append(b"").unwrap(), 3);
    log.sync().unwrap();
    assert_eq!(log.append(b"defg").unwrap(), 3);
    assert_eq!(log.len(), 7);
    assert_eq!(log_bytes(log), b"abcdefg");
    log.sync().unwrap();
    log.sync().unwrap();
    assert_eq!(log_bytes(log), b"abcdefg");
}

fn truncation_cuts_the_end_off(log: &mut dyn Log) {
    log.append(b"abcdef").unwrap();
    log.truncate(6).unwrap();
    log.truncate(2).unwrap();
    assert_eq!(log_bytes(log), b"ab");
    assert_eq!(log.append(b"xy").unwrap(), 2);
    assert_eq!(log_bytes(log), b"abxy");
    assert!(matches!(log.truncate(5), Err(BackendError::OutOfRange { size: 4, .. })));
    log.truncate(0).unwrap();
    assert!(log.is_empty());
}

fn room_that_is_asked_for_changes_nothing(log: &mut dyn Log) {
    log.append(b"abc").unwrap();
    for bytes in [10_000, 0, 10_000, 1 << 60] {
        // whether there is any is the place's affair
        log.reserve(bytes);
        assert_eq!(log_bytes(log), b"abc");
    }
    assert_eq!(log.append(b"de").unwrap(), 3);
    log.sync().unwrap();
    log.reserve(0);
    assert_eq!(log_bytes(log), b"abcde");
    log.truncate(1).unwrap();
    assert_eq!(log_bytes(log), b"a");
}

fn log_reads_stay_inside(log: &mut dyn Log) {
    log.append(b"abc").unwrap();
    log.read(3, &mut []).unwrap();
    for (offset, len) in [(0, 4), (3, 1), (4, 0), (u64::MAX, 1)] {
        let error = log.read(offset, &mut vec![0; len]).unwrap_err();
        assert!(matches!(error, BackendError::OutOfRange { size: 3, .. }), "{error:?}");
    }
}

fn appends_go_on_beside_a_syncer(log: &mut dyn Log) {
    let syncer = log.syncer();
    log.append(b"abc").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..10).for_each(|_| syncer.sync().unwrap()));
        for _ in 0..10 {
            log.append(b"d").unwrap();
        }
    });
    syncer.sync().unwrap();
    assert_eq!(log_bytes(log), b"abcdddddddddd");
}

fn log_bytes(log: &dyn Log) -> Vec<u8> {
    let mut bytes = vec![0; log.len() as usize];
    log.read(0, &mut bytes).unwrap();
    bytes
}

fn new_pages_are_zero(pages: &mut dyn Pages) {
    assert_eq!(pages.count(), 0);
    pages.set_count(3).unwrap();
    assert_eq!(pages.count(), 3);
    for page in 0..3 {
        assert_eq!(page_bytes(pages, page), vec![0; pages.page_size()]);
    }
}

fn pages_are_written_in_place(pages: &mut dyn Pages) {
    pages.set_count(4).unwrap();
    for (page, byte) in [(3, 3), (0, 9), (1, 1), (0, 5)] {
        pages.write(page, &vec![byte; pages.page_size()]).unwrap();
    }
    pages.sync().unwrap();
    pages.set_count(5).unwrap();
    for (page, byte) in [(0, 5), (1, 1), (2, 0), (3, 3), (4, 0)] {
        assert_eq!(page_bytes(pages, page), vec![byte; pages.page_size()]);
    }
}

fn pages_come_back_as_zeros(pages: &mut dyn Pages) {
    pages.set_count(3).unwrap();
    for page in 0..3 {
        pages.write(page, &vec![8; pages.page_size()]).unwrap();
    }
    pages.set_count(1).unwrap();
    pages.set_count(3).unwrap();
    for (page, byte) in [(0, 8), (1, 0), (2, 0)] {
        assert_eq!(page_bytes(pages, page), vec![byte; pages.page_size()]);
    }
    pages.set_count(0).unwrap();
    assert_eq!(pages.count(), 0);
}

fn page_calls_stay_inside(pages: &mut dyn Pages) {
    pages.set_count(2).unwrap();
    let mut page = vec![0; pages.page_size()];
    for outside in [2, 3, u64::MAX] {
        let errors =
            [pages.read(outside, &mut page).unwrap_err(), pages.write(outside, &page).unwrap_err()];
        for error in errors {
            assert!(matches!(error, BackendError::OutOfRange { .. }), "{error:?}");
        }
    }
    assert_eq!(pages.count(), 2);
}

fn page_bytes(pages: &dyn Pages, page: u64) -> Vec<u8> {
    let mut bytes = vec![1; pages.page_size()];
    pages.read(page, &mut bytes).unwrap();
    bytes
}
