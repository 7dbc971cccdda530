//! Containers, runs, marks, intents and log entries that were made by someone who means harm, and objects
//! that are longer than any memory: refused, named, and harmless to others, as `hostile.rs` has it of
//! snapshots.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use onefold_backend::{LocalObjects, Objects};
use onefold_container::{Content, container_id};
use onefold_fingerprint::Fingerprinter;
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::prune::{self, Unused};
use onefold_store::{Cancel, Progress, Recipe, Repository, Snapshot, StoreError, forget, stats};

use crate::common::attacked::{
    ALONE, BOUND, BOUND_WITH_GROUP, Scene, prune_all, read, run, varints,
};
use crate::common::sealed::{directory, entry_of_time, file, symlink};
use crate::common::{back_up, chain, checked, copy, names, open, small_chunks, try_open, write};

#[test]
fn groups_that_give_more_than_they_say_or_say_too_much_are_refused() {
    let _alone = ALONE.lock();
    let zeros = zstd::bulk::compress(&vec![0; 256 << 20], 3).unwrap();
    let prints = |bytes: &[u8]| Fingerprinter::blake3().fingerprint(bytes);
    let claimed = prints(b"claimed");
    let cases: [(&str, u8, &[u8], u64, &str); 5] = [
        ("256 MiB in a group of 1,000 bytes", 1, &zeros, 1000, "does not decompress to 1000"),
        ("a group above the limit", 1, &zeros, 65 << 24, "a group's length"),
        ("a group of 2^63 bytes", 1, &zeros, 1 << 63, "a group's length"),
        ("what is no frame", 1, b"no frame", 1000, "does not decompress to 1000"),
        ("a raw group of another length", 0, b"raw", 4, "a raw group stored in its own length"),
    ];
    for (what, codec, stored, len, text) in cases {
        let scene = Scene::new();
        let name = scene.forger.group(codec, stored, len, &[(claimed, len)]);
        let tree = scene.forger.tree(&[file(b"bomb", Recipe::chunk(claimed, len))]);
        let id = scene.forger.snapshot(tree);
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        let found = said.findings.iter().any(|said| said.starts_with(&name) && said.contains(text));
        assert!(found, "{what}: {:?}", said.findings);
        assert_eq!(said.restored.unwrap().failed, 1, "{what}");
        assert!(said.viewed.is_err(), "{what}");
    }
    // The longest group that is allowed, of a few kilobytes: read, in bounded memory.
    let scene = Scene::new();
    let chunk = vec![0; 64 << 20];
    let stored = zstd::bulk::compress(&chunk, 3).unwrap();
    let print = prints(&chunk);
    drop(chunk);
    scene.forger.group(1, &stored, 64 << 20, &[(print, 64 << 20)]);
    let tree = scene.forger.tree(&[file(b"zeros", Recipe::chunk(print, 64 << 20))]);
    let id = scene.forger.snapshot(tree);
    let said = read("64 MiB of zeros", BOUND_WITH_GROUP, &scene.objects, id, scene.honest);
    assert_eq!(said.findings, [] as [&str; 0]);
    assert_eq!(said.restored.unwrap().files, 1);
    assert_eq!((said.viewed, said.pruned, said.compared), (Ok(()), Ok(()), Ok(())));
}

#[test]
fn forged_footers_are_refused_and_what_they_hide_is_found() {
    let _alone = ALONE.lock();
    let print = Fingerprinter::blake3().fingerprint(b"chunk");
    // content, groups, then stored length, length, codec, check, chunks; fingerprint, length
    let footer = |head: &[u64], codec: u8, chunks: &[u64]| {
        let mut footer = varints(&head[..2]);
        footer.extend(varints(&head[2..4]));
        footer.put_u8(codec);
        footer.extend_from_slice(onefold_seal::Check::of(&[b"chunk"]).as_bytes());
        footer.put_varint(head[4]);
        for len in chunks {
            footer.extend_from_slice(print.as_bytes());
            footer.put_varint(*len);
        }
        footer
    };
    let huge = u64::MAX;
    for (what, footer, text) in [
        ("an unknown content", footer(&[2, 1, 5, 5, 1], 0, &[5]), "content 0 (data)"),
        ("2^64 groups", footer(&[0, huge, 5, 5, 1], 0, &[5]), "the count of groups"),
        ("2^64 chunks", footer(&[0, 1, 5, 5, huge], 0, &[5]), "the count of chunks"),
        ("an unknown codec", footer(&[0, 1, 5, 5, 1], 7, &[5]), "codec 0 (raw)"),
        ("a group before the header", footer(&[0, 1, 6, 6, 1], 0, &[6]), "where the footer begins"),
        ("a group that leaves room", footer(&[0, 1, 4, 4, 1], 0, &[4]), "where the footer begins"),
        ("a chunk outside", footer(&[0, 1, 5, 5, 1], 0, &[6]), "a chunk inside its group"),
        ("an empty chunk", footer(&[0, 1, 5, 5, 2], 0, &[5, 0]), "a chunk that is not empty"),
        ("chunks that overlap", footer(&[0, 1, 5, 5, 2], 0, &[5, 5]), "a chunk inside its group"),
        ("a chunk too few", footer(&[0, 1, 5, 5, 1], 0, &[4]), "chunks that fill their group"),
        ("no chunk", footer(&[0, 1, 5, 5, 0], 0, &[]), "chunks that fill their group"),
        ("bytes left over", [footer(&[0, 1, 5, 5, 1], 0, &[5]), vec![0]].concat(), "the end"),
        ("no footer", Vec::new(), "expected what the container holds"),
    ] {
        let scene = Scene::new();
        let name = scene.forger.container(b"chunk", &footer);
        let tree = scene.forger.tree(&[file(b"lost", Recipe::chunk(print, 5))]);
        let id = scene.forger.snapshot(tree);
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        let found = said.findings.iter().any(|said| said.starts_with(&name) && said.contains(text));
        assert!(found, "{what}: {:?}", said.findings);
        assert_eq!(said.restored.unwrap().failed, 1, "{what}");
        assert!(said.viewed.is_err() && said.pruned.is_err(), "{what}");
    }
    // The same chunk a hundred thousand times: one place serves, and prune keeps one.
    let scene = Scene::new();
    let (count, chunk) = (100_000, b"chunk");
    let stored = chunk.repeat(count);
    scene.forger.group(0, &stored, stored.len() as u64, &vec![(print, 5); count]);
    let id = scene.forger.snapshot(scene.forger.tree(&[file(b"a", Recipe::chunk(print, 5))]));
    let said = read("a chunk many times", BOUND, &scene.objects, id, scene.honest);
    assert_eq!((said.findings.len(), said.restored.unwrap().files), (0, 1));
    assert_eq!((said.viewed, said.pruned), (Ok(()), Ok(())));
}

#[test]
fn runs_that_lie_send_nobody_astray() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let content = scene.forger.chunk(Content::Data, b"content");
    let other = scene.forger.chunk(Content::Data, b"another");
    let id = scene.forger.snapshot(scene.forger.tree(&[file(b"a", content)]));
    let containers: Vec<ObjectId> = names(&*scene.objects, "containers/")
        .iter()
        .map(|name| container_id(name).unwrap())
        .collect();
    // Each chunk where it is not: in any container, in a slot and of a length that are not its own.
    for (slot, len) in [(0, 7), (0, 1), (1, 7), (u32::MAX, u32::MAX)] {
        for position in 0..=containers.len() as u32 {
            let mut body = varints(&[containers.len() as u64]);
            containers.iter().for_each(|id| body.extend_from_slice(id.as_bytes()));
            let mut prints = [content.root, other.root];
            prints.sort();
            body.put_varint(2);
            for print in prints {
                body.extend_from_slice(print.as_bytes());
                [position, slot, len].into_iter().for_each(|number| body.put_u32(number));
            }
            let run = scene.forger.object("index/", Kind::Run, ObjectId::random(), &body);
            let said = read("a run that lies", BOUND, &scene.objects, id, scene.honest);
            assert!(said.findings.iter().any(|said| said.starts_with(&run)), "{:?}", said.findings);
            assert_eq!(said.restored.unwrap().files, 1);
            assert_eq!(said.viewed, Ok(()));
            // Nor is anything deleted on its word.
            let pruned = copy(&*scene.objects);
            prune_all(&pruned).unwrap();
            let repository = open(&pruned);
            let (_, snapshot) = repository.find(&id.to_string().parse().unwrap()).unwrap();
            let restored = crate::common::restored(&repository, &snapshot).unwrap();
            assert_eq!(restored.bytes("a").unwrap(), b"content", "{position} {slot} {len}");
            scene.objects.delete(&run).unwrap();
        }
    }
    for (what, body, text) in [
        ("2^64 containers", varints(&[u64::MAX]), "the count of covered objects"),
        ("2^64 entries", varints(&[0, u64::MAX]), "the count of entries"),
        (
            "entries out of order",
            [varints(&[0, 2]), vec![9; 44], vec![8; 44]].concat(),
            "ascending",
        ),
    ] {
        let run = scene.forger.object("index/", Kind::Run, ObjectId::random(), &body);
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        let found = said.findings.iter().any(|said| said.starts_with(&run) && said.contains(text));
        assert!(found, "{what}: {:?}", said.findings);
        assert_eq!((said.restored.unwrap().files, said.viewed), (1, Ok(())));
        scene.objects.delete(&run).unwrap();
    }
}

#[test]
fn snapshots_intents_and_marks_that_lie_are_named_and_harm_no_other() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let text_of = |error: &StoreError| chain(error);
    // A time, then three texts; then a list of paths.
    let head = varints(&[2, 0, 0, 0, 0]);
    let huge = u64::MAX;
    for (what, body) in [
        ("2^64 paths", [head.clone(), varints(&[huge])].concat()),
        ("2^64 tags", [head.clone(), varints(&[0, huge])].concat()),
        ("a parent of 3 bytes", [head.clone(), varints(&[0, 0, 3, 1, 1, 1])].concat()),
        ("a host's length", varints(&[2, 0, huge])),
        ("nothing", Vec::new()),
    ] {
        let name = scene.forger.object("snapshots/", Kind::Snapshot, ObjectId::random(), &body);
        let (there, damaged) = open(&scene.objects).snapshots().unwrap();
        assert_eq!((there.len(), damaged.len()), (1, 1), "{what}");
        assert!(text_of(&damaged[0]).contains(&name), "{what}: {}", text_of(&damaged[0]));
        let said = read(what, BOUND, &scene.objects, scene.honest, scene.honest);
        assert!(said.findings.iter().any(|said| said.starts_with(&name)), "{:?}", said.findings);
        assert_eq!(said.restored.unwrap().files, 1, "{what}");
        assert!(said.pruned.is_err(), "{what}: nobody knows what it needs");
        scene.objects.delete(&name).unwrap();
    }
    for (prefix, kind) in [("marks/", Kind::Mark), ("intents/", Kind::Intent)] {
        for body in [varints(&[huge]), varints(&[2, 0, 0, 0, 0, 1, huge]), vec![1; 16]] {
            let name = scene.forger.object(prefix, kind, ObjectId::random(), &body);
            let said = read(prefix, BOUND, &scene.objects, scene.honest, scene.honest);
            assert_eq!(said.restored.unwrap().files, 1);
            if kind == Kind::Mark {
                assert!(said.findings.iter().any(|said| said.contains(&name)));
                assert!(said.pruned.unwrap_err().contains(&name));
            }
            scene.objects.delete(&name).unwrap();
        }
    }
    // A mark that condemns everything costs nobody his data.
    let containers = names(&*scene.objects, "containers/");
    let mut body = varints(&[containers.len() as u64]);
    for name in &containers {
        body.extend_from_slice(container_id(name).unwrap().as_bytes());
    }
    scene.forger.object("marks/", Kind::Mark, ObjectId::random(), &body);
    let options = prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
    prune::prune(&open(&scene.objects), &options, &Progress::default(), &Cancel::default())
        .unwrap();
    let said = read("what is left", BOUND, &scene.objects, scene.honest, scene.honest);
    assert_eq!((said.findings, said.restored.unwrap().files), (Vec::new(), 1));
}

#[test]
fn log_entries_that_lie_are_named_and_keep_nobody_busy() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let at = |log: u8, number: u64| {
        let id = [&[log; 8][..], &number.to_be_bytes()].concat();
        ObjectId::from_bytes(id.try_into().unwrap())
    };
    let huge = u64::MAX;
    for (what, log, number, body, text) in [
        ("2^64 snapshots", 1, 0, varints(&[0, 0, 0, 0, huge]), "the count of snapshots"),
        ("2^64 forgotten", 2, 0, varints(&[0, 0, 0, 0, 0, huge]), "the count of forgotten"),
        ("a check of 3 bytes", 3, 0, varints(&[3, 1, 1, 1, 0, 0, 0, 0, 0]), "a check of 16 bytes"),
        ("nothing", 4, 0, Vec::new(), "malformed"),
        ("2^64 ranges", 5, 0, varints(&[0, 0, 0, 0, 0, 0, huge]), "the count of settled"),
        ("bytes left over", 8, 0, varints(&[0, 0, 0, 0, 0, 0, 0, 0]), "malformed"),
        ("the last number", 6, huge, [&[16][..], &[7; 21]].concat(), "malformed"),
    ] {
        let name = scene.forger.object("logs/", Kind::LogEntry, at(log, number), &body);
        let said = read(what, BOUND, &scene.objects, scene.honest, scene.honest);
        let is_named = |found: &String| found.starts_with(&name) && found.contains(text);
        assert!(said.findings.iter().any(is_named), "{what}: {:?}", said.findings);
        assert_eq!((said.restored.unwrap().files, said.viewed), (1, Ok(())), "{what}");
        scene.objects.delete(&name).unwrap();
    }
    // A log that seems to have 2^64 entries, with two of them.
    let body = varints(&[0, 0, 0, 0, 0, 0, 0]);
    let [first, last] =
        [0, huge].map(|number| scene.forger.object("logs/", Kind::LogEntry, at(7, number), &body));
    let found = checked(&open(&scene.objects)).unwrap().findings;
    let said: Vec<_> = found.iter().map(ToString::to_string).collect();
    let second = format!("logs/{}: is missing, though the log of writer", at(7, 1));
    assert!(said.len() == 1 && said[0].starts_with(&second), "{said:?}");
    // The last one may say that it is so, and nothing else.
    scene.objects.delete(&last).unwrap();
    for (settled, wrong) in [((1, huge - 1), 0), ((1, huge), 0), ((2, huge - 1), 1)] {
        let mut body = varints(&[0, 0, 0, 0, 0, 0, 1]);
        body.extend(varints(&[settled.0, settled.1]));
        let last = scene.forger.object("logs/", Kind::LogEntry, at(7, huge), &body);
        let found = checked(&open(&scene.objects)).unwrap().findings;
        assert_eq!(found.len(), wrong, "{settled:?}: {found:?}");
        scene.objects.delete(&last).unwrap();
    }
    // Nobody can go on with a log of a host of his.
    scene.objects.delete(&first).unwrap();
    let host = Envelope::plain(open(&scene.objects).id()).pseudonym(b"");
    let own = [&host[..], &huge.to_be_bytes()].concat();
    let own = ObjectId::from_bytes(own.try_into().unwrap());
    let name = scene.forger.object("logs/", Kind::LogEntry, own, &body);
    let error = forget::forget(&open(&scene.objects), &[scene.honest]).unwrap_err();
    assert!(chain(&error).contains(&name), "{}", chain(&error));
}

#[test]
fn times_and_totals_at_their_ends_are_borne() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    for secs in [i64::MIN, i64::MIN + 1, -1, i64::MAX] {
        let mut pipe = entry_of_time(4, b"pipe", 0o600, secs);
        pipe.extend(symlink(b"q", b"x"));
        let id = scene.forger.snapshot(scene.forger.tree(&[pipe]));
        let said = read("a time", BOUND, &scene.objects, id, scene.honest);
        assert_eq!((said.findings, said.viewed, said.pruned), (Vec::new(), Ok(()), Ok(())));
        // A file system that does not know the time says so; the entries are there.
        assert!(said.restored.unwrap().others + said.issues.len() as u64 >= 2);
        forget::forget(&open(&scene.objects), &[id]).unwrap();
    }
    // Snapshots that say of themselves that they have 2^64 - 1 of everything, at the ends of time.
    for secs in [i64::MIN, i64::MAX] {
        let mut body = Vec::new();
        body.put_signed(secs);
        body.extend(varints(&[999_999_999, 0, 0, 0, 0, 0, 0]));
        body.extend(varints(&[u64::MAX; 9]));
        body.extend(directory(b"", Recipe::EMPTY));
        scene.forger.object("snapshots/", Kind::Snapshot, ObjectId::random(), &body);
    }
    let repository = open(&scene.objects);
    assert_eq!(stats::stats(&repository).unwrap().logical_bytes, u64::MAX);
    let (snapshots, _) = repository.snapshots().unwrap();
    assert_eq!(snapshots.len(), 3);
    judge(snapshots);
    assert_eq!(checked(&repository).unwrap().findings, []);
}

/// Holds the snapshots against rules of every kind.
fn judge(snapshots: Vec<(ObjectId, Snapshot)>) {
    use onefold_store::forget::{Count, GroupBy, Period, Policy};
    let periods =
        [Period::Snapshot, Period::Hour, Period::Day, Period::Week, Period::Month, Period::Year];
    let counts = periods.map(|period| (period, Count::AtMost(1))).to_vec();
    let within = periods.map(|period| (period, "1y".parse().unwrap())).to_vec();
    let by = GroupBy { host: true, paths: true, tags: true };
    let policy = Policy { counts, within, tags: Vec::new() };
    for secs in [i64::MIN, 0, i64::MAX] {
        let now = onefold_store::tree::Time { secs, nanos: 0 };
        let groups = forget::judge(snapshots.clone(), by, &policy, now, &jiff::tz::TimeZone::UTC);
        assert!(groups.iter().all(|group| !group.is_lost()));
    }
}

/// Makes the file of an object as long as `len` says, without a byte more on the disk.
#[expect(clippy::disallowed_methods, reason = "an attacker at the disk, no durable byte")]
fn lengthen(root: &Path, name: &str, len: u64) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::OpenOptions::new().create(true).append(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn objects_that_are_longer_than_any_memory_are_refused_unread() {
    let _alone = ALONE.lock();
    let id = ObjectId::random();
    let container = onefold_container::container_name(id);
    for (name, text) in [
        (container, "does not begin with"),
        (format!("index/{id}"), "expected at most"),
        (format!("snapshots/{id}"), "expected at most"),
        (format!("receipts/{id}"), "expected at most"),
        (format!("marks/{id}"), "expected at most"),
        ("config".into(), "expected at most"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("repository");
        let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(&root).unwrap());
        let repository = Repository::init(Arc::clone(&objects), small_chunks()).unwrap();
        let source = folder.path().join("source");
        write(source.join("a"), "content");
        let (honest, _) = back_up(&repository, &source);
        lengthen(&root, &name, 1 << 40);
        let found = run(&format!("check of {name}"), BOUND, {
            let objects = Arc::clone(&objects);
            move || match try_open(objects) {
                Ok(repository) => checked(&repository).unwrap().findings,
                Err(error) => vec![onefold_store::check::Finding {
                    object: "open".into(),
                    problem: chain(&error),
                }],
            }
        });
        let says = |found: &onefold_store::check::Finding| {
            found.to_string().contains(&name) && found.problem.contains(text)
        };
        assert!(found.iter().any(says), "{name}: {found:?}");
        if name != "config" && !name.starts_with("marks/") {
            let restored = run(&format!("restore beside {name}"), BOUND, move || {
                let repository = open(&objects);
                let spec = honest.to_string().parse().unwrap();
                let (_, snapshot) = repository.find(&spec).unwrap();
                crate::common::restored(&repository, &snapshot).map(drop)
            });
            assert_eq!(restored, Ok(()), "{name}");
        }
    }
    // A footer that says that it has 4 GiB, in a container that has room for it.
    let folder = tempfile::tempdir().unwrap();
    let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(folder.path()).unwrap());
    let repository = Repository::init(Arc::clone(&objects), small_chunks()).unwrap();
    let header = onefold_seal::Envelope::plain(repository.id()).header(Kind::Container, id);
    let name = onefold_container::container_name(id);
    objects.put(&name, header.to_vec().into()).unwrap();
    lengthen(folder.path(), &name, 5 << 30);
    #[expect(clippy::disallowed_methods, reason = "an attacker at the disk, no durable byte")]
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join(&name)).unwrap();
    std::io::Write::write_all(&mut file, &[&[0xff; 4][..], &[0; 16]].concat()).unwrap();
    let found = run("check of a long footer", BOUND, move || checked(&open(&objects)).unwrap());
    let [found] = &found.findings[..] else { panic!("{:?}", found.findings) };
    assert!(found.object == name && found.problem.contains("expected at most 67108864"), "{found}");
}
