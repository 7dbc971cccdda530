//! Requests of any kind against a plain array, with simple and structured replies: what is read is
//! what was written, a refused request changes nothing, and each request has one reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_block::{BlockDevice, Durability};
use onefold_fuzz::nbd::{Client, Reply, SIZE, bench, u32_at, u64_at};

/// Command, flags, offset, length, and whether offset and length are to lie within the device.
type Ask = (u8, u8, u64, u32, bool);

fuzz_target!(|input: (bool, Vec<Ask>, Vec<u8>)| {
    let (is_structured, asks, rest) = input;
    let bench = bench();
    bench.device.erase(0..SIZE, Durability::OnFlush).expect("memory");
    let mut client = bench.connect(3);
    if is_structured {
        client.send_option(8, &[]);
        assert_eq!(client.answers(8), Some(1));
        client.send_option(10, b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x0fbase:allocation");
        assert_eq!(client.answers(10), Some(1));
    }
    client.send_option(7, b"\0\0\0\x04disk\0\0");
    assert_eq!(client.answers(7), Some(1));
    let mut model = vec![0; SIZE as usize];
    for (cookie, (command, flags, offset, len, is_within)) in asks.into_iter().enumerate() {
        // no farewell yet
        let command = [0, 1, 3, 4, 5, 6, 7, 8, 9][usize::from(command % 9)];
        let (offset, len) = match is_within {
            true => (offset % SIZE, len % (SIZE - offset % SIZE) as u32),
            false => (offset, len),
        };
        // a write that is refused is skipped, however long; here is no time for that
        let len = if command == 1 { len % (2 * SIZE as u32) } else { len };
        let ask = Asked { command, flags: u16::from(flags), cookie: cookie as u64, offset, len };
        ask.check(&mut client, &mut model, is_structured);
    }
    let mut bytes = vec![0; SIZE as usize];
    bench.device.read(0, &mut bytes).expect("memory");
    assert!(bytes == model, "the device is not what the replies said");
    client.send(&rest);
    client.finish();
    if is_structured {
        while client.reply().is_some() {}
    }
});

struct Asked {
    command: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

impl Asked {
    fn check(&self, client: &mut Client, model: &mut [u8], is_structured: bool) {
        client.request(self.command, self.flags, self.cookie, self.offset, self.len);
        let len = if self.command == 1 { u64::from(self.len) } else { 0 };
        let data: Vec<u8> = (0..len).map(|at| (at + self.cookie) as u8 | 1).collect();
        client.send(&data);
        let end = self.offset.checked_add(u64::from(self.len)).filter(|end| *end <= SIZE);
        let range = end.map(|end| self.offset as usize..end as usize);
        match (client.reply().expect("the connection stays"), self.command) {
            (Reply::Simple(cookie, 0), 0) => {
                assert_eq!((cookie, is_structured), (self.cookie, false));
                let range = range.expect("a read beyond the end");
                assert!(client.data(self.len) == model[range]);
            }
            (Reply::Chunk(cookie, 1, payload), 0) => {
                assert_eq!((cookie, u64_at(&payload, 0)), (self.cookie, self.offset));
                assert!(payload[8..] == model[range.expect("a read beyond the end")]);
            }
            (Reply::Chunk(_, 0, _), 0) => assert_eq!(self.len, 0),
            (Reply::Chunk(_, 5, payload), 7) => {
                let lens = payload[4..].chunks(8).map(|pair| u64::from(u32_at(pair, 0)));
                assert!(payload[4..].chunks(8).all(|pair| u32_at(pair, 0) > 0));
                assert!(lens.sum::<u64>() <= u64::from(self.len));
                let one = self.flags & 8 != 0;
                assert!(!one || payload.len() == 12, "more than the one that was asked for");
            }
            (Reply::Simple(cookie, 0), command) => {
                assert_eq!(cookie, self.cookie);
                self.apply(command, &data, range, model);
            }
            (Reply::Simple(cookie, _), _) => {
                assert_eq!((cookie, is_structured), (self.cookie, false));
            }
            (Reply::Chunk(cookie, 0x8001, _), _) => assert_eq!(cookie, self.cookie),
            (other, command) => panic!("{other:?} to command {command}"),
        }
    }

    /// What a command that succeeded did.
    fn apply(
        &self,
        command: u16,
        data: &[u8],
        range: Option<std::ops::Range<usize>>,
        model: &mut [u8],
    ) {
        match (command, range) {
            (1, Some(range)) => model[range].copy_from_slice(data),
            (4, Some(range)) => {
                let (start, end) = (range.start.next_multiple_of(512), range.end / 512 * 512);
                model[start..end.max(start)].fill(0);
            }
            (6, Some(range)) => model[range].fill(0),
            (3, _) => assert_eq!((self.offset, self.len), (0, 0)),
            (5, Some(_)) => {}
            (command, range) => panic!("command {command} succeeded at {range:?}"),
        }
    }
}
