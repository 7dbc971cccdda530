//! The second reader: what docs/format.md says of each object, and nothing of the library.
#![allow(unreachable_pub, reason = "a module of a test crate")]

mod fields;
pub mod keys;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

pub use self::fields::{Fields, Id, Print, check, hash, hex, parse_id};
pub use self::keys::{Keys, derive};
use self::keys::{agreed, open};

/// "Containers": where a group's stored bytes are, and what they give.
pub struct Group {
    pub offset: usize,
    pub stored: usize,
    pub len: usize,
    pub codec: u8,
    pub check: [u8; 16],
}

pub struct Container {
    /// Header and, if there is one, salt.
    pub start: Vec<u8>,
    pub content: u8,
    pub groups: Vec<Group>,
    /// Fingerprint, group, offset in the group, length; by slot.
    pub chunks: Vec<(Print, usize, usize, usize)>,
}

/// "Recipes".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    pub len: u64,
    pub depth: u8,
    pub root: Print,
}

/// "Trees": what is compared with the source.
#[derive(Debug, PartialEq)]
pub struct Thing {
    pub mode: u64,
    pub owner: (u64, u64),
    pub mtime: (i64, u64),
    pub inode: (u64, u64, u64),
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    pub is: Is,
}

#[derive(Debug, PartialEq)]
pub enum Is {
    File(Contents),
    Directory,
    Link(Vec<u8>),
    Pipe,
}

/// A file's bytes, shown shortly when they differ.
#[derive(PartialEq)]
pub struct Contents(pub Vec<u8>);

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of hash {}", self.0.len(), &hex(&hash(&[&self.0]))[..8])
    }
}

pub struct Entry {
    pub name: Vec<u8>,
    pub thing: Thing,
    /// A file's content and extents, or a directory's tree unless it stands in the entry.
    pub recipe: Recipe,
    pub tree: Option<Vec<u8>>,
    pub extents: Option<Vec<(u64, u64)>>,
    pub size: u64,
}

pub struct Snapshot {
    pub paths: Vec<Vec<u8>>,
    pub tags: Vec<String>,
    pub parent: Option<Id>,
    pub counts: [u64; 9],
    pub root: Entry,
}

/// An entry of a log.
#[derive(Clone)]
pub struct Logged {
    pub writer: [u8; 8],
    /// Over the whole entry as it is stored.
    pub check: [u8; 16],
    pub host: String,
    pub committed: Vec<Id>,
    pub forgotten: Vec<Id>,
}

/// A repository as the document describes it.
pub struct Reader {
    pub root: PathBuf,
    pub id: Id,
    pub keys: Option<Keys>,
    pub containers: HashMap<Id, Container>,
    /// Groups that were read, by container and number.
    pub groups: RefCell<HashMap<(Id, usize), Vec<u8>>>,
    /// From the footers: every chunk and a place where it is.
    pub places: HashMap<Print, (Id, usize)>,
}

impl Reader {
    pub fn open(root: &Path, password: &[u8]) -> Self {
        let mut reader = Self {
            root: root.into(),
            id: [0; 16],
            keys: None,
            containers: HashMap::new(),
            groups: RefCell::default(),
            places: HashMap::new(),
        };
        let config = reader.file("config");
        reader.id = config[16..32].try_into().unwrap();
        reader.keys = match config[6] {
            0 => None,
            1 => Some(reader.unlock(password)),
            suite => panic!("suite {suite}"),
        };
        for name in reader.names("containers") {
            let id = parse_id(name.rsplit('/').next().unwrap());
            assert_eq!(name, format!("containers/{}/{}", &hex(&id)[..2], hex(&id)));
            let container = reader.container(&name, id);
            for (slot, chunk) in container.chunks.iter().enumerate() {
                reader.places.insert(chunk.0, (id, slot));
            }
            reader.containers.insert(id, container);
        }
        reader
    }

    /// "Keys" and "Key epochs".
    pub fn unlock(&self, password: &[u8]) -> Keys {
        let master = self.ids("keys").iter().find_map(|id| self.unwrap(*id, password));
        let master = master.expect("a key opens with the password");
        let mut keys = Keys { master, sealing: vec![derive("sealing key of epoch 0", &[&master])] };
        let epochs =
            if self.root.join("epochs").is_dir() { self.ids("epochs") } else { BTreeSet::new() };
        for (epoch, id) in (1..).zip(epochs) {
            assert_eq!(id, u128::to_be_bytes(epoch));
            let object = self.file(&format!("epochs/{}", hex(&id)));
            assert_eq!(
                (object[..7].to_vec(), &object[32..48]),
                (b"1FLD\x01\x07\x01".to_vec(), &id[..])
            );
            let (sealed, tag) = object[80..].split_at(32);
            let key = open(keys.of_object(&object[..80]), 0, &[&object[..48]], sealed, tag);
            keys.sealing.push(key.try_into().unwrap());
        }
        keys
    }

    pub fn unwrap(&self, id: Id, password: &[u8]) -> Option<[u8; 32]> {
        let object = self.file(&format!("keys/{}", hex(&id)));
        let (covered, found) = object.split_at(object.len() - 16);
        assert_eq!(found, check(&[covered]));
        let mut fields = Fields(covered);
        if covered[5] == 12 {
            return None;
        }
        assert_eq!(fields.take(8), b"1FLD\x01\x06\x01\0");
        assert_eq!(fields.take(8), [0; 8]);
        assert_eq!((fields.array(), fields.array()), (self.id, id));
        let salt = fields.take(32);
        let costs = argon2::Config {
            mem_cost: fields.u32(),
            time_cost: fields.u32(),
            lanes: fields.u32(),
            hash_length: 32,
            variant: argon2::Variant::Argon2id,
            version: argon2::Version::Version13,
            secret: &[],
            ad: &[],
            ..argon2::Config::default()
        };
        let stretched = argon2::hash_raw(password, salt, &costs).unwrap();
        self.unwrapped(covered, 92, stretched.try_into().unwrap())
    }

    /// "Keys for key pairs".
    pub fn unwrap_by(&self, id: Id, private: [u8; 32]) -> Option<[u8; 32]> {
        let object = self.file(&format!("keys/{}", hex(&id)));
        let (covered, found) = object.split_at(object.len() - 16);
        assert_eq!(found, check(&[covered]));
        if covered[5] != 12 {
            return None;
        }
        let mut fields = Fields(covered);
        assert_eq!(fields.take(8), b"1FLD\x01\x0c\x01\0");
        assert_eq!(fields.take(8), [0; 8]);
        assert_eq!((fields.array(), fields.array()), (self.id, id));
        self.unwrapped(covered, 80, agreed(private, fields.array()))
    }

    /// The master key in a key's object whose first `start` bytes the secret covers.
    pub fn unwrapped(&self, covered: &[u8], start: usize, secret: [u8; 32]) -> Option<[u8; 32]> {
        let (before, rest) = covered.split_at(start);
        let mut fields = Fields(rest);
        if derive("commitment to a wrapping key", &[&secret, before]) != fields.array() {
            return None;
        }
        let wrapping = derive("wrapping key", &[&secret]);
        let master = open(wrapping, 0, &[before], fields.take(32), fields.take(16));
        let (remark, tag) = fields.0.split_at(fields.0.len() - 16);
        let keys = Keys { master: master.try_into().unwrap(), sealing: Vec::new() };
        let before_remark = &covered[..start + 80];
        let remark = open(keys.of_object(&covered[..80]), 0, &[before_remark], remark, tag);
        let mut fields = Fields(&remark);
        assert_eq!(fields.time(), (7, 8));
        assert_eq!([fields.text(), fields.text()], ["somewhere", "someone"]);
        assert!(["first", "second", "pair"].contains(&fields.text().as_str()));
        fields.end();
        Some(keys.master)
    }

    /// What names a chunk.
    pub fn print(&self, bytes: &[u8]) -> Print {
        match &self.keys {
            None => hash(&[bytes]),
            Some(keys) => {
                let key = derive("fingerprint key", &[&keys.master]);
                *blake3::keyed_hash(&key, bytes).as_bytes()
            }
        }
    }

    /// How many bytes stand before a body or before groups.
    pub fn start(&self) -> usize {
        if self.keys.is_some() { 80 } else { 48 }
    }

    /// The end of an object as it is without encryption, its check or tag found right.
    pub fn end(&self, start: &[u8], end: &[u8], clear: &[u8], check_or_tag: &[u8]) -> Vec<u8> {
        match &self.keys {
            None => {
                assert_eq!(check_or_tag, check(&[start, end, clear]));
                end.to_vec()
            }
            Some(keys) => open(keys.of_object(start), 0, &[&start[..48], clear], end, check_or_tag),
        }
    }

    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// "Names": all objects below a directory.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let mut names = Vec::new();
        for found in fs::read_dir(self.root.join(directory)).unwrap() {
            let found = found.unwrap();
            let name = format!("{directory}/{}", found.file_name().into_string().unwrap());
            match found.file_type().unwrap().is_dir() {
                true => names.extend(self.names(&name)),
                false => names.push(name),
            }
        }
        names.sort();
        names
    }

    pub fn ids(&self, directory: &str) -> BTreeSet<Id> {
        self.names(directory)
            .iter()
            .map(|name| parse_id(name.strip_prefix(directory).unwrap().strip_prefix('/').unwrap()))
            .collect()
    }

    /// "Envelope": fails unless `object` has the header that it must have.
    pub fn header(&self, object: &[u8], kind: u8, id: Id) {
        let mut fields = Fields(object);
        assert_eq!(fields.array(), *b"1FLD");
        let version = if kind == 14 { 2 } else { 1 };
        assert_eq!((fields.u8(), fields.u8()), (version, kind), "version and kind");
        let suite = fields.u8();
        assert!(if self.keys.is_some() { matches!(suite, 1 | 2) } else { suite == 0 }, "suite");
        assert_eq!(fields.u8(), 0, "reserved");
        let latest = self.keys.as_ref().map_or(0, |keys| keys.sealing.len() as u32 - 1);
        let epoch = fields.u32();
        assert!(if suite == 2 { epoch > 0 } else { epoch <= latest }, "key epoch, or client");
        let may_pad = self.keys.is_some() && !matches!(kind, 1 | 2 | 6 | 7 | 12 | 13);
        assert!(fields.u32() <= u32::from(may_pad), "flags");
        assert_eq!(fields.array::<16>(), self.id, "repository");
        assert_eq!(fields.array::<16>(), id, "object");
    }

    pub fn body(&self, name: &str, kind: u8, id: Id) -> Vec<u8> {
        let mut object = self.file(name);
        self.header(&object, kind, id);
        if kind == 1 && self.keys.is_some() {
            let found = object.split_off(object.len() - 16);
            assert_eq!(found, check(&[&object]), "{name}");
        }
        let (covered, found) = object.split_at(object.len() - 16);
        let (start, body) = covered.split_at(self.start());
        let mut body = self.end(start, body, b"", found);
        if object[12] == 1 {
            let end = body.iter().rposition(|byte| *byte != 0).expect("padding begins with 1");
            assert_eq!(body[end], 1);
            body.truncate(end);
            assert_eq!(padme(object.len()), object.len(), "{name}");
        }
        body
    }

    /// "Bundles": of each what it copies, and how many; fails unless each copy is what it copies.
    pub fn bundles(&self) -> Vec<(&'static str, usize)> {
        let mut found = Vec::new();
        for name in self.names("bundles") {
            let id = parse_id(name.rsplit('/').next().unwrap());
            assert_eq!(name, format!("bundles/{}/{}", &hex(&id)[..2], hex(&id)));
            let of = ["logs", "snapshots", "index"][usize::from(id[0])];
            let body = self.body(&name, 14, id);
            let mut fields = Fields(&body);
            let copies = fields.list(|fields| (fields.array::<16>(), fields.bytes().to_vec()));
            fields.end();
            assert!(copies.is_sorted_by(|a, b| a.0 < b.0));
            assert_eq!(copies.len(), u32::from_be_bytes(id[1..5].try_into().unwrap()) as usize);
            for (original, copy) in &copies {
                assert!(*copy == self.file(&format!("{of}/{}", hex(original))), "{name}");
            }
            found.push((of, copies.len()));
        }
        found
    }

    pub fn container(&self, name: &str, id: Id) -> Container {
        let object = self.file(name);
        self.header(&object, 2, id);
        let (covered, found) = object.split_at(object.len() - 16);
        let (before, footer_len) = covered.split_at(covered.len() - 4);
        let len = u32::from_le_bytes(footer_len.try_into().unwrap()) as usize;
        let start = object[..self.start()].to_vec();
        assert!(start.len() + len <= before.len(), "{name}: a footer longer than the container");
        let (stored, footer) = before.split_at(before.len() - len);
        let footer = self.end(&start, footer, footer_len, found);

        let mut fields = Fields(&footer);
        let content = fields.u8();
        assert!(content < 2);
        let (mut groups, mut chunks) = (Vec::new(), Vec::new());
        let mut offset = start.len();
        for group in 0..fields.varint() as usize {
            let (stored, len) = (fields.varint() as usize, fields.varint() as usize);
            let (codec, check) = (fields.u8(), fields.array());
            assert!(stored <= 65 << 20 && len <= 65 << 20 && codec < 2);
            let mut at = 0;
            for _ in 0..fields.varint() {
                let (print, chunk_len) = (fields.array(), fields.varint() as usize);
                assert!(chunk_len > 0);
                chunks.push((print, group, at, chunk_len));
                at += chunk_len;
            }
            let is_padding = at == 0 && codec == 0;
            assert!(at == len && (len > 0 || is_padding), "chunks fill their group");
            groups.push(Group { offset, stored, len, codec, check });
            offset += stored;
        }
        fields.end();
        assert!(!groups.is_empty());
        assert_eq!(offset, stored.len(), "groups end where the footer begins");
        Container { start, content, groups, chunks }
    }

    pub fn group(&self, id: Id, number: usize) -> Vec<u8> {
        let Container { start, groups, .. } = &self.containers[&id];
        let group = &groups[number];
        let object = self.file(&format!("containers/{}/{}", &hex(&id)[..2], hex(&id)));
        let stored = &object[group.offset..group.offset + group.stored];
        let stored = match &self.keys {
            None => {
                assert_eq!(check(&[stored]), group.check);
                stored.to_vec()
            }
            Some(keys) => {
                let key = keys.of_object(start);
                open(key, 1 + number as u64, &[&start[..48]], stored, &group.check)
            }
        };
        let bytes = match group.codec {
            0 if group.len == 0 => Vec::new(),
            0 => stored,
            _ => zstd::bulk::decompress(&stored, group.len).unwrap(),
        };
        assert_eq!(bytes.len(), group.len);
        bytes
    }

    /// "Reading a file", step 4.
    pub fn chunk(&self, print: &Print) -> Vec<u8> {
        let (id, slot) = self.places.get(print).expect("the chunk is in a container");
        let container = &self.containers[id];
        let (_, group, offset, len) = container.chunks[*slot];
        let mut groups = self.groups.borrow_mut();
        let opened = groups.entry((*id, group)).or_insert_with(|| self.group(*id, group));
        let bytes = opened[offset..offset + len].to_vec();
        assert_eq!(self.print(&bytes), *print);
        bytes
    }

    /// "Recipes": the children of a node.
    pub fn children(&self, node: &Recipe) -> Vec<Recipe> {
        let bytes = self.chunk(&node.root);
        let mut fields = Fields(&bytes);
        let children = fields.list(|fields| {
            let (root, len) = (fields.array(), fields.varint());
            assert!(len > 0);
            Recipe { len, depth: node.depth - 1, root }
        });
        fields.end();
        assert_eq!(children.iter().map(|child| child.len).sum::<u64>(), node.len);
        children
    }

    pub fn read(&self, recipe: &Recipe) -> Vec<u8> {
        let bytes = match (recipe.len, recipe.depth) {
            (0, _) => Vec::new(),
            (_, 0) => self.chunk(&recipe.root),
            _ => {
                let children = self.children(recipe);
                assert!(children.len() <= 4096);
                children.iter().flat_map(|child| self.read(child)).collect()
            }
        };
        assert_eq!(bytes.len() as u64, recipe.len);
        bytes
    }

    /// Fails unless every level below `recipe` is divided as writers divide it.
    pub fn assert_split(&self, recipe: &Recipe) {
        let mut nodes = vec![*recipe];
        while nodes[0].depth > 0 {
            let lists: Vec<_> = nodes.iter().map(|node| self.children(node)).collect();
            for (at, list) in lists.iter().enumerate() {
                let closes = |child: &Recipe| {
                    u64::from_be_bytes(child.root[..8].try_into().unwrap()) % 512 == 0
                };
                let early = list[..list.len() - 1].iter().skip(63).any(closes);
                assert!(!early, "a node goes on behind its end");
                let ends = list.len() >= 64 && closes(list.last().unwrap());
                assert!(ends || list.len() == 4096 || at + 1 == lists.len());
            }
            nodes = lists.concat();
        }
    }

    /// "Snapshots".
    /// "Logs": what a host is called in them.
    pub fn writer(&self, host: &str) -> [u8; 8] {
        let whole = match &self.keys {
            None => hash(&[host.as_bytes()]),
            Some(keys) => {
                derive("pseudonym", &[&derive("index key", &[&keys.master]), host.as_bytes()])
            }
        };
        whole[..8].try_into().unwrap()
    }

    /// "Logs": the entries of each, in order; fails if one does not follow the one before it.
    pub fn logs(&self) -> Vec<Vec<Logged>> {
        let mut logs = BTreeMap::<[u8; 8], Vec<Logged>>::new();
        for id in self.ids("logs") {
            let name = format!("logs/{}", hex(&id));
            let body = self.body(&name, 11, id);
            let mut fields = Fields(&body);
            let previous = fields.bytes().to_vec();
            assert!(fields.time().0 > 1_700_000_000);
            let host = fields.text();
            let (committed, forgotten) = (fields.list(Fields::array), fields.list(Fields::array));
            let settled = fields.list(|fields| (fields.varint(), fields.varint()));
            assert_eq!(settled, [], "nothing was repaired");
            fields.end();
            let writer: [u8; 8] = id[..8].try_into().unwrap();
            let log = logs.entry(writer).or_default();
            assert_eq!(log.len() as u64, u64::from_be_bytes(id[8..].try_into().unwrap()));
            assert_eq!(previous, log.last().map_or(Vec::new(), |before| before.check.to_vec()));
            let check = check(&[&self.file(&name)]);
            log.push(Logged { writer, check, host, committed, forgotten });
        }
        logs.into_values().collect()
    }

    /// "Taking a key back": the snapshots that count.
    pub fn snapshots(&self) -> BTreeSet<Id> {
        let counts = |id: &Id| {
            let object = self.file(&format!("snapshots/{}", hex(id)));
            let client = u32::from_le_bytes(object[8..12].try_into().unwrap());
            let kept = (object[6] == 2).then(|| self.kept(client)).flatten();
            kept.is_none_or(|kept| kept.get(id) == Some(&check(&[&object])))
        };
        self.ids("snapshots").into_iter().filter(counts).collect()
    }

    /// "Taking a key back": the snapshots of a client that stay, if its key was taken back.
    pub fn kept(&self, client: u32) -> Option<BTreeMap<Id, [u8; 16]>> {
        let id = |step: u64| -> Id {
            [u64::from(client).to_be_bytes(), step.to_be_bytes()].concat().try_into().unwrap()
        };
        let ids = self.ids("clients");
        let body = |step| self.body(&format!("clients/{}", hex(&id(step))), 13, id(step));
        let added = body(0);
        let mut fields = Fields(&added);
        fields.time();
        assert_eq!([fields.text(), fields.text(), fields.text()], ["", "", "a client"]);
        fields.end();
        if !ids.contains(&id(2)) {
            assert!(!ids.contains(&id(1)), "nothing was cut off");
            return None;
        }
        let removed = body(1);
        let mut fields = Fields(&removed);
        assert!(fields.time().0 > 1_700_000_000);
        fields.end();
        let word = body(2);
        let mut fields = Fields(&word);
        let pairs = |fields: &mut Fields<'_>| -> Vec<(Id, [u8; 16])> {
            let pairs = fields.list(|fields| (fields.array(), fields.array()));
            assert!(pairs.is_sorted_by_key(|(id, _)| *id));
            pairs
        };
        let mut kept = pairs(&mut fields);
        let parts = fields.list(|fields| (fields.u64(), fields.array::<16>()));
        fields.end();
        for (part, expected) in parts {
            let name = format!("clients/{}", hex(&id(part)));
            assert_eq!(check(&[&self.file(&name)]), expected, "{name}");
            let part = self.body(&name, 13, id(part));
            let mut fields = Fields(&part);
            kept.extend(pairs(&mut fields));
            fields.end();
        }
        Some(kept.into_iter().collect())
    }

    pub fn snapshot(&self, id: Id) -> Snapshot {
        let body = self.body(&format!("snapshots/{}", hex(&id)), 4, id);
        let mut fields = Fields(&body);
        fields.time();
        assert_eq!([fields.text(), fields.text()], ["somewhere", "someone"]);
        assert!(fields.text().starts_with("onefold "));
        let paths = fields.list(|fields| fields.bytes().to_vec());
        let tags = fields.list(Fields::text);
        let parent = fields.bytes();
        assert!(matches!(parent.len(), 0 | 16));
        let counts = std::array::from_fn(|_| fields.varint());
        let root = entry(&mut fields);
        fields.end();
        assert!(root.name.is_empty() && root.thing.is == Is::Directory);
        Snapshot { paths, tags, parent: parent.try_into().ok(), counts, root }
    }

    /// "Trees": everything below `directory`, by path.
    pub fn below(&self, directory: &Entry, path: &[u8], things: &mut BTreeMap<Vec<u8>, Thing>) {
        let bytes = self.tree(directory);
        let mut fields = Fields(&bytes);
        let mut last = Vec::new();
        while !fields.0.is_empty() {
            let mut entry = entry(&mut fields);
            assert!(!matches!(&entry.name[..], b"" | b"." | b".."));
            assert!(!entry.name.iter().any(|byte| matches!(byte, 0 | b'/')));
            assert!(last < entry.name, "names ascend");
            last = entry.name.clone();
            let path = [path, &entry.name].join(&b'/');
            match entry.thing.is {
                Is::Directory => self.below(&entry, &path, things),
                Is::File(_) => entry.thing.is = Is::File(Contents(self.contents(&entry))),
                _ => {}
            }
            things.insert(path, entry.thing);
        }
    }

    pub fn tree(&self, directory: &Entry) -> Vec<u8> {
        directory.tree.clone().unwrap_or_else(|| self.read(&directory.recipe))
    }

    pub fn contents(&self, file: &Entry) -> Vec<u8> {
        let content = self.read(&file.recipe);
        let Some(extents) = &file.extents else { return content };
        let mut bytes = vec![0; file.size as usize];
        let (mut end, mut from) = (0, 0);
        for (hole, len) in extents {
            let (offset, len) = (end + *hole as usize, *len as usize);
            bytes[offset..offset + len].copy_from_slice(&content[from..from + len]);
            (end, from) = (offset + len, from + len);
        }
        assert_eq!(from, content.len());
        bytes
    }

    /// Every entry below `directory`.
    pub fn entries(&self, directory: &Entry) -> Vec<Entry> {
        let bytes = self.tree(directory);
        let mut fields = Fields(&bytes);
        let mut entries = Vec::new();
        while !fields.0.is_empty() {
            let entry = entry(&mut fields);
            if entry.thing.is == Is::Directory {
                entries.extend(self.entries(&entry));
            }
            entries.push(entry);
        }
        entries
    }
}

/// "Padding".
pub fn padme(len: usize) -> usize {
    let e = len.ilog2();
    let zeros = e - (e.ilog2() + 1);
    len.next_multiple_of(1 << zeros)
}

pub fn recipe(fields: &mut Fields<'_>) -> Recipe {
    match fields.varint() {
        0 => Recipe { len: 0, depth: 0, root: [0; 32] },
        len => {
            let recipe = Recipe { len, depth: fields.u8(), root: fields.array() };
            assert!(recipe.depth <= 11);
            recipe
        }
    }
}

pub fn entry(fields: &mut Fields<'_>) -> Entry {
    let kind = fields.u8();
    let name = fields.bytes().to_vec();
    let mode = fields.varint();
    assert!(mode <= 4095);
    let owner = (fields.varint(), fields.varint());
    let mtime = fields.time();
    fields.time();
    let inode = (fields.varint(), fields.varint(), fields.varint());
    let attributes = fields.list(|fields| (fields.bytes().to_vec(), fields.bytes().to_vec()));
    assert!(attributes.is_sorted());
    let no_bytes = Recipe { len: 0, depth: 0, root: [0; 32] };
    let (mut size, mut content, mut extents, mut tree) = (0, no_bytes, None, None);
    let is = match kind {
        0 | 1 => {
            size = fields.varint();
            content = recipe(fields);
            if kind == 1 {
                extents = Some(fields.list(|fields| (fields.varint(), fields.varint())));
            }
            let listed = extents.as_ref().map_or(size, |list| list.iter().map(|e| e.1).sum());
            assert_eq!(listed, content.len);
            Is::File(Contents(Vec::new()))
        }
        2 => {
            content = recipe(fields);
            Is::Directory
        }
        3 => Is::Link(fields.bytes().to_vec()),
        4 => Is::Pipe,
        8 => {
            let bytes = fields.bytes().to_vec();
            assert!(bytes.len() <= 1024);
            tree = Some(bytes);
            Is::Directory
        }
        _ => panic!("the source has nothing of kind {kind}"),
    };
    let thing = Thing { mode, owner, mtime, inode, attributes, is };
    Entry { name, thing, recipe: content, tree, extents, size }
}
