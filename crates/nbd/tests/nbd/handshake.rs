//! Options, and what is agreed on by them.

use std::sync::Arc;

use onefold_block::{BlockSize, MemoryDevice};
use onefold_nbd::{Config, Export, ServerError};

use crate::client::*;
use crate::device::Watched;
use crate::server::{Lab, MIB};

/// Flags of an export that can be written, without structured replies.
const WRITABLE: u16 = 0b1101_0110_1101;
const DF_FLAG: u16 = 1 << 7;
const RESIZE_FLAG: u16 = 1 << 9;
/// Flags of one that cannot.
const READ_ONLY: u16 = 0b0101_0000_1111;

/// A server of "disk", a described one, one that cannot be written and one that can be resized.
fn several() -> Lab {
    Lab::with(Watched::new(MIB), |mut config| {
        let memory = || Arc::new(MemoryDevice::new(2 * MIB, BlockSize::B512).unwrap());
        config.exports.push(Export::new("with words", memory()).described("a second disk"));
        config.exports.push(Export::new("fixed", memory()).read_only());
        config.exports.push(Export::new("grows", memory()).resizable());
        config
    })
}

#[test]
fn an_export_is_chosen_by_go() {
    let lab = several();
    let mut client = Client::greet(lab.connect());
    assert_eq!(client.go("disk"), (MIB, WRITABLE));
    assert_eq!(client.read(0, 0, 1), Ok(vec![0]));
    let mut client = Client::greet(lab.connect());
    client.structure();
    assert_eq!(client.go("fixed"), (2 * MIB, READ_ONLY | DF_FLAG));
    let mut client = Client::greet(lab.connect());
    assert_eq!(client.go("grows"), (2 * MIB, WRITABLE | RESIZE_FLAG));
}

#[test]
fn an_export_is_chosen_by_its_name_alone_with_and_without_zeroes() {
    let lab = several();
    for (flags, zeroes) in [(1, 124), (3, 0)] {
        let mut client = Client::greet_with(lab.connect(), flags);
        client.send_option(EXPORT_NAME, b"disk");
        let info = client.bytes(10 + zeroes);
        assert_eq!(u64_at(&info, 0), MIB);
        assert_eq!(u16::from_be_bytes([info[8], info[9]]), WRITABLE);
        assert!(info[10..].iter().all(|byte| *byte == 0));
        assert_eq!(client.write(0, 0, b"some"), 0);
    }
}

#[test]
fn a_name_that_is_not_there_ends_the_old_choice_and_only_fails_the_new_one() {
    let lab = several();
    for name in [&b"nothing"[..], b"", b"\xff", &[b'x'; 5000]] {
        let mut client = Client::greet(lab.connect());
        client.send_option(EXPORT_NAME, name);
        client.expect_end();
        assert!(lab.next_end().unwrap().contains("which does not exist"));
    }
    let mut client = Client::greet(lab.connect());
    assert_eq!(client.answer(GO, &info_query("nothing", &[])), ERR_UNKNOWN);
    // of several exports none is the default
    assert_eq!(client.answer(INFO, &info_query("", &[])), ERR_UNKNOWN);
    assert_eq!(client.go("disk").0, MIB);
}

#[test]
fn the_only_export_is_also_the_default() {
    let lab = Lab::new();
    let mut client = Client::greet(lab.connect());
    let answers = client.option(INFO, &info_query("", &[1]));
    assert_eq!(answers[1], (REP_INFO, b"\0\x01disk".to_vec()));
    assert_eq!(client.go("").0, MIB);
}

#[test]
fn information_is_what_was_asked_for() {
    let lab = several();
    let mut client = Client::greet(lab.connect());
    let mandatory = |size: u64| {
        let info = [&[0, 0][..], &size.to_be_bytes(), &WRITABLE.to_be_bytes()].concat();
        (REP_INFO, info)
    };
    let done = (ACK, vec![]);
    let answers = client.option(INFO, &info_query("with words", &[]));
    assert_eq!(answers, [mandatory(2 * MIB), done.clone()]);
    // what nobody knows is ignored, and nothing is said twice
    let answers = client.option(INFO, &info_query("with words", &[3, 2, 1, 0, 99, 3]));
    let sizes = [1, 512, 64 << 20].map(u32::to_be_bytes).concat();
    assert_eq!(
        answers,
        [
            mandatory(2 * MIB),
            (REP_INFO, b"\0\x01with words".to_vec()),
            (REP_INFO, b"\0\x02a second disk".to_vec()),
            (REP_INFO, [&[0, 3][..], &sizes].concat()),
            done.clone(),
        ]
    );
    // no description, so none is told; still haggling
    let answers = client.option(INFO, &info_query("disk", &[2]));
    assert_eq!(answers, [mandatory(MIB), done]);
}

#[test]
fn exports_are_listed() {
    let lab = several();
    let mut client = Client::greet(lab.connect());
    let entry = |name: &str, words: &str| {
        let len = (name.len() as u32).to_be_bytes();
        (REP_SERVER, [&len[..], name.as_bytes(), words.as_bytes()].concat())
    };
    assert_eq!(
        client.option(LIST, &[]),
        [
            entry("disk", ""),
            entry("with words", "a second disk"),
            entry("fixed", ""),
            entry("grows", ""),
            (ACK, vec![]),
        ]
    );
    assert_eq!(client.answer(LIST, b"data"), ERR_INVALID);
}

#[test]
fn an_abort_is_acknowledged_and_ends() {
    let lab = Lab::new();
    for data in [&b""[..], b"anything"] {
        let mut client = Client::greet(lab.connect());
        assert_eq!(client.answer(ABORT, data), ACK);
        client.expect_end();
        assert_eq!(lab.next_end(), None);
    }
}

#[test]
fn options_that_nobody_knows_are_skipped() {
    let lab = Lab::new();
    let mut client = Client::greet(lab.connect());
    for (option, data) in [(0, &b""[..]), (4, b"disk"), (11, b""), (999, &[7; 60_000])] {
        assert_eq!(client.answer(option, data), ERR_UNSUP);
    }
    assert_eq!(client.go("disk").0, MIB);
}

#[test]
fn tls_that_is_not_there_is_refused_and_the_client_may_go_on() {
    let lab = Lab::new();
    let mut client = Client::greet(lab.connect());
    assert_eq!(client.answer(STARTTLS, &[]), ERR_POLICY);
    assert_eq!(client.answer(STARTTLS, b"data"), ERR_INVALID);
    assert_eq!(client.go("disk").0, MIB);
}

#[test]
fn structured_replies_take_no_data() {
    let lab = Lab::new();
    let mut client = Client::greet(lab.connect());
    assert_eq!(client.answer(STRUCTURED_REPLY, b"data"), ERR_INVALID);
    client.go("disk");
    // so replies are simple
    assert_eq!(client.read(0, 0, 3), Ok(vec![0; 3]));
}

#[test]
fn metadata_contexts_are_listed_and_selected() {
    let lab = several();
    let mut client = Client::greet(lab.connect());
    for option in [LIST_META_CONTEXT, SET_META_CONTEXT] {
        let query = context_query("disk", &["base:allocation"]);
        assert_eq!(client.answer(option, &query), ERR_INVALID, "without structured replies");
    }
    client.structure();
    let context =
        |id: u32| (REP_META_CONTEXT, [&id.to_be_bytes()[..], b"base:allocation"].concat());
    let done = (ACK, vec![]);
    let both = ["x-other:", "base:allocation"];
    for queries in [&[][..], &["base:"], &["base:allocation"], &both] {
        let answers = client.option(LIST_META_CONTEXT, &context_query("disk", queries));
        assert_eq!(answers, [context(0), done.clone()], "{queries:?}");
    }
    for queries in [&["base:other"][..], &["qemu:dirty-bitmap:x"]] {
        let answers = client.option(LIST_META_CONTEXT, &context_query("disk", queries));
        assert_eq!(answers, [(ACK, vec![])], "{queries:?}");
    }
    // a wildcard selects nothing
    for queries in [&[][..], &["base:"], &["base:other"], &["x-other:base"]] {
        let answers = client.option(SET_META_CONTEXT, &context_query("disk", queries));
        assert_eq!(answers, [(ACK, vec![])], "{queries:?}");
    }
    let answers = client.option(SET_META_CONTEXT, &context_query("disk", &both));
    assert_eq!(answers, [context(1), done]);
    let unknown = context_query("nothing", &["base:allocation"]);
    assert_eq!(client.answer(LIST_META_CONTEXT, &unknown), ERR_UNKNOWN);
}

#[test]
fn a_context_holds_for_the_export_it_was_selected_for_until_the_next_selection() {
    let lab = several();
    let selected = context_query("disk", &["base:allocation"]);
    type Spoil = fn(&mut Client);
    let spoils: [(Spoil, &str); 4] = [
        (|_| (), "fixed"),
        (|client| drop(client.option(SET_META_CONTEXT, &context_query("disk", &[]))), "disk"),
        (|client| drop(client.option(SET_META_CONTEXT, b"nonsense")), "disk"),
        (|client| drop(client.option(SET_META_CONTEXT, &context_query("nothing", &[]))), "disk"),
    ];
    for (spoil, name) in spoils {
        let mut client = Client::greet(lab.connect());
        client.structure();
        assert_eq!(client.option(SET_META_CONTEXT, &selected).len(), 2);
        spoil(&mut client);
        client.go(name);
        assert_eq!(client.extents(0, 0, 4096), Err(EINVAL));
    }
}

#[test]
fn data_that_contradict_themselves_are_refused_and_the_client_may_go_on() {
    let lab = Lab::new();
    let mut client = Client::greet(lab.connect());
    client.structure();
    for option in [INFO, GO, LIST_META_CONTEXT, SET_META_CONTEXT] {
        for data in [&b""[..], &[0xFF; 4], &[0xFF; 300], &[0, 0, 0, 1, b'x', 0xFF, 0xFF]] {
            let answer = client.answer(option, data);
            assert!([ERR_INVALID, ERR_TOO_BIG].contains(&answer), "{option}: {answer:#x}");
        }
        assert_eq!(client.answer(option, b"\0\0\0\x02a\0\0\0\0\0\0\0"), ERR_INVALID, "a zero");
    }
    let long = "x".repeat(4097);
    assert_eq!(client.answer(GO, &info_query(&long, &[])), ERR_TOO_BIG);
    assert_eq!(client.answer(SET_META_CONTEXT, &context_query("disk", &[&long])), ERR_TOO_BIG);
    let many = ["base:allocation"; 65];
    assert_eq!(client.answer(SET_META_CONTEXT, &context_query("disk", &many)), ERR_TOO_BIG);
    assert_eq!(client.answer(SET_META_CONTEXT, &context_query("disk", &["base"])), ERR_INVALID);
    assert_eq!(client.go("disk").0, MIB);
}

#[test]
fn names_of_exports_are_short_text_and_different() {
    let start = |names: &[String]| {
        let export = |name: &String| {
            Export::new(name, Arc::new(MemoryDevice::new(512, BlockSize::B512).unwrap()))
        };
        let config = Config::new(vec![], names.iter().map(export).collect());
        onefold_nbd::Server::start(config).map(|_| ())
    };
    start(&["x".repeat(4096), String::new()]).unwrap();
    for name in ["x".repeat(4097), "a\0b".into()] {
        assert!(matches!(start(&[name]), Err(ServerError::ExportName { .. })));
    }
    let same = start(&["a".into(), "b".into(), "a".into()]);
    assert!(matches!(same, Err(ServerError::SameName { name }) if name == "a"));
}
