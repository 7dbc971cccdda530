//! The key of a write-only client that is taken back, while the client backs up or the power goes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use onefold_backend::{MemoryObjects, Objects};
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::{
    KeyRemark, Located, Progress, Recipe, Repository, Snapshot, StoreError, WriteOnlyKey,
};
use onefold_testkit::random;
use tempfile::TempDir;

use super::hooked::Hooked;
use super::picture::Picture;
use super::sealed::snapshot_body;
use super::trials::Trial;
use super::{
    Protection, chain, copy, envelope, expect_clean, init, open, options, restored, small_chunks,
    try_back_up, try_open, write,
};

/// A repository to which a client has backed up.
pub struct TakenBack {
    pub source: TempDir,
    pub objects: Arc<dyn Objects>,
    pub key: WriteOnlyKey,
    /// What the client has made.
    pub made: (ObjectId, Snapshot),
    /// The ids of all that it has made, in ascending order.
    pub all: Vec<ObjectId>,
    pub picture: Picture,
}

impl TakenBack {
    pub fn new() -> Self {
        let source = super::fast_folder();
        write(source.path().join("file"), random(1, 20_000));
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
        let key = open(&objects).add_client(&KeyRemark::default()).unwrap();
        let picture = Picture::of(source.path());
        let made = back_up_as(&objects, &key, source.path()).unwrap();
        let all = vec![made.0];
        Self { source, objects, key, made, all, picture }
    }

    /// The same, with another snapshot.
    pub fn twice() -> Self {
        let mut scene = Self::new();
        let (id, _) = scene.back_up(&scene.objects).unwrap();
        scene.all.push(id);
        scene.all.sort_unstable();
        scene
    }

    /// Backs up as the client.
    pub fn back_up(&self, objects: &Arc<dyn Objects>) -> Result<(ObjectId, Snapshot), StoreError> {
        back_up_as(objects, &self.key, self.source.path())
    }

    /// Takes the key back.
    pub fn take_back(&self, objects: &Arc<dyn Objects>) -> Result<Vec<ObjectId>, StoreError> {
        try_open(Arc::clone(objects))?.remove_client(self.key.client(), false)
    }

    /// What whoever stole the key seals.
    pub fn thief(&self) -> Envelope {
        let owner = envelope(&*self.objects, open(&self.objects).id());
        let keys = owner.keys().unwrap().of_client(self.key.client()).unwrap();
        Envelope::encrypted(owner.repository(), keys)
    }

    /// Puts a snapshot as whoever stole the key.
    pub fn forge(&self, objects: &Arc<dyn Objects>, id: ObjectId) {
        let path = self.made.1.paths[0].clone();
        let body = snapshot_body(2_000_000_000, &path, &[], None, Recipe::EMPTY);
        let object = self.thief().seal(Kind::Snapshot, id, &body);
        objects.put(&format!("snapshots/{id}"), object.into()).unwrap();
    }

    /// Lets the client back up before each put of taking its key back, and its key be taken back before
    /// each put of its backup. What was acknowledged counts, and nothing that comes afterwards. Gives
    /// how many such backups were acknowledged.
    pub fn try_every_order(&self) -> Result<usize, String> {
        let mut acknowledged = 0;
        for backs_up in [true, false] {
            for step in 0.. {
                let objects = copy(&*self.objects);
                let told = Arc::default();
                let is_reached = self.run_beside(&objects, backs_up, step, &told)?;
                let told = told.lock().unwrap().clone();
                self.expect_counted(&objects, &told).map_err(|broken| match backs_up {
                    true => format!("a backup before put {step} of a removal: {broken}"),
                    false => format!("a removal before put {step} of a backup: {broken}"),
                })?;
                acknowledged += told.len();
                if !is_reached {
                    break;
                }
            }
        }
        Ok(acknowledged)
    }

    fn expect_counted(&self, objects: &Arc<dyn Objects>, told: &[ObjectId]) -> Result<(), String> {
        let owner = open(objects);
        for id in told.iter().chain([&self.made.0]) {
            let found = owner.find(&id.to_string().parse().unwrap());
            let (_, snapshot) = found.map_err(|error| chain(&error))?;
            restored(&owner, &snapshot)?.expect(&self.picture)?;
        }
        expect_clean(&owner)?;
        let before = owner.snapshots().unwrap().0.len();
        if self.back_up(objects).is_ok() {
            return Err("a key that was taken back opens".into());
        }
        self.forge(objects, ObjectId::random());
        match open(objects).snapshots().unwrap().0.len() == before {
            true => Ok(()),
            false => Err("what comes afterwards counts".into()),
        }
    }

    /// Does the one, and the other before its put number `step`, or else afterwards; whether it has so
    /// many. Backups that were acknowledged go to `told`.
    fn run_beside(
        &self,
        objects: &Arc<dyn Objects>,
        backs_up: bool,
        step: usize,
        told: &Arc<Mutex<Vec<ObjectId>>>,
    ) -> Result<bool, String> {
        let tell = |told: &Mutex<Vec<ObjectId>>, made: Result<(ObjectId, Snapshot), StoreError>| {
            told.lock().unwrap().extend(made.ok().map(|(id, _)| id));
        };
        let (there, key, source) =
            (Arc::clone(objects), self.key.clone(), self.source.path().to_owned());
        let told_there = Arc::clone(told);
        let other = move || match backs_up {
            true => tell(&told_there, back_up_as(&there, &key, &source)),
            false => drop(open(&there).remove_client(key.client(), false).unwrap()),
        };
        let waiting = Arc::new(Mutex::new((step, Some(other))));
        let waiting_there = Arc::clone(&waiting);
        let hook = move |_: &str| {
            let mut waiting = waiting_there.lock().unwrap();
            match waiting.0.checked_sub(1) {
                Some(left) => waiting.0 = left,
                None => {
                    let other = waiting.1.take();
                    drop(waiting);
                    other.into_iter().for_each(|other| other());
                }
            }
        };
        let hooked: Arc<dyn Objects> = Arc::new(Hooked::new(objects, hook));
        match backs_up {
            true => drop(self.take_back(&hooked).map_err(|error| chain(&error))?),
            false => tell(told, self.back_up(&hooked)),
        }
        let other = waiting.lock().unwrap().1.take();
        let is_reached = other.is_none();
        other.into_iter().for_each(|other| other());
        Ok(is_reached)
    }
}

impl Trial for TakenBack {
    type Acknowledged = bool;

    fn before(&self) -> &dyn Objects {
        &*self.objects
    }

    fn run(&self, objects: Arc<dyn Objects>, acknowledged: &mut bool) -> Result<(), StoreError> {
        self.take_back(&objects)?;
        *acknowledged = true;
        Ok(())
    }

    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &bool,
    ) -> Result<(), String> {
        // As a trial of it leaves the storage, in which the next one must not be seen.
        let objects = copy(&*objects);
        let owner = try_open(Arc::clone(&objects)).map_err(|error| chain(&error))?;
        let is_removed = owner.clients().unwrap().0.iter().any(|client| client.is_removed);
        if *acknowledged && !is_removed {
            return Err("a removal was acknowledged and is lost".into());
        }
        // What was there stays, however often it is done.
        for _ in 0..2 {
            let kept = self.take_back(&objects).map_err(|error| chain(&error))?;
            if kept != self.all {
                return Err(format!("{kept:?} stay"));
            }
        }
        expect_clean(&open(&objects))?;
        restored(&open(&objects), &self.made.1)?.expect(&self.picture)
    }
}

pub fn as_client(objects: &Arc<dyn Objects>, key: &WriteOnlyKey) -> Result<Repository, StoreError> {
    match Repository::locate(Arc::clone(objects))? {
        Located::Locked(locked) => locked.open_write_only(key),
        Located::Open(_) => panic!("it is encrypted"),
    }
}

fn back_up_as(
    objects: &Arc<dyn Objects>,
    key: &WriteOnlyKey,
    source: &Path,
) -> Result<(ObjectId, Snapshot), StoreError> {
    let client = as_client(objects, key)?;
    try_back_up(&client, &[source], &options(), &Progress::default())
}
