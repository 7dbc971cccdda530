//! A reader of pools, written from docs/pool-format.md and the parts of docs/format.md that it names.
//! It leans on nothing of this workspace, and panics where the document says that a reader refuses.
#![allow(unreachable_pub, reason = "a module of a test crate")]

mod paged;
mod registrations;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use sha3::Digest;

use paged::Checkpoint;
pub use registrations::{Registrations, Stage};

/// The files of a folder, by their names.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A pool as it lies in a folder.
pub struct Pool {
    files: Files,
    id: [u8; 16],
    hash: u8,
    pub version: u32,
    containers: BTreeMap<u32, Container>,
    volumes: BTreeMap<u64, Volume>,
    /// Which kinds of records there were, in journals and in the checkpoint.
    pub kinds: BTreeSet<u8>,
    pub checkpoint_kinds: BTreeSet<u8>,
    /// With which codecs pages are compressed that were read.
    pub codecs: BTreeSet<u8>,
    /// The number of the last frame of which it is known that it was acknowledged.
    pub last_acknowledged: Option<u64>,
    /// The number of the next frame.
    pub next_frame: u64,
}

#[derive(Clone)]
pub struct Volume {
    pub name: String,
    pub size: u64,
    pub block_size: u64,
    pub is_read_only: bool,
    /// Blocks that are no holes, each with container and slot.
    blocks: BTreeMap<u64, (u32, u32)>,
}

#[derive(Default)]
struct Container {
    is_sealed: bool,
    /// Those that records 1 tell of, and in the end those of the footer, if there is one.
    pages: Vec<Page>,
    /// What a checkpoint of version 2 says of the pages that there were, and of the length of a file with
    /// a footer.
    places: Vec<Place>,
    len: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    offset: usize,
    stored: usize,
    len: usize,
    codec: u8,
    check: [u8; 16],
    fingerprint: [u8; 32],
}

/// What nodes say of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    offset: usize,
    stored: usize,
    codec: u8,
    check: [u8; 4],
}

impl Page {
    fn place(&self) -> Place {
        let Self { offset, stored, codec, check, .. } = *self;
        Place { offset, stored, codec, check: *check.first_chunk().unwrap() }
    }
}

/// A writer, and the first frame of one of its journals or behind one of its checkpoints.
type Begin = (u64, u64);

/// The journals or checkpoints among these names, in order.
fn begins<'a>(names: impl Iterator<Item = &'a String>, prefix: &str) -> Vec<Begin> {
    let begin = |name: &String| {
        let (writer, first) = name.strip_prefix(prefix)?.split_once('-')?;
        let number = |digits: &str| {
            u64::from_str_radix(digits, 16).ok().filter(|one| digits.len() == 16 && *one < 1 << 63)
        };
        Some((number(writer)?, number(first)?))
    };
    let mut all: Vec<Begin> = names.filter_map(begin).collect();
    all.sort_unstable();
    all
}

/// Who had the pool last.
struct Mark {
    writer: u64,
    cut: Begin,
    is_begun: bool,
}

impl Mark {
    /// Before which frame a journal ends.
    fn end(&self, journal: Begin, journals: &[Begin]) -> Option<u64> {
        let later = journals.iter().filter(|one| **one > journal).map(|one| one.1);
        let cut = (journal.0 < self.cut.0).then_some(self.cut.1);
        later.chain(cut).min()
    }
}

/// "Conventions" of docs/format.md.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap()
    }

    fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for at in 0..10 {
            let byte = self.u8();
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                assert!(at == 0 || byte != 0, "a varint is longer than needed");
                assert!(at < 9 || byte == 1, "a varint is above 64 bits");
                return value;
            }
        }
        panic!("a varint has more than ten bytes");
    }

    fn container(&mut self) -> u32 {
        let number = self.varint();
        assert!((1..u64::from(u32::MAX)).contains(&number), "containers count from 1");
        number as u32
    }

    /// Record 1, behind its kind: a page, and its container.
    fn new_page(&mut self) -> (u32, Page) {
        let container = self.container();
        let page = Page {
            offset: self.varint() as usize,
            stored: self.varint() as usize,
            len: self.varint() as usize,
            codec: self.u8(),
            check: self.array(),
            fingerprint: self.array(),
        };
        assert!(page.offset < 1 << 30 && page.codec <= 3);
        assert!(page.stored <= 4096 && page.len <= 4096);
        (container, page)
    }

    /// A page; nothing if it is a hole.
    fn page(&mut self) -> Option<(u32, u32)> {
        match self.varint() {
            0 => None,
            container => Some((container.try_into().unwrap(), self.varint().try_into().unwrap())),
        }
    }
}

fn check(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().as_bytes()[..16].try_into().unwrap()
}

impl Pool {
    /// The pool in the folder `root`.
    pub fn open(root: &Path) -> Self {
        let all = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
        let file = |entry: fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        };
        Self::of(all.map(file).collect())
    }

    /// "Files" and "What holds".
    pub fn of(files: Files) -> Self {
        let (covered, found) = files["pool"].split_last_chunk::<16>().unwrap();
        let mut fields = Fields(covered);
        assert_eq!(fields.take(12), b"onefold pool");
        assert_eq!(*found, check(&[covered]));
        let version = u32::from_le_bytes(fields.array());
        assert!(matches!(version, 1 | 2), "the version");
        let (id, hash, codec) = (fields.array(), fields.u8(), fields.u8());
        assert!(matches!(hash, 0 | 3) && codec <= 3 && fields.0.is_empty());
        let mut pool = Self {
            id,
            hash,
            version,
            files,
            containers: BTreeMap::new(),
            volumes: BTreeMap::new(),
            kinds: BTreeSet::new(),
            checkpoint_kinds: BTreeSet::new(),
            codecs: BTreeSet::new(),
            last_acknowledged: None,
            next_frame: 0,
        };
        let mark = pool.mark();
        let journals = begins(pool.files.keys(), "journal-");
        assert!(journals.iter().all(|(writer, _)| *writer <= mark.writer), "of no writer");
        let checkpoints = begins(pool.files.keys(), "checkpoint-");
        let base = pool.checkpoint(&mark, &journals, &checkpoints);
        assert!(journals.contains(&base), "the journal of the checkpoint is missing");
        assert!(
            !mark.is_begun || mark.cut.1 < base.1 || journals.contains(&mark.cut),
            "the journal of the cut is missing"
        );
        let mut next = base.1;
        for journal in &journals {
            let end = mark.end(*journal, &journals);
            if end.is_some_and(|end| end <= next.max(journal.1)) {
                continue;
            }
            assert_eq!(journal.1, next, "frames are missing");
            for body in pool.frames("journal-", *journal, end) {
                next += 1;
                assert!(!body.is_empty());
                let mut fields = Fields(&body);
                while !fields.0.is_empty() {
                    pool.apply(&mut fields);
                }
            }
        }
        assert!(next >= mark.cut.1, "frames before the cut are missing");
        pool.next_frame = next;
        pool.last_acknowledged = pool.acknowledged();
        assert!(
            pool.last_acknowledged.is_none_or(|frame| frame < next),
            "an acknowledged frame is missing"
        );
        pool.footers();
        pool
    }

    /// "Writers": what the mark says.
    fn mark(&self) -> Mark {
        let bytes = &self.files["writer"];
        assert_eq!(bytes.len(), 2 * 4096);
        let copy = |slot: usize| {
            let copy = &bytes[slot * 4096..][..4096];
            let (covered, rest) = copy.split_at(33);
            if rest[..16] != check(&[&self.id, covered]) {
                return None;
            }
            assert!(rest[16..].iter().all(|byte| *byte == 0));
            let number = |at: usize| u64::from_le_bytes(covered[8 * at..][..8].try_into().unwrap());
            assert_eq!(number(0) % 2, slot as u64);
            assert!(number(2) <= number(1) && covered[32] <= 1);
            Some((number(1), (number(2), covered[32] == 1, number(3))))
        };
        let whole = || [copy(0), copy(1)].into_iter().flatten();
        let writer = whole().map(|(writer, _)| writer).max().expect("a copy is whole");
        let (cut_writer, is_begun, first) = whole().map(|(_, cut)| cut).max().expect("the same");
        Mark { writer, cut: (cut_writer, first), is_begun }
    }

    /// "The last acknowledged frame": its number, if the file is there and tells of one.
    fn acknowledged(&self) -> Option<u64> {
        let bytes = self.files.get("acknowledged").filter(|all| !all.is_empty())?;
        assert_eq!(bytes.len(), 2 * 4096);
        let copy = |copy: &[u8]| {
            let (covered, rest) = copy.split_at(4 * 8 + 16 + 16 + 8);
            if rest[..16] != check(&[&self.id, covered]) {
                assert!(copy.iter().all(|byte| *byte == 0), "a copy is damaged");
                return None;
            }
            assert!(rest[16..].iter().all(|byte| *byte == 0));
            let mut fields = Fields(covered);
            let mut number = || u64::from_le_bytes(fields.array());
            let (writer, first, frame, end) = (number(), number(), number(), number());
            assert!([writer, first, frame, end].iter().all(|number| *number < 1 << 63));
            assert!(first <= frame);
            let (frame_check, boot): ([u8; 16], [u8; 16]) = (fields.array(), fields.array());
            assert!(boot != [0; 16] || fields.0 == [0; 8]);
            // the frame lies where it says, if its journal is still there
            let journal = self.files.get(&format!("journal-{writer:016x}-{first:016x}"));
            if let Some(journal) = journal {
                let all = self.frames("journal-", (writer, first), None);
                let body = &all[(frame - first) as usize];
                let head = end as usize - body.len() - 36;
                assert_eq!(journal[head..][20..36], frame_check);
            }
            Some(frame)
        };
        bytes.chunks(4096).filter_map(copy).max()
    }

    /// Takes up the last whole checkpoint that counts; its writer and frame.
    fn checkpoint(&mut self, mark: &Mark, journals: &[Begin], all: &[Begin]) -> Begin {
        for checkpoint in all.iter().rev() {
            if mark.end(*checkpoint, journals).is_some_and(|end| end < checkpoint.1) {
                continue;
            }
            let mut bodies = self.frames("checkpoint-", *checkpoint, None);
            if bodies.pop().is_none_or(|last| !last.is_empty()) {
                continue;
            }
            let mut segments = Vec::new();
            let mut paged = None;
            for body in &bodies {
                assert!(!body.is_empty(), "something follows the end");
                let mut fields = Fields(body);
                if self.version == 2 && self.checkpoint_kinds.is_empty() && body[0] == 12 {
                    fields.u8();
                    self.checkpoint_kinds.insert(12);
                    paged = Some(Checkpoint::default());
                }
                while !fields.0.is_empty() {
                    self.checkpoint_kinds.insert(fields.0[0]);
                    match &mut paged {
                        Some(paged) => self.place_paged(&mut fields, paged),
                        None => self.place(&mut fields, &mut segments),
                    }
                }
            }
            if let Some(paged) = paged {
                self.end_paged(paged);
            }
            return *checkpoint;
        }
        panic!("no checkpoint is whole");
    }

    /// "Frames": the bodies of those that are whole, before frame `end`.
    fn frames(&self, prefix: &str, (writer, first): Begin, end: Option<u64>) -> Vec<Vec<u8>> {
        let bytes = &self.files[&format!("{prefix}{writer:016x}-{first:016x}")];
        let (mut bodies, mut at) = (Vec::new(), 0);
        let whole = |at: usize, is_it: &dyn Fn(u64) -> bool| {
            let head = bytes.get(at..at + 36)?;
            let len = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
            let number = u64::from_le_bytes(head[4..12].try_into().unwrap());
            let body = bytes.get(at + 36..at + 36 + len).filter(|_| len <= 8 << 20)?;
            let is_ours = head[12..20] == writer.to_le_bytes() && is_it(number);
            (is_ours && head[20..] == check(&[&self.id, &head[..20], body])).then_some(body)
        };
        let mut next = first;
        while end.is_none_or(|end| next < end)
            && let Some(body) = whole(at, &|number| number == next)
        {
            bodies.push(body.to_vec());
            at += 36 + body.len();
            next += 1;
        }
        match end {
            Some(end) => assert_eq!(next, end, "the journal lacks frames"),
            None => {
                let later =
                    (at..bytes.len()).any(|at| whole(at, &|number| number >= next).is_some());
                assert!(!later || prefix != "journal-", "the journal is damaged");
            }
        }
        bodies
    }

    /// A record of a checkpoint of version 1.
    fn place(&mut self, fields: &mut Fields<'_>, segments: &mut Vec<Vec<Option<(u32, u32)>>>) {
        let kind = fields.0[0];
        match kind {
            1 | 2 => self.apply(fields),
            5 => self.volume(fields, false),
            9 => {
                fields.u8();
                let (volume, index, segment) = (fields.varint(), fields.varint(), fields.varint());
                let volume = self.volumes.get_mut(&volume).unwrap();
                for (block, page) in (512 * index..).zip(&segments[segment as usize]) {
                    if let Some(page) = page {
                        volume.blocks.insert(block, *page);
                    }
                }
            }
            10 => {
                fields.u8();
                segments.push((0..512).map(|_| fields.page()).collect());
            }
            11 => {
                fields.u8();
                let (_volume, _container) = (fields.varint(), fields.container());
            }
            _ => panic!("record {kind} in a checkpoint"),
        }
    }

    /// A record of a journal.
    fn apply(&mut self, fields: &mut Fields<'_>) {
        let kind = fields.0[0];
        self.kinds.insert(kind);
        if kind == 5 {
            return self.volume(fields, true);
        }
        fields.u8();
        match kind {
            1 => {
                let (container, page) = fields.new_page();
                let container = self.containers.entry(container).or_default();
                assert!(!container.is_sealed, "a page behind a footer");
                container.pages.push(page);
            }
            // A checkpoint tells of a container with a footer by this alone.
            2 => self.containers.entry(fields.container()).or_default().is_sealed = true,
            3 => drop(self.containers.remove(&fields.container())),
            4 => {
                let (volume, block, page) = (fields.varint(), fields.varint(), fields.page());
                let volume = self.volumes.get_mut(&volume).unwrap();
                assert!(block < volume.size / volume.block_size);
                match page {
                    Some(page) => volume.blocks.insert(block, page),
                    None => volume.blocks.remove(&block),
                };
            }
            6 => drop(self.volumes.remove(&fields.varint()).unwrap()),
            7 => {
                let (volume, size) = (fields.varint(), fields.varint());
                let volume = self.volumes.get_mut(&volume).unwrap();
                assert!(size > 0 && size.is_multiple_of(volume.block_size));
                volume.size = size;
                drop(volume.blocks.split_off(&(size / volume.block_size)));
            }
            8 => {
                let (from, to) = (fields.page().unwrap(), fields.page().unwrap());
                assert!(from < to, "a page moves to a later place only");
                let blocks = self.volumes.values_mut().flat_map(|one| one.blocks.values_mut());
                blocks.filter(|page| **page == from).for_each(|page| *page = to);
            }
            19..=21 if self.version == 2 => panic!("a pool of a cluster"),
            _ => panic!("record {kind} in a journal"),
        }
    }

    /// Record 5.
    fn volume(&mut self, fields: &mut Fields<'_>, is_journal: bool) {
        fields.u8();
        let number = fields.varint();
        let len = fields.varint() as usize;
        let name = String::from_utf8(fields.take(len).to_vec()).unwrap();
        assert!(name.len() <= 255);
        let (size, block_size, is_read_only) = (fields.varint(), fields.varint(), fields.u8());
        assert!(matches!(block_size, 512 | 4096) && size > 0 && size.is_multiple_of(block_size));
        assert!(size / block_size <= 1 << 38 && is_read_only <= 1);
        let (source, _when) = (fields.varint().checked_sub(1), fields.varint());
        let blocks = match source.filter(|_| is_journal) {
            Some(source) => self.volumes[&source].blocks.clone(),
            None => BTreeMap::new(),
        };
        let is_read_only = is_read_only == 1;
        let volume = Volume { name, size, block_size, is_read_only, blocks };
        assert!(self.volumes.insert(number, volume).is_none());
    }

    /// "Containers": what footers list of those that have one.
    fn footers(&mut self) {
        let mut containers = std::mem::take(&mut self.containers);
        for (number, container) in containers.iter_mut().filter(|(_, one)| one.is_sealed) {
            let bytes = self.container(*number);
            assert!(container.len.is_none_or(|len| len == bytes.len() as u64));
            let (covered, found) = bytes.split_last_chunk::<16>().unwrap();
            let (_, len) = covered.split_last_chunk::<4>().unwrap();
            let start = covered.len() - 4 - u32::from_le_bytes(*len) as usize;
            assert_eq!(*found, check(&[&covered[..48], &covered[start..]]));
            let mut fields = Fields(&covered[start..covered.len() - 4]);
            assert_eq!(fields.u8(), 0, "it holds data");
            let (mut pages, mut offset) = (Vec::new(), 48);
            for _ in 0..fields.varint() {
                let (stored, len) = (fields.varint() as usize, fields.varint() as usize);
                let (codec, check) = (fields.u8(), fields.array());
                assert_eq!(fields.varint(), 1, "each page is a group of one chunk");
                let fingerprint = fields.array();
                assert_eq!(fields.varint() as usize, len);
                pages.push(Page { offset, stored, len, codec, check, fingerprint });
                offset += stored;
            }
            assert!(fields.0.is_empty() && offset == start, "groups end where the footer begins");
            assert!(container.pages.is_empty() || container.pages == pages, "of records 1");
            container.pages = pages;
        }
        // nodes say the same of pages as records 1 and footers
        for (number, container) in &containers {
            let places: Vec<Place> = container.pages.iter().map(Page::place).collect();
            assert!(places.starts_with(&container.places), "container {number}");
        }
        self.containers = containers;
    }

    /// The bytes of a container, whose header is verified.
    fn container(&self, number: u32) -> &[u8] {
        let bytes = &self.files[&format!("container-{number:08x}")];
        let mut fields = Fields(bytes);
        // Mark, version, kind, suite, reserved, key epoch, flags; then the pool and the container.
        assert_eq!(fields.take(16), b"1FLD\x01\x02\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(fields.array(), self.id);
        assert_eq!(fields.array::<16>(), u128::from(number).to_be_bytes());
        bytes
    }

    /// The volumes that there are.
    pub fn volumes(&self) -> Vec<Volume> {
        self.volumes.values().cloned().collect()
    }

    /// All bytes of a volume, each page verified.
    pub fn read(&mut self, volume: &Volume) -> Vec<u8> {
        let mut bytes = vec![0; volume.size as usize];
        for (block, (container, slot)) in &volume.blocks {
            let page = &self.containers[container].pages[*slot as usize];
            let object = self.container(*container);
            let stored = &object[page.offset..page.offset + page.stored];
            assert_eq!(check(&[stored]), page.check);
            let content = match page.codec {
                0 => stored.to_vec(),
                1 => zstd::decode_all(stored).unwrap(),
                2 => lz4_flex::block::decompress(stored, page.len).unwrap(),
                _ => {
                    let mut content = Vec::new();
                    flate2::read::DeflateDecoder::new(stored).read_to_end(&mut content).unwrap();
                    content
                }
            };
            assert_eq!((content.len(), content.len() as u64), (page.len, volume.block_size));
            let fingerprint: [u8; 32] = match self.hash {
                0 => *blake3::hash(&content).as_bytes(),
                _ => sha3::Sha3_256::digest(&content).into(),
            };
            assert_eq!(fingerprint, page.fingerprint);
            self.codecs.insert(page.codec);
            let at = (block * volume.block_size) as usize;
            bytes[at..at + content.len()].copy_from_slice(&content);
        }
        bytes
    }
}
