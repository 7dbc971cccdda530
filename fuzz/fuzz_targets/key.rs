//! A wrapped key reads or is refused, and so does its remark; no password is tried.
//!
//! The input is a key's object without header and check; they are made to fit, so that the fuzzer
//! gets past them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_seal::{Check, Cost, Key, Keys, Kind, ObjectId, WrappedKey};
use onefold_store::KeyRemark;

fuzz_target!(|bytes: &[u8]| {
    let (repository, id) = (ObjectId::from_bytes([1; 16]), ObjectId::from_bytes([2; 16]));
    let keys = Keys::new(Key::new([3; 32]));
    let header = onefold_seal::Envelope::encrypted(repository, keys.clone()).header(Kind::Key, id);
    let covered = [&header[..], bytes].concat();
    let object = [&covered[..], Check::of(&[&covered]).as_bytes()].concat();
    if let Ok(wrapped) = WrappedKey::read(repository, id, &object) {
        let Cost { memory_kib, passes, lanes } = wrapped.cost();
        assert!(memory_kib <= Cost::MAX.memory_kib && passes <= Cost::MAX.passes);
        assert!(lanes <= Cost::MAX.lanes);
        assert!(wrapped.remark(&keys).is_err(), "nobody sealed it");
    }
    let _ = KeyRemark::decode(bytes);
});
