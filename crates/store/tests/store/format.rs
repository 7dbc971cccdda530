//! A second reader of repositories, written from docs/format.md alone.
//!
//! Nothing of the library reads here: files are read with `std`, and every field is taken and
//! refused as the document says. What comes out is compared with the source tree. A stored byte
//! that changes without the document fails this test.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{LocalObjects, MemoryObjects, Objects, Operation};
use onefold_cdc::{Algorithm, ChunkSizes, Params};
use onefold_seal::{Cost, Password};
use onefold_store::backup::{Options, backup};
use onefold_store::{
    Cancel, Config, KeyPair, KeyRemark, Located, Progress, Repository, WriteOnlyKey,
    parse_public_key, prune,
};
use onefold_testkit::{random, skip};

use crate::format_reader::{
    Contents, Fields, Id, Is, Print, Reader, Thing, check, derive, hex, padme,
};

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
        owner.remove_client(client.number, false).unwrap();
        let (progress, cancel) = (Progress::default(), Cancel::default());
        let late = backup(&repository, &[home.join("deep")], &options(&[]), &progress, &cancel);
        late.unwrap_err();
    }

    let reader = Reader::open(&root, SECOND);
    if is_encrypted {
        let headers = reader.ids("snapshots");
        let headers = headers.iter().map(|id| reader.file(&format!("snapshots/{}", hex(id))));
        let of =
            |header: Vec<u8>| (header[6], u32::from_le_bytes(header[8..12].try_into().unwrap()));
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

#[test]
fn a_reader_of_the_document_reads_bundles() {
    for (is_encrypted, padding) in [(false, false), (true, false), (true, true)] {
        read_bundles(is_encrypted, padding);
    }
}

#[expect(clippy::disallowed_methods, reason = "the source of a backup, no durable byte")]
fn read_bundles(is_encrypted: bool, padding: bool) {
    let folder = tempfile::tempdir().unwrap();
    let (home, root) = (folder.path().join("home"), folder.path().join("repository"));
    fs::create_dir(&home).unwrap();
    // Many backups to a disk would wait for its syncs.
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let config = Config { padding, ..Config::standard() };
    let repository = make(&objects, config, is_encrypted);
    let repository = rotate(&objects, repository);
    let (progress, cancel) = (Progress::default(), Cancel::default());
    for number in 0..64 {
        fs::write(home.join("file"), number.to_string()).unwrap();
        let paths = std::slice::from_ref(&home);
        backup(&repository, paths, &options(&[]), &Progress::default(), &cancel).unwrap();
    }
    let kept = prune::Options { max_unused: prune::Unused::Unlimited, ..Default::default() };
    prune::prune(&repository, &kept, &progress, &cancel).unwrap();
    for info in objects.list("").unwrap() {
        let path = root.join(&info.name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, objects.get(&info.name).unwrap()).unwrap();
    }
    let bundles = Reader::open(&root, FIRST).bundles();
    assert_eq!(bundles, [("logs", 64), ("snapshots", 64), ("index", 64)]);
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
