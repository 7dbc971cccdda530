//! Connections that are passed on to another server.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_nbd::{Config, Finder, Found, TlsMode, Upstream};
use onefold_testkit::random;

use crate::client::*;
use crate::device::{Call, Watched};
use crate::server::{Lab, MIB, eventually};
use crate::tls::Certificates;

/// Where exports are, and whether the other server must not be used any more.
#[derive(Default)]
struct Places {
    found: Mutex<Vec<(String, Found)>>,
    is_over: Arc<AtomicBool>,
    asked: Mutex<usize>,
}

impl Places {
    fn put(&self, name: &str, found: Found) {
        let mut all = self.found.lock().unwrap();
        all.retain(|(other, _)| other != name);
        all.push((name.to_owned(), found));
    }

    fn at(&self, place: impl Into<String>) -> Found {
        let is_over = Arc::clone(&self.is_over);
        let is_over = Arc::new(move || is_over.load(Ordering::Relaxed));
        Found::There(Upstream { place: place.into(), is_over })
    }
}

impl Finder for Places {
    fn find(&self, name: &str) -> Found {
        *self.asked.lock().unwrap() += 1;
        let all = self.found.lock().unwrap();
        let found = all.iter().find(|(other, _)| other == name);
        found.map_or(Found::Here, |(_, found)| found.clone())
    }

    fn names(&self) -> Result<Vec<String>, String> {
        Ok(vec!["disk".into(), "far away".into(), "nearer".into()])
    }
}

/// A server that finds exports by `places`, and searches for a short time.
fn finding(places: &Arc<Places>, change: impl FnOnce(&mut Config)) -> Lab {
    let places = Arc::clone(places);
    Lab::with(Watched::new(MIB), |mut config| {
        config.finder = Some(places);
        config.limits.search = Duration::from_millis(600);
        change(&mut config);
        config
    })
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A server in front of one that has "far away", and that one.
fn pair() -> (Lab, Lab, Arc<Places>) {
    let back = named("far away");
    let places = Arc::new(Places::default());
    places.put("far away", places.at(path(&back.socket)));
    (finding(&places, |_| ()), back, places)
}

/// A server of "disk", and of the same device as `name`, that others may pass connections on to.
fn named(name: &str) -> Lab {
    let lab = finding(&Arc::default(), |_| ());
    let export = onefold_nbd::Export::new(name, lab.device.clone());
    lab.server.exports().add(export).unwrap();
    lab
}

#[test]
fn a_client_notices_nothing_of_the_server_between() {
    let (front, back, _) = pair();
    let mut client = Client::served(front.connect(), "far away");
    let data = random(1, 8192);
    assert_eq!(client.write(FUA, 4096, &data), 0);
    assert_eq!(client.read(0, 4096, 8192).unwrap(), data);
    assert_eq!(client.ask((TRIM, 0), 4096, 4096), 0);
    assert_eq!(client.extents(0, 0, 12288).unwrap(), [(8192, 3), (4096, 0)]);
    assert_eq!(client.ask((FLUSH, 0), 0, 0), 0);
    assert_eq!(client.ask((READ, 0), MIB, 1), EINVAL);
    assert_eq!(back.device.calls().len(), 5);
    assert!(front.device.calls().is_empty());
    // what is here is served here, also by a connection that asked for the other before
    let mut other = Client::greet(front.connect());
    other.structure();
    assert_eq!(other.option(INFO, &info_query("far away", &[3])).len(), 3);
    other.go("disk");
    assert_eq!(other.write(0, 0, &data), 0);
    assert_eq!(front.device.calls().len(), 1);
    client.send_request((DISCONNECT, 0), 9, 0, 0);
    client.expect_end();
    drop(client);
    assert_eq!(front.next_end(), None);
}

#[test]
fn old_and_simple_clients_are_passed_on_as_well() {
    let (front, back, _) = pair();
    assert_eq!(back.client().write(0, 0, &[7; 4096]), 0);
    let mut simple = Client::served_simply(front.connect(), "far away");
    assert_eq!(simple.read(0, 0, 4096).unwrap(), [7; 4096]);
    for flags in [1, 3] {
        let mut old = Client::greet_with(front.connect(), flags);
        old.send_option(EXPORT_NAME, b"far away");
        assert_eq!(u64_at(&old.bytes(8), 0), MIB);
        old.bytes(if flags == 1 { 126 } else { 2 });
        assert_eq!(old.read(0, 0, 4096).unwrap(), [7; 4096]);
    }
}

#[test]
fn all_exports_are_listed_once() {
    let (front, _back, _) = pair();
    let mut client = Client::greet(front.connect());
    let listed = client.option(LIST, &[]);
    let names: Vec<_> = listed
        .iter()
        .filter(|(kind, _)| *kind == REP_SERVER)
        .map(|(_, data)| String::from_utf8(data[4..].to_vec()).unwrap())
        .collect();
    assert_eq!(names, ["disk", "far away", "nearer"]);
}

#[test]
fn a_broken_connection_ends_the_clients_and_nothing_is_sent_again() {
    let (front, back, _) = pair();
    let mut client = Client::served(front.connect(), "far away");
    assert_eq!(client.write(0, 0, &[1; 4096]), 0);
    back.device.hold("write");
    let head = request((WRITE, 0), 5, 0, 4096);
    client.send(&[&head[..], &[2; 4096]].concat());
    back.device.wait_for(1);
    back.server.exports().remove("far away", true).unwrap();
    back.device.release();
    // the reply to what had begun, or none, but no other request
    if let Some(reply) = client.reply_or_end() {
        assert_eq!(reply, Reply::Simple { cookie: 5, errno: 0 });
    }
    client.expect_end();
    let writes = |call: &&Call| matches!(call, Call::Write(..));
    assert_eq!(back.device.calls().iter().filter(writes).count(), 2);
}

#[test]
fn a_server_that_must_not_be_used_any_more_is_left() {
    let (front, back, places) = pair();
    let mut client = Client::served(front.connect(), "far away");
    // it hangs, and its connection stays open
    back.device.hold("read");
    client.send_request((READ, 0), 5, 0, 4096);
    back.device.wait_for(1);
    places.is_over.store(true, Ordering::Relaxed);
    client.expect_end();
    let ended = front.next_end().expect("it ended badly");
    assert!(ended.contains("the connection to the server at"), "{ended}");
    back.device.release();
}

#[test]
fn an_export_that_moves_is_looked_for_again() {
    let (front, back, places) = pair();
    let there = places.at(path(&back.socket));
    places.put("far away", places.at("/nowhere/at all"));
    let socket = front.socket.clone();
    let waiting = std::thread::spawn(move || Client::served(unix(&socket), "far away"));
    eventually("it is asked for again", || (*places.asked.lock().unwrap() > 2).then_some(()));
    places.put("far away", there);
    let mut client = waiting.join().unwrap();
    assert_eq!(client.read(0, 0, 4096).unwrap(), [0; 4096]);
    // and given up after a while, with the reason
    for (found, words) in [
        (places.at("/nowhere/at all"), "cannot be reached"),
        (Found::NotNow("it is opened".into()), "it is opened"),
        (Found::Refused("name a volume".into()), "name a volume"),
        // a server that does not have it
        (places.at(path(&named("another").socket)), "does not have it"),
    ] {
        places.put("far away", found);
        let mut client = Client::greet(front.connect());
        let answers = client.option(GO, &info_query("far away", &[]));
        let [(ERR_UNKNOWN, why)] = &answers[..] else { panic!("{answers:?}") };
        let why = String::from_utf8_lossy(why);
        assert!(why.contains(words), "{why}");
        // the connection can be used for something else
        client.go("disk");
    }
}

#[test]
fn no_connection_is_passed_on_twice() {
    let (one, other) = (Arc::new(Places::default()), Arc::new(Places::default()));
    let (first, second) = (finding(&one, |_| ()), finding(&other, |_| ()));
    one.put("lost", one.at(path(&second.socket)));
    other.put("lost", other.at(path(&first.socket)));
    let mut client = Client::greet(first.connect());
    let answers = client.option(GO, &info_query("lost", &[]));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].0, ERR_UNKNOWN);
    // the second was asked, and did not ask the first
    let (asked, passed) = (*one.asked.lock().unwrap(), *other.asked.lock().unwrap());
    assert!(asked == passed && asked > 0, "{asked}, {passed}");
    // a server that is no gateway is not passed anything
    one.put("lost", one.at(path(&Lab::new().socket)));
    let answers = client.option(GO, &info_query("lost", &[]));
    assert_eq!(answers[0].0, ERR_UNKNOWN);
}

#[test]
fn servers_that_ask_for_tls_use_it_among_themselves() {
    let certificates = Certificates::new();
    let tls = || Some(certificates.gateway_tls());
    let back = finding(&Arc::default(), |config| {
        config.tls = tls();
        config.listen.push(onefold_nbd::Listen::Host("localhost:0".into()));
    });
    let export = onefold_nbd::Export::new("far away", back.device.clone());
    back.server.exports().add(export).unwrap();
    let addresses = back.server.addresses();
    let port = addresses.iter().find_map(|address| match address {
        onefold_nbd::Address::Tcp(address) => Some(address.port()),
        _ => None,
    });
    let places = Arc::new(Places::default());
    places.put("far away", places.at(format!("localhost:{}", port.unwrap())));
    let front = finding(&places, |config| config.tls = tls());
    let mut client = certificates.encrypted(&front);
    client.structure();
    client.go("far away");
    assert_eq!(client.write(0, 0, &[5; 4096]), 0);
    assert_eq!(back.device.calls().len(), 1);
    // without certificates of authorities nothing is passed on
    let untrusting = finding(&places, |config| {
        config.tls = Some(certificates.tls(TlsMode::Required, false));
    });
    let mut client = certificates.encrypted(&untrusting);
    let answers = client.option(GO, &info_query("far away", &[]));
    assert_eq!(answers[0].0, ERR_UNKNOWN);
}

#[test]
fn what_has_not_begun_is_dropped_when_its_client_goes() {
    let lab = Lab::with(Watched::new(MIB), |config| Config { workers: 1, ..config });
    let mut client = lab.client();
    lab.device.hold("write");
    for cookie in 0..4 {
        let head = request((WRITE, 0), cookie, cookie * 4096, 4096);
        client.send(&[&head[..], &[9; 4096]].concat());
    }
    lab.device.wait_for(1);
    drop(client);
    // it sends the same again, and then something else
    let mut again = lab.client();
    std::thread::sleep(Duration::from_millis(200));
    lab.device.release();
    assert_eq!(again.write(0, 3 * 4096, &[1; 4096]), 0);
    assert_eq!(again.read(0, 3 * 4096, 4096).unwrap(), [1; 4096]);
    let writes = |call: &&Call| matches!(call, Call::Write(..));
    assert_eq!(lab.device.calls().iter().filter(writes).count(), 2, "{:?}", lab.device.calls());
    // one that says farewell has all of its requests done
    let mut client = lab.client();
    lab.device.hold("write");
    for cookie in 0..4 {
        let head = request((WRITE, 0), cookie, cookie * 4096, 4096);
        client.send(&[&head[..], &[8; 4096]].concat());
    }
    client.send_request((DISCONNECT, 0), 9, 0, 0);
    lab.device.wait_for(1);
    drop(client);
    std::thread::sleep(Duration::from_millis(200));
    lab.device.release();
    eventually("all are done", || {
        let calls = lab.device.calls();
        (calls.iter().filter(writes).count() == 6).then_some(())
    });
}
