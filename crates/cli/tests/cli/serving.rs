//! A served pool as programs, file systems and disks treat it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onefold_lab::nbd::Refused;
use onefold_seal::Check;
use onefold_testkit::{flip_bit, random, skip, write_certificates};
use rustix::process::Signal;

use crate::lab::{Lab, ONEFOLD, number};
use crate::mount::{can_mount, may_mount, said_by};
use crate::served::{Served, have, run};
use crate::tree_equality::assert_same_tree;

const BLOCK: usize = 4096;
const EIO: u32 = 5;
const ENOSPC: u32 = 28;

fn errno(error: &anyhow::Error) -> u32 {
    error.downcast_ref::<Refused>().unwrap_or_else(|| panic!("{error:#}")).errno
}

/// Whether there are loop devices; says why not.
pub(crate) fn has_loop_devices() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let tried = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output();
    let device = tried.as_ref().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let device = device.unwrap_or_default();
    match said_by(tried) {
        Ok(()) => {
            run("losetup", &["--detach", device.trim()]);
            true
        }
        Err(why) => {
            skip(&format!("there are no loop devices: {why}"));
            false
        }
    }
}

#[test]
fn fio_reads_what_it_wrote_to_a_volume() {
    if !have(&["fio"]) {
        return;
    }
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 32MiB disk");
    let mut served = Served::start(&lab);
    let uri = format!("--uri={}", served.uri("disk"));
    #[rustfmt::skip]
    let common = [
        "--name=verify", "--ioengine=nbd", &uri, "--verify=crc32c", "--verify_fatal=1",
        "--verify_state_save=0", "--dedupe_percentage=50", "--buffer_compress_percentage=50",
        // requests that overlap end in either order
        "--serialize_overlap=1",
    ];
    for job in [
        &["--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=16m", "--fsync=32"][..],
        &["--rw=randwrite", "--bsrange=512-256k", "--bs_unaligned", "--iodepth=8", "--size=24m"],
        &["--rw=write", "--bs=1m", "--iodepth=4", "--size=32m"],
        &["--rw=randtrimwrite", "--bs=64k", "--iodepth=4", "--size=16m"],
    ] {
        run("fio", &[&common[..], job].concat());
    }
    assert_eq!(served.signal(Signal::TERM), 0);
    let sums = lab.ok("volume stats --pool pool --json").json();
    assert!(number(&sums, "pages") > 1000, "fio wrote nothing: {sums}");
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
}

#[test]
fn libnbd_uses_a_volume_by_several_connections_over_tls() {
    if !have(&["nbdsh"]) {
        return;
    }
    let lab = Lab::new();
    write_certificates(&lab.path("tls"));
    lab.ok("volume create --pool pool --size 8MiB disk");
    let line = "serve --pool pool --listen 127.0.0.1:0 --tls-cert tls/server-cert.pem \
                --tls-key tls/server-key.pem --tls-client-ca tls/ca-cert.pem";
    let mut served = Served::start_with(&lab, line).unwrap();
    let statements = format!(
        r#"
def connect(certificates):
    handle = nbd.NBD()
    if certificates:
        handle.set_tls(nbd.TLS_REQUIRE)
        handle.set_tls_certificates("{tls}")
    handle.set_export_name("disk")
    handle.connect_tcp("localhost", "{port}")
    return handle
handles = [connect(True) for _ in range(4)]
for number, handle in enumerate(handles):
    assert handle.get_tls_negotiated() and handle.can_multi_conn()
    handle.pwrite(bytes([number + 1]) * 8192, number * 8192)
handles[0].flush()
for handle in handles:
    for number in range(4):
        assert handle.pread(8192, number * 8192) == bytes([number + 1]) * 8192
handles[1].trim(8192, 8192)
assert handles[2].pread(8192, 8192) == bytes(8192)
handles[3].pwrite(b"x" * 4096, 0, nbd.CMD_FLAG_FUA)
for handle in handles:
    handle.shutdown()
try:
    connect(False)
    assert False, "served without TLS"
except nbd.Error:
    pass
"#,
        tls = lab.path("tls").display(),
        port = served.place().rsplit(':').next().unwrap(),
    );
    run("nbdsh", &["-c", &statements]);
    served.signal(Signal::KILL);
    // what was acknowledged with FUA over TLS is there
    let served = Served::start(&lab);
    let mut found = [0; 8192];
    served.client("disk").read(0, &mut found).unwrap();
    assert_eq!((found[0], found[4096]), (b'x', 1));
}

#[test]
fn a_damaged_page_is_an_error_of_its_blocks_alone_and_named() {
    const BLOCKS: usize = 64;
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let image = random(1, BLOCKS * BLOCK);
    {
        let mut served = Served::start(&lab);
        served.client("disk").write(0, &image).unwrap();
        assert_eq!(served.signal(Signal::TERM), 0);
    }
    // random pages are kept as they are, so that one can be found
    let container = lab.path("pool/container-00000001");
    let bytes = fs::read(&container).unwrap();
    let page = &image[20 * BLOCK..21 * BLOCK];
    let at = bytes.windows(64).position(|window| window == &page[1000..1064]).unwrap();
    flip_bit(&container, at as u64);

    let served = Served::start(&lab);
    let mut client = served.client("disk");
    let mut found = vec![0; BLOCK];
    for block in 0..BLOCKS {
        let expected = &image[block * BLOCK..(block + 1) * BLOCK];
        match client.read((block * BLOCK) as u64, &mut found) {
            Ok(()) => assert!(block != 20 && found == expected, "block {block}"),
            Err(error) => assert_eq!((block, errno(&error)), (20, EIO)),
        }
    }
    assert_eq!(errno(&client.read(0, &mut vec![0; image.len()]).unwrap_err()), EIO);
    if have(&["nbdsh"]) {
        let read = format!(
            "h.connect_uri('{}')\ntry:\n    h.pread(4096, {})\n    assert False\nexcept \
             nbd.Error as error:\n    assert error.errno == 'EIO'",
            served.uri("disk"),
            20 * BLOCK
        );
        let output = Command::new("nbdsh")
            .env("PATH", "/usr/bin:/bin")
            .env("LIBNBD_DEBUG", "1")
            .args(["-c", &read])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("container-00000001"), "the container is not named: {said}");
    }
    drop((client, served));
    let scrubbed = lab.run("volume scrub --pool pool --json").expect(1).json();
    let bad = scrubbed["bad"].as_array().unwrap();
    assert_eq!(bad.len(), 1, "{scrubbed}");
    assert_eq!(bad[0]["container"], "container-00000001");
    assert_eq!(number(&bad[0]["blocks"][0], "block"), 20);

    // writing it again mends it, once the damage was met
    let served = Served::start(&lab);
    let mut client = served.client("disk");
    assert_eq!(errno(&client.read((20 * BLOCK) as u64, &mut found).unwrap_err()), EIO);
    client.write((20 * BLOCK) as u64, page).unwrap();
    client.read((20 * BLOCK) as u64, &mut found).unwrap();
    assert!(found == page);
}

#[test]
fn a_client_that_disappears_in_a_write_has_written_nothing_and_harms_nobody() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 4MiB disk");
    let mut served = Served::start(&lab);
    let (old, new) = (random(1, 1 << 20), random(2, 1 << 20));
    let mut other = served.client("disk");
    other.write(0, &old).unwrap();
    for part in [0, 1, 4096, 300_000, (1 << 20) - 100] {
        let mut gone = served.client("disk");
        gone.begin_write(0, new.len(), &new[..part]).unwrap();
        drop(gone);
        let mut found = vec![0; old.len()];
        other.read(0, &mut found).unwrap();
        assert!(found == old, "after {part} bytes");
    }
    other.flush().unwrap();
    assert_eq!(served.signal(Signal::TERM), 0);
}

#[test]
fn a_pool_is_served_once_and_a_newer_one_not_at_all() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let mut served = Served::start(&lab);
    let second = lab.run("serve --pool pool --unix other");
    second.expect(11).says(&["one process uses a pool at a time"]);
    served.client("disk").write(0, &[1; BLOCK]).unwrap();
    assert_eq!(served.signal(Signal::TERM), 0);

    let head = fs::read(lab.path("pool/pool")).unwrap();
    let mut newer = head.clone();
    // the version stands behind twelve bytes of magic
    assert_eq!(newer[12..16], [2, 0, 0, 0]);
    newer[12] = 3;
    let (covered, check) = newer.split_last_chunk_mut::<16>().unwrap();
    check.copy_from_slice(Check::of(&[covered]).as_bytes());
    lab.write("pool/pool", &newer);
    let refused = lab.run("serve --pool pool --unix socket").expect(1);
    refused.says(&["format version 3, this program reads up to 2"]);
    assert!(fs::read(lab.path("pool/pool")).unwrap() == newer, "it was changed");
    lab.write("pool/pool", &head);
    let mut found = [0; BLOCK];
    Served::start(&lab).client("disk").read(0, &mut found).unwrap();
    assert_eq!(found, [1; BLOCK]);
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit_of_the_guide() {
    if !have(&["systemd-analyze"]) {
        return;
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/volumes.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, unit) = guide.split_once("```ini\n").expect("the guide has a unit");
    let (unit, _) = unit.split_once("```").unwrap();
    let unit = unit.replace("/usr/local/bin/onefold", ONEFOLD);
    assert!(unit.contains(ONEFOLD), "{unit}");
    let lab = Lab::new();
    lab.write("onefold.service", &unit);
    let place = lab.path("onefold.service");
    let verified =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&place).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("onefold.service"), "{said}");
    // the command is one that is understood
    let (_, command) = unit.split_once("ExecStart=").unwrap();
    let command = command.replace("\\\n", " ");
    let line = command.lines().next().unwrap().strip_prefix(ONEFOLD).unwrap();
    let line = line.replace("/srv/pool", "none").replace("/run/onefold/socket", "socket");
    lab.run(line.trim()).expect(10).says(&["there is no pool"]);
}

/// A file system that is unmounted when dropped.
pub(crate) struct MountedAt(PathBuf);

impl MountedAt {
    pub(crate) fn new(at: PathBuf, arguments: &[&str]) -> Self {
        fs::create_dir_all(&at).unwrap();
        let mounted = Self(at);
        run("mount", &[arguments, &[mounted.path()]].concat());
        mounted
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for MountedAt {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_service_goes_on_after_space_returns() {
    if !may_mount() {
        return;
    }
    const SIZE: usize = 48 << 20;
    let lab = Lab::new();
    let small = ["-t", "tmpfs", "-o", "size=24M", "none"];
    let mounted = MountedAt::new(lab.path("small"), &small);
    lab.ok(&format!("volume create --pool small/pool --size {SIZE} disk"));
    let line = "serve --pool small/pool --unix socket";
    let mut served = Served::start_with(&lab, line).unwrap();
    let mut client = served.client("disk");
    let image = random(1, SIZE);
    let piece = 256 << 10;
    let pieces = || (0..).step_by(piece).zip(image.chunks(piece));
    let mut written = 0;
    for (at, piece) in pieces() {
        match client.write(at, piece) {
            Ok(()) => written += 1,
            Err(error) => {
                assert_eq!(errno(&error), ENOSPC);
                break;
            }
        }
    }
    assert!((8..SIZE / piece).contains(&written), "{written} pieces");
    // reads go on, and what was acknowledged before is there
    let mut found = vec![0; piece];
    for (at, piece) in pieces().take(written) {
        client.read(at, &mut found).unwrap();
        assert!(found == piece, "byte {at}");
    }
    // for the volume, and for the reserve, which is made once there is room for it
    run("mount", &["-o", "remount,size=128M", mounted.path()]);
    for (at, piece) in pieces().skip(written) {
        client.write(at, piece).unwrap();
    }
    client.flush().unwrap();
    served.signal(Signal::KILL);
    let mut served = Served::start_with(&lab, line).unwrap();
    let mut client = served.client("disk");
    for (at, piece) in pieces() {
        client.read(at, &mut found).unwrap();
        assert!(found == piece, "byte {at}");
    }
    assert_eq!(served.signal(Signal::TERM), 0);
    assert!(lab.ok("volume check --pool small/pool").stdout.contains("no problems"));
}

/// An export as a file, by FUSE.
struct Exposed {
    child: Child,
    folder: PathBuf,
}

impl Exposed {
    fn new(lab: &Lab, uri: &str) -> Self {
        let folder = lab.path("exposed");
        fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("nbdfuse");
        let child = command.args([folder.to_str().unwrap(), uri]).stdin(Stdio::null()).spawn();
        let exposed = Self { child: child.unwrap(), folder };
        let begun = Instant::now();
        while !exposed.file().exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "nbdfuse does not mount");
            thread::sleep(Duration::from_millis(20));
        }
        exposed
    }

    fn file(&self) -> PathBuf {
        self.folder.join("nbd")
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        // A test that failed must end all the same: what is busy goes later, what never came is killed.
        let umount = |how: &[&str]| Command::new("umount").args(how).arg(&self.folder).status();
        let is_gone = |status: std::io::Result<std::process::ExitStatus>| {
            status.is_ok_and(|status| status.success())
        };
        if !is_gone(umount(&[])) && !is_gone(umount(&["--lazy"])) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A loop device over a file.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Self {
        let device = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
        Self(device.trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_file_system_lives_on_a_volume_and_gives_its_space_back() {
    let programs = ["nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "fstrim", "mount"];
    if !can_mount() || !have(&programs) || !may_mount() || !has_loop_devices() {
        return;
    }
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 128MiB disk");
    let (sources, copy) = (lab.path("sources"), lab.path("mnt/copy"));
    let cp = |from: &Path, to: &Path| {
        run("cp", &["-a", from.to_str().unwrap(), to.to_str().unwrap()]);
    };
    // those of this project, as they are now
    cp(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), &sources);
    let mapped = |lab: &Lab| {
        let listed = lab.ok("volume list --pool pool --json").json();
        number(&listed[0], "mapped_blocks") * BLOCK as u64
    };
    let with_device = |work: &dyn Fn(&str)| {
        let mut served = Served::start(&lab);
        {
            let exposed = Exposed::new(&lab, &served.uri("disk"));
            let device = Loop::new(&exposed.file());
            work(&device.0);
        }
        assert_eq!(served.signal(Signal::TERM), 0);
    };
    with_device(&|device| {
        run("mkfs.ext4", &["-q", device]);
        let mounted = MountedAt::new(lab.path("mnt"), &[device]);
        cp(&sources, &copy);
        // random data to be deleted again
        lab.write("mnt/ballast", random(3, 24 << 20));
        run("sync", &["-f", mounted.path()]);
    });
    let full = mapped(&lab);
    with_device(&|device| {
        run("e2fsck", &["-fn", device]);
        let mounted = MountedAt::new(lab.path("mnt"), &[device]);
        assert_same_tree(&sources, &copy);
        fs::remove_file(lab.path("mnt/ballast")).unwrap();
        run("sync", &["-f", mounted.path()]);
        run("fstrim", &[mounted.path()]);
    });
    let trimmed = mapped(&lab);
    assert!(trimmed + (20 << 20) < full, "{full} bytes before fstrim, {trimmed} behind");
    with_device(&|device| {
        run("e2fsck", &["-fn", device]);
        let _mounted = MountedAt::new(lab.path("mnt"), &["-o", "ro", device]);
        assert_same_tree(&sources, &copy);
    });
    lab.ok("volume compact --pool pool");
    let stored =
        |lab: &Lab| number(&lab.ok("volume stats --pool pool --json").json(), "container_bytes");
    let kept = stored(&lab);
    assert!(kept < 24 << 20, "the ballast's space was not given back: {kept}");
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
    lab.ok("volume delete --pool pool disk");
    lab.ok("volume compact --pool pool");
    assert_eq!(stored(&lab), 0);
}
