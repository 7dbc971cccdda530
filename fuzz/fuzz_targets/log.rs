//! A log entry decodes or is refused, and so does what a client remembers of logs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_store::{LogEntry, Seen};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = LogEntry::decode(bytes) {
        assert!(entry.time.nanos < 1_000_000_000);
        assert!((entry.committed.len() + entry.forgotten.len()) * 16 <= bytes.len());
    }
    let _ = Seen::decode(bytes);
});
