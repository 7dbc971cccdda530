//! The way of a snapshot from one repository into another.
//!
//! The calling thread walks the snapshot and notes what it meets, in order. Chunks that are not there
//! are read in batches, ahead of it and by several threads, which also find out their names there.
//! What a batch brings is stored in the order of the walk, so that what comes of a copy does not depend
//! on which thread was faster.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::thread::Scope;

use onefold_container::{Content, MAX_GROUP_LEN};
use onefold_fingerprint::{Fingerprint, Fingerprinter};

use crate::ahead::{Ahead, Reach};
use crate::chunks::{ChunkReader, Chunks};
use crate::entries::Entries;
use crate::graft::{Graft, NewTree};
use crate::recipe::Joiner;
use crate::tree::{self, Detail, Entry, Node, Tree};
use crate::{Cancel, Progress, Recipe, StoreError};

/// Names of chunks that are remembered at most, some 40 MB.
const MAX_NAMES: usize = 1 << 18;
/// Files and trees that are remembered at most.
const MAX_RECIPES: usize = 1 << 17;

/// Bytes at which a batch of chunks is handed out: neighbours share groups, which are of this order.
const BATCH_LEN: usize = 1 << 20;
/// So many steps of the walk are noted at most.
const MAX_STEPS: usize = 4096;

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
pub(super) struct Crossing<'scope, 'env> {
    reader: &'env ChunkReader<'env>,
    /// Names chunks as the other repository does.
    fingerprinter: &'env Fingerprinter,
    pub(super) graft: Graft<'env>,
    how: How<'env>,
    /// What chunks are called there.
    names: HashMap<Fingerprint, Fingerprint>,
    /// What became of files of more than one chunk.
    files: HashMap<Recipe, Recipe>,
    /// What became of trees.
    trees: HashMap<Recipe, Tree>,
    /// What the walk met and is not done.
    steps: VecDeque<Step>,
    /// Chunks that are to be read and were not handed out.
    batch: Vec<Recipe>,
    /// Their bytes.
    batch_len: usize,
    ahead: Ahead<'scope, 'env, Result<Batch, StoreError>>,
    /// The directories in which the steps that are done have come, as far as these go.
    open: Vec<NewTree>,
    file: File,
    /// The root, once all below it is done.
    root: Option<Entry>,
}

/// What the walk meets.
enum Step {
    /// An entry of which all is there.
    Entry(Entry),
    /// The next chunk that was read; it is the file's at hand.
    Read(Recipe),
    /// A chunk of the file at hand that is there.
    There(Recipe),
    /// The end of a file.
    File(Entry),
    /// The beginning of a directory.
    Enter,
    /// Its end.
    Leave(Entry),
}

/// Chunks that were read, one after the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Of each its name there, if they are not cut anew, and its length.
    chunks: Vec<(Fingerprint, usize)>,
}

/// A file on its way.
#[derive(Default)]
struct File {
    recipe: Joiner,
    /// What is to be cut.
    bytes: Vec<u8>,
}

impl<'scope, 'env> Crossing<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        reader: &'env ChunkReader<'env>,
        fingerprinter: &'env Fingerprinter,
        graft: Graft<'env>,
        how: How<'env>,
    ) -> Self {
        Self {
            reader,
            fingerprinter,
            graft,
            how,
            names: HashMap::new(),
            files: HashMap::new(),
            trees: HashMap::new(),
            steps: VecDeque::new(),
            batch: Vec::new(),
            batch_len: 0,
            ahead: Ahead::new(scope, Reach::of(reader.objects())),
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

    fn go_on(&self) -> Result<(), StoreError> {
        match self.how.cancel.is_cancelled() {
            true => Err(StoreError::Interrupted),
            false => Ok(()),
        }
    }

    fn entry(&mut self, entry: Entry, depth: usize) -> Result<(), StoreError> {
        tree::check_depth(depth)?;
        self.go_on()?;
        match entry.node {
            Node::File { content, .. } => self.file(entry, &content),
            Node::Directory { .. } => self.directory(entry, depth),
            _ => self.note(Step::Entry(entry)),
        }
    }

    fn directory(&mut self, mut entry: Entry, depth: usize) -> Result<(), StoreError> {
        if let Node::Directory { tree } = &mut entry.node
            && let Tree::Stored(recipe) = tree
            && let Some(known) = self.trees.get(recipe)
        {
            *tree = known.clone();
            return self.note(Step::Entry(entry));
        }
        self.note(Step::Enter)?;
        let mut entries = Entries::of_directory(&entry)?;
        while let Some(child) = entries.next(self.reader, Detail::All)? {
            entries.park_before(&child);
            self.entry(child, depth + 1)?;
        }
        self.note(Step::Leave(entry))
    }

    fn file(&mut self, mut entry: Entry, content: &Recipe) -> Result<(), StoreError> {
        if let Some(known) = self.files.get(content) {
            if let Node::File { content, .. } = &mut entry.node {
                *content = *known;
            }
            Progress::add(&self.how.progress.bytes, content.len);
            Progress::add(&self.how.progress.files, 1);
            return self.note(Step::Entry(entry));
        }
        let reader = self.reader;
        reader.visit(content, &mut |leaf| self.chunk(leaf))?;
        self.note(Step::File(entry))
    }

    fn chunk(&mut self, leaf: Recipe) -> Result<(), StoreError> {
        self.go_on()?;
        let name = match (self.how.rechunk, self.how.names_alike) {
            (true, _) => None,
            (false, true) => Some(leaf.root),
            (false, false) => self.names.get(&leaf.root).copied(),
        };
        if let Some(name) = name.filter(|name| self.graft.has(name)) {
            return self.note(Step::There(Recipe::chunk(name, leaf.len)));
        }
        self.batch.push(leaf);
        // No chunk is longer, whatever the recipe says.
        self.batch_len += leaf.len.min(MAX_GROUP_LEN.into()) as usize;
        self.note(Step::Read(leaf))?;
        match self.batch_len < BATCH_LEN {
            true => Ok(()),
            false => self.hand_out(),
        }
    }

    fn note(&mut self, step: Step) -> Result<(), StoreError> {
        self.steps.push_back(step);
        match self.steps.len() < MAX_STEPS {
            true => Ok(()),
            false => self.do_all(),
        }
    }

    /// Lets the chunks that were noted be read, and does what too much is on the way before.
    fn hand_out(&mut self) -> Result<(), StoreError> {
        let (leaves, len) = (mem::take(&mut self.batch), mem::take(&mut self.batch_len));
        if leaves.is_empty() {
            return Ok(());
        }
        let (reader, fingerprinter) = (self.reader, self.fingerprinter);
        let keeps_names = self.how.rechunk || self.how.names_alike;
        self.ahead.push(len, move || {
            let mut batch = Batch::default();
            for leaf in leaves {
                let bytes = reader.leaf(&leaf)?;
                let name = match keeps_names {
                    true => leaf.root,
                    false => fingerprinter.fingerprint(&bytes),
                };
                batch.bytes.extend_from_slice(&bytes);
                batch.chunks.push((name, bytes.len()));
            }
            Ok(batch)
        });
        while let Some(batch) = self.ahead.over()? {
            self.proceed(&batch?)?;
        }
        Ok(())
    }

    /// Does all that was noted.
    fn do_all(&mut self) -> Result<(), StoreError> {
        self.hand_out()?;
        while let Some(batch) = self.ahead.next()? {
            self.proceed(&batch?)?;
        }
        self.proceed(&Batch::default())
    }

    /// Does what was noted, up to the first chunk that is not in `batch`.
    fn proceed(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let (mut chunks, mut rest) = (batch.chunks.iter(), &batch.bytes[..]);
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::Read(leaf) => {
                    let Some((name, len)) = chunks.next() else {
                        self.steps.push_front(Step::Read(leaf));
                        break;
                    };
                    let bytes;
                    (bytes, rest) = rest.split_at(*len);
                    self.store(&leaf, *name, bytes)?;
                }
                Step::There(copy) => {
                    Progress::add(&self.how.progress.bytes, copy.len);
                    self.file.recipe.push(copy, &mut |node| self.graft.node(node))?;
                }
                Step::Entry(entry) => self.put(entry)?,
                Step::File(entry) => self.end_file(entry)?,
                Step::Enter => self.open.push(NewTree::default()),
                Step::Leave(entry) => self.leave(entry)?,
            }
        }
        Ok(())
    }

    /// Stores a chunk of the file at hand, or what is cut of it.
    fn store(&mut self, leaf: &Recipe, name: Fingerprint, bytes: &[u8]) -> Result<(), StoreError> {
        self.go_on()?;
        Progress::add(&self.how.progress.bytes, leaf.len);
        if self.how.rechunk {
            self.file.bytes.extend_from_slice(bytes);
            let File { recipe, bytes } = &mut self.file;
            return self.graft.cut(Content::Data, bytes, false, recipe);
        }
        let before = self.graft.new_bytes;
        self.graft.chunk(Content::Data, name, bytes)?;
        Progress::add(&self.how.progress.new_bytes, self.graft.new_bytes - before);
        if !self.how.names_alike {
            remember(&mut self.names, MAX_NAMES, leaf.root, name);
        }
        let copy = Recipe::chunk(name, leaf.len);
        self.file.recipe.push(copy, &mut |node| self.graft.node(node))
    }

    fn end_file(&mut self, mut entry: Entry) -> Result<(), StoreError> {
        let File { mut recipe, mut bytes } = mem::take(&mut self.file);
        if self.how.rechunk {
            self.graft.cut(Content::Data, &mut bytes, true, &mut recipe)?;
        }
        let copy = recipe.finish(&mut |node| self.graft.node(node))?;
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
        let copy = tree.finish(self.open.is_empty(), &mut self.graft)?;
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
            Some(tree) => return tree.push(&entry, &mut self.graft),
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
