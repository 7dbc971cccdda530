//! Journals of shards in Ceph itself: they keep the contract, and nothing that was acknowledged is lost,
//! whoever takes a shard over and whatever becomes of Ceph's servers.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use common::shards::{self, Space, expect_sound, image, put};
use onefold_backend::rados::{CephOptions, Query, RadosCluster, RadosPool, Update};
use onefold_cluster::containers::fsck;
use onefold_cluster::{Domain, JournalSizes, RadosJournals, detach};
use onefold_seal::ObjectId;
use onefold_testkit::ceph::{Ceph, ERASURE_CODED, REPLICATED};
use onefold_testkit::skip;
use onefold_volume::conformance::{self, take};
use onefold_volume::{Hash, Metadata, Shard, VolumeError, Writer};

const SHARD: Shard = Shard::of(ObjectId::from_bytes([7; 16]));
const OTHER: Shard = Shard::of(ObjectId::from_bytes([8; 16]));

/// Segments that few batches fill.
const SMALL: JournalSizes = JournalSizes { segment: 90, part: 80 };

/// Longer than any answer takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(300);

/// The cluster, for one test at a time, or `None` and a skip.
fn with_ceph(test: impl FnOnce(&mut Ceph)) {
    static CEPH: LazyLock<Mutex<Result<Ceph, String>>> =
        LazyLock::new(|| Mutex::new(Ceph::start()));
    match &mut *CEPH.lock().unwrap() {
        Ok(ceph) => test(ceph),
        Err(reason) => skip(reason),
    }
}

/// A connection of its own to a namespace.
fn open(conf: &Path, namespace: &str, limit: Duration) -> Arc<dyn RadosPool> {
    open_in(conf, REPLICATED, namespace, limit)
}

/// The same of a namespace of another pool.
fn open_in(conf: &Path, pool: &str, namespace: &str, limit: Duration) -> Arc<dyn RadosPool> {
    let options = CephOptions {
        conf: Some(conf.to_owned()),
        connect_limit: LONG,
        operation_limit: limit,
        ..CephOptions::default()
    };
    let cluster = RadosCluster::connect(&options).unwrap();
    // A busy server may take longer than a short limit.
    let mut tries = (0..1000).map(|_| cluster.pool(pool, namespace));
    Arc::new(tries.find_map(Result::ok).expect("a server answers now and then"))
}

#[test]
fn journals_in_ceph_keep_what_the_contract_says() {
    with_ceph(|ceph| {
        let count = AtomicU32::new(0);
        for sizes in [JournalSizes { segment: 1, part: 1 }, SMALL, JournalSizes::default()] {
            let journals = || {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let pool = open(&ceph.conf(), &format!("contract-{number}"), LONG);
                for shard in [SHARD, OTHER] {
                    RadosJournals::new(pool.clone(), sizes).unwrap().create(shard).unwrap();
                }
                move || Arc::new(RadosJournals::new(pool.clone(), sizes).unwrap())
            };
            let first = journals();
            conformance::metadata(&|| first(), SHARD);
            conformance::many_shards(&*journals()(), SHARD, OTHER);
        }
    });
}

/// A pool that was copied has the same names and another number; the fsid is the cluster's own.
#[test]
fn a_copied_domain_is_refused_until_it_is_adopted() {
    with_ceph(|ceph| {
        let (meta, conf) = (open(&ceph.conf(), "place", LONG), ceph.conf());
        let made = Domain::create(&meta, Hash::Blake3, onefold_volume::Codec::Zstd).unwrap();
        assert_eq!(Domain::find(&*meta).unwrap(), Some(made));
        ceph.command(&["osd", "pool", "create", "copied", "8", "8", "replicated"]);
        let copy = open_in(&conf, "copied", "place", LONG);
        let query = Query { xattrs: true, ..Query::default() };
        let root = meta.query("onefold", &query).unwrap();
        let update = |attributes: BTreeMap<String, _>| {
            attributes.into_iter().fold(Update::creating(), |update, (name, value): (_, Bytes)| {
                update.set(&name, value)
            })
        };
        copy.update("onefold", update(root.xattrs)).unwrap();
        let error = Domain::find(&*copy).unwrap_err();
        let causes =
            std::iter::successors(Some(&error as &(dyn Error + 'static)), |&error| error.source());
        let told = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let fsid = ceph.command(&["fsid"]);
        let number = |pool: &Arc<dyn RadosPool>| {
            format!("cluster {}, pool number {}", fsid.trim(), pool.kind().identity.number)
        };
        for part in [&format!("expected {}", number(&meta)), &format!("found {}", number(&copy))] {
            assert!(told.contains(part), "'{part}' is not in: {told}");
        }
        let found = Domain::find_anywhere(&*copy).unwrap().unwrap();
        assert!(found.adopt(&*copy, None).unwrap().is_some());
        assert!(Domain::find(&*copy).unwrap().is_some());
        // also by another name
        ceph.command(&["osd", "pool", "rename", "copied", "renamed"]);
        assert!(Domain::find(&*open_in(&conf, "renamed", "place", LONG)).unwrap().is_some());
    });
}

/// Shards share containers in an erasure-coded pool: equal images are stored once, a clone in another shard
/// stores nothing, and all space comes back.
#[test]
fn shards_in_ceph_share_containers() {
    with_ceph(|ceph| {
        let meta = open(&ceph.conf(), "sharing", LONG);
        let data = open_in(&ceph.conf(), ERASURE_CODED, "sharing", LONG);
        let space = Space::over(meta, data);
        let (first, second) = (space.add(1), space.add(2));
        let bytes = image(1, 300);
        put(&first, "a", &bytes);
        let alone = space.stored();
        put(&second, "b", &bytes);
        let both = space.stored();
        assert!(both as f64 <= 1.02 * alone as f64, "{both} bytes, {alone} in one shard");
        second.pool().clone_volume("b", "s", true).unwrap();
        detach(&second, "s", &first, "c").unwrap();
        assert_eq!(space.stored(), both);
        for (shard, name) in [(&first, "a"), (&second, "b"), (&first, "c")] {
            shards::expect(shard, name, &bytes);
        }
        // as a successor finds it
        drop(second);
        let second = space.open(2);
        shards::expect(&second, "b", &bytes);
        for shard in [&first, &second] {
            expect_sound(shard);
        }
        assert_eq!(fsck(&[&first, &second], true).unwrap().problems, []);
        for (shard, name) in [(&first, "a"), (&second, "b"), (&second, "s"), (&first, "c")] {
            shard.pool().delete_volume(name).unwrap();
        }
        for shard in [&first, &second, &first, &second] {
            shard.maintain().unwrap();
        }
        assert_eq!(space.left(), Vec::<String>::new(), "{:#?}", space.guards());
    });
}

/// Each batch has so many bytes, so that a checkpoint can be taken apart.
const BATCH: usize = 16;

/// What gateways did and were told.
#[derive(Default)]
struct World {
    is_over: AtomicBool,
    acknowledged: AtomicU64,
    unanswered: AtomicU64,
    superseded: AtomicU64,
    checkpoints: AtomicU64,
    /// The number and the bytes of each batch that was acknowledged.
    promised: Mutex<Vec<(u64, Vec<u8>)>>,
    /// What each writer got when it took the shard over.
    histories: Mutex<Vec<(Writer, Vec<Vec<u8>>)>>,
}

impl World {
    /// Takes the shard over and submits batches, until another gateway takes it over or a few are done.
    fn live(&self, journals: &RadosJournals, name: &str) -> Result<(), VolumeError> {
        let (taken, (checkpoint, batches)) = self.answered(|| take(journals, SHARD))?;
        let mut history: Vec<Vec<u8>> = checkpoint.chunks(BATCH).map(<[u8]>::to_vec).collect();
        history.extend(batches);
        assert_eq!(history.len() as u64, taken.sequence);
        self.histories.lock().unwrap().push((taken.writer, history.clone()));
        for number in 0..20 {
            let batch = format!("{name:<12}{number:04}").into_bytes();
            let sequence = history.len() as u64;
            self.answered(|| journals.apply_batch(SHARD, taken.writer, sequence, &batch))?;
            self.promised.lock().unwrap().push((sequence, batch.clone()));
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
            history.push(batch);
        }
        let sequence = history.len() as u64;
        let Some(mut checkpoint) = journals.checkpoint(SHARD, taken.writer, sequence)? else {
            return Ok(());
        };
        history.iter().try_for_each(|batch| checkpoint.put(batch))?;
        checkpoint.finish()?;
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Does `call` again until there is an answer.
    fn answered<T>(&self, call: impl Fn() -> Result<T, VolumeError>) -> Result<T, VolumeError> {
        loop {
            match call() {
                Err(error @ (VolumeError::Superseded { .. } | VolumeError::Stopped { .. })) => {
                    self.superseded.fetch_add(1, Ordering::Relaxed);
                    return Err(error);
                }
                Err(_) => self.unanswered.fetch_add(1, Ordering::Relaxed),
                Ok(answer) => return Ok(answer),
            };
        }
    }

    /// Fails unless `history`, what the last writer got, has all that was promised, and all that those
    /// before got.
    fn judge(&self, history: &[Vec<u8>]) {
        let distinct: BTreeSet<&Vec<u8>> = history.iter().collect();
        assert_eq!(distinct.len(), history.len(), "a batch is there twice");
        for (sequence, batch) in &*self.promised.lock().unwrap() {
            let found = history.get(*sequence as usize);
            assert_eq!(found, Some(batch), "batch {sequence} was acknowledged");
        }
        let mut histories = self.histories.lock().unwrap();
        histories.sort();
        for (writer, earlier) in &*histories {
            assert!(history.starts_with(earlier), "writer {writer} got what is not there any more");
        }
        assert!(
            histories.windows(2).all(|two| two[0].0 < two[1].0 && two[1].1.starts_with(&two[0].1))
        );
    }
}

#[test]
fn gateways_that_race_lose_nothing_while_servers_pause_and_die() {
    with_ceph(|ceph| {
        let (conf, world) = (ceph.conf(), World::default());
        let patient = RadosJournals::new(open(&conf, "race", LONG), SMALL).unwrap();
        patient.create(SHARD).unwrap();
        thread::scope(|scope| {
            for gateway in 0..3 {
                let (world, conf) = (&world, &conf);
                scope.spawn(move || {
                    for life in 0.. {
                        if world.is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        // So short that a paused server is noticed soon.
                        let pool = open(conf, "race", Duration::from_secs(1));
                        let journals = RadosJournals::new(pool, SMALL).unwrap();
                        // The end of a life, whatever ends it.
                        let _ = world.live(&journals, &format!("{gateway}.{life}."));
                    }
                });
            }
            // Whatever happens here, the gateways come to their end.
            let _end = OnDrop(&world.is_over);
            let grows = |ceph: &Ceph, count: &AtomicU64| {
                let before = count.load(Ordering::Relaxed);
                ceph.wait_until("gateways go on", |_| count.load(Ordering::Relaxed) > before + 20);
            };
            let meets = |ceph: &Ceph| {
                let before = world.unanswered.load(Ordering::Relaxed);
                ceph.wait_until("gateways get no answer", |_| {
                    world.unanswered.load(Ordering::Relaxed) > before
                });
            };
            for round in 0..4 {
                grows(ceph, &world.acknowledged);
                let server = format!("osd.{}", round % 3);
                ceph.pause(&server);
                meets(ceph);
                ceph.resume(&server);
                grows(ceph, &world.acknowledged);
                ceph.kill_and_start("osd.");
            }
            grows(ceph, &world.acknowledged);
        });
        let (_, (checkpoint, batches)) = take(&patient, SHARD).unwrap();
        let mut history: Vec<Vec<u8>> = checkpoint.chunks(BATCH).map(<[u8]>::to_vec).collect();
        history.extend(batches);
        world.judge(&history);
        for (what, count) in
            [("superseded", &world.superseded), ("checkpoints", &world.checkpoints)]
        {
            assert!(count.load(Ordering::Relaxed) > 0, "nothing was {what}");
        }
    });
}

/// Raises a flag in the end.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
