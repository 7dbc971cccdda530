//! A repository into which somebody puts what means harm, and everyone who reads it: nobody hangs, writes
//! outside of a restore's target, or takes more memory than a bound.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use onefold_backend::Objects;
use onefold_container::Content;
use onefold_seal::ObjectId;
use onefold_seal::wire::Put;
use onefold_store::prune::{self, Unused};
use onefold_store::tree::Entry;
use onefold_store::{Cancel, Progress, Repository, StoreError, diff, forget, restore};
use tempfile::TempDir;

use super::hang::expect_end;
use super::picture::Picture;
use super::sealed::{Forger, file};
use super::{
    Issues, chain, checked, copy, in_memory, open, small_chunks, try_open, watched, write,
};

/// Allocations are counted for the whole process: one test at a time.
pub static ALONE: Mutex<()> = Mutex::new(());

/// Caches of 36 MiB, working memory of zstd, and what a test itself takes.
pub const BOUND: usize = 64 << 20;
/// With the longest group that there may be, in the cache, in the making and in a copy.
pub const BOUND_WITH_GROUP: usize = 3 * (65 << 20) + BOUND;

/// What came of an operation, and how many bytes it took at most.
pub fn run<T: Send + 'static>(
    what: &str,
    bound: usize,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let before = watched::begin();
    let result = expect_end(what, run);
    let taken = watched::peak_since(before);
    assert!(taken <= bound, "{what} took {taken} bytes, {bound} are allowed");
    result
}

/// A folder of which nothing but `target` may change.
pub struct Outside {
    pub folder: TempDir,
    pub before: Picture,
}

impl Outside {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path().join("keep/file"), "untouched");
        fs::create_dir_all(folder.path().join("in/target")).unwrap();
        let before = Picture::of(&folder.path().join("keep"));
        Self { folder, before }
    }

    pub fn target(&self) -> std::path::PathBuf {
        self.folder.path().join("in/target")
    }

    pub fn expect_untouched(&self, what: &str) {
        let now = Picture::of(&self.folder.path().join("keep"));
        now.expect(&self.before).unwrap_or_else(|broken| panic!("{what}: {broken}"));
        let beside = |path: &Path| -> Vec<_> {
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(beside(&self.folder.path().join("in")), ["target"], "{what}");
        assert_eq!(beside(self.folder.path()).len(), 2, "{what}");
    }
}

/// What is said of a repository by everyone who reads it.
pub struct Said {
    pub restored: Result<restore::Report, String>,
    pub issues: Vec<String>,
    pub findings: Vec<String>,
    pub viewed: Result<(), String>,
    pub pruned: Result<(), String>,
    pub compared: Result<(), String>,
}

impl Said {
    /// Everyone who has to do with what is bad says `text`.
    pub fn expect_refused(&self, what: &str, text: &str) {
        let has = |said: &str| said.contains(text);
        assert!(
            self.findings.iter().any(|said| has(said)),
            "{what}: check says {:?}",
            self.findings
        );
        match &self.restored {
            Ok(report) => {
                assert!(report.failed > 0, "{what}: restored {report:?}");
                assert!(self.issues.iter().any(|said| has(said)), "{what}: {:?}", self.issues);
            }
            Err(said) => assert!(has(said), "{what}: restore says {said}"),
        }
        for (who, said) in
            [("view", &self.viewed), ("prune", &self.pruned), ("diff", &self.compared)]
        {
            let Err(said) = said else { panic!("{what}: {who} takes it") };
            assert!(has(said), "{what}: {who} says {said}");
        }
    }
}

/// How many entries a look at a snapshot goes through before it has seen enough.
pub const LOOKS: usize = 3000;

/// Looks at everything below `entry` as a mounted file system does: a directory, a part of a file.
pub fn look(repository: &Repository, entry: &Entry) -> Result<(), StoreError> {
    let view = repository.view()?;
    let (mut waiting, mut seen) = (vec![entry.clone()], 0);
    while let Some(entry) = waiting.pop() {
        seen += 1;
        if seen > LOOKS {
            return Ok(());
        }
        for offset in [0, entry.size() / 2, entry.size().saturating_sub(10), u64::MAX] {
            assert!(view.read(&entry, offset, 128 << 10)?.len() <= 128 << 10);
        }
        // Only as many as fit are kept, the last ones first: a chain is followed to its end.
        waiting.extend(view.entries(&entry)?.iter().take(100).cloned());
    }
    Ok(())
}

/// How long a restore takes at most that comes to an end by itself, on a busy machine.
pub const A_MINUTE: Duration = Duration::from_secs(60);

/// After which a restore that would go on for ever is stopped.
pub const A_SECOND: Duration = Duration::from_secs(1);

/// The same for directories, each of which a restore remembers until it ends: a second of a fast
/// machine takes more memory than the bound.
pub const A_MOMENT: Duration = Duration::from_millis(200);

/// Lets everyone read the snapshot `id`.
pub fn read(
    what: &str,
    bound: usize,
    objects: &Arc<dyn Objects>,
    id: ObjectId,
    honest: ObjectId,
) -> Said {
    read_for(A_MINUTE, what, bound, objects, id, honest)
}

/// The same; a restore is stopped after `patience`.
pub fn read_for(
    patience: Duration,
    what: &str,
    bound: usize,
    objects: &Arc<dyn Objects>,
    id: ObjectId,
    honest: ObjectId,
) -> Said {
    let spec = |id: ObjectId| id.to_string().parse().unwrap();
    let outside = Outside::new();
    let (target, of_restore) = (outside.target(), Arc::clone(objects));
    let issues = Issues::default();
    let progress = issues.progress();
    let restored = run(&format!("restore of {what}"), bound, move || {
        let repository = try_open(of_restore).map_err(|error| chain(&error))?;
        let (_, snapshot) = repository.find(&spec(id)).map_err(|error| chain(&error))?;
        let options = restore::Options { threads: NonZero::new(2), ..restore::Options::default() };
        let (cancel, is_done) = (Cancel::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let end = Instant::now() + patience;
                while Instant::now() < end && is_done.load(Ordering::Relaxed) == 0 {
                    thread::sleep(Duration::from_millis(5));
                }
                cancel.cancel();
            });
            let report = restore::restore(
                &repository,
                &snapshot.root,
                &target,
                &options,
                &progress,
                &cancel,
            );
            is_done.store(1, Ordering::Relaxed);
            report.map_err(|error| chain(&error))
        })
    });
    outside.expect_untouched(what);

    let of_check = Arc::clone(objects);
    let findings = run(&format!("check of {what}"), bound, move || match try_open(of_check) {
        Ok(repository) => {
            let findings = checked(&repository).unwrap().findings;
            findings.iter().map(ToString::to_string).collect()
        }
        Err(error) => vec![chain(&error)],
    });
    let of_view = Arc::clone(objects);
    let viewed = run(&format!("view of {what}"), bound, move || {
        let repository = try_open(of_view)?;
        let (_, snapshot) = repository.find(&spec(id))?;
        look(&repository, &snapshot.root)
    });
    let of_diff = Arc::clone(objects);
    let compared = run(&format!("diff of {what}"), bound, move || {
        let repository = try_open(of_diff)?;
        let [one, other] = [repository.find(&spec(honest))?.1, repository.find(&spec(id))?.1];
        let mut seen = 0;
        // A look at so many differences is enough, and the panic that ends it is not an error.
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            diff::diff(&repository, &one.root, &other.root, &mut |_, _| {
                seen += 1;
                if seen > LOOKS {
                    std::panic::resume_unwind(Box::new("enough"));
                }
            })
        }));
        looked.unwrap_or(Ok(()))
    });
    let of_prune = copy(&**objects);
    let pruned = run(&format!("prune of {what}"), bound, move || prune_all(&of_prune));
    let said = |result: Result<(), StoreError>| result.map_err(|error| chain(&error));
    Said {
        restored,
        issues: issues.all(),
        findings,
        viewed: said(viewed),
        pruned: said(pruned),
        compared: said(compared),
    }
}

pub fn prune_all(objects: &Arc<dyn Objects>) -> Result<(), StoreError> {
    let options = prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
    let repository = try_open(Arc::clone(objects))?;
    prune::prune(&repository, &options, &Progress::default(), &Cancel::default()).map(drop)
}

/// A repository with an honest snapshot, and somebody who puts another beside it.
pub struct Scene {
    pub objects: Arc<dyn Objects>,
    pub forger: Forger,
    pub honest: ObjectId,
}

impl Scene {
    pub fn new() -> Self {
        let (objects, repository) = in_memory(small_chunks());
        let forger = Forger::new(&objects, &repository);
        let tree = forger.tree(&[file(b"honest", forger.chunk(Content::Data, b"honest"))]);
        let honest = forger.snapshot(tree);
        Self { objects, forger, honest }
    }

    /// Everyone refuses the snapshot whose root has these entries, and says `text`.
    pub fn expect_refused(&self, what: &str, entries: &[Vec<u8>], text: &str) {
        let id = self.forger.snapshot(self.forger.tree(entries));
        let said = read(what, BOUND, &self.objects, id, self.honest);
        said.expect_refused(what, text);
        forget::forget(&open(&self.objects), &[id]).unwrap();
    }
}

pub fn varints(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().for_each(|number| bytes.put_varint(*number));
    bytes
}
