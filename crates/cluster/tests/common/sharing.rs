//! What the operations on guards and containers promise, whatever becomes of their answers.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosPool, Refusal};
use onefold_cluster::containers::{
    Access, Containers, Guards, Registered, Value, release, sweep_names,
};
use onefold_cluster::hints::ContainerName;
use onefold_seal::ObjectId;

/// A namespace that clients reach whose next updates meet given fates; later ones are answered.
pub(crate) struct Scene {
    memory: Arc<MemoryRados>,
    fated: Arc<FatedRados>,
    fates: Arc<Mutex<Vec<Fate>>>,
}

pub(crate) fn shard(n: u8) -> ObjectId {
    ObjectId::from_bytes([n; ObjectId::LEN])
}

pub(crate) const NAME: ContainerName =
    ContainerName { shard: ObjectId::from_bytes([1; ObjectId::LEN]), writer: 1, number: 1 };

/// The value by which the creator is registered.
const FIRST: Value = Value { writer: 1, number: 1 };

impl Scene {
    pub(crate) fn new() -> Self {
        Self::over(MemoryRados::replicated())
    }

    fn over(memory: MemoryRados) -> Self {
        let memory = Arc::new(memory);
        let fates: Arc<Mutex<Vec<Fate>>> = Arc::default();
        let next = Arc::clone(&fates);
        let fated = FatedRados::new(Arc::clone(&memory) as _, move |_, update| {
            let mut fates = next.lock().unwrap();
            if update.is_none() || fates.is_empty() { Fate::Answered } else { fates.remove(0) }
        });
        Self { memory, fated: Arc::new(fated), fates }
    }

    /// What becomes of the next updates of clients with fates.
    fn fate(&self, fates: &[Fate]) {
        *self.fates.lock().unwrap() = fates.to_vec();
    }

    fn deliver_all(&self) {
        while self.fated.undelivered() > 0 {
            let _ = self.fated.deliver(0);
        }
    }

    /// The guards as shard `n` sees them, each update answered.
    fn guards(&self, n: u8) -> Guards {
        Guards::new(Arc::clone(&self.memory) as _, shard(n))
    }

    /// The same where updates meet fates.
    fn fated(&self, n: u8) -> Guards {
        Guards::new(Arc::clone(&self.fated) as _, shard(n))
    }

    fn containers(&self) -> Containers {
        Containers::new(Arc::clone(&self.memory) as _)
    }

    /// Makes the container, of which its creator is registered.
    fn made(&self) -> Guards {
        let guards = self.guards(1);
        let version = guards.create(&NAME, FIRST).unwrap();
        assert!(guards.open(&NAME, version).unwrap());
        self.containers().create(&NAME).unwrap();
        guards
    }

    fn value(&self, n: u8) -> Option<Value> {
        self.guards(n).read(&NAME).unwrap()?.users.get(&shard(n)).copied()
    }

    fn access(&self) -> Option<Access> {
        self.guards(1).read(&NAME).unwrap().map(|guard| guard.access)
    }
}

fn value(writer: u64, number: u64) -> Value {
    Value { writer, number }
}

const UNANSWERED: [Fate; 3] = [Fate::Lost, Fate::AnswerLost, Fate::Late];

/// A registration is there once it is answered, also if the answer to the first sending was lost.
pub(crate) fn a_registration_without_an_answer_is_sent_again() {
    for fate in UNANSWERED {
        let scene = Scene::new();
        scene.made();
        scene.fate(&[fate, Fate::Answered]);
        assert_eq!(scene.fated(2).register(&NAME, value(5, 9)).unwrap(), Registered::Done);
        assert_eq!(scene.value(2), Some(value(5, 9)), "{fate:?}");
        scene.deliver_all();
        assert_eq!(scene.value(2), Some(value(5, 9)), "{fate:?}");
    }
}

/// A late drop removes no registration but its own, neither a successor's nor the next of the same writer.
pub(crate) fn a_late_drop_leaves_other_values() {
    for next in [value(5, 10), value(6, 1)] {
        let scene = Scene::new();
        scene.made();
        let guards = scene.guards(2);
        guards.register(&NAME, value(5, 9)).unwrap();
        scene.fate(&[Fate::Late, Fate::Answered]);
        scene.fated(2).drop(&NAME, value(5, 9)).unwrap();
        assert_eq!(scene.value(2), None);
        assert_eq!(guards.register(&NAME, next).unwrap(), Registered::Done);
        scene.deliver_all();
        assert_eq!(scene.value(2), Some(next));
    }
}

/// A late registration does not replace the current one.
pub(crate) fn a_late_registration_replaces_none() {
    let scene = Scene::new();
    scene.made();
    scene.fate(&[Fate::Late, Fate::Answered]);
    let guards = scene.fated(2);
    guards.register(&NAME, value(5, 9)).unwrap();
    guards.drop(&NAME, value(5, 9)).unwrap();
    assert_eq!(guards.register(&NAME, value(6, 1)).unwrap(), Registered::Done);
    scene.deliver_all();
    assert_eq!(scene.value(2), Some(value(6, 1)));
}

/// One that came before gives way to the next, and one of a later writer supersedes it.
pub(crate) fn a_late_registration_in_the_way_is_dropped() {
    let scene = Scene::new();
    scene.made();
    let guards = scene.guards(2);
    guards.register(&NAME, value(5, 9)).unwrap();
    assert_eq!(guards.register(&NAME, value(6, 1)).unwrap(), Registered::Done);
    assert_eq!(scene.value(2), Some(value(6, 1)));
    let late = guards.register(&NAME, value(5, 11)).unwrap();
    assert_eq!(late, Registered::Superseded { by: 6 });
    assert_eq!(scene.value(2), Some(value(6, 1)));
}

/// A closing, a new and an absent container take no registrations.
pub(crate) fn only_an_open_guard_takes_registrations() {
    let scene = Scene::new();
    let other = scene.guards(2);
    assert_eq!(other.register(&NAME, value(5, 9)).unwrap(), Registered::Refused);
    let version = scene.guards(1).create(&NAME, FIRST).unwrap();
    assert_eq!(scene.access(), Some(Access::New));
    assert_eq!(other.register(&NAME, value(5, 9)).unwrap(), Registered::Refused);
    assert!(scene.guards(1).open(&NAME, version).unwrap());
    for fate in UNANSWERED {
        scene.fate(&[fate, Fate::Answered]);
        scene.fated(1).close(&NAME).unwrap();
        assert_eq!(scene.access(), Some(Access::Closing));
        assert_eq!(other.register(&NAME, value(5, 9)).unwrap(), Registered::Refused);
        scene.deliver_all();
    }
}

/// A guard whose set was read as empty stays if a registration came in between.
pub(crate) fn a_registration_in_between_keeps_the_guard() {
    let scene = Scene::new();
    let guards = scene.made();
    guards.drop(&NAME, FIRST).unwrap();
    let seen = guards.read(&NAME).unwrap().unwrap();
    assert!(seen.users.is_empty());
    scene.guards(2).register(&NAME, value(5, 9)).unwrap();
    assert!(!guards.remove(&NAME, seen.version).unwrap());
    assert_eq!(scene.value(2), Some(value(5, 9)));
}

/// A creation is sent once, and its container is given up without an answer.
pub(crate) fn a_creation_is_sent_once() {
    for fate in UNANSWERED {
        let scene = Scene::new();
        scene.fate(&[fate, Fate::Answered]);
        assert!(scene.fated(1).create(&NAME, FIRST).unwrap_err().refusal().is_none());
        let is_made = fate == Fate::AnswerLost;
        assert_eq!(scene.access().is_some(), is_made, "{fate:?}");
        scene.fate(&[fate, Fate::Answered]);
        let containers = Containers::new(Arc::clone(&scene.fated) as _);
        assert!(containers.create(&NAME).unwrap_err().refusal().is_none());
        assert_eq!(scene.containers().look(&NAME).unwrap().is_some(), is_made, "{fate:?}");
    }
}

/// A guard that comes back by a creation that arrives again is new, and no opening opens it.
pub(crate) fn a_guard_that_comes_back_takes_nothing() {
    let scene = Scene::new();
    scene.fate(&[Fate::Twice, Fate::Late, Fate::Answered]);
    let guards = scene.fated(1);
    let version = guards.create(&NAME, FIRST).unwrap();
    assert!(guards.open(&NAME, version).unwrap());
    scene.containers().create(&NAME).unwrap();
    release(&guards, &scene.containers(), &NAME, FIRST).unwrap();
    assert_eq!((scene.access(), scene.containers().look(&NAME).unwrap()), (None, None));
    // the creation, and then the opening
    scene.fated.deliver(0).unwrap();
    assert_eq!(scene.access(), Some(Access::New));
    scene.deliver_all();
    assert_eq!(scene.access(), Some(Access::New));
    assert!(!guards.open(&NAME, version).unwrap());
    assert_eq!(scene.guards(2).register(&NAME, value(5, 9)).unwrap(), Registered::Refused);
}

/// The opening is sent again while the guard is as it was made.
pub(crate) fn an_opening_without_an_answer_is_sent_again() {
    for fate in UNANSWERED {
        let scene = Scene::new();
        let version = scene.guards(1).create(&NAME, FIRST).unwrap();
        scene.fate(&[fate, Fate::Answered]);
        assert!(scene.fated(1).open(&NAME, version).unwrap());
        assert_eq!(scene.access(), Some(Access::Open), "{fate:?}");
        scene.guards(1).close(&NAME).unwrap();
        scene.deliver_all();
        assert_eq!(scene.access(), Some(Access::Closing), "{fate:?}");
    }
}

/// The last of several users removes guard and container, and those before do not.
pub(crate) fn the_last_user_removes_the_container() {
    for fate in UNANSWERED {
        let scene = Scene::new();
        let guards = scene.made();
        scene.guards(2).register(&NAME, value(5, 9)).unwrap();
        release(&guards, &scene.containers(), &NAME, FIRST).unwrap();
        assert!(scene.containers().look(&NAME).unwrap().is_some());
        let fated = Containers::new(Arc::clone(&scene.fated) as _);
        // of the drop, the removal of the guard, and that of the container
        scene.fate(&[fate, Fate::Answered, fate, Fate::Answered, fate]);
        release(&scene.fated(2), &fated, &NAME, value(5, 9)).unwrap();
        assert_eq!((scene.access(), scene.containers().look(&NAME).unwrap()), (None, None));
        scene.deliver_all();
        let found = sweep_names(&*scene.memory, &*scene.memory).unwrap();
        assert!(found.guards.is_empty() && found.containers.is_empty());
    }
}

/// A removal that was cut off is found again by whoever repeats the drop.
pub(crate) fn a_removal_that_was_cut_off_is_finished() {
    let scene = Scene::new();
    let guards = scene.made();
    guards.drop(&NAME, FIRST).unwrap();
    let seen = guards.read(&NAME).unwrap().unwrap();
    assert!(guards.remove(&NAME, seen.version).unwrap());
    release(&guards, &scene.containers(), &NAME, FIRST).unwrap();
    assert_eq!(scene.containers().look(&NAME).unwrap(), None);
}

/// A write lands once at its offset, and none after the directory.
pub(crate) fn a_write_lands_once_and_never_after_sealing() {
    for fate in UNANSWERED {
        let scene = Scene::new();
        scene.made();
        let fated = Containers::new(Arc::clone(&scene.fated) as _);
        scene.fate(&[fate, Fate::Answered]);
        assert_eq!(fated.write(&NAME, 0, Bytes::from_static(b"one")).unwrap(), 3);
        scene.deliver_all();
        assert_eq!(fated.write(&NAME, 3, Bytes::from_static(b"two")).unwrap(), 6);
        // again with the same pages
        assert_eq!(fated.write(&NAME, 3, Bytes::from_static(b"two")).unwrap(), 6);
        scene.fate(&[fate, Fate::Answered]);
        let sealed = fated.seal(&NAME, &|_| b"directory".to_vec()).unwrap();
        assert_eq!((sealed.length, sealed.sealed), (15, Some(6)));
        assert_eq!(fated.seal(&NAME, &|_| b"another".to_vec()).unwrap(), sealed);
        scene.deliver_all();
        // what came before the directory is there, what comes after is refused
        assert_eq!(fated.write(&NAME, 3, Bytes::from_static(b"two")).unwrap(), 6);
        for (at, bytes) in [(6, &b"late"[..]), (15, b"late"), (3, b"longer")] {
            let refused = fated.write(&NAME, at, Bytes::copy_from_slice(bytes)).unwrap_err();
            assert_eq!(refused.refusal(), Some(Refusal::Guard));
        }
        let bytes = fated.read(&NAME, 0..100).unwrap().unwrap();
        assert_eq!(bytes, &b"onetwodirectory"[..]);
    }
}

/// In a pool with an alignment pages are padded to it, and the directory begins aligned.
pub(crate) fn pages_are_padded_to_the_alignment() {
    let scene = Scene::over(MemoryRados::erasure_coded());
    let containers = scene.containers();
    containers.create(&NAME).unwrap();
    assert_eq!(containers.write(&NAME, 0, Bytes::from_static(b"one")).unwrap(), 8192);
    assert_eq!(containers.write(&NAME, 8192, Bytes::from(vec![7; 8193])).unwrap(), 3 * 8192);
    let sealed = containers.seal(&NAME, &|_| b"directory".to_vec()).unwrap();
    assert_eq!((sealed.length, sealed.sealed), (3 * 8192 + 9, Some(3 * 8192)));
    let bytes = containers.read(&NAME, 0..u64::MAX).unwrap().unwrap();
    assert!(&bytes[..4] == b"one\0" && bytes.ends_with(b"\0directory"));
}

/// A container with as many users as it may have is refused to others.
pub(crate) fn no_more_users_register_than_the_bound_allows() {
    let scene = Scene::new();
    scene.made();
    for n in 0..1030_u64 {
        let mut id = [9; ObjectId::LEN];
        id[..8].copy_from_slice(&n.to_be_bytes());
        let guards = Guards::new(Arc::clone(&scene.memory) as _, ObjectId::from_bytes(id));
        let registered = guards.register(&NAME, value(1, n + 1)).unwrap();
        let expected = if n < 511 { Registered::Done } else { Registered::Refused };
        assert_eq!(registered, expected, "{n}");
    }
    let guard = scene.guards(1).read(&NAME).unwrap().unwrap();
    assert_eq!(guard.users.len(), 512);
}

/// All of them.
pub(crate) fn all() {
    a_registration_without_an_answer_is_sent_again();
    a_late_drop_leaves_other_values();
    a_late_registration_replaces_none();
    a_late_registration_in_the_way_is_dropped();
    only_an_open_guard_takes_registrations();
    a_registration_in_between_keeps_the_guard();
    a_creation_is_sent_once();
    a_guard_that_comes_back_takes_nothing();
    an_opening_without_an_answer_is_sent_again();
    the_last_user_removes_the_container();
    a_removal_that_was_cut_off_is_finished();
    a_write_lands_once_and_never_after_sealing();
    pages_are_padded_to_the_alignment();
    no_more_users_register_than_the_bound_allows();
}

/// Whether no guard and no container is left.
#[allow(dead_code, reason = "not in every test")]
pub(crate) fn is_empty(pool: &dyn RadosPool) -> bool {
    let found = sweep_names(pool, pool).unwrap();
    found.guards.is_empty() && found.containers.is_empty()
}
