//! Objects made by hand, for what no backup would write.

use std::sync::Arc;

use onefold_backend::Objects;
use onefold_container::{Compressor, Content, GroupBuilder, OpenContainer, container_name};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_seal::wire::Put;
use onefold_seal::{Check, Envelope, Kind, ObjectId, Suite};
use onefold_store::{Recipe, Repository};

/// Writes objects that pass every check into a repository of small BLAKE3 chunks.
pub struct Forger {
    objects: Arc<dyn Objects>,
    envelope: Envelope,
}

impl Forger {
    pub fn new(objects: &Arc<dyn Objects>, repository: &Repository) -> Self {
        Self { objects: Arc::clone(objects), envelope: Envelope::plain(repository.id()) }
    }

    /// Stores `bytes` as one chunk in a container of its own.
    pub fn chunk(&self, content: Content, bytes: &[u8]) -> Recipe {
        let fingerprint = Fingerprinter::blake3().fingerprint(bytes);
        let mut group = GroupBuilder::default();
        group.push(fingerprint, bytes);
        let mut container = OpenContainer::new(&self.envelope, content);
        container.push(Compressor::new(1, Suite::Plain).unwrap().compress(&mut group).unwrap());
        let sealed = container.seal();
        self.objects.put(&container_name(sealed.directory.id), sealed.bytes).unwrap();
        Recipe::chunk(fingerprint, bytes.len() as u64)
    }

    /// Stores `stored` and `footer` as a container whose trailer fits them, whatever they say.
    pub fn container(&self, stored: &[u8], footer: &[u8]) -> String {
        let id = ObjectId::random();
        let header = self.envelope.header(Kind::Container, id);
        let footer_len = (footer.len() as u32).to_le_bytes();
        let check = Check::of(&[&header, footer, &footer_len]);
        let object = [&header[..], stored, footer, &footer_len, check.as_bytes()].concat();
        self.objects.put(&container_name(id), object.into()).unwrap();
        container_name(id)
    }

    /// Stores one group, whose chunks it lists as they are given, without a look at them.
    pub fn group(
        &self,
        codec: u8,
        stored: &[u8],
        len: u64,
        chunks: &[(Fingerprint, u64)],
    ) -> String {
        let mut footer = Vec::new();
        footer.put_u8(0);
        footer.put_varint(1);
        footer.put_varint(stored.len() as u64);
        footer.put_varint(len);
        footer.put_u8(codec);
        footer.extend_from_slice(Check::of(&[stored]).as_bytes());
        footer.put_varint(chunks.len() as u64);
        for (fingerprint, len) in chunks {
            footer.extend_from_slice(fingerprint.as_bytes());
            footer.put_varint(*len);
        }
        self.container(stored, &footer)
    }

    /// Puts an object of which the body alone is bad.
    pub fn object(&self, prefix: &str, kind: Kind, id: ObjectId, body: &[u8]) -> String {
        let name = format!("{prefix}{id}");
        self.objects.put(&name, self.envelope.seal(kind, id, body).into()).unwrap();
        name
    }

    /// Stores a node that lists `children`, and gives the recipe of what they list.
    pub fn node(&self, children: &[Recipe]) -> Recipe {
        let mut bytes = Vec::new();
        bytes.put_varint(children.len() as u64);
        for child in children {
            bytes.extend_from_slice(child.root.as_bytes());
            bytes.put_varint(child.len);
        }
        let len = children.iter().map(|child| child.len).sum();
        let root = self.chunk(Content::Metadata, &bytes).root;
        Recipe { len, depth: children[0].depth + 1, root }
    }

    /// Stores the tree with these encoded entries.
    pub fn tree(&self, entries: &[Vec<u8>]) -> Recipe {
        self.chunk(Content::Metadata, &entries.concat())
    }

    /// Puts a snapshot whose root has the tree `root`.
    pub fn snapshot(&self, root: Recipe) -> ObjectId {
        let id = ObjectId::random();
        let body = snapshot_body(1, b"/source", &[], None, root);
        self.object("snapshots/", Kind::Snapshot, id, &body);
        id
    }
}

/// The body of a snapshot of one path on the host `host`.
pub fn snapshot_body(
    secs: i64,
    path: &[u8],
    tags: &[&str],
    parent: Option<ObjectId>,
    root: Recipe,
) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_signed(secs);
    body.put_varint(0);
    for text in ["host", "user", "program"] {
        body.put_bytes(text.as_bytes());
    }
    body.put_varint(1);
    body.put_bytes(path);
    body.put_varint(tags.len() as u64);
    tags.iter().for_each(|tag| body.put_bytes(tag.as_bytes()));
    body.put_bytes(parent.as_ref().map_or(&[][..], |id| id.as_bytes()));
    (0..9).for_each(|_| body.put_varint(0));
    body.extend(directory(b"", root));
    body
}

/// The encoding of a directory's entry.
pub fn directory(name: &[u8], tree: Recipe) -> Vec<u8> {
    let mut entry = entry(2, name, 0o755);
    put_recipe(&mut entry, tree);
    entry
}

/// The encoding of a file's entry.
pub fn file(name: &[u8], content: Recipe) -> Vec<u8> {
    let mut entry = entry(0, name, 0o644);
    entry.put_varint(content.len);
    put_recipe(&mut entry, content);
    entry
}

/// The encoding of the entry of a file with holes; the extents are given as they are encoded.
pub fn sparse_file(name: &[u8], size: u64, content: Recipe, extents: &[u8]) -> Vec<u8> {
    let mut entry = entry(1, name, 0o644);
    entry.put_varint(size);
    put_recipe(&mut entry, content);
    entry.extend_from_slice(extents);
    entry
}

/// The encoding of a link's entry.
pub fn symlink(name: &[u8], target: &[u8]) -> Vec<u8> {
    let mut entry = entry(3, name, 0o777);
    entry.put_bytes(target);
    entry
}

/// The encoding of an entry up to what belongs to its kind.
pub fn entry(kind: u8, name: &[u8], mode: u64) -> Vec<u8> {
    entry_of_time(kind, name, mode, 1)
}

/// The encoding of an entry, up to what belongs to its kind, with these seconds for its times.
pub fn entry_of_time(kind: u8, name: &[u8], mode: u64, secs: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u8(kind);
    bytes.put_bytes(name);
    bytes.put_varint(mode);
    for owner in [rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()] {
        bytes.put_varint(owner.into());
    }
    for _ in ["mtime", "ctime"] {
        bytes.put_signed(secs);
        bytes.put_varint(0);
    }
    for number in ["dev", "ino", "links"] {
        bytes.put_varint(u64::from(number == "links"));
    }
    bytes.put_varint(0);
    bytes
}

fn put_recipe(bytes: &mut Vec<u8>, recipe: Recipe) {
    bytes.put_varint(recipe.len);
    if recipe.len > 0 {
        bytes.put_u8(recipe.depth);
        bytes.extend_from_slice(recipe.root.as_bytes());
    }
}
