//! The contract of what keeps pools' knowledge, as tests that panic if an implementation violates it.

use std::sync::Arc;

use crate::error::VolumeError;
use crate::journal::metadata::{Known, Metadata, Shard, Taken};

/// What a shard tells: a checkpoint, and the batches since.
pub type Told = (Vec<u8>, Vec<Vec<u8>>);

/// Takes `shard` over.
pub fn take(metadata: &dyn Metadata, shard: Shard) -> Result<(Taken, Told), VolumeError> {
    let mut told = Told::default();
    let taken = metadata.take_over(shard, &mut |known| {
        match known {
            Known::Writer(_) | Known::Coming(_) => {}
            Known::Anew => told = Told::default(),
            Known::Checkpoint(operations) => told.0.extend_from_slice(operations),
            Known::Batch(operations) => told.1.push(operations.to_vec()),
        }
        Ok(())
    })?;
    Ok((taken, told))
}

/// Tests one shard of which nothing is known yet; each call of `open` opens the same storage, as another
/// process would.
pub fn metadata(open: &dyn Fn() -> Arc<dyn Metadata>, shard: Shard) {
    let first = open();
    let (Taken { writer, sequence, .. }, told) = take(&*first, shard).unwrap();
    assert_eq!((sequence, told), (0, Told::default()));
    first.apply_batch(shard, writer, 0, b"a").unwrap();
    // asked again, also with other operations, nothing is done
    first.apply_batch(shard, writer, 0, b"a").unwrap();
    first.apply_batch(shard, writer, 0, b"b").unwrap();
    let gap = first.apply_batch(shard, writer, 2, b"c");
    assert!(matches!(gap, Err(VolumeError::OutOfOrder { sequence: 2, expected: 1 })), "{gap:?}");
    first.apply_batch(shard, writer, 1, b"b").unwrap();
    first.expect_current(shard, writer).unwrap();

    let second = open();
    let (taken, told) = take(&*second, shard).unwrap();
    assert!(taken.writer > writer);
    assert_eq!((taken.sequence, told), (2, (vec![], vec![b"a".to_vec(), b"b".to_vec()])));
    // the first one is nobody any more
    for result in [
        first.apply_batch(shard, writer, 2, b"x"),
        first.apply_batch(shard, writer, 1, b"b"),
        first.expect_current(shard, writer),
        first.checkpoint(shard, writer, 2).map(drop),
    ] {
        let by = taken.writer;
        let expected = |e: &VolumeError| matches!(e, VolumeError::Superseded { by: found, .. } if *found == by);
        assert!(result.as_ref().is_err_and(expected), "{result:?}");
    }

    let writer = taken.writer;
    let checkpoint = |operations: &[&[u8]], is_finished: bool| {
        let sequence = if is_finished { 3 } else { 2 };
        let mut checkpoint = second.checkpoint(shard, writer, sequence).unwrap().unwrap();
        operations.iter().for_each(|one| checkpoint.put(one).unwrap());
        // batches go on meanwhile
        second.apply_batch(shard, writer, sequence, b"m").unwrap();
        if is_finished {
            checkpoint.finish().unwrap();
        }
    };
    checkpoint(&[b"abandoned"], false);
    checkpoint(&[b"all of", b" it"], true);
    let early = second.checkpoint(shard, writer, 3).map(drop);
    assert!(matches!(early, Err(VolumeError::OutOfOrder { sequence: 3, expected: 4 })));
    drop(first);
    let third = open();
    let (taken, told) = take(&*third, shard).unwrap();
    assert_eq!((taken.sequence, told), (4, (b"all of it".to_vec(), vec![b"m".to_vec()])));
    third.checkpoint(shard, taken.writer, 4).unwrap().unwrap().finish().unwrap();
    // nothing happened since
    assert!(third.checkpoint(shard, taken.writer, 4).unwrap().is_none());
    let (taken, told) = take(&*open(), shard).unwrap();
    assert_eq!((taken.sequence, told), (4, Told::default()));
}

/// Tests that two shards of which nothing is known yet do not depend on one another.
pub fn many_shards(shards: &dyn Metadata, shard: Shard, other: Shard) {
    let (ours, _) = take(shards, shard).unwrap();
    let (theirs, _) = take(shards, other).unwrap();
    shards.apply_batch(shard, ours.writer, 0, b"ours").unwrap();
    shards.apply_batch(other, theirs.writer, 0, b"theirs").unwrap();
    // who takes one over has not taken the other
    take(shards, other).unwrap();
    shards.apply_batch(shard, ours.writer, 1, b"more").unwrap();
    assert!(shards.apply_batch(other, theirs.writer, 1, b"late").is_err());
    assert_eq!(take(shards, shard).unwrap().1.1, [b"ours".to_vec(), b"more".to_vec()]);
    assert_eq!(take(shards, other).unwrap().1.1, [b"theirs".to_vec()]);
}
