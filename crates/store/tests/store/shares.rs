//! Which hosts and tags need how much.

use onefold_store::stats::{Share, Sharing, shares, stats};
use onefold_store::{Cancel, Progress, backup};
use onefold_testkit::random;
use tempfile::tempdir;

use crate::common::{in_memory, open, options, small_chunks, try_back_up, write};

#[test]
fn own_bytes_are_those_that_nobody_else_reaches() {
    let source = tempdir().unwrap();
    let (shared, atlas, zeus) = (random(1, 100_000), random(2, 50_000), random(3, 30_000));
    let (objects, repository) = in_memory(small_chunks());
    let back_up = |host: &str, tags: &[&str], own: &[u8]| {
        let tree = source.path().join(host);
        write(tree.join("shared"), &shared);
        write(tree.join("own"), own);
        let tags = tags.iter().map(|tag| tag.to_string()).collect();
        let options = backup::Options { host: host.into(), tags, ..options() };
        try_back_up(&repository, &[&tree], &options, &Progress::default()).unwrap();
    };
    back_up("atlas", &["daily", "daily", "web"], &atlas);
    back_up("zeus", &[], &zeus);
    back_up("zeus", &["web"], &zeus);
    let repository = open(&objects);
    let shares = |by| shares(&repository, by, &Progress::default(), &Cancel::default()).unwrap();
    let hosts = shares(Sharing::Host);
    let [a, z] = &hosts[..] else { panic!("{hosts:?}") };
    // Metadata are a few thousand bytes.
    let is_about = |found: u64, expected: u64| (expected..expected + 6000).contains(&found);
    assert_eq!((a.name.as_deref(), a.snapshots, a.logical_bytes), (Some("atlas"), 1, 150_000));
    assert_eq!((z.name.as_deref(), z.snapshots, z.logical_bytes), (Some("zeus"), 2, 260_000));
    assert!(is_about(a.unique_bytes, 150_000) && is_about(a.own_bytes, 50_000), "{a:?}");
    assert!(is_about(z.unique_bytes, 130_000) && is_about(z.own_bytes, 30_000), "{z:?}");
    let all = stats(&repository).unwrap().unique_bytes;
    let common = a.unique_bytes - a.own_bytes;
    assert_eq!(a.own_bytes + z.own_bytes + common, all);
    assert_eq!(common, z.unique_bytes - z.own_bytes);
    let tags = shares(Sharing::Tag);
    let names: Vec<_> = tags.iter().map(|share: &Share| share.name.as_deref()).collect();
    assert_eq!(names, [None, Some("daily"), Some("web")]);
    let [none, daily, web] = &tags[..] else { panic!("{tags:?}") };
    assert_eq!((daily.snapshots, web.snapshots), (1, 2));
    assert_eq!(daily.own_bytes, 0, "the same snapshot is in 'web'");
    // The snapshot without a tag has a root of its own, and files that are in the others as well.
    assert!(none.own_bytes > 0 && none.own_bytes < 500, "{none:?}");
    assert_eq!(web.unique_bytes + none.own_bytes, all);
}
