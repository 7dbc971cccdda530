//! A wrapped key reads or is refused, and so does its remark, and what is said of a write-only client;
//! no password is tried.
//!
//! The first byte says whether it is for a password or a key pair. The rest is a key's object without header and check; they are made to fit, so that the
//! fuzzer gets past them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_seal::{Check, Cost, Key, Keys, Kind, ObjectId, PrivateKey, WrappedKey};
use onefold_store::{ClientRecord, KeyRemark};

fuzz_target!(|bytes: &[u8]| {
    let (repository, id) = (ObjectId::from_bytes([1; 16]), ObjectId::from_bytes([2; 16]));
    let keys = Keys::new(Key::new([3; 32]));
    let Some((first, body)) = bytes.split_first() else { return };
    let kind = if first % 2 == 0 { Kind::Key } else { Kind::KeyForPair };
    let header = onefold_seal::Envelope::encrypted(repository, keys.clone()).header(kind, id);
    let covered = [&header[..], body].concat();
    let object = [&covered[..], Check::of(&[&covered]).as_bytes()].concat();
    if let Ok(wrapped) = WrappedKey::read(repository, id, &object) {
        match wrapped.cost() {
            Some(Cost { memory_kib, passes, lanes }) => {
                assert!(memory_kib <= Cost::MAX.memory_kib && passes <= Cost::MAX.passes);
                assert!(lanes <= Cost::MAX.lanes);
            }
            None => {
                let opened = wrapped.unwrap_by(&PrivateKey::new(Key::new([4; 32])));
                assert!(opened.expect("nobody knows the secret").is_none());
            }
        }
        assert!(wrapped.remark(&keys).is_err(), "nobody sealed it");
    }
    let _ = KeyRemark::decode(bytes);
    (0..4).for_each(|state| drop(ClientRecord::decode(state, bytes)));
});
