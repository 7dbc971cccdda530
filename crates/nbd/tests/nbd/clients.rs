//! Programs that people use.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use onefold_block::{BlockDevice, BlockSize, Durability, MemoryDevice};
use onefold_nbd::{Address, Config, Export, Listen, Server, TlsMode};
use onefold_testkit::{qemu_io_patterns, random, skip};

use crate::server::MIB;
use crate::tls::Certificates;

/// Twice the longest request of the programs, and some.
const SIZE: u64 = 67 * MIB;

/// A server of a device in memory for programs.
struct Bench {
    server: Server,
    device: Arc<MemoryDevice>,
    folder: tempfile::TempDir,
}

impl Bench {
    /// The server, or `None` with a word if one of `programs` is missing.
    fn new(programs: &[&str]) -> Option<Bench> {
        Bench::with(programs, |config| config)
    }

    fn with(programs: &[&str], change: impl FnOnce(Config) -> Config) -> Option<Bench> {
        let is_there = |program: &str| {
            let path = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&path).any(|folder| folder.join(program).exists())
        };
        if let Some(missing) = programs.iter().find(|program| !is_there(program)) {
            skip(&format!("there is no program {missing}"));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let device = Arc::new(MemoryDevice::new(SIZE, BlockSize::B4096).unwrap());
        let export = Export::new("disk", device.clone()).described("a disk for programs");
        let listen = vec![
            Listen::Unix(folder.path().join("socket")),
            Listen::Tcp("127.0.0.1:0".parse().unwrap()),
        ];
        let server = Server::start(change(Config::new(listen, vec![export]))).unwrap();
        Some(Bench { server, device, folder })
    }

    /// As programs call the export over the Unix socket.
    fn uri(&self) -> String {
        format!("nbd+unix:///disk?socket={}", self.path("socket").display())
    }

    fn port(&self) -> u16 {
        match &self.server.addresses()[1] {
            Address::Tcp(address) => address.port(),
            other => panic!("{other}"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of the device's size with data and holes.
    fn image(&self) -> PathBuf {
        let path = self.path("image");
        let mut bytes = random(5, 20 << 20);
        bytes[5_000_000..12_000_000].fill(0);
        bytes.resize(SIZE as usize, 0);
        let end = SIZE as usize - 700;
        bytes[end..].copy_from_slice(&random(6, 700));
        write(&path, &bytes);
        path
    }

    fn assert_device_is(&self, file: &Path) {
        let mut bytes = vec![0; SIZE as usize];
        self.device.read(0, &mut bytes).unwrap();
        assert!(bytes == fs::read(file).unwrap(), "the device differs from {}", file.display());
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of a test, no durable byte")]
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

fn output(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    if program == "nbdsh" {
        // it is for the Python of the system, whatever other is in front of it
        command.env("PATH", "/usr/bin:/bin");
    }
    command.args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// What a program prints; panics unless it succeeds.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {printed}{errors}");
    printed
}

#[test]
fn nbdinfo_sees_what_there_is() {
    let Some(bench) = Bench::new(&["nbdinfo"]) else { return };
    bench.device.write(MIB, &[1; 8192], Durability::OnFlush).unwrap();
    let told = run("nbdinfo", &["--json", &bench.uri()]);
    for expected in [
        "\"protocol\": \"newstyle-fixed\"",
        "\"structured\": true",
        "\"export-name\": \"disk\"",
        "\"description\": \"a disk for programs\"",
        "\"base:allocation\"",
        "\"is_read_only\": false",
        "\"can_cache\": true",
        "\"can_df\": true",
        "\"can_fast_zero\": true",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_multi_conn\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"block_size_minimum\": 1,",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 67108864",
        "\"export-size\": 70254592",
    ] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
    let map = run("nbdinfo", &["--map", &bench.uri()]);
    let words: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        words,
        [
            vec!["0", "1048576", "3", "hole,zero"],
            vec!["1048576", "8192", "0", "data"],
            vec!["1056768", "69197824", "3", "hole,zero"],
        ]
    );
    let tcp = format!("nbd://127.0.0.1:{}", bench.port());
    assert!(run("nbdinfo", &["--list", &tcp]).contains("export=\"disk\""));
    assert!(!output("nbdinfo", &[&format!("{tcp}/nothing")]).status.success());
}

#[test]
fn nbdcopy_copies_there_and_back() {
    let Some(bench) = Bench::new(&["nbdcopy"]) else { return };
    let (image, back) = (bench.image(), bench.path("back"));
    let paths = [&image, &back].map(|path| path.to_str().unwrap());
    run("nbdcopy", &["--flush", paths[0], &bench.uri()]);
    bench.assert_device_is(&image);
    assert!(bench.device.allocated() < 40 * MIB, "holes were written");
    run("nbdcopy", &[&bench.uri(), paths[1]]);
    assert!(fs::read(&image).unwrap() == fs::read(&back).unwrap());
    // long requests, several connections, over TCP
    let tcp = format!("nbd://127.0.0.1:{}/disk", bench.port());
    bench.device.erase(0..SIZE, Durability::OnFlush).unwrap();
    run("nbdcopy", &["--request-size=33554432", "--connections=3", paths[0], &tcp]);
    bench.assert_device_is(&image);
}

#[test]
fn nbdkit_passes_on_what_it_is_asked() {
    let Some(bench) = Bench::new(&["nbdkit", "nbdcopy"]) else { return };
    let image = bench.image();
    let copy = format!("nbdcopy {} \"$uri\"", image.display());
    let uri = format!("uri={}", bench.uri());
    run("nbdkit", &["--unix", "-", "nbd", &uri, "--run", &copy]);
    bench.assert_device_is(&image);
}

#[test]
fn qemu_img_converts_and_compares() {
    let Some(bench) = Bench::new(&["qemu-img"]) else { return };
    let (image, back) = (bench.image(), bench.path("back"));
    let [image_path, back_path] = [&image, &back].map(|path| path.to_str().unwrap());
    let raw = ["-f", "raw", "-O", "raw"];
    run("qemu-img", &[&["convert", "-n"], &raw[..], &[image_path, &bench.uri()]].concat());
    bench.assert_device_is(&image);
    let compare = ["compare", "-f", "raw", "-F", "raw", image_path, &bench.uri()];
    assert!(run("qemu-img", &compare).contains("Images are identical"));
    run("qemu-img", &[&["convert"], &raw[..], &[&bench.uri(), back_path]].concat());
    assert!(fs::read(&image).unwrap() == fs::read(&back).unwrap());
    bench.device.write(SIZE - 1, &[0xA5], Durability::OnFlush).unwrap();
    bench.device.write(SIZE / 2, &[0xA5], Durability::OnFlush).unwrap();
    assert_eq!(output("qemu-img", &compare).status.code(), Some(1));
}

#[test]
fn qemu_io_reads_its_patterns() {
    let Some(bench) = Bench::new(&["qemu-io"]) else { return };
    let arguments = qemu_io_patterns(&bench.uri());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let told = run("qemu-io", &arguments);
    assert!(!told.contains("verification failed"), "{told}");
    assert!(!told.contains("failed:"), "{told}");
}

/// Statements for libnbd's shell, told where the server is.
fn nbdsh(statements: &str) {
    run("nbdsh", &["-c", statements]);
}

#[test]
fn libnbd_shares_writes_and_flushes_over_several_connections() {
    let Some(bench) = Bench::new(&["nbdsh"]) else { return };
    nbdsh(&format!(
        r#"
uri = "{}"
handles = [nbd.NBD() for _ in range(4)]
for handle in handles:
    handle.add_meta_context("base:allocation")
    handle.connect_uri(uri)
    assert handle.can_multi_conn() and handle.can_fua() and handle.can_fast_zero()
for number, handle in enumerate(handles):
    handle.pwrite(bytes([number + 1]) * 4096, number * 4096)
handles[0].flush()
for handle in handles:
    for number in range(4):
        assert handle.pread(4096, number * 4096) == bytes([number + 1]) * 4096
handles[1].pwrite(b"x" * 4096, 0, nbd.CMD_FLAG_FUA)
assert handles[2].pread(1, 4095) == b"x"
handles[3].zero(4096, 4096, nbd.CMD_FLAG_FAST_ZERO)
try:
    handles[3].zero(4096, 4096, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
    assert False, "zeroes with space of their own are not fast"
except nbd.Error as error:
    assert error.errno == "EOPNOTSUPP" or error.errno == "ENOTSUP", error.errno
extents = []
handles[0].block_status(16384, 0, lambda name, at, entries, error: extents.extend(entries))
assert extents[:6] == [4096, 0, 4096, 3, 8192, 0], extents
handles[0].trim(8192, 8192)
handles[0].cache(65536, 0)
# many at once, whose replies come in any order
handle = handles[0]
buffers = [nbd.Buffer.from_bytearray(bytearray([number]) * 8192) for number in range(64)]
cookies = [handle.aio_pwrite(buffer, 8192 * at) for at, buffer in enumerate(buffers)]
while cookies:
    handle.poll(-1)
    cookies = [cookie for cookie in cookies if not handle.aio_command_completed(cookie)]
for number in range(64):
    assert handles[3].pread(8192, 8192 * number) == bytes([number]) * 8192
# beyond what libnbd itself would refuse
handle.set_strict_mode(0)
for call, errno in [
    (lambda: handle.pread(512, {SIZE}), "EINVAL"),
    (lambda: handle.pwrite(b"x", {SIZE}), "ENOSPC"),
]:
    try:
        call()
        assert False, "expected " + errno
    except nbd.Error as error:
        assert error.errno == errno, (error.errno, errno)
assert handle.pread(1, 0) == b"\0"
for handle in handles:
    handle.shutdown()
"#,
        bench.uri()
    ));
}

#[test]
fn libnbd_encrypts() {
    let certificates = Certificates::new();
    let tls = certificates.tls(TlsMode::Required, true);
    let bench = Bench::with(&["nbdsh"], |config| Config { tls: Some(tls), ..config });
    let Some(bench) = bench else { return };
    nbdsh(&format!(
        r#"
def connect(certificates):
    handle = nbd.NBD()
    if certificates:
        handle.set_tls(nbd.TLS_REQUIRE)
        handle.set_tls_certificates(certificates)
    handle.set_export_name("disk")
    handle.connect_tcp("localhost", "{port}")
    return handle
handles = [connect("{folder}") for _ in range(2)]
assert handles[0].get_tls_negotiated()
data = bytes(range(256)) * 4096
handles[0].pwrite(data, 1)
handles[0].flush()
assert handles[1].pread(len(data), 1) == data
for handle in handles:
    handle.shutdown()
try:
    connect(None)
    assert False, "served without TLS"
except nbd.Error:
    pass
"#,
        port = bench.port(),
        folder = certificates.folder().display(),
    ));
}

#[test]
fn fio_reads_what_it_wrote() {
    let Some(bench) = Bench::new(&["fio"]) else { return };
    let uri = format!("--uri={}", bench.uri());
    #[rustfmt::skip]
    let common = [
        "--name=verify", "--ioengine=nbd", &uri,
        "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0",
        // requests that overlap end in either order, and fio would trim what it writes meanwhile
        "--serialize_overlap=1",
    ];
    for job in [
        &["--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=24m", "--fsync=32"][..],
        &["--rw=randwrite", "--bsrange=512-256k", "--bs_unaligned", "--iodepth=8", "--size=32m"],
        &["--rw=write", "--bs=1m", "--iodepth=4", "--size=64m"],
        &["--rw=randtrimwrite", "--bs=64k", "--iodepth=4", "--size=16m"],
    ] {
        run("fio", &[&common[..], job].concat());
    }
    let mut bytes = vec![0; MIB as usize];
    bench.device.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().any(|byte| *byte != 0), "fio wrote nothing");
}
