//! Exports that come and go while the server runs.

use std::sync::Arc;

use onefold_block::{BlockError, BlockSize, MemoryDevice};
use onefold_nbd::{Export, ServerError};

use crate::client::*;
use crate::device::Watched;
use crate::server::{Lab, MIB, eventually};

fn memory(name: &str) -> Export {
    Export::new(name, Arc::new(MemoryDevice::new(MIB, BlockSize::B512).unwrap()))
}

#[test]
fn an_export_that_came_later_is_served_like_any_other() {
    let lab = Lab::new();
    let exports = lab.server.exports();
    let mut client = Client::greet(lab.connect());
    assert_eq!(client.answer(INFO, &info_query("late", &[])), ERR_UNKNOWN);
    exports.add(memory("late")).unwrap();
    // also to those who were connected before
    client.go("late");
    assert_eq!(client.write(0, 8, b"late"), 0);
    assert_eq!(client.read(0, 8, 4), Ok(b"late".to_vec()));
    let again = exports.add(memory("late"));
    assert!(matches!(again, Err(ServerError::SameName { .. })), "{again:?}");
    assert!(matches!(exports.add(memory("a\0b")), Err(ServerError::ExportName { .. })));
}

#[test]
fn the_only_export_that_can_be_written_is_the_default_and_stays_it() {
    let lab = Lab::new();
    let exports = lab.server.exports();
    exports.add(memory("monday").read_only()).unwrap();
    exports.add(memory("tuesday").read_only()).unwrap();
    let name_of_default = || {
        let answers = Client::greet(lab.connect()).option(INFO, &info_query("", &[1]));
        answers.into_iter().find_map(|(_, data)| data.strip_prefix(&[0, 1]).map(<[u8]>::to_vec))
    };
    assert_eq!(name_of_default(), Some(b"disk".to_vec()));
    exports.add(memory("other")).unwrap();
    assert_eq!(name_of_default(), Some(b"disk".to_vec()));
    exports.remove("disk", true).unwrap();
    assert_eq!(name_of_default(), None, "a client that comes back is given no other export");
}

#[test]
fn of_several_exports_that_can_be_written_or_cannot_none_is_the_default() {
    for is_read_only in [false, true] {
        let lab = Lab::new();
        let exports = lab.server.exports();
        let other = memory("other");
        exports.add(if is_read_only { other.clone().read_only() } else { other }).unwrap();
        if is_read_only {
            exports.remove("disk", true).unwrap();
            exports.add(memory("third").read_only()).unwrap();
        }
        let answer = Client::greet(lab.connect()).answer(INFO, &info_query("", &[]));
        assert_eq!(answer, ERR_UNKNOWN);
    }
}

#[test]
fn a_client_asks_for_every_export_of_a_long_list_in_one_handshake() {
    let lab = Lab::new();
    let exports = lab.server.exports();
    let names: Vec<String> = (0..150).map(|number| format!("export {number}")).collect();
    names.iter().for_each(|name| exports.add(memory(name)).unwrap());
    let mut client = Client::greet(lab.connect());
    for name in &names {
        for _ in 0..10 {
            assert_eq!(client.option(INFO, &info_query(name, &[])).last(), Some(&(ACK, vec![])));
        }
    }
}

#[test]
fn an_export_in_use_stays_unless_it_is_forced() {
    let lab = Lab::new();
    let exports = lab.server.exports();
    exports.add(memory("other")).unwrap();
    let mut client = lab.client();
    let mut other = Client::served(lab.connect(), "other");
    assert_eq!(client.write(0, 0, b"kept"), 0);
    let refused = exports.remove("disk", false);
    assert!(matches!(refused, Err(ServerError::ExportInUse { connections: 1, .. })), "{refused:?}");
    assert_eq!(client.read(0, 0, 4), Ok(b"kept".to_vec()));
    exports.remove("disk", true).unwrap();
    client.expect_end();
    assert_eq!(lab.next_end(), None, "an end that is no error");
    let mut late = Client::greet(lab.connect());
    assert_eq!(late.answer(GO, &info_query("disk", &[])), ERR_UNKNOWN);
    // nobody else notices
    assert_eq!(other.write(0, 0, b"other"), 0);
    assert!(matches!(exports.remove("disk", true), Err(ServerError::NoExport { .. })));
}

#[test]
fn an_export_that_nobody_uses_any_more_goes_without_force() {
    let lab = Lab::new();
    let exports = lab.server.exports();
    let client = lab.client();
    assert!(exports.remove("disk", false).is_err());
    drop(client);
    eventually("nobody uses it", || exports.remove("disk", false).ok());
    // one who only asked for it uses nothing
    exports.add(memory("disk")).unwrap();
    let mut asking = Client::greet(lab.connect());
    assert_eq!(asking.option(INFO, &info_query("disk", &[])).last(), Some(&(ACK, vec![])));
    exports.remove("disk", false).unwrap();
}

#[test]
fn requests_under_way_have_their_replies_when_an_export_goes() {
    let lab = Lab::with(Watched::new(MIB), |config| config);
    let mut client = lab.client();
    lab.device.hold("write");
    client.send(&[request((WRITE, 0), 1, 0, 3), b"abc".to_vec()].concat());
    lab.device.wait_for(1);
    lab.server.exports().remove("disk", true).unwrap();
    lab.device.release();
    assert_eq!(client.outcome(1), 0);
    client.expect_end();
}

#[test]
fn a_device_is_flushed_before_clients_learn_that_it_is_taken_back() {
    let lab = Lab::with(Watched::new(MIB), |config| config);
    let exports = lab.server.exports();
    let mut client = lab.client();
    assert_eq!(client.write(0, 0, b"kept"), 0);
    lab.device.hold("flush");
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| exports.remove("disk", true));
        lab.device.wait_for(1);
        // it is there for who has it, and for nobody else
        assert_eq!(client.read(0, 0, 4), Ok(b"kept".to_vec()));
        let mut late = Client::greet(lab.connect());
        assert_eq!(late.answer(GO, &info_query("disk", &[])), ERR_UNKNOWN);
        lab.device.release();
        removing.join().unwrap().unwrap();
    });
    client.expect_end();
}

#[test]
fn a_device_that_cannot_be_flushed_is_taken_back_and_that_is_told() {
    let lab = Lab::with(Watched::new(MIB), |config| config);
    let mut client = lab.client();
    lab.device.fail("flush", || BlockError::NoSpace { object: "disk".into() });
    let removed = lab.server.exports().remove("disk", true);
    assert!(
        matches!(&removed, Err(ServerError::Flush { name, .. }) if name == "disk"),
        "{removed:?}"
    );
    client.expect_end();
    let mut late = Client::greet(lab.connect());
    assert_eq!(late.answer(GO, &info_query("disk", &[])), ERR_UNKNOWN);
}

#[test]
fn exports_outlive_no_server() {
    let lab = Lab::new();
    let exports = lab.server.exports();
    let client = lab.client();
    assert_eq!(exports.connections(), 1);
    drop((client, lab));
    eventually("the server is gone", || (exports.connections() == 0).then_some(()));
    eventually("it says so", || {
        matches!(exports.add(memory("a")), Err(ServerError::Ended)).then_some(())
    });
}
