//! Lines of traces: what is one reads back as it is written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_lab::trace::Operation;

fuzz_target!(|line: &[u8]| {
    if let Ok(operation) = Operation::parse(line) {
        let again = Operation::parse(operation.to_string().as_bytes()).expect("it was one");
        assert_eq!(again, operation);
        assert!(operation.pages().end <= u64::MAX / 4096);
    }
});
