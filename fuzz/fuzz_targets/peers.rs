//! What gateways say to one another, and dumps of hints: what decodes comes back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    onefold_cluster::fuzz::messages(kind, bytes);
});
