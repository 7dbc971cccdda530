//! Trees: what a directory holds.
//!
//! A tree is the list of a directory's entries, in ascending order of their names as bytes. Its
//! encoding is cut into chunks like a file, so that a huge directory is as cheap to change as a
//! huge file. A short one stands in the entry of its directory instead: most directories are
//! small, and what names a chunk would take more room than the tree.

use std::time::UNIX_EPOCH;

use onefold_seal::wire::{Put, Reader, WireError};

use crate::{Recipe, StoreError, clock};

/// Directories are followed this deep: a path of 4,096 bytes cannot have more components.
const MAX_DEPTH: usize = 2048;

/// Fails where directories are nested deeper than any path that a backup can have read.
pub(crate) fn check_depth(depth: usize) -> Result<(), StoreError> {
    match depth > MAX_DEPTH {
        true => Err(StoreError::TooDeep { max: MAX_DEPTH }),
        false => Ok(()),
    }
}

/// A moment, as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00:00 UTC; negative before.
    pub secs: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanos: u32,
}

impl Time {
    /// This moment; 1970 if the clock stands before.
    pub fn now() -> Self {
        let since = clock::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { secs: since.as_secs() as i64, nanos: since.subsec_nanos() }
    }
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

    /// Whether this is the root of a snapshot of several sources, which stands for no directory:
    /// its metadata are made up. Every directory of a file system has links and an inode.
    pub(crate) fn is_synthetic_root(&self) -> bool {
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
pub fn decode(bytes: &[u8]) -> Result<Vec<Entry>, WireError> {
    let mut reader = Reader::new(bytes);
    let mut entries: Vec<Entry> = Vec::new();
    while reader.remaining() > 0 {
        let entry = decode_entry(&mut reader)?;
        if !is_component(&entry.name) {
            return Err(reader.error("a name that is one path component"));
        }
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(reader.error("names in ascending order"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Whether `name` names something inside a directory and nothing else.
pub(crate) fn is_component(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
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
        bytes.put_signed(time.secs);
        bytes.put_varint(time.nanos.into());
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

pub(crate) fn decode_entry(reader: &mut Reader<'_>) -> Result<Entry, WireError> {
    let kind = reader.u8("an entry's kind")?;
    let name = reader.bytes("a name")?.to_vec();
    let meta = decode_meta(reader)?;
    let node = match kind {
        0 | 1 => {
            let size = reader.varint("a file's size")?;
            let content = Recipe::decode(reader)?;
            let extents = match kind {
                1 => Some(decode_extents(reader, size)?),
                _ => None,
            };
            let listed = match &extents {
                Some(extents) => extents.iter().map(|extent| extent.len).sum(),
                None => size,
            };
            if content.len != listed {
                return Err(reader.error("a content as long as the file or its extents"));
            }
            Node::File { size, content, extents }
        }
        2 => Node::Directory { tree: Tree::Stored(Recipe::decode(reader)?) },
        3 => {
            let target = reader.bytes("a link's target")?.to_vec();
            if target.is_empty() || target.contains(&0) {
                return Err(reader.error("a link's target without NUL"));
            }
            Node::Symlink { target }
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

fn decode_meta(reader: &mut Reader<'_>) -> Result<Meta, WireError> {
    let mut narrow = |max: u32, what| reader.varint_to(max.into(), what).map(|n| n as u32);
    let mode = narrow(0o7777, "permission bits")?;
    let uid = narrow(u32::MAX, "an owner")?;
    let gid = narrow(u32::MAX, "a group")?;
    let mut time = || -> Result<Time, WireError> {
        let secs = reader.signed("seconds")?;
        let nanos = reader.varint_to(999_999_999, "nanoseconds")? as u32;
        Ok(Time { secs, nanos })
    };
    let (mtime, ctime) = (time()?, time()?);
    let dev = reader.varint("a device")?;
    let ino = reader.varint("an inode")?;
    let links = reader.varint("a link count")?;
    let count = reader.count(2, "the count of extended attributes")?;
    let mut xattrs: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.bytes("an attribute's name")?.to_vec();
        if name.is_empty() || name.contains(&0) {
            return Err(reader.error("an attribute's name without NUL"));
        }
        if xattrs.last().is_some_and(|(last, _)| *last >= name) {
            return Err(reader.error("attributes in ascending order of names"));
        }
        xattrs.push((name, reader.bytes("an attribute's value")?.to_vec()));
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

fn decode_extents(reader: &mut Reader<'_>, size: u64) -> Result<Vec<Extent>, WireError> {
    let count = reader.count(2, "the count of extents")?;
    let mut extents = Vec::with_capacity(count);
    let mut end = 0;
    for _ in 0..count {
        let offset = end + reader.varint_to(size - end, "a hole inside the file")?;
        let len = reader.varint_to(size - offset, "an extent inside the file")?;
        if len == 0 {
            return Err(reader.error("an extent that is not empty"));
        }
        extents.push(Extent { offset, len });
        end = offset + len;
    }
    Ok(extents)
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

    proptest! {
        #[test]
        fn what_was_encoded_decodes(entries in entries()) {
            prop_assert_eq!(decode(&encode(&entries)).unwrap(), entries);
        }

        #[test]
        fn any_bytes_decode_or_fail_without_harm(bytes in bytes(300)) {
            if let Ok(entries) = decode(&bytes) {
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
            if let Ok(entries) = decode(&bytes) {
                prop_assert!(entries.iter().all(|entry| is_component(&entry.name)));
            }
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/etc", b"../x", b"a\0"] {
            let entry = Entry { name: name.to_vec(), meta: Meta::default(), node: Node::Fifo };
            let error = decode(&encode([&entry])).unwrap_err();
            assert_eq!(error.expected, "a name that is one path component", "{name:?}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        let entry = |node| Entry { name: b"a".to_vec(), meta: Meta::default(), node };
        let link = entry(Node::Symlink { target: b"/etc".to_vec() });
        let directory = entry(Node::Directory { tree: Tree::EMPTY });
        let error = decode(&encode([&link, &directory])).unwrap_err();
        assert_eq!(error.expected, "names in ascending order");
    }
}
