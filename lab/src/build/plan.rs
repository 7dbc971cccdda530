//! A build before it happens, as it happens, and its receipt.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use onefold_bench::files_below;
use serde::{Deserialize, Serialize};

use crate::build::site::{Site, Watch, create, flush, flush_entry, keep_at, remove};
use crate::build::{BuildError, Cost, Order, Recipe, Tool};

/// Ends the name of the receipt beside a dataset's folder.
const RECEIPT: &str = ".json";

/// Ends the name of the mark beside a folder that a build began and has not ended.
const BEGUN: &str = ".begun";

/// Ends the name of the folder for what is on its way.
const WORK: &str = ".work";

/// What was built, as it is noted down beside its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The name of the folder.
    pub name: String,
    /// Files in it.
    pub files: u64,
    /// Their sum.
    pub bytes: u64,
    /// Of the bytes as they are cut, see [`Dataset::digest`](onefold_bench::Dataset::digest).
    pub digest: String,
}

/// What a build came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// It was there.
    Before(Receipt),
    /// It is there now.
    Now(Receipt),
}

/// A build that is about to happen.
pub struct Plan {
    /// What is built.
    pub order: Order,
    /// Where.
    pub folder: PathBuf,
    /// What it takes, as if nothing were there.
    pub cost: Cost,
    /// Bytes of it that are there.
    pub present: u64,
    /// Bytes that are free on the disk.
    pub free: u64,
    /// What it was built to, if it was.
    pub receipt: Option<Receipt>,
}

impl Plan {
    /// A plan to build `order` in a folder of its name below `dir`, which need not exist.
    pub fn new(order: Order, dir: &Path) -> Result<Self> {
        let folder = dir.join(order.folder());
        let receipt = Receipt::read(&folder);
        let present = match receipt {
            Some(ref receipt) => receipt.bytes,
            None if folder.is_dir() => lengths(&folder)?.1,
            None => 0,
        };
        Ok(Self { cost: order.cost(), free: free_space(dir)?, order, folder, present, receipt })
    }

    /// Bytes that the disk must still have room for.
    pub fn needed(&self) -> u64 {
        (self.cost.built + self.cost.scratch).saturating_sub(self.present)
    }

    /// Programs that are missing.
    pub fn missing_tools(&self) -> Vec<Tool> {
        let tools = self.order.recipe.tools.iter().copied();
        tools.filter(|tool| tool.find().is_none()).collect()
    }

    /// What stands in the way, before anything was downloaded.
    pub fn check(&self) -> Result<(), BuildError> {
        let name = || self.order.folder();
        let tools = self.missing_tools();
        if !tools.is_empty() {
            return Err(BuildError::MissingTools { name: name(), tools });
        }
        if self.needed() > self.free {
            return Err(BuildError::DiskTooSmall {
                name: name(),
                dir: self.folder.parent().unwrap_or(&self.folder).to_owned(),
                needed: self.needed(),
                free: self.free,
            });
        }
        Ok(())
    }

    /// Builds what is missing.
    ///
    /// Two builds of one folder take turns. What comes out is digested, and refused if other bytes
    /// were recorded. A folder with something in it that no build began is left alone.
    pub fn build(self, watch: &dyn Watch) -> Result<Built> {
        if let Some(receipt) = self.receipt {
            return receipt.checked(&self.folder).map(Built::Before);
        }
        self.check()?;
        self.claim()?;
        // Locked until dropped.
        let lock = File::open(&self.folder).with_context(|| self.folder.display().to_string())?;
        lock.lock().with_context(|| format!("lock {}", self.folder.display()))?;
        if let Some(receipt) = Receipt::read(&self.folder) {
            remove(&beside(&self.folder, BEGUN))?;
            return Ok(Built::Before(receipt));
        }

        let work = beside(&self.folder, WORK);
        remove(&work)?;
        create(&work)?;
        let folder = self.folder.canonicalize()?;
        let site = Site { folder, work: work.canonicalize()?, choices: &self.order.choices, watch };
        let outcome = (self.order.recipe.build)(&site).and_then(|()| self.finish(&site.work));
        // what went wrong first is what matters
        let removed = remove(&work);
        let receipt = match outcome {
            // a program that the signal reached too fails first
            Err(_) if watch.is_stopped() => return Err(BuildError::Stopped.into()),
            Err(error) if is_disk_full(&error) => return Err(self.disk_full(&error).into()),
            outcome => outcome?,
        };
        removed?;
        remove(&beside(&self.folder, BEGUN))?;
        Ok(Built::Now(receipt))
    }

    /// Makes the folder, and a mark beside it that it is a build's.
    ///
    /// What is there without that mark is somebody's, and none of it may be touched.
    fn claim(&self) -> Result<()> {
        let [begun, work, receipt] =
            [BEGUN, WORK, RECEIPT].map(|ending| beside(&self.folder, ending));
        if !begun.exists() {
            // of a dataset that was removed since
            let is_left_over = fs::read(&receipt).is_ok_and(|text| {
                serde_json::from_slice(&text)
                    .is_ok_and(|receipt: Receipt| receipt.name == self.order.folder())
            });
            if is_left_over && !self.folder.exists() {
                remove(&receipt)?;
            }
            let is_empty = |folder: &Path| {
                fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
            };
            let is_foreign = |path: &&PathBuf| path.symlink_metadata().is_ok() && !is_empty(path);
            if let Some(path) = [&receipt, &self.folder, &work].into_iter().find(is_foreign) {
                let (name, path) = (self.order.folder(), path.clone());
                return Err(BuildError::InTheWay { name, path }.into());
            }
            create(begun.parent().unwrap_or(Path::new(".")))?;
            fs::write(&begun, "Begun by `cargo lab dataset build`, and not yet whole.\n")
                .with_context(|| begun.display().to_string())?;
            flush(&begun)?;
        }
        create(&self.folder)?;
        // of the mark too
        flush_entry(&self.folder)
    }

    /// Digests what is there, and notes it down.
    fn finish(&self, work: &Path) -> Result<Receipt> {
        let receipt = self.receipt()?;
        receipt.write(&self.folder, work)?;
        Ok(receipt)
    }

    fn disk_full(&self, error: &anyhow::Error) -> BuildError {
        let dir = self.folder.parent().unwrap_or(&self.folder).to_owned();
        BuildError::DiskFull { name: self.order.folder(), dir, reason: format!("{error:#}") }
    }

    fn receipt(&self) -> Result<Receipt> {
        let (files, bytes) = lengths(&self.folder)?;
        let digest = digest(&self.folder)?;
        let name = self.order.folder();
        match self.order.digest() {
            Some(expected) if expected != digest => Err(BuildError::OtherBytes {
                name,
                dir: self.folder.clone(),
                found: digest,
                expected,
            }
            .into()),
            _ => Ok(Receipt { name, files, bytes, digest }),
        }
    }
}

impl Receipt {
    /// Of the dataset in `folder`, if it was built and is there.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = fs::read(beside(folder, RECEIPT)).ok().filter(|_| folder.is_dir())?;
        serde_json::from_slice(&text).ok()
    }

    /// Of all that was built of a recipe below `dir`, in the order of their names.
    pub fn all(dir: &Path, recipe: &Recipe) -> Vec<Self> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let mut all: Vec<Self> = folders.filter_map(|folder| Self::read(&folder)).collect();
        let prefix = format!("{}-", recipe.name);
        all.retain(|receipt| receipt.name == recipe.name || receipt.name.starts_with(&prefix));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The receipt, if it is true of the files and bytes in `folder`.
    fn checked(self, folder: &Path) -> Result<Self> {
        let (found, expected) = (lengths(folder)?, (self.files, self.bytes));
        if found != expected {
            let dir = folder.to_owned();
            return Err(BuildError::Changed { dir, found, expected }.into());
        }
        Ok(self)
    }

    /// There is the whole receipt beside `folder`, or none; until then it lies in `work`.
    fn write(&self, folder: &Path, work: &Path) -> Result<()> {
        let unfinished = work.join("receipt");
        let mut text = serde_json::to_string_pretty(self).context("a receipt in JSON")?;
        text.push('\n');
        fs::write(&unfinished, text).with_context(|| unfinished.display().to_string())?;
        keep_at(&beside(folder, RECEIPT), &unfinished)
    }
}

/// Whose work a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Ours and whole: it holds as many files and bytes as its receipt says.
    Built,
    /// Ours and not whole, or no longer what its receipt says.
    Unfinished,
    /// Somebody else's: no build left anything beside it.
    Foreign,
}

impl Standing {
    /// By what lies beside `folder`, or beside the folder that it is a link to.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let place = || folder.display().to_string();
        let home = folder.canonicalize().with_context(place)?;
        let both = [folder, &home];
        let has_any = |endings: &[&str]| {
            both.iter().any(|place| endings.iter().any(|ending| beside(place, ending).exists()))
        };
        Ok(match both.iter().find_map(|place| Receipt::read(place)) {
            Some(receipt) if lengths(&home)? == (receipt.files, receipt.bytes) => Self::Built,
            None if !has_any(&[RECEIPT, BEGUN, WORK]) => Self::Foreign,
            _ => Self::Unfinished,
        })
    }
}

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Regular files below `folder`, and their bytes.
fn lengths(folder: &Path) -> Result<(u64, u64)> {
    let files = files_below(folder)?;
    let mut bytes = 0;
    for file in &files {
        bytes += file.metadata().with_context(|| file.display().to_string())?.len();
    }
    Ok((files.len() as u64, bytes))
}

/// As [`Dataset::digest`](onefold_bench::Dataset::digest), in little memory.
fn digest(folder: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for file in files_below(folder)? {
        let place = || file.display().to_string();
        hasher.update_reader(File::open(&file).with_context(place)?).with_context(place)?;
    }
    Ok(format!("blake3:{}", hasher.finalize().to_hex()))
}

/// Whether the system said so, or a program that was run.
fn is_disk_full(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    ["No space left on device", "Disk quota exceeded"].iter().any(|said| text.contains(said))
}

/// Bytes free on the disk of `dir`, or of the nearest folder above it that exists.
fn free_space(dir: &Path) -> Result<u64> {
    let exists = dir.ancestors().find(|ancestor| ancestor.exists());
    let place = exists.filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(place).with_context(|| place.display().to_string())?;
    Ok(disk.f_bavail * disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use onefold_bench::Dataset;

    use super::*;
    use crate::build::site::tests::Nobody;

    /// Stops after so many steps.
    struct Patience(Cell<usize>);

    impl Watch for Patience {
        fn step(&self, _: usize, _: usize, _: &str) {
            self.0.set(self.0.get() - 1);
        }

        fn is_stopped(&self) -> bool {
            self.0.get() == 0
        }
    }

    fn plan(order: &str, dir: &Path) -> Plan {
        Plan::new(order.parse().unwrap(), dir).unwrap()
    }

    #[test]
    fn a_broken_build_is_resumed_and_comes_to_the_same() {
        const ORDER: &str = "series:versions=4,bytes=100000,edits=3";
        let folder = tempfile::tempdir().unwrap();
        let whole = plan(ORDER, &folder.path().join("whole")).build(&Patience(Cell::new(99)));
        let Built::Now(whole) = whole.unwrap() else { panic!("was built before") };

        let broken = folder.path().join("broken");
        let error = plan(ORDER, &broken).build(&Patience(Cell::new(2))).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(BuildError::Stopped)), "{error:#}");
        let rest = plan(ORDER, &broken);
        assert_eq!(rest.receipt, None);
        assert_eq!(lengths(&rest.folder).unwrap().0, 2);
        assert_eq!(Standing::of(&rest.folder).unwrap(), Standing::Unfinished);
        assert_eq!(rest.build(&Patience(Cell::new(99))).unwrap(), Built::Now(whole.clone()));
        let again = plan(ORDER, &broken).build(&Patience(Cell::new(1)));
        assert_eq!(again.unwrap(), Built::Before(whole.clone()));

        let dataset = Dataset::read(&plan(ORDER, &broken).folder, None).unwrap();
        assert_eq!(dataset.digest(), whole.digest);
        assert_eq!(Standing::of(&plan(ORDER, &broken).folder).unwrap(), Standing::Built);
        assert_eq!((dataset.files().len(), dataset.bytes().len()), (4, whole.bytes as usize));
    }

    #[test]
    fn a_folder_is_whole_only_as_its_receipt_says() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("rand-bytes-1000");
        plan("rand:bytes=1000", folder.path()).build(&Patience(Cell::new(9))).unwrap();
        let link = folder.path().join("elsewhere/link");
        fs::create_dir(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&home, &link).unwrap();
        let standing = || [&home, &link].map(|place| Standing::of(place).unwrap());
        assert_eq!(standing(), [Standing::Built; 2]);
        fs::write(home.join("more"), "x").unwrap();
        assert_eq!(standing(), [Standing::Unfinished; 2]);
        fs::write(beside(&home, RECEIPT), "no receipt").unwrap();
        assert_eq!(standing(), [Standing::Unfinished; 2]);
        fs::remove_file(beside(&home, RECEIPT)).unwrap();
        assert_eq!(standing(), [Standing::Foreign; 2]);
        for mark in [BEGUN, WORK] {
            fs::write(beside(&home, mark), "").unwrap();
            assert_eq!(standing(), [Standing::Unfinished; 2], "{mark}");
            fs::remove_file(beside(&home, mark)).unwrap();
        }
    }

    #[test]
    fn a_disk_too_small_is_told_before_anything_happens() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan("rand:bytes=1000000000000000", &folder.path().join("below/here"));
        let error = plan.build(&Patience(Cell::new(1))).unwrap_err().to_string();
        assert!(error.contains("takes 1000000000 MB"), "{error}");
        assert!(error.contains("nothing was downloaded"), "{error}");
        assert!(!folder.path().join("below").exists());
    }

    #[test]
    fn a_disk_that_fills_up_on_the_way_is_told_and_the_build_goes_on_when_there_is_room() {
        use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

        /// Fills the disk before the third part.
        struct Ballast(PathBuf);

        impl Watch for Ballast {
            fn step(&self, done: usize, _: usize, _: &str) {
                if done == 2 {
                    let filled = fs::write(&self.0, vec![1; 16 << 20]).unwrap_err();
                    assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull);
                }
            }

            fn is_stopped(&self) -> bool {
                false
            }
        }

        const ORDER: &str = "image-series:images=3,segments=2,segment=200000";
        let disk = tempfile::tempdir().unwrap();
        let path = disk.path();
        if let Err(errno) = mount("tmpfs", path, "tmpfs", MountFlags::empty(), Some(c"size=8m")) {
            return onefold_testkit::skip(&format!("cannot mount a small tmpfs: {errno}"));
        }
        let ballast = path.join("ballast");
        let full = plan(ORDER, path).build(&Ballast(ballast.clone()));
        let kept = lengths(&plan(ORDER, path).folder).unwrap().0;
        fs::remove_file(ballast).unwrap();
        // A process that another test is starting may hold the file for a moment.
        let has_room = || {
            let disk = rustix::fs::statvfs(path).unwrap();
            disk.f_bavail * disk.f_frsize > 4 << 20
        };
        while !has_room() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let rest = plan(ORDER, path).build(&Nobody);
        let standing = Standing::of(&plan(ORDER, path).folder);
        unmount(path, UnmountFlags::DETACH).unwrap();

        let error = full.unwrap_err();
        let Some(BuildError::DiskFull { dir, .. }) = error.downcast_ref() else {
            panic!("{error:#}");
        };
        assert_eq!(dir, path);
        assert!(error.to_string().contains("build 02.img: "), "{error}");
        assert_eq!(kept, 2);
        assert!(matches!(rest, Ok(Built::Now(_))), "{rest:?}");
        assert_eq!(standing.unwrap(), Standing::Built);
    }

    #[test]
    fn a_full_disk_is_known_by_what_the_system_and_programs_say() {
        let system = std::io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        assert!(is_disk_full(&anyhow::Error::new(system).context("build x")));
        assert!(is_disk_full(&anyhow::anyhow!("xz ended with 1: (stdout): Disk quota exceeded")));
        assert!(!is_disk_full(&anyhow::anyhow!("permission denied")));
    }

    #[test]
    fn half_a_receipt_or_mark_is_of_a_build_that_goes_on_or_is_left_alone() {
        const ORDER: &str = "rand:bytes=1000";
        let folder = tempfile::tempdir().unwrap();
        let Built::Now(whole) = plan(ORDER, folder.path()).build(&Nobody).unwrap() else {
            panic!("was built before")
        };
        let home = folder.path().join("rand-bytes-1000");
        let [receipt, mark] = [RECEIPT, BEGUN].map(|ending| beside(&home, ending));
        let text = fs::read(&receipt).unwrap();
        for len in [0, 1, text.len() / 2, text.len() - 2] {
            fs::write(&receipt, &text[..len]).unwrap();
            let error = plan(ORDER, folder.path()).build(&Nobody).unwrap_err().to_string();
            assert!(error.contains("rand-bytes-1000.json' is there already"), "{error}");
            assert_eq!(fs::read(&receipt).unwrap(), text[..len]);
            // where a build was on its way, however much of the mark was written
            fs::write(&mark, &b"Begun"[..len.min(5)]).unwrap();
            let built = plan(ORDER, folder.path()).build(&Nobody).unwrap();
            assert_eq!(built, Built::Now(whole.clone()), "{len}");
            assert_eq!(fs::read(&receipt).unwrap(), text);
            assert!(!mark.exists());
        }
    }

    #[test]
    fn a_dataset_that_was_changed_since_is_not_called_built() {
        let folder = tempfile::tempdir().unwrap();
        let again = || plan("rand:bytes=1000", folder.path()).build(&Nobody);
        assert!(matches!(again(), Ok(Built::Now(_))));
        let more = folder.path().join("rand-bytes-1000/more");
        fs::write(&more, "xy").unwrap();
        let error = again().unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(BuildError::Changed { .. })), "{error:#}");
        assert!(error.to_string().contains("1002 bytes in 2 files, expected 1000 in 1"), "{error}");
        assert!(more.exists());
        fs::remove_file(more).unwrap();
        assert!(matches!(again(), Ok(Built::Before(_))));
    }

    #[test]
    fn a_place_where_nothing_can_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for place in [file.clone(), file.join("below"), "/proc/nowhere".into()] {
            let error = plan("rand:bytes=1000", &place).build(&Nobody).unwrap_err();
            assert!(format!("{error:#}").contains(place.to_str().unwrap()), "{error:#}");
        }
    }

    #[test]
    fn what_was_built_of_a_recipe_is_found_whatever_was_chosen() {
        let folder = tempfile::tempdir().unwrap();
        for order in ["rand:bytes=10", "rand:bytes=20", "series:bytes=1000,versions=1"] {
            plan(order, folder.path()).build(&Patience(Cell::new(9))).unwrap();
        }
        let rand = "rand".parse::<Order>().unwrap().recipe;
        let bytes: Vec<u64> = Receipt::all(folder.path(), rand).iter().map(|r| r.bytes).collect();
        assert_eq!(bytes, [10, 20]);
        assert_eq!(Receipt::all(&folder.path().join("nowhere"), rand), []);
    }

    #[test]
    fn what_no_build_began_is_left_alone() {
        for (name, is_folder) in [
            ("rand-bytes-1000", true),
            ("rand-bytes-1000.work", true),
            ("rand-bytes-1000.json", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let theirs = folder.path().join(name);
            let file = if is_folder { theirs.join("letter.txt") } else { theirs.clone() };
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "dear").unwrap();
            let refused = plan("rand:bytes=1000", folder.path()).build(&Patience(Cell::new(9)));
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert!(error.contains("nothing was changed"), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), "dear");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
        // an empty folder is nobody's
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("rand-bytes-1000")).unwrap();
        let built = plan("rand:bytes=1000", folder.path()).build(&Patience(Cell::new(9)));
        assert!(matches!(built, Ok(Built::Now(_))), "{built:?}");
    }

    #[test]
    fn a_receipt_without_its_folder_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let built = plan("rand:bytes=1000", folder.path()).build(&Patience(Cell::new(9)));
        assert!(matches!(built, Ok(Built::Now(_))), "{built:?}");
        let home = folder.path().join("rand-bytes-1000");
        assert!(Receipt::read(&home).is_some());
        remove(&home).unwrap();
        assert_eq!(Receipt::read(&home), None);
        let again = plan("rand:bytes=1000", folder.path()).build(&Patience(Cell::new(9)));
        assert!(matches!(again, Ok(Built::Now(_))), "{again:?}");
        assert!(home.join("random.bin").exists());
    }
}
