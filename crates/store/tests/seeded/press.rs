//! A compressor that fails, made on purpose.

use onefold_container::ContainerError;
use onefold_store::prune::{self, Unused};
use onefold_store::seeded::{self, Bug};
use onefold_store::{Cancel, Progress, StoreError, forget};
use onefold_testkit::random;
use tempfile::tempdir;

use crate::Turn;
use crate::common::{
    back_up, chain, expect_clean, in_memory, names, open, restored, small_chunks, write,
};

#[test]
fn a_prune_whose_compression_fails_ends_with_that_error_and_loses_nothing() {
    let _turn = Turn::take();
    let source = tempdir().unwrap();
    for number in 0..10 {
        write(source.path().join(format!("{number}")), random(number, 20_000));
    }
    let (objects, repository) = in_memory(small_chunks());
    let (first, _) = back_up(&repository, source.path());
    for number in 0..5 {
        write(source.path().join(format!("{}", 2 * number)), random(50 + number, 20_000));
    }
    let (_, second) = back_up(&repository, source.path());
    forget::forget(&repository, &[first]).unwrap();
    let options = prune::Options {
        max_unused: Unused::Bytes(0),
        container_len: 64 << 10,
        ..prune::Options::default()
    };
    let (progress, cancel) = (Progress::default(), Cancel::default());
    let before = names(&*objects, "containers/");
    seeded::activate(Some(Bug::CompressorFails));
    let failed = prune::prune(&open(&objects), &options, &progress, &cancel);
    seeded::activate(None);
    let error = failed.unwrap_err();
    let is_it = matches!(error, StoreError::Container(ContainerError::Compress { .. }));
    assert!(is_it, "{}", chain(&error));
    // Nothing was taken for damaged and left, and nothing was deleted.
    assert_eq!(names(&*objects, "containers/"), before);
    assert!(names(&*objects, "marks/").is_empty());
    let report = prune::prune(&open(&objects), &options, &progress, &cancel).unwrap();
    assert!(report.repacked_containers > 0 && report.warnings.is_empty(), "{report:?}");
    expect_clean(&open(&objects)).unwrap();
    restored(&open(&objects), &second).unwrap();
}
