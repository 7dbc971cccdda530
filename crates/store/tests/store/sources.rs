//! What is no tree of files: streams, disks, and files with holes.

use std::fs::{self, File};
use std::io::{PipeReader, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use onefold_backend::Objects;
use onefold_seal::ObjectId;
use onefold_store::backup::{self, Stream};
use onefold_store::dump::{Part, dump};
use onefold_store::stats::stats;
use onefold_store::tree::Node;
use onefold_store::{Cancel, Config, Progress, Repository, Snapshot, StoreError};
use onefold_testkit::{random, skip, text};
use tempfile::tempdir;

use crate::common::{
    Issues, back_up, expect_clean, in_memory, open, options, restored, small_chunks, try_back_up,
    write,
};

fn open_to_write(path: &Path) -> File {
    write(path, "");
    reopen_to_write(path)
}

#[expect(clippy::disallowed_methods, reason = "a source of backups, no durable byte")]
fn reopen_to_write(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

fn stream(input: impl Into<OwnedFd>, name: &str) -> Stream {
    let input = File::from(input.into());
    Stream { name: name.into(), input, expect_whole: Box::new(|| Ok(())) }
}

/// A pipe out of which `bytes` come, in pieces.
fn pipe(bytes: Vec<u8>) -> PipeReader {
    let (reader, mut writer) = std::io::pipe().unwrap();
    thread::spawn(move || bytes.chunks(7001).try_for_each(|piece| writer.write_all(piece)));
    reader
}

fn back_up_stream(
    repository: &Repository,
    stream: &Stream,
) -> Result<(ObjectId, Snapshot), StoreError> {
    let (progress, cancel) = (Progress::default(), Cancel::default());
    backup::backup_stream(repository, stream, &options(), &progress, &cancel)
}

/// What the only file of a snapshot, at `name`, restores to.
fn bytes_of(objects: &Arc<dyn Objects>, snapshot: &Snapshot, name: &str) -> Vec<u8> {
    restored(&open(objects), snapshot).unwrap().bytes(name).unwrap().to_vec()
}

#[test]
fn a_stream_is_one_file_and_its_known_chunks_are_not_stored_again() {
    let (objects, repository) = in_memory(small_chunks());
    let dump = text(1, 3_000_000);
    let (_, first) = back_up_stream(&repository, &stream(pipe(dump.clone()), "dump.sql")).unwrap();
    assert_eq!(first.paths, [b"/dump.sql".to_vec()]);
    assert_eq!((first.summary.files, first.summary.bytes), (1, dump.len() as u64));
    assert!(bytes_of(&objects, &first, "dump.sql") == dump);
    let longer = [&dump[..], b"one more row"].concat();
    let (_, second) =
        back_up_stream(&open(&objects), &stream(pipe(longer.clone()), "dump.sql")).unwrap();
    assert!(second.summary.new_bytes < 100_000, "{:?}", second.summary);
    assert!(bytes_of(&objects, &second, "dump.sql") == longer);
    let (_, empty) = back_up_stream(&open(&objects), &stream(pipe(Vec::new()), "nothing")).unwrap();
    assert_eq!(bytes_of(&objects, &empty, "nothing"), b"");
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn a_stream_that_did_not_come_whole_makes_no_snapshot() {
    let (objects, repository) = in_memory(small_chunks());
    let failing = Stream {
        expect_whole: Box::new(|| Err("it exited with code 1".into())),
        ..stream(pipe(random(1, 100_000)), "dump")
    };
    let error = back_up_stream(&repository, &failing).unwrap_err();
    assert!(matches!(&error, StoreError::Stream { reason, .. } if reason.contains("code 1")));
    // A directory opens and cannot be read.
    let unreadable = stream(File::open("/").unwrap(), "dump");
    let error = back_up_stream(&repository, &unreadable).unwrap_err();
    assert!(matches!(error, StoreError::Stream { .. }), "{error}");
    let cancelled = Cancel::default();
    cancelled.cancel();
    let error = backup::backup_stream(
        &repository,
        &stream(pipe(vec![1]), "dump"),
        &options(),
        &Progress::default(),
        &cancelled,
    );
    assert!(matches!(error, Err(StoreError::Interrupted)));
    assert!(repository.snapshots().unwrap().0.is_empty());
    assert!(objects.list("intents/").unwrap().is_empty());
}

#[test]
fn a_stream_has_a_name_that_a_file_can_have() {
    let (_, repository) = in_memory(small_chunks());
    for name in ["", ".", "..", "a/b", "/a"] {
        let error = back_up_stream(&repository, &stream(pipe(vec![1]), name)).unwrap_err();
        assert!(matches!(error, StoreError::Unusable(_)), "{name}: {error}");
    }
}

#[test]
fn an_image_named_as_a_device_is_a_file_under_the_name_that_the_user_gave() {
    let source = tempdir().unwrap();
    let image = random(1, 400_000);
    write(source.path().join("images/real.img"), &image);
    write(source.path().join("tree/file"), b"beside it");
    symlink("images/real.img", source.path().join("disk")).unwrap();
    let (objects, repository) = in_memory(small_chunks());
    let options = backup::Options { devices: vec![source.path().join("disk")], ..options() };
    let tree = source.path().join("tree");
    let issues = Issues::default();
    let back_up =
        |repository| try_back_up(repository, &[&tree], &options, &issues.progress()).unwrap().1;
    let snapshot = back_up(&repository);
    let picture = restored(&open(&objects), &snapshot).unwrap();
    assert!(picture.bytes("disk").unwrap() == image);
    assert_eq!(picture.bytes("tree/file").unwrap(), b"beside it");
    let root = source.path().canonicalize().unwrap();
    let path = |name| root.join(name).into_os_string().into_encoded_bytes();
    assert_eq!(snapshot.paths, [path("disk"), path("tree")]);
    // The second time it is recognised, as files are.
    assert_eq!(back_up(&open(&objects)).summary.unchanged_files, 2);
    assert_eq!(issues.all(), [] as [&str; 0]);
}

#[test]
fn what_holds_no_bytes_is_no_device_to_back_up() {
    let (_, repository) = in_memory(small_chunks());
    let back_up = |devices: &[&str]| {
        let devices = devices.iter().map(PathBuf::from).collect();
        let options = backup::Options { devices, ..options() };
        try_back_up(&repository, &[], &options, &Progress::default()).unwrap_err()
    };
    for device in ["/dev/zero", "/dev", "/", "/dev/there-is-no-such-device"] {
        let error = back_up(&[device]);
        assert!(matches!(error, StoreError::File { .. }), "{device}: {error}");
    }
    assert!(matches!(back_up(&[]), StoreError::Unusable(_)));
}

/// A loop device on a file, taken down when dropped.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn on(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Self(name.trim().into()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_is_backed_up_with_what_it_holds_or_as_a_node() {
    let source = tempdir().unwrap();
    let image = [random(1, 300_000), vec![0; 2 << 20], random(2, 100_000 - 64)].concat();
    let image = [&image[..], &vec![7; 512 - image.len() % 512]].concat();
    write(source.path().join("image"), &image);
    let Some(device) = LoopDevice::on(&source.path().join("image")) else {
        return skip("no loop device can be set up here");
    };
    let (objects, repository) = in_memory(small_chunks());
    let issues = Issues::default();
    let options = backup::Options { devices: vec![device.0.clone()], ..options() };
    let (_, snapshot) = try_back_up(&repository, &[], &options, &issues.progress()).unwrap();
    let name = device.0.file_name().unwrap().to_str().unwrap();
    assert!(bytes_of(&objects, &snapshot, name) == image);
    assert_eq!(snapshot.summary.bytes, image.len() as u64);
    // It is never taken for unchanged, and finds its chunks again.
    let (_, again) = try_back_up(&open(&objects), &[], &options, &issues.progress()).unwrap();
    assert_eq!((again.summary.unchanged_files, again.summary.files), (0, 1));
    assert!(again.summary.new_bytes < 5_000, "{:?}", again.summary);
    assert_eq!(issues.all(), [] as [&str; 0]);
    // Without being named as a device it is a node.
    let (_, node) =
        try_back_up(&open(&objects), &[&device.0], &crate::common::options(), &issues.progress())
            .unwrap();
    let mut nodes = Vec::new();
    let mut visit = |_: &[u8], entry: &onefold_store::tree::Entry| {
        nodes.push(entry.node.clone());
        Ok(())
    };
    open(&objects).walk(&node.root, &mut visit).unwrap();
    assert!(matches!(nodes[..], [Node::BlockDevice { .. }]), "{nodes:?}");
}

#[test]
fn a_device_that_fails_in_the_middle_is_reported_and_left_out() {
    for threads in [1, 3] {
        let source = tempdir().unwrap();
        let image = source.path().join("image");
        write(&image, random(1, 12 << 20));
        write(source.path().join("tree/file"), b"beside it");
        let Some(device) = LoopDevice::on(&image) else {
            return skip("no loop device can be set up here");
        };
        // Behind this the device has nothing to read from.
        reopen_to_write(&image).set_len(7 << 20).unwrap();
        let (objects, repository) = in_memory(small_chunks());
        let issues = Issues::default();
        let devices = vec![device.0.clone()];
        let options =
            backup::Options { devices, threads: NonZero::new(threads), ..crate::common::options() };
        let tree = source.path().join("tree");
        let (_, snapshot) =
            try_back_up(&repository, &[&tree], &options, &issues.progress()).unwrap();
        assert!(issues.say("cannot read"), "{:?}", issues.all());
        assert_eq!((issues.all().len(), snapshot.summary.unreadable), (1, 1));
        assert_eq!(snapshot.summary.files, 1);
        assert_eq!(bytes_of(&objects, &snapshot, "tree/file"), b"beside it");
        expect_clean(&open(&objects)).unwrap();
    }
}

#[test]
fn bytes_before_a_hole_come_back_wherever_the_hole_is() {
    let source = tempdir().unwrap();
    let (len, data) = (1 << 20, random(1, 200_000));
    let layouts: [(&str, &[u64]); 5] = [
        ("at-the-end", &[0]),
        ("at-the-start", &[len - 200_000]),
        ("on-both-sides", &[400_000]),
        ("in-the-middle", &[0, len - 200_000]),
        ("everywhere", &[65536, 500_000]),
    ];
    for (name, offsets) in layouts {
        let path = source.path().join(name);
        let file = open_to_write(&path);
        file.set_len(len).unwrap();
        offsets.iter().for_each(|offset| file.write_all_at(&data, *offset).unwrap());
        file.sync_all().unwrap();
        if file.metadata().unwrap().blocks() * 512 >= len {
            return skip("the file system for temporary files has no holes");
        }
    }
    let (objects, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    assert!(snapshot.summary.bytes < 3 << 20, "{:?}", snapshot.summary);
    let picture = restored(&open(&objects), &snapshot).unwrap();
    for (name, _) in layouts {
        let expected = fs::read(source.path().join(name)).unwrap();
        assert!(picture.bytes(name).unwrap() == expected, "{name}");
    }
}

#[test]
fn zeros_that_are_no_hole_are_stored_once() {
    let source = tempdir().unwrap();
    write(source.path().join("zeros"), vec![0; 24 << 20]);
    let (objects, repository) = in_memory(Config::standard());
    let (_, snapshot) = back_up(&repository, source.path());
    let stats = stats(&open(&objects)).unwrap();
    assert!(stats.data_chunks <= 2, "one for all of them but the last: {stats:?}");
    assert!(snapshot.summary.stored_bytes < 5000, "{:?}", snapshot.summary);
    assert!(bytes_of(&objects, &snapshot, "zeros") == vec![0; 24 << 20]);
}

#[test]
fn a_dump_can_be_stopped_in_a_long_hole() {
    let source = tempdir().unwrap();
    open_to_write(&source.path().join("sparse")).set_len(1 << 40).unwrap();
    let (_, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    let (cancel, mut bytes) = (Cancel::default(), 0);
    let stopped = dump(&repository, &snapshot.root, &cancel, &mut |part| {
        if let Part::Bytes(zeros) = part {
            bytes += zeros.len();
            cancel.cancel();
        }
        Ok(())
    });
    assert!(matches!(stopped, Err(StoreError::Interrupted)), "{stopped:?}");
    assert!(0 < bytes && bytes < 1 << 20, "{bytes}");
}
