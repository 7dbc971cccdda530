//! A second reader of repositories, written from docs/format.md alone.
//!
//! Nothing of the library reads here: files are read with `std`, and every field is taken and
//! refused as the document says. What comes out is compared with the source tree. A stored byte
//! that changes without the document fails this test.

mod format_keys;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{LocalObjects, Objects, Operation};
use onefold_cdc::{Algorithm, ChunkSizes, Params};
use onefold_seal::{Cost, Password};
use onefold_store::backup::{Options, backup};
use onefold_store::{
    Cancel, Config, KeyPair, KeyRemark, Located, Progress, Repository, WriteOnlyKey,
    parse_public_key, prune,
};
use onefold_testkit::{random, skip};

use format_keys::{Keys, derive, open};

type Id = [u8; 16];
type Print = [u8; 32];

/// "Conventions": takes fields from bytes and refuses what the document refuses.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        assert!(len <= self.0.len(), "{len} bytes expected, {} left", self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap()
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for at in 0..10 {
            let byte = self.u8();
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                assert!(at == 0 || byte != 0, "a varint is longer than needed");
                assert!(at < 9 || byte == 1, "a varint is above 64 bits");
                return value;
            }
        }
        panic!("a varint has more than ten bytes");
    }

    fn signed(&mut self) -> i64 {
        let n = self.varint();
        if n.is_multiple_of(2) { (n / 2) as i64 } else { -((n / 2) as i64) - 1 }
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = self.varint() as usize;
        self.take(len)
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("text is UTF-8")
    }

    fn time(&mut self) -> (i64, u64) {
        let time = (self.signed(), self.varint());
        assert!(time.1 <= 999_999_999);
        time
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.varint()).map(|_| item(self)).collect()
    }

    fn end(&self) {
        assert!(self.0.is_empty(), "{} bytes are left over", self.0.len());
    }
}

fn hash(parts: &[&[u8]]) -> Print {
    *blake3::hash(&parts.concat()).as_bytes()
}

fn check(parts: &[&[u8]]) -> [u8; 16] {
    hash(parts)[..16].try_into().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// "Containers": where a group's stored bytes are, and what they give.
struct Group {
    offset: usize,
    stored: usize,
    len: usize,
    codec: u8,
    check: [u8; 16],
}

struct Container {
    /// Header and, if there is one, salt.
    start: Vec<u8>,
    content: u8,
    groups: Vec<Group>,
    /// Fingerprint, group, offset in the group, length; by slot.
    chunks: Vec<(Print, usize, usize, usize)>,
}

/// "Recipes".
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recipe {
    len: u64,
    depth: u8,
    root: Print,
}

/// "Trees": what is compared with the source.
#[derive(Debug, PartialEq)]
struct Thing {
    mode: u64,
    owner: (u64, u64),
    mtime: (i64, u64),
    inode: (u64, u64, u64),
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    is: Is,
}

#[derive(Debug, PartialEq)]
enum Is {
    File(Contents),
    Directory,
    Link(Vec<u8>),
    Pipe,
}

/// A file's bytes, shown shortly when they differ.
#[derive(PartialEq)]
struct Contents(Vec<u8>);

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of hash {}", self.0.len(), &hex(&hash(&[&self.0]))[..8])
    }
}

struct Entry {
    name: Vec<u8>,
    thing: Thing,
    /// A file's content and extents, or a directory's tree unless it stands in the entry.
    recipe: Recipe,
    tree: Option<Vec<u8>>,
    extents: Option<Vec<(u64, u64)>>,
    size: u64,
}

struct Snapshot {
    paths: Vec<Vec<u8>>,
    tags: Vec<String>,
    parent: Option<Id>,
    counts: [u64; 9],
    root: Entry,
}

/// A repository as the document describes it.
/// An entry of a log.
#[derive(Clone)]
struct Logged {
    writer: [u8; 8],
    /// Over the whole entry as it is stored.
    check: [u8; 16],
    host: String,
    committed: Vec<Id>,
    forgotten: Vec<Id>,
}

struct Reader {
    root: PathBuf,
    id: Id,
    keys: Option<Keys>,
    containers: HashMap<Id, Container>,
    /// Groups that were read, by container and number.
    groups: RefCell<HashMap<(Id, usize), Vec<u8>>>,
    /// From the footers: every chunk and a place where it is.
    places: HashMap<Print, (Id, usize)>,
}

impl Reader {
    fn open(root: &Path, password: &[u8]) -> Self {
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
    fn unlock(&self, password: &[u8]) -> Keys {
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
                (b"1FLD\0\x07\x01".to_vec(), &id[..])
            );
            let (sealed, tag) = object[80..].split_at(32);
            let key = open(keys.of_object(&object[..80]), 0, &[&object[..48]], sealed, tag);
            keys.sealing.push(key.try_into().unwrap());
        }
        keys
    }

    fn unwrap(&self, id: Id, password: &[u8]) -> Option<[u8; 32]> {
        let object = self.file(&format!("keys/{}", hex(&id)));
        let (covered, found) = object.split_at(object.len() - 16);
        assert_eq!(found, check(&[covered]));
        let mut fields = Fields(covered);
        if covered[5] == 12 {
            return None;
        }
        assert_eq!(fields.take(8), b"1FLD\0\x06\x01\0");
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
    fn unwrap_by(&self, id: Id, private: [u8; 32]) -> Option<[u8; 32]> {
        let object = self.file(&format!("keys/{}", hex(&id)));
        let (covered, found) = object.split_at(object.len() - 16);
        assert_eq!(found, check(&[covered]));
        if covered[5] != 12 {
            return None;
        }
        let mut fields = Fields(covered);
        assert_eq!(fields.take(8), b"1FLD\0\x0c\x01\0");
        assert_eq!(fields.take(8), [0; 8]);
        assert_eq!((fields.array(), fields.array()), (self.id, id));
        self.unwrapped(covered, 80, format_keys::agreed(private, fields.array()))
    }

    /// The master key in a key's object whose first `start` bytes the secret covers.
    fn unwrapped(&self, covered: &[u8], start: usize, secret: [u8; 32]) -> Option<[u8; 32]> {
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
    fn print(&self, bytes: &[u8]) -> Print {
        match &self.keys {
            None => hash(&[bytes]),
            Some(keys) => {
                let key = derive("fingerprint key", &[&keys.master]);
                *blake3::keyed_hash(&key, bytes).as_bytes()
            }
        }
    }

    /// How many bytes stand before a body or before groups.
    fn start(&self) -> usize {
        if self.keys.is_some() { 80 } else { 48 }
    }

    /// The end of an object as it is without encryption, its check or tag found right.
    fn end(&self, start: &[u8], end: &[u8], clear: &[u8], check_or_tag: &[u8]) -> Vec<u8> {
        match &self.keys {
            None => {
                assert_eq!(check_or_tag, check(&[start, end, clear]));
                end.to_vec()
            }
            Some(keys) => open(keys.of_object(start), 0, &[&start[..48], clear], end, check_or_tag),
        }
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// "Names": all objects below a directory.
    fn names(&self, directory: &str) -> Vec<String> {
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

    fn ids(&self, directory: &str) -> BTreeSet<Id> {
        self.names(directory)
            .iter()
            .map(|name| parse_id(name.strip_prefix(directory).unwrap().strip_prefix('/').unwrap()))
            .collect()
    }

    /// "Envelope": fails unless `object` has the header that it must have.
    fn header(&self, object: &[u8], kind: u8, id: Id) {
        let mut fields = Fields(object);
        assert_eq!(fields.array(), *b"1FLD");
        assert_eq!((fields.u8(), fields.u8()), (0, kind), "version and kind");
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

    fn body(&self, name: &str, kind: u8, id: Id) -> Vec<u8> {
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

    fn container(&self, name: &str, id: Id) -> Container {
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

    fn group(&self, id: Id, number: usize) -> Vec<u8> {
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
    fn chunk(&self, print: &Print) -> Vec<u8> {
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
    fn children(&self, node: &Recipe) -> Vec<Recipe> {
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

    fn read(&self, recipe: &Recipe) -> Vec<u8> {
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
    fn assert_split(&self, recipe: &Recipe) {
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
    fn writer(&self, host: &str) -> [u8; 8] {
        let whole = match &self.keys {
            None => hash(&[host.as_bytes()]),
            Some(keys) => {
                derive("pseudonym", &[&derive("index key", &[&keys.master]), host.as_bytes()])
            }
        };
        whole[..8].try_into().unwrap()
    }

    /// "Logs": the entries of each, in order; fails if one does not follow the one before it.
    fn logs(&self) -> Vec<Vec<Logged>> {
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
    fn snapshots(&self) -> BTreeSet<Id> {
        let counts = |id: &Id| {
            let object = self.file(&format!("snapshots/{}", hex(id)));
            let client = u32::from_le_bytes(object[8..12].try_into().unwrap());
            let kept = (object[6] == 2).then(|| self.kept(client)).flatten();
            kept.is_none_or(|kept| kept.get(id) == Some(&check(&[&object])))
        };
        self.ids("snapshots").into_iter().filter(counts).collect()
    }

    /// "Taking a key back": the snapshots of a client that stay, if its key was taken back.
    fn kept(&self, client: u32) -> Option<BTreeMap<Id, [u8; 16]>> {
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
        let kept = body(2);
        let mut fields = Fields(&kept);
        let kept = fields.list(|fields| (fields.array(), fields.array()));
        fields.end();
        assert!(kept.is_sorted_by_key(|(id, _)| *id));
        Some(kept.into_iter().collect())
    }

    fn snapshot(&self, id: Id) -> Snapshot {
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
    fn below(&self, directory: &Entry, path: &[u8], things: &mut BTreeMap<Vec<u8>, Thing>) {
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

    fn tree(&self, directory: &Entry) -> Vec<u8> {
        directory.tree.clone().unwrap_or_else(|| self.read(&directory.recipe))
    }

    fn contents(&self, file: &Entry) -> Vec<u8> {
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
    fn entries(&self, directory: &Entry) -> Vec<Entry> {
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
fn padme(len: usize) -> usize {
    let e = len.ilog2();
    let zeros = e - (e.ilog2() + 1);
    len.next_multiple_of(1 << zeros)
}

fn parse_id(text: &str) -> Id {
    assert!(text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}

fn recipe(fields: &mut Fields<'_>) -> Recipe {
    match fields.varint() {
        0 => Recipe { len: 0, depth: 0, root: [0; 32] },
        len => {
            let recipe = Recipe { len, depth: fields.u8(), root: fields.array() };
            assert!(recipe.depth <= 11);
            recipe
        }
    }
}

fn entry(fields: &mut Fields<'_>) -> Entry {
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

const ATTRIBUTE: (&str, &[u8]) = ("user.onefold.test", b"value \0 \xff");

/// What the operating system says of everything below `directory`, by path below `base`.
fn source(base: &Path, directory: &Path, things: &mut BTreeMap<Vec<u8>, Thing>) {
    for found in fs::read_dir(directory).unwrap() {
        let path = found.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            source(base, &path, things);
        }
        let below = path.strip_prefix(base).unwrap().as_os_str().as_bytes();
        things.insert([b"/", below].concat(), thing(&path));
    }
}

fn thing(path: &Path) -> Thing {
    let meta = path.symlink_metadata().unwrap();
    let kind = meta.file_type();
    let is = if kind.is_dir() {
        Is::Directory
    } else if kind.is_symlink() {
        Is::Link(fs::read_link(path).unwrap().into_os_string().into_vec())
    } else if kind.is_fifo() {
        Is::Pipe
    } else {
        Is::File(Contents(fs::read(path).unwrap()))
    };
    let mut value = [0; 64];
    let attributes = match rustix::fs::lgetxattr(path, ATTRIBUTE.0, &mut value) {
        Ok(len) => vec![(ATTRIBUTE.0.into(), value[..len].to_vec())],
        Err(_) => Vec::new(),
    };
    Thing {
        mode: (meta.mode() & 0o7777).into(),
        owner: (meta.uid().into(), meta.gid().into()),
        mtime: (meta.mtime(), meta.mtime_nsec() as u64),
        inode: (meta.dev(), meta.ino(), meta.nlink()),
        attributes,
        is,
    }
}

/// Files of every kind that a user without privileges can make.
#[expect(clippy::disallowed_methods, reason = "the source of a backup, no durable byte")]
fn make_source(root: &Path) {
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::create_dir(root.join("empty directory")).unwrap();
    fs::write(root.join("large"), random(1, 1 << 20)).unwrap();
    fs::write(root.join("zeros"), vec![0; 300_000]).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("one byte"), b"1").unwrap();
    fs::write(root.join("deep/er").join(OsStr::from_bytes(b"not UTF-8 \xff")), b"name").unwrap();
    fs::hard_link(root.join("large"), root.join("deep/second name")).unwrap();
    symlink(OsStr::from_bytes(b"nowhere/\xfe"), root.join("link")).unwrap();
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), pipe, 0o600.into(), 0).unwrap();
    // As many as it takes for the tree itself to be cut into chunks below nodes.
    for number in 0..200 {
        fs::write(root.join(format!("deep/{number}")), number.to_string()).unwrap();
    }
    fs::set_permissions(root.join("one byte"), fs::Permissions::from_mode(0o4751)).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    sparse.write_all_at(&random(2, 70_000), 1 << 20).unwrap();
    sparse.write_all_at(b"near the end", 7 << 20).unwrap();
    fs::File::create(root.join("hole")).unwrap().set_len(1 << 20).unwrap();
    for name in ["one byte", "deep"] {
        let flags = rustix::fs::XattrFlags::empty();
        if let Err(error) = rustix::fs::setxattr(root.join(name), ATTRIBUTE.0, ATTRIBUTE.1, flags) {
            skip(&format!("no extended attributes in {}: {error}", root.display()));
            break;
        }
    }
}

fn options(tags: &[&str]) -> Options {
    Options {
        host: "somewhere".into(),
        user: "someone".into(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        container_len: 200_000,
        ..Options::default()
    }
}

#[test]
fn a_reader_of_the_document_reads_every_byte() {
    read_every_byte(false, false);
}

#[test]
fn a_reader_of_the_document_reads_every_byte_of_an_encrypted_repository() {
    read_every_byte(true, false);
}

#[test]
fn a_reader_of_the_document_reads_every_byte_of_a_padded_repository() {
    read_every_byte(true, true);
}

/// The repository in `objects`, with a key for each of two passwords if it is encrypted.
fn make(objects: &Arc<dyn Objects>, config: Config, is_encrypted: bool) -> Repository {
    if !is_encrypted {
        return Repository::init(Arc::clone(objects), config).unwrap();
    }
    let remark = |label: &str| KeyRemark {
        created: onefold_store::tree::Time { secs: 7, nanos: 8 },
        host: "somewhere".into(),
        user: "someone".into(),
        label: label.into(),
    };
    let [first, second] = [FIRST, SECOND].map(|password| Password::new(password.to_vec()));
    let cost = |lanes| Cost { memory_kib: 64, passes: 2, lanes };
    let made =
        Repository::init_encrypted(Arc::clone(objects), config, &first, cost(1), &remark("first"));
    let made = made.unwrap();
    made.add_key(&second, cost(3), &remark("second")).unwrap();
    let pair = KeyPair::parse(&key_text("onefold-private-key-1:", &[&PRIVATE])).unwrap();
    let public = parse_public_key(&pair.public_text()).unwrap();
    made.add_public_key(&public, &remark("pair")).unwrap();
    made
}

/// "Keys for key pairs": bytes as a line of text.
fn key_text(begins: &str, parts: &[&[u8]]) -> String {
    format!("{begins}{}{}", hex(&parts.concat()), hex(&check(parts)))
}

const PRIVATE: [u8; 32] = [0x5a; 32];

const FIRST: &[u8] = b"the first password";
const SECOND: &[u8] = b"the second one, not \xff UTF-8";

/// The repository in `objects` in a new key epoch, if it is encrypted.
fn rotate(objects: &Arc<dyn Objects>, repository: Repository) -> Repository {
    if !repository.is_encrypted() {
        return repository;
    }
    repository.rotate().unwrap();
    unlock_as_first(objects)
}

fn unlock_as_first(objects: &Arc<dyn Objects>) -> Repository {
    match Repository::locate(Arc::clone(objects)).unwrap() {
        Located::Locked(locked) => locked.unlock(&Password::new(FIRST.to_vec())).unwrap(),
        Located::Open(_) => panic!("it is encrypted"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the source of a backup, no durable byte")]
fn read_every_byte(is_encrypted: bool, padding: bool) {
    let folder = tempfile::tempdir().unwrap();
    let (home, root) = (folder.path().join("home"), folder.path().join("repository"));
    make_source(&home);
    let config = Config {
        params: Params::new(Algorithm::FastCdc, ChunkSizes::new(64, 256, 1024).unwrap()),
        padding,
        ..Config::standard()
    };
    let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(&root).unwrap());
    let repository = make(&objects, config, is_encrypted);
    let trust_text = repository.trust_text().unwrap_or_default();
    let mut expected = BTreeMap::new();
    let mut back_up = |repository: &Repository, paths: &[PathBuf], tags: &[&str]| {
        let (progress, cancel) = (Progress::default(), Cancel::default());
        let (id, _) = backup(repository, paths, &options(tags), &progress, &cancel).unwrap();
        let mut things = BTreeMap::new();
        for path in paths {
            let base = if paths.len() == 1 { path } else { path.parent().unwrap() };
            if paths.len() > 1 {
                let name = path.file_name().unwrap().as_bytes();
                things.insert([b"/", name].concat(), thing(path));
            }
            if path.is_dir() {
                source(base, path, &mut things);
            }
        }
        expected.insert(*id.as_bytes(), things);
        *id.as_bytes()
    };
    let first = back_up(&repository, std::slice::from_ref(&home), &[]);
    let mut large = fs::read(home.join("large")).unwrap();
    large.splice(500_000..500_010, *b"something else");
    fs::write(home.join("large"), large).unwrap();
    fs::remove_file(home.join("deep/7")).unwrap();
    let repository = rotate(&objects, repository);
    let second = back_up(&repository, std::slice::from_ref(&home), &["changed", "größer"]);
    fs::write(home.join("single"), b"a file as a source").unwrap();
    // By a client that can only write, if there are keys.
    let repository = if is_encrypted {
        let remark = KeyRemark { label: "a client".into(), ..KeyRemark::default() };
        let key = repository.add_client(&remark).unwrap();
        let key = WriteOnlyKey::parse(&key.to_text()).unwrap();
        let Located::Locked(locked) = Repository::locate(Arc::clone(&objects)).unwrap() else {
            panic!("it is encrypted")
        };
        locked.open_write_only(&key).unwrap()
    } else {
        repository
    };
    let third = back_up(&repository, &[home.join("deep"), home.join("single")], &[]);
    let reader = Reader::open(&root, SECOND);
    assert_eq!(reader.snapshots(), [first, second, third].into());
    if is_encrypted {
        // Its key is taken back, and it puts one more all the same.
        let owner = unlock_as_first(&objects);
        let [client] = &owner.clients().unwrap().0[..] else { panic!("there is one") };
        owner.remove_client(client.number).unwrap();
        let (progress, cancel) = (Progress::default(), Cancel::default());
        let late = backup(&repository, &[home.join("deep")], &options(&[]), &progress, &cancel);
        late.unwrap_err();
    }

    let reader = Reader::open(&root, SECOND);
    if is_encrypted {
        let headers = reader.ids("snapshots");
        let headers = headers.iter().map(|id| reader.file(&format!("snapshots/{}", hex(id))));
        let of = |header: Vec<u8>| (header[6], u32::from_le_bytes(header[8..12].try_into().unwrap()));
        let mut of: Vec<_> = headers.map(of).collect();
        of.sort_unstable();
        let [(2, client), (2, again)] = of.split_off(2)[..] else { panic!("{of:?}") };
        assert_eq!((of, client), (vec![(1, 0), (1, 1)], again));
    }
    assert_eq!(reader.snapshots(), [first, second, third].into());
    if let Some(keys) = &reader.keys {
        let found: Vec<_> =
            reader.ids("keys").iter().filter_map(|id| reader.unwrap_by(*id, PRIVATE)).collect();
        assert_eq!(found, [keys.master]);
        let identity = derive("identity of a repository", &[&keys.master]);
        let trust = key_text("onefold-repository-1:", &[&reader.id, &identity]);
        assert_eq!(trust, trust_text);
    }

    let body = reader.body("config", 1, reader.id);
    let mut fields = Fields(&body);
    assert_eq!(fields.u8(), 3, "FastCDC");
    assert_eq!([fields.varint(), fields.varint(), fields.varint()], [64, 256, 1024]);
    assert_eq!((fields.varint(), fields.u8(), fields.array()), (48, 2, [0; 8]));
    let fingerprint = u8::from(is_encrypted);
    assert_eq!((fields.u8(), fields.signed()), (fingerprint, 3), "BLAKE3 and zstd 3");
    if padding {
        assert_eq!(fields.u8(), 1, "Padmé");
        for name in reader.names("containers") {
            assert_eq!(padme(reader.file(&name).len()), reader.file(&name).len());
        }
        let containers = reader.containers.values();
        let padded = containers.filter(|one| one.groups.iter().any(|group| group.len == 0));
        assert_eq!(padded.count(), reader.containers.len());
    }
    fields.end();

    let mut sparse = 0;
    for (id, expected) in &expected {
        let snapshot = reader.snapshot(*id);
        let mut found = BTreeMap::new();
        reader.below(&snapshot.root, b"", &mut found);
        let names = |things: &BTreeMap<Vec<u8>, Thing>| -> Vec<OsString> {
            things.keys().map(|name| OsString::from_vec(name.clone())).collect()
        };
        assert_eq!(names(&found), names(expected));
        for (name, thing) in expected {
            assert_eq!(found[name], *thing, "{}", String::from_utf8_lossy(name));
        }
        let is_file = |thing: &&Thing| matches!(thing.is, Is::File(_));
        assert_eq!(snapshot.counts[0], found.values().filter(is_file).count() as u64);
        let directories = found.values().filter(|thing| thing.is == Is::Directory).count();
        assert_eq!(snapshot.counts[1], directories as u64 + 1);
        assert_eq!(snapshot.counts[7], 0, "unreadable");
        let entries = reader.entries(&snapshot.root);
        let recipes: Vec<_> = entries.iter().map(|entry| entry.recipe).collect();
        recipes.iter().for_each(|recipe| reader.assert_split(recipe));
        assert!(recipes.iter().any(|recipe| recipe.depth >= 2), "no recipe is deep");
        if *id != third {
            sparse += entries.iter().filter(|entry| entry.extents.is_some()).count();
        }
    }
    match sparse {
        0 => skip(&format!("no holes in {}", home.display())),
        sparse => assert_eq!(sparse, 4, "two files with holes, twice"),
    }

    let home_path = home.canonicalize().unwrap().into_os_string().into_vec();
    let snapshot = reader.snapshot(first);
    assert_eq!((snapshot.paths, snapshot.parent), (vec![home_path.clone()], None));
    assert_eq!(snapshot.root.thing.mode, thing(&home).mode);
    let snapshot = reader.snapshot(second);
    assert_eq!((snapshot.paths, snapshot.parent), (vec![home_path], Some(first)));
    assert_eq!(snapshot.tags, ["changed", "größer"]);
    let snapshot = reader.snapshot(third);
    assert_eq!((snapshot.paths.len(), snapshot.parent), (2, None));
    assert_eq!((snapshot.root.thing.mode, snapshot.root.thing.owner), (0o755, (0, 0)));
    assert_eq!(snapshot.root.thing.inode, (0, 0, 0));

    assert_runs_say_what_footers_say(&reader, &expected.keys().copied().collect());
    // Each snapshot in the order in which it was made, by a host that nobody named.
    let [log] = &reader.logs()[..] else { panic!("one host backed up") };
    let committed = log.iter().map(|entry| (entry.committed.clone(), entry.forgotten.clone()));
    assert_eq!(committed.collect::<Vec<_>>(), [first, second, third].map(|id| (vec![id], vec![])));
    for entry in log {
        assert_eq!((&*entry.host, entry.writer), ("", reader.writer("")));
    }
}

/// Objects whose puts of snapshots, and of fences in their place, fail for ever.
fn without_commits(root: &Path) -> Arc<dyn Objects> {
    let faults = Faults::none();
    let snapshots = Fault::new(Failure::Io).on(Operation::Put).named("snapshots/").times(u64::MAX);
    faults.add(snapshots);
    Arc::new(Faulty::new(LocalObjects::open(root).unwrap(), "repository", &faults))
}

#[test]
fn a_reader_of_the_document_reads_intents_marks_and_fences() {
    for is_encrypted in [false, true] {
        read_what_prunes_leave(is_encrypted);
    }
}

/// "Forget and prune": two backups die before they commit, and prunes see to them.
#[expect(clippy::disallowed_methods, reason = "the source of a backup, no durable byte")]
fn read_what_prunes_leave(is_encrypted: bool) {
    let folder = tempfile::tempdir().unwrap();
    let (home, root) = (folder.path().join("home"), folder.path().join("repository"));
    fs::create_dir(&home).unwrap();
    let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(&root).unwrap());
    make(&objects, Config::standard(), is_encrypted);
    let open = |objects: Arc<dyn Objects>| match Repository::locate(objects).unwrap() {
        Located::Locked(locked) => locked.unlock(&Password::new(FIRST.to_vec())).unwrap(),
        Located::Open(repository) => *repository,
    };
    let back_up = |objects: &Arc<dyn Objects>| {
        let (progress, cancel) = (Progress::default(), Cancel::default());
        let paths = std::slice::from_ref(&home);
        backup(&open(Arc::clone(objects)), paths, &options(&[]), &progress, &cancel)
    };
    let prune = |fence_after| {
        let options = prune::Options { fence_after, ..prune::Options::default() };
        let repository = open(Arc::clone(&objects));
        prune::prune(&repository, &options, &Progress::default(), &Cancel::default()).unwrap();
    };
    let only = |reader: &Reader, directory: &str, but: &BTreeSet<Id>| {
        let new: Vec<Id> = reader.ids(directory).difference(but).copied().collect();
        let [id] = new[..] else { panic!("{} new in {directory}", new.len()) };
        id
    };
    // What an intent says that is at `id`: the marks that it names.
    let intent = |reader: &Reader, id: Id| {
        let body = reader.body(&format!("intents/{}", hex(&id)), 8, id);
        let mut fields = Fields(&body);
        assert!(fields.time().0 > 1_700_000_000);
        assert_eq!([fields.text(), fields.text()], ["somewhere", "someone"]);
        assert!(fields.text().starts_with("onefold "));
        assert_eq!(fields.varint(), u64::from(std::process::id()));
        let marks = fields.list(Fields::array::<16>);
        fields.end();
        marks
    };

    fs::write(home.join("first"), random(1, 100_000)).unwrap();
    let (forgotten, _) = back_up(&objects).unwrap();
    fs::write(home.join("second"), random(2, 100_000)).unwrap();
    back_up(&without_commits(&root)).unwrap_err();
    onefold_store::forget::forget(&open(Arc::clone(&objects)), &[forgotten]).unwrap();
    prune(Duration::from_secs(1000));
    let reader = Reader::open(&root, FIRST);
    let first = only(&reader, "intents", &BTreeSet::new());
    assert_eq!(intent(&reader, first), [] as [Id; 0]);
    let mark = only(&reader, "marks", &BTreeSet::new());
    let body = reader.body(&format!("marks/{}", hex(&mark)), 9, mark);
    let mut fields = Fields(&body);
    let condemned: BTreeSet<Id> = fields.list(Fields::array).into_iter().collect();
    fields.end();
    let there: BTreeSet<Id> = reader.containers.keys().copied().collect();
    assert!(condemned.len() >= 2 && condemned == there, "nothing is needed, and all is there");

    back_up(&without_commits(&root)).unwrap_err();
    let reader = Reader::open(&root, FIRST);
    let second = only(&reader, "intents", &BTreeSet::from([first]));
    assert_eq!(intent(&reader, second), [mark]);

    prune(Duration::ZERO);
    let reader = Reader::open(&root, FIRST);
    assert_eq!(reader.ids("snapshots"), BTreeSet::from([first, second]));
    for id in [first, second] {
        let body = reader.body(&format!("snapshots/{}", hex(&id)), 10, id);
        Fields(&body).end();
    }
    assert!(reader.ids("intents").is_empty() && reader.ids("marks").is_empty());
    let said: Vec<_> =
        reader.logs().concat().into_iter().map(|one| (one.committed, one.forgotten)).collect();
    let forgotten = *forgotten.as_bytes();
    assert_eq!(said, [(vec![forgotten], vec![]), (vec![], vec![forgotten])]);
    assert!(reader.containers.keys().all(|id| !condemned.contains(id)));
}

/// "Index runs" and "Receipts".
fn assert_runs_say_what_footers_say(reader: &Reader, snapshots: &BTreeSet<Id>) {
    assert_eq!(reader.ids("receipts"), *snapshots);
    for id in snapshots {
        let body = reader.body(&format!("receipts/{}", hex(id)), 5, *id);
        Fields(&body).end();
    }

    let mut covered = BTreeSet::new();
    for id in reader.ids("index") {
        let body = reader.body(&format!("index/{}", hex(&id)), 3, id);
        let mut fields = Fields(&body);
        let covers = fields.list(Fields::array::<16>);
        let entries = fields.list(|fields| {
            let print: Print = fields.array();
            (print, fields.u32() as usize, fields.u32() as usize, fields.u32() as usize)
        });
        fields.end();
        assert!(entries.is_sorted_by_key(|entry| entry.0));
        for (print, container, slot, len) in &entries {
            let chunk = reader.containers[&covers[*container]].chunks[*slot];
            assert_eq!((chunk.0, chunk.3), (*print, *len));
        }
        let listed: usize = covers.iter().map(|id| reader.containers[id].chunks.len()).sum();
        assert_eq!(entries.len(), listed);
        covered.extend(covers);
    }
    assert!(covered.iter().eq(reader.containers.keys().collect::<BTreeSet<_>>()));
    let contents: BTreeSet<_> = reader.containers.values().map(|c| c.content).collect();
    assert_eq!(contents, BTreeSet::from([0, 1]));
    let groups = reader.containers.values().flat_map(|container| &container.groups);
    let codecs: BTreeSet<_> = groups.map(|group| group.codec).collect();
    assert_eq!(codecs, BTreeSet::from([0, 1]));
}
