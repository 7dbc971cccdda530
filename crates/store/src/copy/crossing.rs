//! The way of a snapshot from one repository into another.
//!
//! The calling thread walks the snapshot and notes what it meets, in order. Chunks that are not there
//! are brought in [windows](crate::reading::windows); the threads that decode them also find out their names
//! there. What a window brings is stored in the order of the walk, so that what comes of a copy does not
//! depend on which thread was faster.

use std::collections::HashMap;
use std::mem;
use std::thread::Scope;

use bytes::Bytes;
use onefold_container::Content;
use onefold_fingerprint::{Fingerprint, Fingerprinter};

use crate::chunks::reader::ChunkReader;
use crate::reading::entries::Entries;
use crate::reading::windows::{Step, Windows};
use crate::tree::recipe::Joiner;
use crate::tree::{self, Detail, Entry, Node, Tree, weight};
use crate::writing::chunk_writer::{ChunkWriter, NewTree};
use crate::{Cancel, Progress, Recipe, StoreError};

/// Names of chunks that are remembered at most, some 40 MB.
const MAX_NAMES: usize = 1 << 18;
/// Files and trees that are remembered at most.
const MAX_RECIPES: usize = 1 << 17;

/// How chunks cross.
#[derive(Clone, Copy)]
pub(super) struct How<'env> {
    /// Whether the same bytes have the same fingerprint in both repositories.
    pub(super) names_alike: bool,
    /// Whether files are cut anew.
    pub(super) rechunk: bool,
    pub(super) progress: &'env Progress,
    pub(super) cancel: &'env Cancel,
}

/// What brings chunks from one repository into another.
pub(super) struct Crossing<'env> {
    reader: &'env ChunkReader<'env>,
    pub(super) writer: ChunkWriter<'env>,
    how: How<'env>,
    /// What chunks are called there.
    names: HashMap<Fingerprint, Fingerprint>,
    /// What became of files of more than one chunk.
    files: HashMap<Recipe, Recipe>,
    /// What became of trees.
    trees: HashMap<Recipe, Tree>,
    /// What the walk met and is not done.
    windows: Windows<'env, Met, Named>,
    /// The directories in which the steps that are done have come, as far as these go.
    open: Vec<NewTree>,
    file: File,
    /// The root, once all below it is done.
    root: Option<Entry>,
}

/// What the walk meets besides chunks that are to be read, which are the file's at hand.
enum Met {
    /// An entry of which all is there.
    Entry(Entry),
    /// A chunk of the file at hand that is there.
    There(Recipe),
    /// The end of a file.
    File(Entry),
    /// The beginning of a directory.
    Enter,
    /// Its end.
    Leave(Entry),
}

/// A chunk that was read: its name in the other repository, if it is not cut anew, and its bytes.
type Named = (Fingerprint, Bytes);

/// A file on its way.
#[derive(Default)]
struct File {
    recipe: Joiner,
    /// What is to be cut.
    bytes: Vec<u8>,
}

impl<'env> Crossing<'env> {
    pub(super) fn new<'scope>(
        scope: &'scope Scope<'scope, 'env>,
        reader: &'env ChunkReader<'env>,
        fingerprinter: &'env Fingerprinter,
        writer: ChunkWriter<'env>,
        how: How<'env>,
    ) -> Self {
        let keeps_names = how.rechunk || how.names_alike;
        let windows = Windows::new(scope, (reader, how.cancel), move |leaf, bytes| {
            let name = if keeps_names { leaf.root } else { fingerprinter.fingerprint(bytes) };
            (name, Bytes::copy_from_slice(bytes))
        });
        Self {
            reader,
            writer,
            how,
            names: HashMap::new(),
            files: HashMap::new(),
            trees: HashMap::new(),
            windows,
            open: Vec::new(),
            file: File::default(),
            root: None,
        }
    }

    /// Brings a snapshot's root over with all below it, as it is there.
    pub(super) fn root(&mut self, root: &Entry) -> Result<Entry, StoreError> {
        self.entry(root.clone(), 0)?;
        self.do_all()?;
        Ok(self.root.take().expect("the last step was the root's"))
    }

    fn entry(&mut self, entry: Entry, depth: usize) -> Result<(), StoreError> {
        tree::check_depth(depth)?;
        self.how.cancel.check()?;
        match entry.node {
            Node::File { content, .. } => self.file(entry, &content),
            Node::Directory { .. } => self.directory(entry, depth),
            _ => self.note(Met::Entry(entry)),
        }
    }

    fn directory(&mut self, mut entry: Entry, depth: usize) -> Result<(), StoreError> {
        if let Node::Directory { tree } = &mut entry.node
            && let Tree::Stored(recipe) = tree
            && let Some(known) = self.trees.get(recipe)
        {
            *tree = known.clone();
            return self.note(Met::Entry(entry));
        }
        self.note(Met::Enter)?;
        let mut entries = Entries::of_directory(&entry)?;
        while let Some(child) = entries.next(self.reader, Detail::All)? {
            entries.park_before(&child);
            self.entry(child, depth + 1)?;
        }
        self.note(Met::Leave(entry))
    }

    fn file(&mut self, mut entry: Entry, content: &Recipe) -> Result<(), StoreError> {
        if let Some(known) = self.files.get(content) {
            if let Node::File { content, .. } = &mut entry.node {
                *content = *known;
            }
            Progress::add(&self.how.progress.bytes, content.len);
            Progress::add(&self.how.progress.files, 1);
            return self.note(Met::Entry(entry));
        }
        let reader = self.reader;
        reader.visit(content, &mut |leaf| self.chunk(leaf))?;
        self.note(Met::File(entry))
    }

    fn chunk(&mut self, leaf: Recipe) -> Result<(), StoreError> {
        self.how.cancel.check()?;
        let name = match (self.how.rechunk, self.how.names_alike) {
            (true, _) => None,
            (false, true) => Some(leaf.root),
            (false, false) => self.names.get(&leaf.root).copied(),
        };
        if let Some(name) = name.filter(|name| self.writer.has(name)) {
            return self.note(Met::There(Recipe::chunk(name, leaf.len)));
        }
        self.windows.want(leaf);
        self.do_over()
    }

    fn note(&mut self, met: Met) -> Result<(), StoreError> {
        let len = match &met {
            Met::Entry(entry) | Met::File(entry) | Met::Leave(entry) => weight(entry) as usize,
            Met::There(_) | Met::Enter => 0,
        };
        self.windows.met(met, len);
        self.do_over()
    }

    /// Does what too much is on the way behind.
    fn do_over(&mut self) -> Result<(), StoreError> {
        while let Some(window) = self.windows.over()? {
            self.proceed(window)?;
        }
        Ok(())
    }

    /// Does all that was noted.
    fn do_all(&mut self) -> Result<(), StoreError> {
        while let Some(window) = self.windows.next()? {
            self.proceed(window)?;
        }
        Ok(())
    }

    fn proceed(&mut self, window: Vec<Step<Met, Named>>) -> Result<(), StoreError> {
        for step in window {
            match step {
                Step::Chunk(leaf) => {
                    let recipe = leaf.recipe;
                    let (name, bytes) = leaf.brought()?;
                    self.store(&recipe, name, &bytes)?;
                }
                Step::Met(Met::There(copy)) => {
                    Progress::add(&self.how.progress.bytes, copy.len);
                    self.file.recipe.push(copy, &mut |node| self.writer.node(node))?;
                }
                Step::Met(Met::Entry(entry)) => self.put(entry)?,
                Step::Met(Met::File(entry)) => self.end_file(entry)?,
                Step::Met(Met::Enter) => self.open.push(NewTree::default()),
                Step::Met(Met::Leave(entry)) => self.leave(entry)?,
            }
        }
        Ok(())
    }

    /// Stores a chunk of the file at hand, or what is cut of it.
    fn store(&mut self, leaf: &Recipe, name: Fingerprint, bytes: &[u8]) -> Result<(), StoreError> {
        self.how.cancel.check()?;
        Progress::add(&self.how.progress.bytes, leaf.len);
        if self.how.rechunk {
            self.file.bytes.extend_from_slice(bytes);
            let File { recipe, bytes } = &mut self.file;
            return self.writer.cut(Content::Data, bytes, false, recipe);
        }
        let before = self.writer.new_bytes;
        self.writer.chunk(Content::Data, name, bytes)?;
        Progress::add(&self.how.progress.new_bytes, self.writer.new_bytes - before);
        if !self.how.names_alike {
            remember(&mut self.names, MAX_NAMES, leaf.root, name);
        }
        let copy = Recipe::chunk(name, leaf.len);
        self.file.recipe.push(copy, &mut |node| self.writer.node(node))
    }

    fn end_file(&mut self, mut entry: Entry) -> Result<(), StoreError> {
        let File { mut recipe, mut bytes } = mem::take(&mut self.file);
        if self.how.rechunk {
            self.writer.cut(Content::Data, &mut bytes, true, &mut recipe)?;
        }
        let copy = recipe.finish(&mut |node| self.writer.node(node))?;
        if let Node::File { content, .. } = &mut entry.node {
            if content.depth > 0 || self.how.rechunk {
                remember(&mut self.files, MAX_RECIPES, *content, copy);
            }
            *content = copy;
        }
        Progress::add(&self.how.progress.files, 1);
        self.put(entry)
    }

    fn leave(&mut self, mut entry: Entry) -> Result<(), StoreError> {
        let tree = self.open.pop().expect("it was entered");
        let copy = tree.finish(self.open.is_empty(), &mut self.writer)?;
        if let Node::Directory { tree } = &mut entry.node {
            if let Tree::Stored(recipe) = tree {
                remember(&mut self.trees, MAX_RECIPES, *recipe, copy.clone());
            }
            *tree = copy;
        }
        self.put(entry)
    }

    /// Puts an entry that is done into its directory.
    fn put(&mut self, entry: Entry) -> Result<(), StoreError> {
        match self.open.last_mut() {
            Some(tree) => return tree.push(&entry, &mut self.writer),
            None => self.root = Some(entry),
        }
        Ok(())
    }
}

/// Notes what is known, and forgets all else first if that would be too much.
fn remember<K: Eq + std::hash::Hash, V>(known: &mut HashMap<K, V>, max: usize, key: K, value: V) {
    if known.len() >= max {
        known.clear();
    }
    known.insert(key, value);
}
