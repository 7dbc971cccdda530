//! A snapshot decodes or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_store::Snapshot;
use onefold_store::tree::Node;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = Snapshot::decode(bytes) {
        assert!(matches!(snapshot.root.node, Node::Directory { .. }));
    }
});
