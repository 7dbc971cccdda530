//! How a server ends.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onefold_block::{BlockError, Durability};
use onefold_nbd::ServerError;

use crate::client::*;
use crate::device::{Call, Watched};
use crate::server::{Lab, MIB, eventually};

const PATIENT: Duration = Duration::from_secs(20);

#[test]
fn requests_under_way_end_before_the_device_is_flushed_and_new_ones_are_refused() {
    let lab = Lab::new();
    let mut client = lab.client();
    let mut haggler = Client::greet(lab.connect());
    lab.device.hold("write");
    client.send(&[request((WRITE, 0), 1, 0, 3), b"abc".to_vec()].concat());
    lab.device.wait_for(1);
    let Lab { server, device, socket, .. } = lab;
    let ending = thread::spawn(move || server.shutdown(PATIENT));
    eventually("nobody is let in", || (!socket.exists()).then_some(()));
    assert_eq!(client.write(0, 8, b"late"), ESHUTDOWN);
    assert_eq!(client.read(0, 0, 1), Err(ESHUTDOWN));
    assert_eq!(client.ask((FLUSH, 0), 0, 0), ESHUTDOWN);
    assert_eq!(haggler.answer(GO, &info_query("disk", &[])), ERR_SHUTDOWN);
    assert_eq!(haggler.answer(LIST, &[]), ERR_SHUTDOWN);
    assert!(!ending.is_finished());
    device.release();
    assert_eq!(client.outcome(1), 0);
    client.expect_end();
    drop(client);
    haggler.expect_end();
    ending.join().unwrap().unwrap();
    assert_eq!(device.calls(), [Call::Write(0, 3, Durability::OnFlush), Call::Flush]);
}

#[test]
fn an_abort_is_still_acknowledged_and_the_old_choice_ends() {
    let lab = Lab::new();
    let mut busy = lab.client();
    lab.device.hold("read");
    busy.send_request((READ, 0), 1, 0, 1);
    lab.device.wait_for(1);
    let (mut aborting, mut choosing) = (Client::greet(lab.connect()), Client::greet(lab.connect()));
    let Lab { server, device, socket, .. } = lab;
    let ending = thread::spawn(move || server.shutdown(PATIENT));
    eventually("nobody is let in", || (!socket.exists()).then_some(()));
    assert_eq!(aborting.answer(ABORT, &[]), ACK);
    choosing.send_option(EXPORT_NAME, b"disk");
    choosing.expect_end();
    device.release();
    assert_eq!(busy.read_reply(1, 0, 1), Ok(vec![0]));
    drop(busy);
    ending.join().unwrap().unwrap();
}

#[test]
fn a_shutdown_under_load_loses_no_write_that_was_acknowledged() {
    let lab = Lab::with(Watched::new(16 * MIB), |config| config);
    let (acknowledged, refused, ended) = <(AtomicU64, AtomicU64, AtomicU64)>::default();
    let clients: Vec<Client> = (0..8).map(|_| lab.client()).collect();
    let Lab { server, device, .. } = lab;
    thread::scope(|scope| {
        for mut client in clients {
            let (acknowledged, refused, ended) = (&acknowledged, &refused, &ended);
            scope.spawn(move || {
                let mut cookie = 0;
                loop {
                    // eight under way at any time
                    let mut is_sent = Some(());
                    while cookie < 8 && is_sent.is_some() {
                        let head = request((WRITE, 0), cookie, cookie * 4096, 4096);
                        is_sent = client.send_or_end(&[head, vec![1; 4096]].concat());
                        cookie += 1;
                    }
                    // Several are answered at once, so that none may be under way at the end.
                    let Some(reply) = is_sent.and_then(|()| client.reply_or_end()) else {
                        ended.fetch_add(1, Ordering::Relaxed);
                        break;
                    };
                    let errno = match reply {
                        Reply::Simple { errno, .. } => errno,
                        Reply::Chunk { payload, .. } => u32_at(&payload, 0),
                    };
                    cookie -= 1;
                    match errno {
                        0 => acknowledged.fetch_add(1, Ordering::Relaxed),
                        ESHUTDOWN => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        other => panic!("error {other}"),
                    };
                }
            });
        }
        eventually("some are acknowledged", || {
            (acknowledged.load(Ordering::Relaxed) > 1000).then_some(())
        });
        server.shutdown(PATIENT).unwrap();
    });
    let calls = device.calls();
    assert_eq!(calls.last(), Some(&Call::Flush), "a write after the last flush");
    let writes = calls.iter().filter(|call| matches!(call, Call::Write(..))).count() as u64;
    assert!(writes >= acknowledged.load(Ordering::Relaxed), "an acknowledged write was not done");
    let (refused, ended) = (refused.into_inner(), ended.into_inner());
    assert_eq!(refused + ended, 8, "{refused} were refused, for {ended} it ended");
}

#[test]
fn a_device_that_does_not_return_is_waited_for_no_longer_than_was_said() {
    let lab = Lab::new();
    let mut client = lab.client();
    lab.device.hold("write");
    client.send(&[request((WRITE, 0), 1, 0, 3), b"abc".to_vec()].concat());
    lab.device.wait_for(1);
    let Lab { server, device, .. } = lab;
    let ended = server.shutdown(Duration::from_millis(100));
    assert!(matches!(ended, Err(ServerError::StillBusy(_))), "{ended:?}");
    client.expect_end();
    device.release();
}

#[test]
fn replies_that_are_not_taken_are_an_error_of_their_connection_alone() {
    let lab = Lab::with(Watched::new(32 * MIB), |config| config);
    let (mut client, idle) = (lab.client(), lab.client());
    for cookie in 0..200 {
        client.send_request((READ, 0), cookie, 0, 32 << 20);
    }
    assert_eq!(lab.client().write(0, 0, b"kept"), 0);
    eventually("a read", || {
        lab.device.calls().iter().any(|call| matches!(call, Call::Read(..))).then_some(())
    });
    let device = lab.device.clone();
    let start = Instant::now();
    let (ended, mut connections) = lab.shut_down(PATIENT);
    ended.unwrap();
    assert!(start.elapsed() < PATIENT, "{:?}", start.elapsed());
    connections.sort();
    let not_taken = "taking the last replies took longer than 5s".to_owned();
    assert_eq!(connections.last(), Some(&Some(not_taken)));
    assert_eq!(connections.iter().flatten().count(), 1, "{connections:?}");
    assert_eq!(device.calls().last(), Some(&Call::Flush));
    drop((client, idle));
}

#[test]
fn a_last_flush_that_fails_is_an_error() {
    let lab = Lab::new();
    lab.device.fail("flush", || BlockError::Io {
        object: "journal".into(),
        source: Box::new(io::Error::other("no disk")),
    });
    let ended = lab.server.shutdown(PATIENT);
    let words = ended.unwrap_err().to_string();
    assert_eq!(words, "cannot flush export \"disk\": journal: no disk");
}

#[test]
fn a_client_that_is_idle_or_silent_does_not_hold_the_end_up() {
    let lab = Lab::new();
    let _idle = lab.client();
    let _silent = lab.connect();
    let mut stopped = lab.client();
    stopped.send_request((WRITE, 0), 1, 0, 100);
    let start = Instant::now();
    lab.server.shutdown(PATIENT).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    stopped.expect_end();
    assert_eq!(lab.device.calls(), [Call::Flush]);
}
