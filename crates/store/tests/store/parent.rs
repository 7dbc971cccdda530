//! Which snapshot a backup takes for its parent.

use std::sync::Arc;

use onefold_backend::{Folder, MemoryFolder, Objects};
use onefold_store::backup;
use tempfile::TempDir;

use crate::common::{Issues, back_up, in_memory, open, options, small_chunks, try_back_up, write};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn another_host_or_other_paths_are_no_parent() {
    let source = folder();
    write(source.path().join("a"), "a");
    write(source.path().join("b"), "b");
    let (_, repository) = in_memory(small_chunks());
    back_up(&repository, source.path());
    let elsewhere = backup::Options { host: "another".into(), ..options() };
    let file = source.path().join("a");
    for (source, options) in [(source.path(), &elsewhere), (&file, &options())] {
        let issues = Issues::default();
        let (_, snapshot) =
            try_back_up(&repository, &[source], options, &issues.progress()).unwrap();
        assert_eq!(snapshot.parent, None);
    }
}

#[test]
fn the_parent_is_the_last_snapshot_of_the_log_that_can_be_read_or_else_any_that_fits() {
    let source = folder();
    write(source.path().join("a"), "a");
    let (objects, _) = in_memory(small_chunks());
    let memory: Arc<MemoryFolder> = Arc::default();
    let back_up_as = |host: &str| {
        let mut repository = open(&objects);
        repository.act_as(host.into(), Some(Arc::clone(&memory) as Arc<dyn Folder>));
        assert_eq!(repository.recall().unwrap(), []);
        // The snapshot says that it is of the host 'host'.
        back_up(&repository, source.path())
    };
    let (first, _) = back_up_as("copier");
    let (second, snapshot) = back_up_as("host");
    assert_eq!(snapshot.parent, Some(first), "only the log of another host names it");
    let (third, snapshot) = back_up_as("host");
    assert_eq!(snapshot.parent, Some(second));
    let (fourth, snapshot) = back_up_as("copier");
    assert_eq!(snapshot.parent, Some(third), "though another host's log names a snapshot");
    let name = format!("snapshots/{third}");
    let mut bytes = objects.get(&name).unwrap().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    objects.delete(&name).unwrap();
    objects.put(&name, bytes.into()).unwrap();
    let (_, snapshot) = back_up_as("host");
    assert_eq!(snapshot.parent, Some(second), "the third is damaged, {fourth} of another log");
}
