//! Files and the names they have in directories.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::content::Content;
use super::fate::Fate;

/// A file, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(u64);

/// All files and directories of a disk, live and durable.
///
/// A path is parts joined by slashes; the root directory is "".
#[derive(Clone, Debug)]
pub(super) struct FileSystem {
    files: BTreeMap<FileId, Content>,
    directories: BTreeMap<String, Directory>,
    next_file: u64,
}

#[derive(Clone, Debug, Default)]
struct Directory {
    durable: BTreeMap<String, Entry>,
    live: BTreeMap<String, Entry>,
    /// The changes from `durable` to `live`, in order.
    unsynced: Vec<NameChange>,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    File(FileId),
    Directory,
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(String, Entry),
    Remove(String),
}

impl FileSystem {
    /// An empty root directory.
    pub(super) fn new() -> Self {
        Self {
            files: BTreeMap::new(),
            directories: BTreeMap::from([(String::new(), Directory::default())]),
            next_file: 0,
        }
    }

    /// Makes a directory if there is none.
    pub(super) fn make_directory(&mut self, path: &str) {
        let (parent, name) = split(path);
        if self.directory(parent).add(name, Entry::Directory) {
            self.directories.insert(path.to_owned(), Directory::default());
        }
    }

    /// Makes an empty file, unless the path is taken.
    pub(super) fn create(&mut self, path: &str) -> Option<FileId> {
        let (parent, name) = split(path);
        let file = FileId(self.next_file);
        if !self.directory(parent).add(name, Entry::File(file)) {
            return None;
        }
        self.next_file += 1;
        self.files.insert(file, Content::default());
        Some(file)
    }

    /// Gives a file one more name; false if the path is taken.
    pub(super) fn link(&mut self, file: FileId, path: &str) -> bool {
        let (parent, name) = split(path);
        self.directory(parent).add(name, Entry::File(file))
    }

    /// Removes a name, if it exists.
    pub(super) fn unlink(&mut self, path: &str) {
        let (parent, name) = split(path);
        if let Some(directory) = self.directories.get_mut(parent) {
            directory.remove(name);
        }
    }

    /// Gives `file`, which is at `from`, the name `to` instead, which another file may have.
    pub(super) fn rename(&mut self, from: &str, file: FileId, to: &str) {
        if from == to {
            return;
        }
        let (parent, name) = split(to);
        self.directory(parent).change(NameChange::Add(name.to_owned(), Entry::File(file)));
        self.unlink(from);
    }

    /// Whether there is such a directory.
    pub(super) fn has_directory(&self, path: &str) -> bool {
        self.directories.contains_key(path)
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_directory(&mut self, path: &str) {
        self.directory(path).sync();
    }

    /// The file at a path.
    pub(super) fn find(&self, path: &str) -> Option<FileId> {
        let (parent, name) = split(path);
        match self.directories.get(parent)?.live.get(name)? {
            Entry::File(file) => Some(*file),
            Entry::Directory => None,
        }
    }

    /// The bytes of an open file.
    pub(super) fn content(&self, file: FileId) -> &Content {
        &self.files[&file]
    }

    /// The bytes of an open file, to change.
    pub(super) fn content_mut(&mut self, file: FileId) -> &mut Content {
        self.files.get_mut(&file).expect("an open file is kept")
    }

    /// Path and bytes of every file, in order of their paths.
    pub(super) fn files(&self) -> BTreeMap<String, Arc<Vec<u8>>> {
        let mut files = BTreeMap::new();
        for (path, directory) in &self.directories {
            for (name, entry) in &directory.live {
                if let Entry::File(file) = entry {
                    files.insert(join(path, name), self.content(*file).live().clone());
                }
            }
        }
        files
    }

    /// A possible state after a power cut: a file system in which everything is durable.
    pub(super) fn after_power_cut(&self, fate: &mut Fate) -> Self {
        let mut after = Self { next_file: self.next_file, ..Self::new() };
        let mut found = vec![String::new()];
        while let Some(path) = found.pop() {
            let directory = self.directories[&path].after_power_cut(fate);
            for (name, entry) in &directory.live {
                match entry {
                    Entry::Directory => found.push(join(&path, name)),
                    Entry::File(file) => {
                        after
                            .files
                            .entry(*file)
                            .or_insert_with(|| self.content(*file).after_power_cut(fate));
                    }
                }
            }
            after.directories.insert(path, directory);
        }
        after
    }

    fn directory(&mut self, path: &str) -> &mut Directory {
        self.directories.get_mut(path).expect("directories are made before they are used")
    }
}

impl Directory {
    fn add(&mut self, name: &str, entry: Entry) -> bool {
        if self.live.contains_key(name) {
            return false;
        }
        self.change(NameChange::Add(name.to_owned(), entry));
        true
    }

    fn remove(&mut self, name: &str) {
        if self.live.contains_key(name) {
            self.change(NameChange::Remove(name.to_owned()));
        }
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        self.durable = self.live.clone();
        self.unsynced.clear();
    }

    fn after_power_cut(&self, fate: &mut Fate) -> Self {
        let mut durable = self.durable.clone();
        for change in &self.unsynced {
            if fate.name_change_happens() {
                change.apply(&mut durable);
            }
        }
        Self { live: durable.clone(), durable, unsynced: Vec::new() }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, Entry>) {
        match self {
            Self::Add(name, entry) => names.insert(name.clone(), *entry),
            Self::Remove(name) => names.remove(name),
        };
    }
}

/// The directory of a path and its last part.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Bytes of a range of a file.
pub(super) fn slice(bytes: &[u8], range: std::ops::Range<u64>) -> Bytes {
    Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize])
}

#[cfg(test)]
mod tests {
    use super::super::fate::Chance;
    use super::*;

    fn mixtures(files: &FileSystem) -> Vec<Vec<String>> {
        (0..100)
            .map(|seed| files.after_power_cut(&mut Fate::Mixed(Chance::new(seed))))
            .map(|after| after.files().into_keys().collect())
            .collect()
    }

    #[test]
    fn unsynced_names_survive_in_any_combination() {
        let mut files = FileSystem::new();
        files.create("a");
        files.create("b");
        let found = mixtures(&files);
        for names in [&[][..], &["a"], &["b"], &["a", "b"]] {
            assert!(found.iter().any(|state| state == names), "{names:?}");
        }
        files.sync_directory("");
        assert!(mixtures(&files).iter().all(|state| state == &["a", "b"]));
    }

    #[test]
    fn a_name_that_was_replaced_is_of_either_file_and_never_missing() {
        let mut files = FileSystem::new();
        let (old, new) = (files.create("a").unwrap(), files.create("b").unwrap());
        files.sync_directory("");
        files.rename("b", new, "a");
        let states = (0..100).map(|seed| {
            let after = files.after_power_cut(&mut Fate::Mixed(Chance::new(seed)));
            (after.find("a").expect("one of them has it"), after.find("b"))
        });
        let found: std::collections::BTreeSet<_> = states.collect();
        let possible = [(old, None), (old, Some(new)), (new, None), (new, Some(new))];
        assert_eq!(found, possible.into());
        files.sync_directory("");
        assert!(mixtures(&files).iter().all(|state| state == &["a"]));
        assert_eq!(files.find("a"), Some(new));
    }

    #[test]
    fn a_lost_directory_takes_its_content_along() {
        let mut files = FileSystem::new();
        files.make_directory("d");
        files.create("d/a");
        files.sync_directory("d");
        let found = mixtures(&files);
        assert!(found.iter().any(Vec::is_empty) && found.iter().any(|state| state == &["d/a"]));
        files.sync_directory("");
        assert!(mixtures(&files).iter().all(|state| state == &["d/a"]));
    }
}
