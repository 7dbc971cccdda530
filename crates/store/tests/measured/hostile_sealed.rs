//! What somebody without the key does to an encrypted repository: objects that are exchanged, mixed and
//! brought back are named, and whatever is restored is right.

use std::sync::Arc;

use onefold_backend::{MemoryObjects, Objects};
use onefold_container::container_id;
use onefold_seal::ObjectId;
use onefold_store::{forget, restore};
use onefold_testkit::random;
use tempfile::TempDir;

use crate::common::attacked::ALONE;
use crate::common::picture::Picture;
use crate::common::{
    Protection, back_up, chain, checked, copy, init, names, open, replace, small_chunks, try_open,
    write,
};

/// An encrypted repository with two snapshots, of one source before and after a change.
fn sealed() -> (TempDir, Arc<dyn Objects>, [ObjectId; 2], Picture) {
    let source = tempfile::tempdir().unwrap();
    for number in 0..6 {
        write(source.path().join(format!("{number}")), random(number, 30_000));
    }
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository = init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
    let (first, _) = back_up(&repository, source.path());
    write(source.path().join("3"), random(33, 200_000));
    let (second, _) = back_up(&open(&objects), source.path());
    let picture = Picture::of(source.path());
    (source, objects, [first, second], picture)
}

/// What a check finds of `name` once its bytes are `bytes`; whatever is restored is right.
fn expect_named(
    objects: &Arc<dyn Objects>,
    name: &str,
    bytes: Vec<u8>,
    what: &str,
    snapshot: ObjectId,
    right: &Picture,
) {
    let objects = copy(&**objects);
    replace(&*objects, name, bytes);
    let repository = match try_open(Arc::clone(&objects)) {
        Ok(repository) => repository,
        Err(error) => return assert!(chain(&error).contains(name), "{what}: {}", chain(&error)),
    };
    let findings = checked(&repository).unwrap().findings;
    let named = findings.iter().any(|found| found.to_string().contains(name));
    assert!(named, "{what} of {name}: {findings:?}");
    let Ok((_, snapshot)) = repository.find(&snapshot.to_string().parse().unwrap()) else { return };
    let options = restore::Options::default();
    match crate::common::try_restore(&repository, &snapshot, &options) {
        Ok(restored) => {
            Picture::of(restored.folder.path()).expect_no_other_bytes(right).unwrap();
        }
        Err(error) => assert!(!chain(&error).is_empty()),
    }
}

#[test]
fn sealed_objects_are_not_exchanged_mixed_or_brought_back_unseen() {
    let _alone = ALONE.lock();
    let (_source, objects, [_, second], picture) = sealed();
    for prefix in ["containers/", "index/", "snapshots/", "receipts/"] {
        let all = names(&*objects, prefix);
        assert!(all.len() > 1, "{prefix}");
        for pair in all.windows(2) {
            let [one, other] = [&pair[0], &pair[1]].map(|name| objects.get(name).unwrap());
            let expect = |what, bytes: Vec<u8>| {
                expect_named(&objects, &pair[0], bytes, what, second, &picture);
            };
            expect("another object's bytes", other.to_vec());
            expect("its header before another's rest", [&one[..48], &other[48..]].concat());
            expect("another's salt", [&one[..48], &other[48..80], &one[80..]].concat());
            expect("another's header", [&other[..48], &one[48..]].concat());
            expect("the end of another", {
                let half = one.len().min(other.len()) / 2;
                [&one[..one.len() - half], &other[other.len() - half..]].concat()
            });
            expect("its beginning only", one[..one.len() / 2].to_vec());
        }
    }
    // Groups of one container in another order.
    let id = open(&objects).id();
    let envelope = crate::common::envelope(&*objects, id);
    let mut exchanged = 0;
    for name in names(&*objects, "containers/") {
        let object = objects.get(&name).unwrap();
        let id = container_id(&name).unwrap();
        let directory = onefold_container::Directory::of_object(&envelope, id, &object).unwrap();
        for pair in directory.groups.windows(2) {
            let [a, b] = [&pair[0], &pair[1]];
            let (start, middle) = (a.offset as usize, b.offset as usize);
            let end = middle + b.stored_len as usize;
            let mixed =
                [&object[..start], &object[middle..end], &object[start..middle], &object[end..]];
            expect_named(&objects, &name, mixed.concat(), "groups exchanged", second, &picture);
            exchanged += 1;
        }
    }
    println!("{exchanged} pairs of groups exchanged");
    // What was forgotten and pruned is brought back as it was: it is whole, and older.
    let before = copy(&*objects);
    let (first, _) = (names(&*objects, "snapshots/").remove(0), ());
    let first: ObjectId = first.strip_prefix("snapshots/").unwrap().parse().unwrap();
    forget::forget(&open(&objects), &[first]).unwrap();
    for name in names(&*before, "") {
        if objects.get(&name).is_err() {
            objects.put(&name, before.get(&name).unwrap()).unwrap();
        }
    }
    assert_eq!(checked(&open(&objects)).unwrap().findings, []);
}
