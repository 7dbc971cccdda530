//! The memory of a backup does not grow with the length of a file.

use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use onefold_cdc::{Algorithm, Params};
use onefold_store::{Config, Progress, Repository, backup};
use onefold_testkit::random;
use tempfile::tempdir;

use crate::common::attacked::ALONE;
use crate::common::hooked::Hooked;
use crate::common::watched;
use crate::common::{expect_clean, in_memory, open, options, small_chunks, try_back_up, write};

const MIB: usize = 1 << 20;
/// Of a file's list of chunks 16,384 entries are of a mebibyte, and take about that much memory.
const CHUNK: usize = 64;
/// A quarter of what the list would take of the mebibytes that the tests add.
const BOUND: usize = 16 * MIB;

fn tiny_chunks() -> Config {
    Config { params: Params::for_mean(Algorithm::Fixed, CHUNK).unwrap(), ..small_chunks() }
}

/// How many bytes a backup of `source` takes at most. The first put of a container takes `pause`.
fn memory_of_a_backup(source: &Path, readers: usize, pause: Duration) -> usize {
    let (objects, _) = in_memory(tiny_chunks());
    let first = Once::new();
    let hooked = Hooked::new(&objects, move |name: &str| {
        if name.starts_with("containers/") {
            first.call_once(|| thread::sleep(pause));
        }
    });
    let repository = Repository::open(Arc::new(hooked)).unwrap();
    let options = backup::Options { threads: NonZero::new(readers), ..options() };
    let before = watched::begin();
    try_back_up(&repository, &[source], &options, &Progress::default()).unwrap();
    let taken = watched::peak_since(before);
    expect_clean(&open(&objects)).unwrap();
    taken
}

#[test]
fn a_longer_file_takes_no_more_memory() {
    let _alone = ALONE.lock();
    for readers in [1, 3] {
        let [short, long] = [16, 80].map(|mebibytes| {
            let source = tempdir().unwrap();
            write(source.path().join("file"), vec![0; mebibytes * MIB]);
            memory_of_a_backup(source.path(), readers, Duration::ZERO)
        });
        assert!(long < short + BOUND, "{short} and {long} bytes with {readers} readers");
    }
}

#[test]
fn readers_wait_for_a_thread_that_is_behind_with_storing() {
    let _alone = ALONE.lock();
    let source = tempdir().unwrap();
    // One thread stores the random bytes and has to wait, the other has nothing new to store.
    write(source.path().join("file"), [random(1, MIB), vec![0; 79 * MIB]].concat());
    let [at_once, late] =
        [0, 3].map(|seconds| memory_of_a_backup(source.path(), 2, Duration::from_secs(seconds)));
    assert!(late < at_once + BOUND, "{at_once} bytes, and {late} if a put takes long");
}
