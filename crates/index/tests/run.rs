//! Runs are written and read back, and whatever else is read is refused.

use onefold_backend::{MemoryObjects, Objects};
use onefold_fingerprint::Fingerprint;
use onefold_index::{IndexError, Place, Run, run_id, run_name};
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId};
use proptest::prelude::*;

const ENVELOPE: Envelope = Envelope::plain(ObjectId::from_bytes([7; 16]));

fn place(n: u32) -> Place {
    Place { container: n, slot: n / 3, len: n ^ 5 }
}

fn ids() -> impl Strategy<Value = Vec<ObjectId>> {
    proptest::collection::vec(any::<[u8; 16]>().prop_map(ObjectId::from_bytes), 0..5)
}

fn entries() -> impl Strategy<Value = Vec<(Fingerprint, Place)>> {
    // Few different ones, so that some stand more than once.
    let fingerprint = prop_oneof![any::<[u8; 32]>(), (0..4u8).prop_map(|byte| [byte; 32])];
    let entry = (fingerprint.prop_map(Fingerprint::from_bytes), any::<u32>().prop_map(place));
    proptest::collection::vec(entry, 0..40)
}

proptest! {
    #[test]
    fn what_was_written_is_read_back_in_order(covers in ids(), entries in entries()) {
        let objects = MemoryObjects::new();
        let run = Run::new(covers.clone(), entries.clone());
        prop_assert!(run.entries.is_sorted_by_key(|(fingerprint, _)| *fingerprint));
        let id = run.write(&objects, &ENVELOPE).unwrap();
        let read = Run::read(&objects, &ENVELOPE, id).unwrap();
        prop_assert_eq!(&read, &run);
        let sorted = |mut entries: Vec<_>| { entries.sort_unstable_by_key(|(f, p): &(Fingerprint, Place)| (*f, p.container)); entries };
        prop_assert_eq!(sorted(read.entries), sorted(entries));
        prop_assert_eq!(read.covers, covers);
    }

    #[test]
    fn every_damage_is_found_and_names_the_run(
        covers in ids(), entries in entries(), at in any::<prop::sample::Index>(), flip in 1..=255u8
    ) {
        let objects = MemoryObjects::new();
        let id = Run::new(covers, entries).write(&objects, &ENVELOPE).unwrap();
        let mut damaged = objects.get(&run_name(id)).unwrap().to_vec();
        let at = at.index(damaged.len());
        damaged[at] ^= flip;
        objects.delete(&run_name(id)).unwrap();
        objects.put(&run_name(id), damaged.into()).unwrap();
        let error = Run::read(&objects, &ENVELOPE, id).unwrap_err();
        let is_envelope = matches!(error, IndexError::Envelope { .. });
        prop_assert!(is_envelope && error.to_string().contains(&id.to_string()));
    }

    #[test]
    fn any_body_decodes_or_is_refused(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(run) = Run::decode(&body) {
            prop_assert!(run.entries.is_sorted_by_key(|(fingerprint, _)| *fingerprint));
        }
    }
}

/// A run's body with these entries as they come.
fn body(covers: u64, entries: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_varint(covers);
    (0..covers.min(3)).for_each(|id| body.extend([id as u8; 16]));
    body.put_varint(entries.len() as u64);
    for byte in entries {
        body.extend([*byte; 32]);
        [1, 2, 3].iter().for_each(|field| body.put_u32(*field));
    }
    body
}

#[test]
fn fingerprints_that_do_not_ascend_are_refused() {
    for sorted in [&[][..], &[1], &[1, 2, 3], &[1, 1, 2, 2]] {
        assert_eq!(Run::decode(&body(1, sorted)).unwrap().entries.len(), sorted.len());
    }
    for unsorted in [&[2, 1][..], &[1, 3, 2], &[1, 1, 0]] {
        let error = Run::decode(&body(1, unsorted)).unwrap_err();
        assert_eq!(error.expected, "fingerprints in ascending order");
        let objects = MemoryObjects::new();
        let id = ObjectId::random();
        let object = ENVELOPE.seal(Kind::Run, id, &body(1, unsorted));
        objects.put(&run_name(id), object.into()).unwrap();
        let error = Run::read(&objects, &ENVELOPE, id).unwrap_err();
        assert!(matches!(error, IndexError::Malformed { run, .. } if run == id), "{error}");
    }
}

#[test]
fn counts_that_cannot_be_true_are_refused_before_they_size_anything() {
    let error = Run::decode(&body(u64::MAX, &[])).unwrap_err();
    assert_eq!(error.expected, "the count of covered objects");
    let mut huge = body(0, &[]);
    huge.pop();
    huge.put_varint(u64::MAX);
    let error = Run::decode(&huge).unwrap_err();
    assert_eq!(error.expected, "the count of entries");
    let long = [body(2, &[1]), vec![0]].concat();
    assert_eq!(Run::decode(&long).unwrap_err().expected, "the end");
    let whole = body(2, &[1, 2, 3]);
    for len in 0..whole.len() {
        assert!(Run::decode(&whole[..len]).is_err(), "{len} bytes were enough");
    }
}

#[test]
fn a_run_that_is_missing_or_another_is_named() {
    let objects = MemoryObjects::new();
    let missing = ObjectId::random();
    let error = Run::read(&objects, &ENVELOPE, missing).unwrap_err();
    assert!(error.to_string().contains(&missing.to_string()), "{error}");
    let run = Run::new(Vec::new(), vec![(Fingerprint::from_bytes([1; 32]), place(1))]);
    let id = run.write(&objects, &ENVELOPE).unwrap();
    objects.put(&run_name(missing), objects.get(&run_name(id)).unwrap()).unwrap();
    let error = Run::read(&objects, &ENVELOPE, missing).unwrap_err();
    assert!(matches!(error, IndexError::Envelope { .. }), "{error}");
}

#[test]
fn names_and_ids_stand_for_each_other() {
    let id = ObjectId::random();
    assert_eq!(run_id(&run_name(id)), Some(id));
    for wrong in ["", "index/", "index/00", "containers/00", &format!("index/{id}0")] {
        assert_eq!(run_id(wrong), None, "{wrong}");
    }
}
