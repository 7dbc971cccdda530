//! Objects with valid envelopes and arbitrary bodies: opening, checking and walking the repository
//! ends with a result or an error.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use onefold_backend::{MemoryObjects, Objects};
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::{Cancel, Progress, Repository, check};

fuzz_target!(|input: [Vec<u8>; 4]| {
    let [config, run, snapshot, receipt] = input;
    let repository = ObjectId::from_bytes([1; 16]);
    let id = ObjectId::from_bytes([2; 16]);
    let envelope = Envelope::plain(repository);
    let objects = MemoryObjects::new();
    let put = |name: String, kind, id, body: &[u8]| {
        objects.put(&name, envelope.seal(kind, id, body).into()).expect("memory takes it");
    };
    put("config".into(), Kind::Config, repository, &config);
    put(format!("index/{id}"), Kind::Run, id, &run);
    put(format!("snapshots/{id}"), Kind::Snapshot, id, &snapshot);
    put(format!("receipts/{id}"), Kind::Receipt, id, &receipt);
    let Ok(repository) = Repository::open(Arc::new(objects)) else { return };
    let _ = repository.load();
    let (progress, cancel) = (Progress::default(), Cancel::default());
    check::check(&repository, check::Reading::All, &progress, &cancel).expect("check goes on");
    if let Ok((snapshots, _)) = repository.snapshots() {
        for (_, snapshot) in snapshots {
            let _ = repository.walk(&snapshot.root, &mut |_, _| Ok(()));
        }
    }
});
