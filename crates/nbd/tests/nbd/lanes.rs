//! Calls that wait keep only those of their kind waiting.

use crate::client::*;
use crate::device::{Call, Watched};
use crate::server::{Lab, MIB};

/// More than there are threads for them.
const MANY: u64 = 12;

fn lab() -> Lab {
    Lab::with(Watched::new(MIB), |mut config| {
        config.workers = 2;
        config
    })
}

/// The cookie of a request that went well.
fn done(reply: Reply) -> u64 {
    match reply {
        Reply::Simple { cookie, errno: 0 } | Reply::Chunk { cookie, kind: 0, .. } => cookie,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_are_answered_while_syncs_and_writes_wait() {
    let lab = lab();
    ["flush", "write"].iter().for_each(|name| lab.device.hold(name));
    let mut clients: Vec<Client> = (0..MANY).map(|_| lab.client()).collect();
    for (cookie, client) in (0..).zip(&mut clients) {
        client.send_request((FLUSH, 0), cookie, 0, 0);
        for flags in [0, FUA] {
            let head = request((WRITE, flags), cookie + 1000 + u64::from(flags), cookie * 8, 3);
            client.send(&[head, b"abc".to_vec()].concat());
        }
    }
    // two of each kind of threads
    lab.device.wait_for(4);
    let mut other = lab.client();
    assert_eq!(other.read(0, 0, 3), Ok(vec![0; 3]));
    assert_eq!(lab.device.waiting(), 4);
    lab.device.release();
    for mut client in clients {
        let mut replies: Vec<u64> = (0..3).map(|_| done(client.reply())).collect();
        replies.sort_unstable();
        assert_eq!(replies[1..], [replies[0] + 1000, replies[0] + 1001]);
    }
}

#[test]
fn flushes_that_wait_join_one_sync_and_its_failure() {
    for fails in [false, true] {
        let lab = Lab::with(Watched::new(MIB), |mut config| {
            config.workers = 1;
            config
        });
        lab.device.hold("flush");
        let mut client = lab.client();
        client.send_request((FLUSH, 0), 0, 0, 0);
        lab.device.wait_for(1);
        for cookie in 1..=MANY {
            client.send_request((FLUSH, 0), cookie, 0, 0);
        }
        // taken in before what comes after it
        assert_eq!(client.read(0, 0, 1), Ok(vec![0]));
        if fails {
            lab.device
                .fail("flush", || onefold_block::BlockError::NoSpace { object: "disk".into() });
        }
        lab.device.release();
        for cookie in 0..=MANY {
            assert_eq!(client.outcome(cookie), if fails { ENOSPC } else { 0 });
        }
        let flushes = lab.device.calls().iter().filter(|call| **call == Call::Flush).count();
        assert_eq!(flushes, 2);
    }
}
