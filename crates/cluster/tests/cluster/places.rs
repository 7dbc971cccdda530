//! A domain is served only where it was made: not in another cluster of Ceph behind the same name, and not in a
//! copy of its pools, unless the copy is accepted.

use std::sync::Arc;

use onefold_backend::rados::{MemoryRados, PoolIdentity, Query, RadosPool, Step, Update};
use onefold_block::BlockSize;
use onefold_cluster::Domain;
use onefold_volume::{Codec, Hash, VolumeError};

use crate::common::domain::{begin, read, told, write};

const ROOT: &str = "onefold";

fn identity(cluster: &str, number: i64) -> PoolIdentity {
    PoolIdentity { cluster: cluster.into(), number }
}

fn dynamic(pool: MemoryRados) -> Arc<dyn RadosPool> {
    Arc::new(pool)
}

#[track_caller]
fn expect_refused<T>(result: Result<T, VolumeError>, parts: &[&str]) {
    let text = told(result);
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

/// The place that a root object names; "" for none.
fn place(pool: &dyn RadosPool) -> String {
    let answer = pool.query(ROOT, &Query { xattrs: true, ..Query::default() }).unwrap();
    answer
        .xattrs
        .get("place")
        .map_or_else(String::new, |place| String::from_utf8(place.to_vec()).unwrap())
}

/// Makes the root object one of a version that noted no place.
fn forget_place(pool: &dyn RadosPool) {
    pool.update(ROOT, Update::existing().set("place", "")).unwrap();
}

#[test]
fn a_domain_in_another_cluster_or_pool_is_refused_until_it_is_adopted() {
    let model = Arc::new(MemoryRados::replicated());
    let pool: Arc<dyn RadosPool> = Arc::<MemoryRados>::clone(&model);
    Domain::create(&pool, Hash::Blake3, Codec::Zstd).unwrap();
    assert_eq!(place(&*pool), "model 1");
    let gateway = begin(&pool, None).unwrap();
    gateway.create("disk", |pool| pool.create_volume("disk", 1 << 20, BlockSize::B4096)).unwrap();
    gateway.end().unwrap();
    for other in [identity("another", 1), identity("model", 7)] {
        let told = format!("found cluster {}, pool number {}", other.cluster, other.number);
        let copy = dynamic(model.copied_to(other.clone()));
        let parts = ["expected cluster model, pool number 1", &told, "cluster adopt"];
        expect_refused(Domain::find(&*copy), &parts);
        expect_refused(begin(&copy, None), &parts);
        expect_refused(Domain::create(&copy, Hash::Blake3, Codec::Zstd), &parts);
        let found = Domain::find_anywhere(&*copy).unwrap().unwrap();
        let before = found.adopt(&*copy, None).unwrap().expect("it was elsewhere");
        assert_eq!(before.to_string(), "cluster model, pool number 1");
        let gateway = begin(&copy, None).unwrap();
        assert!(gateway.names().find("disk").unwrap().is_some());
        assert_eq!(place(&*copy), format!("{} {}", other.cluster, other.number));
        let found = Domain::find(&*copy).unwrap().unwrap();
        assert_eq!(found.adopt(&*copy, None).unwrap(), None, "it is there already");
    }
}

#[test]
fn containers_in_another_pool_are_refused_until_it_is_adopted() {
    let (meta, data) = (dynamic(MemoryRados::replicated()), Arc::new(MemoryRados::erasure_coded()));
    let pages: Arc<dyn RadosPool> = Arc::<MemoryRados>::clone(&data);
    Domain::create_with(&meta, Some(&pages), Hash::Blake3, Codec::Zstd).unwrap();
    assert_eq!((place(&*meta), place(&*pages)), ("model 1 2".into(), "model 1 2".into()));
    drop(begin(&meta, Some(&pages)).unwrap());

    // containers that were restored into another pool, of the same name
    let restored = dynamic(data.copied_to(identity("model", 9)));
    expect_refused(
        begin(&meta, Some(&restored)),
        &["number of the pool is 9", "containers 2", "cluster adopt"],
    );
    let found = Domain::find(&*meta).unwrap().unwrap();
    assert!(found.adopt(&*meta, Some(&*restored)).unwrap().is_some());
    drop(begin(&meta, Some(&restored)).unwrap());
    expect_refused(begin(&meta, Some(&pages)), &["number of the pool is 2", "containers 9"]);
}

/// The name of the pool for metadata comes to mean an empty pool: containers there belong to the volumes of before, and
/// a new domain would take all of them for unused.
#[test]
fn containers_of_volumes_whose_metadata_are_missing_are_claimed_by_no_new_domain() {
    let meta = dynamic(MemoryRados::replicated());
    let pages = dynamic(MemoryRados::erasure_coded());
    let made = Domain::create_with(&meta, Some(&pages), Hash::Blake3, Codec::Zstd).unwrap();
    let empty = |number| dynamic(MemoryRados::replicated().copied_to(identity("model", number)));
    let create = |meta| Domain::create_with(&meta, Some(&pages), Hash::Blake3, Codec::Zstd);
    // the claim says where its metadata are
    let id = made.id.to_string();
    expect_refused(create(empty(7)), &[&id, "pool number 1", "cluster adopt", "nothing uses"]);
    let gateway = begin(&meta, Some(&pages)).unwrap();
    let shard = gateway
        .create("disk", |pool| pool.create_volume("disk", 1 << 20, BlockSize::B4096))
        .unwrap();
    assert!(write(&shard, "disk", 3, 9));
    // an empty pool of the same number, a claim without a place, and none
    for spoil in [
        Update::existing().set("domain", made.id.as_bytes().to_vec()),
        Update::existing().set("place", ""),
        Update::existing().then(Step::Remove),
    ] {
        pages.update(ROOT, spoil).unwrap();
        expect_refused(create(empty(1)), &[".container.", "restore the metadata"]);
    }
    // and nothing was claimed
    assert!(pages.query(ROOT, &Query::default()).is_err());
    assert_eq!(read(&shard, "disk", 3), Some(9));
}

/// The metadata were restored into another pool: from then on it alone may use the containers.
#[test]
fn what_was_adopted_takes_the_containers_from_what_it_was_copied_from() {
    let model = Arc::new(MemoryRados::replicated());
    let meta: Arc<dyn RadosPool> = Arc::<MemoryRados>::clone(&model);
    let pages = dynamic(MemoryRados::erasure_coded());
    Domain::create_with(&meta, Some(&pages), Hash::Blake3, Codec::Zstd).unwrap();
    let copy = dynamic(model.copied_to(identity("model", 5)));
    expect_refused(begin(&copy, Some(&pages)), &["pool number 1", "pool number 5"]);
    let found = Domain::find_anywhere(&*copy).unwrap().unwrap();
    found.adopt(&*copy, Some(&*pages)).unwrap().expect("it was elsewhere");
    drop(begin(&copy, Some(&pages)).unwrap());
    expect_refused(begin(&meta, Some(&pages)), &["they are of volumes in", "pool number 5"]);
}

#[test]
fn a_domain_of_an_earlier_version_is_served_and_its_place_noted() {
    let model = Arc::new(MemoryRados::replicated());
    let meta: Arc<dyn RadosPool> = Arc::<MemoryRados>::clone(&model);
    let pages = dynamic(MemoryRados::erasure_coded());
    Domain::create_with(&meta, Some(&pages), Hash::Blake3, Codec::Zstd).unwrap();
    forget_place(&*meta);
    forget_place(&*pages);
    let copy = dynamic(model.copied_to(identity("model", 5)));
    assert_eq!(Domain::find(&*meta).unwrap().unwrap().place, None);
    drop(begin(&meta, Some(&pages)).unwrap());
    assert_eq!((place(&*meta), place(&*pages)), ("model 1 2".into(), "model 1 2".into()));
    expect_refused(begin(&copy, Some(&pages)), &["they are of volumes in", "pool number 1"]);
}

#[test]
fn a_place_that_is_none_is_damage() {
    let pool = dynamic(MemoryRados::replicated());
    Domain::create(&pool, Hash::Blake3, Codec::Zstd).unwrap();
    pool.update(ROOT, Update::existing().set("place", "somewhere")).unwrap();
    expect_refused(Domain::find(&*pool), &["'place'", "the fsid of a cluster"]);
}
