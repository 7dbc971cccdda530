//! Trees: what a directory holds.
//!
//! A tree is the list of a directory's entries, in ascending order of their names as bytes. Its
//! encoding is cut into chunks like a file, so that a huge directory is as cheap to change as a
//! huge file. A short one stands in the entry of its directory instead: most directories are
//! small, and what names a chunk would take more room than the tree.

use onefold_seal::wire::{Put, Reader, WireError};

pub(crate) mod inodes;
pub(crate) mod layout;
pub(crate) mod recipe;
mod time;

pub use self::time::Time;
use crate::{Recipe, StoreError};

/// Directories are followed this deep: a path of 4,096 bytes cannot have more components.
const MAX_DEPTH: usize = 2048;

/// Fails where directories are nested deeper than any path that a backup can have read.
pub(crate) fn check_depth(depth: usize) -> Result<(), StoreError> {
    match depth > MAX_DEPTH {
        true => Err(StoreError::TooDeep { max: MAX_DEPTH }),
        false => Ok(()),
    }
}

/// The longest name that is read, in bytes: as long as any path may be.
const MAX_NAME: usize = 4096;

/// The names of an entry's extended attributes have no more bytes together. Linux lists no more.
const MAX_ATTRIBUTE_NAMES: usize = 64 << 10;

/// How much of an entry is wanted. All of it is checked in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Everything.
    All,
    /// What leads to chunks: no extended attributes, extents and link targets, which can be long.
    Outline,
}

/// What an inode says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Meta {
    /// Permission, set-id and sticky bits: the lower 12 bits of `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode; cannot be restored, tells whether a file changed.
    pub ctime: Time,
    /// Device and inode number: which names are the same file, and whether it is still that file.
    pub dev: u64,
    /// See `dev`.
    pub ino: u64,
    /// How many names the inode has.
    pub links: u64,
    /// Extended attributes by name, in ascending order.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A stretch of a sparse file that has bytes; between extents is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// What kind of thing an entry is, with what belongs to that kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// A regular file.
    File {
        /// Length in bytes, holes included.
        size: u64,
        /// The bytes; of a sparse file those of its extents, one after another.
        content: Recipe,
        /// Where the bytes go, if the file has holes.
        extents: Option<Vec<Extent>>,
    },
    /// A directory.
    Directory {
        /// What it holds.
        tree: Tree,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points; bytes, not necessarily UTF-8.
        target: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice {
        /// Device number as `st_rdev` has it.
        rdev: u64,
    },
    /// A block device.
    BlockDevice {
        /// Device number as `st_rdev` has it.
        rdev: u64,
    },
}

/// Where the encoding of a directory's entries is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tree {
    /// In chunks.
    Stored(Recipe),
    /// Here; at most [`INLINE_MAX`](Self::INLINE_MAX) bytes.
    Inline(Vec<u8>),
}

impl Tree {
    /// Trees with more bytes than this are stored as chunks.
    pub const INLINE_MAX: usize = 1 << 10;

    /// Of a directory that holds nothing.
    pub const EMPTY: Self = Self::Inline(Vec::new());

    /// How messages call the tree.
    pub(crate) fn describe(&self) -> String {
        match self {
            Tree::Stored(recipe) => format!("tree {}", recipe.root),
            Tree::Inline(_) => "tree inside the entry of its directory".to_owned(),
        }
    }
}

impl Node {
    /// The kind's name in listings.
    pub const fn kind(&self) -> &'static str {
        match self {
            Node::File { .. } => "file",
            Node::Directory { .. } => "directory",
            Node::Symlink { .. } => "symlink",
            Node::Fifo => "fifo",
            Node::Socket => "socket",
            Node::CharDevice { .. } => "char-device",
            Node::BlockDevice { .. } => "block-device",
        }
    }

    /// The kind's letter, as `ls -l` shows it.
    pub const fn letter(&self) -> char {
        match self {
            Node::File { .. } => '-',
            Node::Directory { .. } => 'd',
            Node::Symlink { .. } => 'l',
            Node::Fifo => 'p',
            Node::Socket => 's',
            Node::CharDevice { .. } => 'c',
            Node::BlockDevice { .. } => 'b',
        }
    }
}

/// A name in a directory and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// One path component; bytes, not necessarily UTF-8. Empty for a snapshot's root only.
    pub name: Vec<u8>,
    /// What the inode says of itself.
    pub meta: Meta,
    /// What it is.
    pub node: Node,
}

impl Entry {
    /// Length in bytes of a regular file, 0 for anything else.
    pub const fn size(&self) -> u64 {
        match self.node {
            Node::File { size, .. } => size,
            _ => 0,
        }
    }

    /// Bytes of a regular file's content, holes left out; 0 for anything else.
    pub const fn content_len(&self) -> u64 {
        match &self.node {
            Node::File { content, .. } => content.len,
            _ => 0,
        }
    }

    /// Whether this is the root of a snapshot of several sources, which stands for no directory:
    /// its metadata are made up. Every directory of a file system has links and an inode.
    pub fn is_synthetic_root(&self) -> bool {
        self.name.is_empty() && self.meta.links == 0 && self.meta.ino == 0
    }
}

/// The encoding of a directory whose entries are `entries`, in ascending order of names.
pub(crate) fn encode<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        encode_entry(entry, &mut bytes);
    }
    bytes
}

/// The entries of a directory.
///
/// Refuses names that could lead out of it: empty, `.`, `..`, with a slash or NUL; and names that
/// do not strictly ascend, so that no name stands twice.
pub fn decode(bytes: &[u8], detail: Detail) -> Result<Vec<Entry>, WireError> {
    let mut reader = Reader::new(bytes);
    let mut entries: Vec<Entry> = Vec::new();
    while reader.remaining() > 0 {
        let last = entries.last().map(|entry| &entry.name[..]);
        entries.push(decode_next(&mut reader, last.unwrap_or_default(), detail)?);
    }
    Ok(entries)
}

/// The entry of a directory that follows the one called `last`, which is empty before the first.
pub(crate) fn decode_next(
    reader: &mut Reader<'_>,
    last: &[u8],
    detail: Detail,
) -> Result<Entry, WireError> {
    let entry = decode_entry(reader, detail)?;
    if !is_component(&entry.name) {
        return Err(reader.error("a name that is one path component"));
    }
    if *last >= entry.name[..] {
        return Err(reader.error("names in ascending order"));
    }
    Ok(entry)
}

/// Whether `name` names something inside a directory and nothing else.
pub(crate) fn is_component(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
        && name.len() <= MAX_NAME
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

pub(crate) fn encode_entry(entry: &Entry, bytes: &mut Vec<u8>) {
    let Meta { mode, uid, gid, mtime, ctime, dev, ino, links, xattrs } = &entry.meta;
    bytes.put_u8(match &entry.node {
        Node::File { extents: None, .. } => 0,
        Node::File { extents: Some(_), .. } => 1,
        Node::Directory { tree: Tree::Stored(_) } => 2,
        Node::Directory { tree: Tree::Inline(_) } => 8,
        Node::Symlink { .. } => 3,
        Node::Fifo => 4,
        Node::Socket => 5,
        Node::CharDevice { .. } => 6,
        Node::BlockDevice { .. } => 7,
    });
    bytes.put_bytes(&entry.name);
    for number in [*mode, *uid, *gid] {
        bytes.put_varint(number.into());
    }
    for time in [mtime, ctime] {
        time.encode(bytes);
    }
    for number in [*dev, *ino, *links] {
        bytes.put_varint(number);
    }
    bytes.put_varint(xattrs.len() as u64);
    for (name, value) in xattrs {
        bytes.put_bytes(name);
        bytes.put_bytes(value);
    }
    match &entry.node {
        Node::File { size, content, extents } => {
            bytes.put_varint(*size);
            content.encode(bytes);
            if let Some(extents) = extents {
                encode_extents(extents, bytes);
            }
        }
        Node::Directory { tree: Tree::Stored(recipe) } => recipe.encode(bytes),
        Node::Directory { tree: Tree::Inline(tree) } => bytes.put_bytes(tree),
        Node::Symlink { target } => bytes.put_bytes(target),
        Node::Fifo | Node::Socket => {}
        Node::CharDevice { rdev } | Node::BlockDevice { rdev } => bytes.put_varint(*rdev),
    }
}

pub(crate) fn decode_entry(reader: &mut Reader<'_>, detail: Detail) -> Result<Entry, WireError> {
    let kind = reader.u8("an entry's kind")?;
    let name = reader.bytes("a name")?.to_vec();
    let meta = decode_meta(reader, detail)?;
    let node = match kind {
        0 | 1 => {
            let size = reader.varint("a file's size")?;
            let content = Recipe::decode(reader)?;
            let (extents, listed) = match kind {
                1 => decode_extents(reader, size, detail).map(|(all, sum)| (Some(all), sum))?,
                _ => (None, size),
            };
            if content.len != listed {
                return Err(reader.error("a content as long as the file or its extents"));
            }
            Node::File { size, content, extents }
        }
        2 => Node::Directory { tree: Tree::Stored(Recipe::decode(reader)?) },
        3 => {
            let target = reader.bytes("a link's target")?;
            if target.is_empty() || target.contains(&0) {
                return Err(reader.error("a link's target without NUL"));
            }
            Node::Symlink { target: detail.of(target) }
        }
        4 => Node::Fifo,
        5 => Node::Socket,
        6 => Node::CharDevice { rdev: reader.varint("a device number")? },
        7 => Node::BlockDevice { rdev: reader.varint("a device number")? },
        8 => {
            let tree = reader.bytes("a directory's tree")?;
            if tree.len() > Tree::INLINE_MAX {
                return Err(reader.error("a tree short enough to stand here"));
            }
            Node::Directory { tree: Tree::Inline(tree.to_vec()) }
        }
        _ => return Err(reader.error("an entry's kind from 0 to 8")),
    };
    Ok(Entry { name, meta, node })
}

impl Detail {
    /// A copy of what may be long, if it is wanted.
    fn of(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::All => bytes.to_vec(),
            Self::Outline => Vec::new(),
        }
    }
}

fn decode_meta(reader: &mut Reader<'_>, detail: Detail) -> Result<Meta, WireError> {
    let mut narrow = |max: u32, what| reader.varint_to(max.into(), what).map(|n| n as u32);
    let mode = narrow(0o7777, "permission bits")?;
    let uid = narrow(u32::MAX, "an owner")?;
    let gid = narrow(u32::MAX, "a group")?;
    let (mtime, ctime) = (Time::decode(reader)?, Time::decode(reader)?);
    let dev = reader.varint("a device")?;
    let ino = reader.varint("an inode")?;
    let links = reader.varint("a link count")?;
    let count = reader.count(2, "the count of extended attributes")?;
    let mut xattrs = Vec::new();
    let (mut last, mut names_len): (&[u8], usize) = (&[], 0);
    for _ in 0..count {
        let name = reader.bytes("an attribute's name")?;
        if name.is_empty() || name.contains(&0) {
            return Err(reader.error("an attribute's name without NUL"));
        }
        if last >= name {
            return Err(reader.error("attributes in ascending order of names"));
        }
        names_len += name.len();
        if names_len > MAX_ATTRIBUTE_NAMES {
            return Err(reader.error("at most 65536 bytes of names of attributes"));
        }
        let value = reader.bytes("an attribute's value")?;
        if detail == Detail::All {
            xattrs.push((name.to_vec(), value.to_vec()));
        }
        last = name;
    }
    Ok(Meta { mode, uid, gid, mtime, ctime, dev, ino, links, xattrs })
}

/// Extents as pairs of varints: the hole before, the length.
fn encode_extents(extents: &[Extent], bytes: &mut Vec<u8>) {
    bytes.put_varint(extents.len() as u64);
    let mut end = 0;
    for extent in extents {
        bytes.put_varint(extent.offset - end);
        bytes.put_varint(extent.len);
        end = extent.offset + extent.len;
    }
}

/// The extents of a file of `size` bytes, and how many bytes they have together.
fn decode_extents(
    reader: &mut Reader<'_>,
    size: u64,
    detail: Detail,
) -> Result<(Vec<Extent>, u64), WireError> {
    let count = reader.count(2, "the count of extents")?;
    let (mut extents, mut sum) = (Vec::new(), 0);
    if detail == Detail::All {
        extents.reserve_exact(count);
    }
    let mut end = 0;
    for _ in 0..count {
        let offset = end + reader.varint_to(size - end, "a hole inside the file")?;
        let len = reader.varint_to(size - offset, "an extent inside the file")?;
        if len == 0 {
            return Err(reader.error("an extent that is not empty"));
        }
        if detail == Detail::All {
            extents.push(Extent { offset, len });
        }
        sum += len;
        end = offset + len;
    }
    Ok((extents, sum))
}

/// About as many bytes as the entry takes.
pub(crate) fn weight(entry: &Entry) -> u64 {
    let own = match &entry.node {
        Node::File { extents: Some(extents), .. } => extents.len() * size_of::<Extent>(),
        Node::Symlink { target } => target.len(),
        Node::Directory { tree: Tree::Inline(tree) } => tree.len(),
        _ => 0,
    };
    let attributes: usize =
        entry.meta.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    (size_of::<Entry>() + entry.name.len() + own + attributes) as u64
}

#[cfg(test)]
mod tests {
    use onefold_fingerprint::Fingerprint;
    use proptest::prelude::*;

    use super::*;

    fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..max)
    }

    fn recipe(len: u64) -> impl Strategy<Value = Recipe> {
        (0..=11u8, any::<[u8; 32]>()).prop_map(move |(depth, root)| match len {
            0 => Recipe::EMPTY,
            _ => Recipe { len, depth, root: Fingerprint::from_bytes(root) },
        })
    }

    fn node() -> impl Strategy<Value = Node> {
        let dense = any::<u64>().prop_flat_map(|size| {
            recipe(size).prop_map(move |content| Node::File { size, content, extents: None })
        });
        let pairs = proptest::collection::vec((0..1u64 << 40, 1..1u64 << 40), 0..5);
        let sparse = pairs.prop_flat_map(|pairs| {
            let mut end = 0;
            let mut extents = Vec::new();
            for (hole, len) in pairs {
                extents.push(Extent { offset: end + hole, len });
                end += hole + len;
            }
            recipe(extents.iter().map(|e| e.len).sum()).prop_map(move |content| Node::File {
                size: end + 17,
                content,
                extents: Some(extents.clone()),
            })
        });
        prop_oneof![
            dense,
            sparse,
            (0..1000u64)
                .prop_flat_map(recipe)
                .prop_map(|recipe| Node::Directory { tree: Tree::Stored(recipe) }),
            bytes(Tree::INLINE_MAX + 1)
                .prop_map(|tree| Node::Directory { tree: Tree::Inline(tree) }),
            proptest::collection::vec(1..=255u8, 1..40).prop_map(|target| Node::Symlink { target }),
            Just(Node::Fifo),
            Just(Node::Socket),
            any::<u64>().prop_map(|rdev| Node::CharDevice { rdev }),
            any::<u64>().prop_map(|rdev| Node::BlockDevice { rdev }),
        ]
    }

    fn time() -> impl Strategy<Value = Time> {
        (any::<i64>(), 0..1_000_000_000u32).prop_map(|(secs, nanos)| Time { secs, nanos })
    }

    prop_compose! {
        fn meta()(mode in 0..=0o7777u32, uid in any::<u32>(), gid in any::<u32>(),
                  mtime in time(), ctime in time(), dev in any::<u64>(), ino in any::<u64>(),
                  links in any::<u64>(),
                  xattrs in proptest::collection::btree_map("[a-z.]{1,9}", bytes(9), 0..3)) -> Meta {
            let xattrs = xattrs.into_iter().map(|(n, v)| (n.into_bytes(), v)).collect();
            Meta { mode, uid, gid, mtime, ctime, dev, ino, links, xattrs }
        }
    }

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let name = proptest::collection::vec(
            any::<u8>().prop_filter("no NUL or slash", |b| !matches!(b, 0 | b'/')),
            3..9,
        );
        let named = proptest::collection::btree_map(name, (meta(), node()), 0..6);
        named.prop_map(|map| {
            map.into_iter().map(|(name, (meta, node))| Entry { name, meta, node }).collect()
        })
    }

    /// What an outline has of an entry.
    fn outline(mut entry: Entry) -> Entry {
        entry.meta.xattrs.clear();
        match &mut entry.node {
            Node::File { extents: Some(extents), .. } => extents.clear(),
            Node::Symlink { target } => target.clear(),
            _ => {}
        }
        entry
    }

    proptest! {
        #[test]
        fn what_was_encoded_decodes(entries in entries()) {
            prop_assert_eq!(decode(&encode(&entries), Detail::All).unwrap(), entries);
        }

        #[test]
        fn any_bytes_decode_or_fail_without_harm(bytes in bytes(300)) {
            if let Ok(entries) = decode(&bytes, Detail::All) {
                prop_assert_eq!(encode(&entries), bytes, "an entry has one encoding");
            }
        }

        #[test]
        fn a_damaged_tree_decodes_to_valid_names_or_fails(
            entries in entries(), at in any::<prop::sample::Index>(), flip in 1..=255u8
        ) {
            let mut bytes = encode(&entries);
            if bytes.is_empty() { return Ok(()); }
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let whole = decode(&bytes, Detail::All);
            if let Ok(entries) = &whole {
                prop_assert!(entries.iter().all(|entry| is_component(&entry.name)));
            }
            // An outline is refused where the whole is, and leads to the same chunks.
            let outlined = whole.map(|all| all.into_iter().map(outline).collect::<Vec<_>>());
            prop_assert_eq!(decode(&bytes, Detail::Outline), outlined);
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = [b'n'; MAX_NAME + 1];
        for name in [&b""[..], b".", b"..", b"a/b", b"/etc", b"../x", b"a\0", &long] {
            let entry = Entry { name: name.to_vec(), meta: Meta::default(), node: Node::Fifo };
            let error = decode(&encode([&entry]), Detail::All).unwrap_err();
            assert_eq!(error.expected, "a name that is one path component", "{name:?}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        let entry = |node| Entry { name: b"a".to_vec(), meta: Meta::default(), node };
        let link = entry(Node::Symlink { target: b"/etc".to_vec() });
        let directory = entry(Node::Directory { tree: Tree::EMPTY });
        let error = decode(&encode([&link, &directory]), Detail::All).unwrap_err();
        assert_eq!(error.expected, "names in ascending order");
    }

    #[test]
    fn more_names_of_attributes_than_linux_lists_are_refused() {
        for (count, is_refused) in [(4096, false), (4097, true)] {
            let name = |number: usize| format!("user.name{number:07}").into_bytes();
            let xattrs = (0..count).map(|number| (name(number), Vec::new())).collect();
            let meta = Meta { xattrs, ..Meta::default() };
            let entry = Entry { name: b"a".to_vec(), meta, node: Node::Fifo };
            for detail in [Detail::All, Detail::Outline] {
                let decoded = decode(&encode([&entry]), detail);
                assert_eq!(decoded.is_err(), is_refused, "{count} attributes, {detail:?}");
            }
        }
    }
}
