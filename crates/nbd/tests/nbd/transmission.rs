//! Commands, and the errors that they end with.

use std::io;
use std::ops::Range;

use onefold_block::{BlockDevice, BlockError, Durability, Extent, Operation, Zeroes};
use onefold_nbd::Config;
use onefold_testkit::random;

use crate::client::*;
use crate::device::{Call, Watched};
use crate::server::{Lab, MIB, eventually};

#[test]
fn what_is_written_is_read() {
    let lab = Lab::new();
    let data = random(1, 200_001);
    for mut client in [lab.client(), Client::served_simply(lab.connect(), "disk")] {
        assert_eq!(client.write(0, 333, &data), 0);
        let read = client.read(0, 333, data.len() as u32).unwrap();
        assert!(read == data);
        assert_eq!(client.read(0, 332, 2), Ok(vec![0, data[0]]));
        assert_eq!(client.ask((TRIM, 0), 0, MIB as u32), 0);
        assert_eq!(client.read(0, 333, 3), Ok(vec![0; 3]));
    }
}

#[test]
fn a_read_may_ask_for_one_piece() {
    let lab = Lab::new();
    let mut client = lab.client();
    assert_eq!(client.read(DF, 100, 65_536), Ok(vec![0; 65_536]));
}

#[test]
fn each_command_is_a_call_of_the_device() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.exports = vec![config.exports.remove(0).resizable()];
        config
    });
    let mut client = lab.client();
    let zeroes = |keep_space, only_if_fast| Zeroes { keep_space, only_if_fast };
    let (later, now) = (Durability::OnFlush, Durability::OnReturn);
    assert_eq!(client.write(0, 5, b"abc"), 0);
    assert_eq!(client.write(FUA, 5, b"abc"), 0);
    assert_eq!(client.read(0, 4, 5), Ok(b"\0abc\0".to_vec()));
    assert_eq!(client.read(FUA, 4, 5), Ok(b"\0abc\0".to_vec()));
    assert_eq!(client.ask((TRIM, 0), 4096, 8192), 0);
    assert_eq!(client.ask((TRIM, FUA), 4096, 8192), 0);
    assert_eq!(client.ask((WRITE_ZEROES, 0), 1, 2), 0);
    assert_eq!(client.ask((WRITE_ZEROES, FUA | NO_HOLE), 1, 2), 0);
    assert_eq!(client.ask((WRITE_ZEROES, FAST_ZERO), 1, 2), 0);
    assert_eq!(client.ask((WRITE_ZEROES, FAST_ZERO | NO_HOLE), 1, 2), ENOTSUP);
    assert_eq!(client.ask((FLUSH, 0), 0, 0), 0);
    assert_eq!(client.ask((FLUSH, FUA), 0, 0), 0);
    assert_eq!(client.ask((CACHE, 0), 0, MIB as u32), 0);
    assert_eq!(client.extents(0, 0, 4096), Ok(vec![(4096, 0)]));
    assert_eq!(client.ask((RESIZE, 0), 2 * MIB, 0), 0);
    assert_eq!(
        lab.device.calls(),
        [
            Call::Write(5, 3, later),
            Call::Write(5, 3, now),
            Call::Read(4, 5),
            Call::Read(4, 5),
            Call::Erase(4096..12_288, later),
            Call::Erase(4096..12_288, now),
            Call::WriteZeroes(1..3, zeroes(false, false), later),
            Call::WriteZeroes(1..3, zeroes(true, false), now),
            Call::WriteZeroes(1..3, zeroes(false, true), later),
            Call::WriteZeroes(1..3, zeroes(true, true), later),
            Call::Flush,
            Call::Flush,
            Call::Cache(0..MIB),
            Call::Extents(0..4096, 8191),
            Call::Resize(2 * MIB),
        ]
    );
    assert_eq!(client.write(0, 2 * MIB - 3, b"abc"), 0);
}

#[test]
fn block_status_tells_data_from_holes() {
    let lab = Lab::new();
    let mut client = lab.client();
    let (data, hole) = (0, 3);
    assert_eq!(client.extents(0, 0, MIB as u32), Ok(vec![(MIB as u32, hole)]));
    assert_eq!(client.write(0, 8192, &[1; 4096]), 0);
    assert_eq!(
        client.extents(0, 4096, 20_000),
        Ok(vec![(4096, hole), (4096, data), (11_808, hole)])
    );
    assert_eq!(client.extents(REQ_ONE, 4096, 20_000), Ok(vec![(4096, hole)]));
    assert_eq!(client.extents(REQ_ONE, 8192, 100), Ok(vec![(100, data)]));
}

#[test]
fn more_extents_than_fit_in_a_reply_are_asked_for_again() {
    let lab = Lab::with(Watched::new(64 * MIB), |config| config);
    for block in (0..16_384).step_by(2) {
        lab.device.write(block * 4096, &[1; 4096], Durability::OnFlush).unwrap();
    }
    let mut client = lab.client();
    let (mut offset, mut found) = (0, Vec::new());
    while offset < 64 * MIB {
        let extents = client.extents(0, offset, (64 * MIB - offset) as u32).unwrap();
        assert!(extents.len() <= 8191);
        offset += extents.iter().map(|(len, _)| u64::from(*len)).sum::<u64>();
        found.extend(extents);
    }
    let expected = (0..16_384).map(|block| (4096, if block % 2 == 0 { 0 } else { 3 }));
    assert!(found.into_iter().eq(expected));
}

#[test]
fn a_request_that_makes_no_sense_is_refused_and_calls_no_device() {
    let lab = Lab::new();
    let mut client = lab.client();
    let size = MIB;
    for (command, offset, len, errno) in [
        ((READ, 0), size, 1, EINVAL),
        ((READ, 0), size - 1, 2, EINVAL),
        ((READ, 0), u64::MAX, 1, EINVAL),
        ((READ, 0), 0, (64 << 20) + 1, EINVAL),
        ((READ, DF), 0, (64 << 20) + 1, EOVERFLOW),
        ((READ, REQ_ONE), 0, 1, EINVAL),
        ((READ, NO_HOLE), 0, 1, EINVAL),
        ((READ, 1 << 15), 0, 1, EINVAL),
        ((TRIM, 0), size, 1, EINVAL),
        ((TRIM, NO_HOLE), 0, 1, EINVAL),
        ((WRITE_ZEROES, 0), size - 1, 2, ENOSPC),
        ((WRITE_ZEROES, 0), 0, u32::MAX, ENOSPC),
        ((WRITE_ZEROES, DF), 0, 1, EINVAL),
        ((FLUSH, 0), 1, 0, EINVAL),
        ((FLUSH, 0), 0, 1, EINVAL),
        ((FLUSH, FAST_ZERO), 0, 0, EINVAL),
        ((CACHE, 0), size, 1, EINVAL),
        ((CACHE, REQ_ONE), 0, 1, EINVAL),
        ((BLOCK_STATUS, 0), size - 1, 2, EINVAL),
        ((BLOCK_STATUS, 0), 0, 0, EINVAL),
        ((BLOCK_STATUS, DF), 0, 1, EINVAL),
        ((RESIZE, 0), 2 * size, 0, EPERM),
        ((9, 0), 0, 0, EINVAL),
        ((u16::MAX, 0), 0, 0, EINVAL),
    ] {
        assert_eq!(client.ask(command, offset, len), errno, "{command:?} {offset} {len}");
    }
    for (flags, offset, len, errno) in [
        (0, size, 1, ENOSPC),
        (0, size - 1, 2, ENOSPC),
        (0, u64::MAX, 3, ENOSPC),
        (DF, 0, 5000, EINVAL),
        (FAST_ZERO, 0, 1, EINVAL),
    ] {
        assert_eq!(client.write(flags, offset, &vec![1; len]), errno, "{flags} {offset} {len}");
    }
    assert_eq!(lab.device.calls(), []);
    let refused = lab.refused();
    let count = |operation| refused.iter().filter(|found| **found == operation).count();
    let all = [Operation::Read, Operation::Write, Operation::Erase, Operation::WriteZeroes];
    assert_eq!(all.map(Some).map(count), [8, 5, 2, 3]);
    assert_eq!((count(Some(Operation::Flush)), count(None), refused.len()), (3, 8, 29));
    assert_eq!(client.read(0, 0, 1), Ok(vec![0]));
}

#[test]
fn without_structured_replies_errors_are_numbers_and_pieces_and_metadata_are_unknown() {
    let lab = Lab::new();
    let mut client = Client::served_simply(lab.connect(), "disk");
    assert_eq!(client.read(0, MIB, 1), Err(EINVAL));
    assert_eq!(client.read(DF, 0, 1), Err(EINVAL));
    assert_eq!(client.ask((BLOCK_STATUS, 0), 0, 1), EINVAL);
    assert_eq!(client.read(0, 0, 1), Ok(vec![0]));
}

#[test]
fn a_write_that_is_too_long_is_refused_and_its_bytes_are_skipped() {
    let lab = Lab::new();
    let mut client = lab.client();
    assert_eq!(client.write(0, 0, &vec![1; (64 << 20) + 1]), EINVAL);
    assert_eq!(lab.device.calls(), []);
    assert_eq!(client.write(0, 0, b"after"), 0);
}

#[test]
fn the_longest_requests_are_served() {
    let lab = Lab::with(Watched::new(128 * MIB), |config| config);
    let mut client = lab.client();
    let data = random(2, 64 << 20);
    assert_eq!(client.write(0, 4095, &data), 0);
    assert!(client.read(0, 4095, 64 << 20).unwrap() == data);
}

#[test]
fn requests_of_no_bytes_succeed() {
    let lab = Lab::new();
    for mut client in [lab.client(), Client::served_simply(lab.connect(), "disk")] {
        assert_eq!(client.write(0, 10, &[]), 0);
        for command in [TRIM, WRITE_ZEROES, CACHE] {
            assert_eq!(client.ask((command, 0), 10, 0), 0);
        }
    }
    // a chunk of no data is none
    assert_eq!(lab.client().ask((READ, 0), MIB, 0), 0);
    assert_eq!(Client::served_simply(lab.connect(), "disk").read(0, 10, 0), Ok(vec![]));
}

#[test]
fn each_error_of_a_device_has_its_number() {
    type Fault = fn() -> BlockError;
    let faults: [(Fault, u32); 8] = [
        (|| BlockError::NoSpace { object: "pool".into() }, ENOSPC),
        (|| BlockError::ReadOnly, EPERM),
        (
            || BlockError::Io {
                object: "container 7".into(),
                source: Box::new(io::Error::other("a bad sector")),
            },
            EIO,
        ),
        (|| BlockError::OutOfRange { offset: 0, len: 1, size: 0 }, EINVAL),
        (|| BlockError::BadSize { size: 1, expected: "2" }, EINVAL),
        (|| BlockError::NotSupported { operation: "write" }, EINVAL),
        (|| BlockError::ShuttingDown, ESHUTDOWN),
        (|| panic!("a device that is broken"), EIO),
    ];
    let lab = Lab::new();
    for name in ["read", "write", "erase", "write_zeroes", "flush", "cache", "extents"] {
        for (fault, errno) in faults {
            lab.device.fail(name, fault);
            let mut client = lab.client();
            let found = match name {
                "read" => client.read(0, 0, 1).unwrap_err(),
                "write" => client.write(0, 0, b"x"),
                "erase" => client.ask((TRIM, 0), 0, 1),
                "write_zeroes" => client.ask((WRITE_ZEROES, 0), 0, 1),
                "flush" => client.ask((FLUSH, 0), 0, 0),
                "cache" => client.ask((CACHE, 0), 0, 1),
                _ => client.extents(0, 0, 1).unwrap_err(),
            };
            assert_eq!(found, errno, "{name}");
        }
    }
}

#[test]
fn an_error_is_told_in_words() {
    let lab = Lab::new();
    let source = || Box::new(io::Error::other("a bad \0sector".repeat(200)));
    lab.device
        .fail("read", move || BlockError::Io { object: "container 7".into(), source: source() });
    let mut client = lab.client();
    client.send_request((READ, 0), 1, 0, 1);
    let Reply::Chunk { kind: 0x8001, payload, .. } = client.reply() else { panic!("no error") };
    let words = str::from_utf8(&payload[6..]).unwrap();
    assert!(words.starts_with("container 7: a bad  sector"), "{words}");
    assert!(words.len() <= 1024);
}

#[test]
fn a_device_that_speaks_nonsense_of_extents_is_an_io_error() {
    let lab = Lab::new();
    let mut client = lab.client();
    for extents in [
        vec![],
        vec![Extent::Data(4097)],
        vec![Extent::Data(0), Extent::Hole(10)],
        vec![Extent::Data(u64::from(u32::MAX) + 2)],
    ] {
        lab.device.say(extents.clone());
        assert_eq!(client.extents(0, 0, 4096), Err(EIO), "{extents:?}");
    }
    lab.device.say(vec![Extent::Data(1), Extent::Hole(1)]);
    assert_eq!(client.extents(REQ_ONE, 0, 4096), Err(EIO));
    assert_eq!(client.extents(0, 0, 4096), Ok(vec![(1, 0), (1, 3)]));
}

#[test]
fn a_read_only_export_is_not_changed() {
    let mut read_only = Watched::new(MIB);
    read_only.is_read_only = true;
    let by_device = Lab::with(read_only, |config| config);
    let by_export = Lab::with(Watched::new(MIB), |mut config: Config| {
        config.exports = vec![config.exports.remove(0).read_only().resizable()];
        config
    });
    for lab in [by_device, by_export] {
        let mut client = lab.client();
        assert_eq!(client.write(0, 0, b"abc"), EPERM);
        for command in [TRIM, WRITE_ZEROES] {
            assert_eq!(client.ask((command, 0), 0, 1), EPERM);
        }
        assert_eq!(client.ask((RESIZE, 0), 0, 0), EPERM);
        assert_eq!(lab.device.calls(), []);
        assert_eq!(client.read(0, 0, 3), Ok(vec![0; 3]));
        assert_eq!(client.ask((FLUSH, 0), 0, 0), 0);
    }
}

#[test]
fn replies_come_as_calls_end() {
    let lab = Lab::new();
    let mut client = lab.client();
    lab.device.hold("read");
    client.send_request((READ, 0), 1, 0, 4096);
    client.send_request((FLUSH, 0), 2, 0, 0);
    assert_eq!(client.outcome(2), 0);
    lab.device.release();
    assert_eq!(client.read_reply(1, 0, 4096), Ok(vec![0; 4096]));
}

#[test]
fn requests_of_one_connection_run_at_once() {
    let lab = Lab::with(Watched::new(MIB), |config| Config { workers: 5, ..config });
    let mut client = lab.client();
    lab.device.hold("write");
    for cookie in 0..5 {
        client.send(&[request((WRITE, 0), cookie, cookie, 1), vec![7]].concat());
    }
    lab.device.wait_for(5);
    lab.device.release();
    expect_done(&mut client, 0..5);
}

/// The requests with these cookies are done, in whatever order.
fn expect_done(client: &mut Client, cookies: Range<u64>) {
    let mut found: Vec<u64> = cookies
        .clone()
        .map(|_| match client.reply() {
            Reply::Simple { cookie, errno: 0 } => cookie,
            other => panic!("{other:?}"),
        })
        .collect();
    found.sort();
    assert!(found.iter().copied().eq(cookies), "{found:?}");
}

/// Sends writes while the only worker is busy with another one; the calls of the device since.
fn writes_that_wait(lab: &Lab, client: &mut Client) -> Vec<Call> {
    let before = lab.device.calls().len();
    lab.device.hold("write");
    client.send(&[request((WRITE, 0), 0, 0, 1), vec![1]].concat());
    lab.device.wait_for(1);
    for cookie in 1..8 {
        client.send(&[request((WRITE, 0), cookie, 10 * cookie, 2), vec![cookie as u8; 2]].concat());
    }
    let forced = [request((WRITE, FUA), 8, 80, 2), vec![8; 2]].concat();
    client.send(&forced);
    // long enough for them to be read, mostly
    std::thread::sleep(std::time::Duration::from_millis(50));
    lab.device.release();
    expect_done(client, 0..9);
    for cookie in 1..9 {
        assert_eq!(client.read(0, 10 * cookie, 2).unwrap(), [cookie as u8; 2]);
    }
    lab.device.calls()[before..].to_vec()
}

#[test]
fn writes_that_wait_are_one_call_of_a_device_that_likes_it() {
    let mut device = Watched::new(MIB);
    device.writes_at_once = 4;
    let lab = Lab::with(device, |config| Config { workers: 1, ..config });
    let mut client = lab.client();
    // how many wait when the worker comes is a matter of time
    let at_once = eventually("writes are done at once", || {
        let calls = writes_that_wait(&lab, &mut client);
        let many = |call: &Call| match call {
            Call::WriteMany(count) => Some(*count),
            _ => None,
        };
        calls.iter().find_map(many)
    });
    assert!((2..=4).contains(&at_once), "{at_once}");
    // one that has to be durable at once goes alone, and so does each if they fail together
    lab.device.fail("write_many", || BlockError::NoSpace { object: "disk".into() });
    eventually("writes fail together and not alone", || {
        let calls = writes_that_wait(&lab, &mut client);
        assert!(calls.contains(&Call::Write(80, 2, Durability::OnReturn)), "{calls:?}");
        calls.iter().any(|call| matches!(call, Call::WriteMany(_))).then_some(())
    });
}

#[test]
fn writes_that_come_together_are_shared_by_workers_that_wait() {
    let mut device = Watched::new(MIB);
    device.writes_at_once = 16;
    let lab = Lab::with(device, |config| Config { workers: 2, ..config });
    let mut client = lab.client();
    let together = |count: u64| -> Vec<u8> {
        (0..count)
            .flat_map(|i| [request((WRITE, 0), i, 10 * i, 1), vec![i as u8]].concat())
            .collect()
    };
    // whether both wait already, and all comes in one piece, is a matter of time
    for (count, calls) in [(16, [8, 8]), (6, [4, 2])] {
        eventually("workers share writes", || {
            let before = lab.device.calls().len();
            client.send(&together(count));
            for _ in 0..count {
                assert!(matches!(client.reply(), Reply::Simple { errno: 0, .. }));
            }
            let mut found: Vec<usize> = lab.device.calls()[before..]
                .iter()
                .filter_map(|call| match call {
                    Call::WriteMany(count) => Some(*count),
                    _ => None,
                })
                .collect();
            found.sort_by_key(|count| usize::MAX - count);
            (found == calls).then_some(())
        });
    }
}

#[test]
fn a_client_sees_the_size_as_it_is() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.exports = vec![config.exports.remove(0).resizable()];
        config
    });
    let (mut client, mut resizer) = (lab.client(), lab.client());
    assert_eq!(client.write(0, MIB, b"abc"), ENOSPC);
    assert_eq!(resizer.ask((RESIZE, 0), 2 * MIB, 0), 0);
    assert_eq!(client.write(0, MIB, b"abc"), 0);
    assert_eq!(resizer.ask((RESIZE, 0), MIB, 0), 0);
    assert_eq!(client.write(0, MIB, b"abc"), ENOSPC);
    assert_eq!(resizer.ask((RESIZE, 0), MIB + 1, 0), EINVAL);
    assert_eq!(resizer.ask((RESIZE, 0), MIB, 1), EINVAL);
}

#[test]
fn a_flush_on_one_connection_follows_writes_on_another() {
    let lab = Lab::new();
    let (mut one, mut other) = (lab.client(), lab.client());
    assert_eq!(one.write(0, 0, b"abc"), 0);
    assert_eq!(other.ask((FLUSH, 0), 0, 0), 0);
    let calls = lab.device.calls();
    assert_eq!(calls, [Call::Write(0, 3, Durability::OnFlush), Call::Flush]);
}
