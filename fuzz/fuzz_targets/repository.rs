//! Objects with valid envelopes and arbitrary bodies: opening, checking, walking and pruning the
//! repository ends with a result or an error.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use onefold_backend::{MemoryObjects, Objects};
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::{Cancel, Progress, Repository, check, prune};

fuzz_target!(|input: ([Vec<u8>; 9], bool)| {
    let ([config, run, snapshot, receipt, intent, mark, fence, log, bundle], is_patient) = input;
    let repository = ObjectId::from_bytes([1; 16]);
    let [id, open, fenced] = [2, 3, 4].map(|byte| ObjectId::from_bytes([byte; 16]));
    let envelope = Envelope::plain(repository);
    let objects = MemoryObjects::new();
    let put = |name: String, kind, id, body: &[u8]| {
        objects.put(&name, envelope.seal(kind, id, body).into()).expect("memory takes it");
    };
    put("config".into(), Kind::Config, repository, &config);
    put(format!("index/{id}"), Kind::Run, id, &run);
    put(format!("snapshots/{id}"), Kind::Snapshot, id, &snapshot);
    put(format!("snapshots/{fenced}"), Kind::Fence, fenced, &fence);
    put(format!("receipts/{id}"), Kind::Receipt, id, &receipt);
    put(format!("intents/{open}"), Kind::Intent, open, &intent);
    put(format!("marks/{id}"), Kind::Mark, id, &mark);
    put(format!("logs/{id}"), Kind::LogEntry, id, &log);
    // Of one snapshot, as its id says.
    let bundled: ObjectId = format!("0100000001{:022}", 0).parse().expect("it has 32 digits");
    put(format!("bundles/01/{bundled}"), Kind::Bundle, bundled, &bundle);
    let Ok(repository) = Repository::open(Arc::new(objects)) else { return };
    let _ = repository.load();
    let (progress, cancel) = (Progress::default(), Cancel::default());
    check::check(&repository, check::Reading::All, &progress, &cancel).expect("check goes on");
    if let Ok((snapshots, _)) = repository.snapshots() {
        for (_, snapshot) in snapshots {
            let _ = repository.walk(&snapshot.root, &mut |_, _| Ok(()));
        }
    }
    let fence_after = Duration::from_secs(if is_patient { u64::MAX } else { 0 });
    for dry_run in [true, false] {
        let options = prune::Options { fence_after, dry_run, ..prune::Options::default() };
        let _ = prune::prune(&repository, &options, &progress, &cancel);
    }
    check::check(&repository, check::Reading::All, &progress, &cancel).expect("check goes on");
});
