//! A guest of qemu whose disks are volumes: one by qemu's client of NBD, one by the Linux kernel's.
//! Another one backs up a file system for which the kernel here may have no driver.

use std::collections::HashSet;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::{random, skip};
use rustix::process::Signal;

use crate::lab::Lab;
use crate::served::{Served, find, have, run};

mod fat;
mod initramfs;

use initramfs::Initramfs;

/// Longer than the guest takes where its every instruction is emulated on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

const MIB: usize = 1 << 20;
const BLOCK: usize = 4096;

/// How long the guest makes its file systems. Behind them it writes to the disks themselves.
const FILES: usize = 24 * MIB;
const DISK: usize = FILES + 12 * MIB;

/// The guest's disks, by how it comes to them.
const VOLUMES: [&str; 2] = ["virtio", "kernel"];

/// What the guest's kernel has to load, what others need first.
const MODULES: [&str; 10] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
    "nbd",
];

/// What runs in the guest.
const PROGRAMS: [&str; 4] = ["busybox", "nbd-client", "mkfs.ext4", "e2fsck"];

const INIT: &str = include_str!("guest/init.sh");

/// The package of a kernel, unpacked; says why there is none.
fn kernel() -> Option<PathBuf> {
    let folder = env::var_os("ONEFOLD_GUEST_KERNEL").map(PathBuf::from);
    if folder.is_none() {
        skip("ONEFOLD_GUEST_KERNEL names no kernel for a guest; `cargo xtask test` fetches one");
    }
    folder
}

/// The file below `folder` whose name is right.
fn search(folder: &Path, is_right: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).find_map(|entry| {
        if entry.file_type().unwrap().is_dir() {
            search(&entry.path(), is_right)
        } else {
            is_right(entry.file_name().to_str()?).then(|| entry.path())
        }
    })
}

/// A module of a kernel: its name, and what is in its file.
type Module = (&'static str, Vec<u8>);

/// Those of the modules `wanted` that a guest has to load of a kernel, or why it cannot.
fn modules(kernel: &Path, wanted: &[&'static str]) -> Result<Vec<Module>, String> {
    let built_in = search(kernel, &|file| file == "modules.builtin");
    let built_in = built_in.map_or_else(String::new, |list| fs::read_to_string(list).unwrap());
    let is_loaded = |module: &&str| !built_in.contains(&format!("/{module}.ko\n"));
    let loaded = wanted.iter().copied().filter(is_loaded);
    loaded.map(|module| Ok((module, content(kernel, module)?))).collect()
}

/// What is in the file of a module, which may be compressed.
fn content(kernel: &Path, module: &str) -> Result<Vec<u8>, String> {
    let (plain, packed) = (format!("{module}.ko"), format!("{module}.ko.xz"));
    if let Some(file) = search(kernel, &|file| file == plain) {
        return Ok(fs::read(file).unwrap());
    }
    let Some(file) = search(kernel, &|file| file == packed) else {
        return Err(format!("the kernel in {} has no {plain} or {packed}", kernel.display()));
    };
    if find("xz").is_none() {
        return Err(format!("there is no program xz for {}", file.display()));
    }
    let unpacked = Command::new("xz").arg("-dc").arg(&file).output().unwrap();
    assert!(unpacked.status.success(), "{}: {unpacked:?}", file.display());
    Ok(unpacked.stdout)
}

/// A guest that runs, until it powers off.
struct Guest {
    qemu: Child,
    console: PathBuf,
}

impl Guest {
    /// Starts a guest that loads `modules` and whose disk is at `uri`. Its first process has
    /// `settings` in its environment.
    fn start(lab: &Lab, kernel: &Path, modules: &[Module], uri: &str, settings: &str) -> Self {
        let image = search(&kernel.join("boot"), &|name| name.starts_with("vmlinuz")).unwrap();
        let names: Vec<&str> = modules.iter().map(|(module, _)| *module).collect();
        let modules = names.join(",");
        // what the kernel does not know its first process finds in its environment
        let append = format!("console=ttyS0 quiet panic=-1 modules={modules} {settings}");
        let console = lab.path("console");
        let qemu = Command::new("qemu-system-x86_64")
            .args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "256M"])
            .args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
            .args(["-kernel".as_ref(), image.as_os_str(), "-append".as_ref(), append.as_ref()])
            .args(["-initrd".as_ref(), lab.path("initramfs").as_os_str()])
            .args(["-serial", &format!("file:{}", console.display())])
            .args(["-drive", &format!("file={uri},format=raw,if=virtio,discard=unmap")])
            .args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="])
            .stdin(Stdio::null())
            .stderr(File::create(lab.path("qemu")).unwrap())
            .spawn()
            .unwrap();
        Self { qemu, console }
    }

    /// What it said on its console until it powered off.
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// Waits until it has powered off, and demands that all it did succeeded.
    fn ended(&mut self, lab: &Lab) -> String {
        let begun = Instant::now();
        while self.qemu.try_wait().unwrap().is_none() {
            let took = begun.elapsed();
            assert!(took < PATIENCE, "the guest did not end in {took:?}: {}", self.said());
            thread::sleep(Duration::from_millis(50));
        }
        let said = self.said();
        let warned = fs::read_to_string(lab.path("qemu")).unwrap();
        assert!(said.contains("GUEST: ended with 0"), "{warned}{said}");
        said
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // it may have ended
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// What a guest finds in its memory: its first process, the programs that this runs, and modules.
fn begun<'a>(
    init: &str,
    programs: impl IntoIterator<Item = &'a Path>,
    modules: &[Module],
) -> Initramfs {
    let mut initramfs = Initramfs::default();
    for folder in ["dev", "proc", "sys", "mnt"] {
        initramfs.folder(folder);
    }
    initramfs.file("init", init.as_bytes());
    programs.into_iter().for_each(|program| initramfs.program(program));
    for (module, content) in modules {
        initramfs.file(&format!("modules/{module}.ko"), content);
    }
    initramfs
}

/// What is behind the file system when the guest has written `kept` there as `init.sh` says.
fn raw(kept: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; DISK - FILES];
    raw[..kept.len()].copy_from_slice(kept);
    raw[MIB..2 * MIB].fill(0);
    raw[5 * MIB + 512..][..1536].copy_from_slice(&kept[..1536]);
    raw[6 * MIB..][..kept.len()].copy_from_slice(kept);
    raw
}

/// All of a volume, read by libnbd.
fn image(lab: &Lab, served: &Served, volume: &str) -> Vec<u8> {
    let copy = lab.path(format!("{volume}.raw"));
    run("nbdcopy", &[&served.uri(volume), copy.to_str().unwrap()]);
    let mut bytes = fs::read(copy).unwrap();
    // behind a hole at the end there may be nothing
    bytes.resize(DISK, 0);
    bytes
}

/// A file of the file system in a volume that [`image`] has read.
fn file(lab: &Lab, volume: &str, path: &str) -> Vec<u8> {
    let (disk, out) = (lab.path(format!("{volume}.raw")), lab.path("out"));
    run("debugfs", &["-R", &format!("dump {path} {}", out.display()), disk.to_str().unwrap()]);
    fs::read(out).unwrap()
}

#[test]
fn a_guest_keeps_its_disks_in_volumes() {
    let needed = ["qemu-system-x86_64", "ldd", "nbdcopy", "debugfs"];
    if !have(&needed) || !have(&PROGRAMS) {
        return;
    }
    let Some(kernel) = kernel() else { return };
    if env::consts::ARCH != "x86_64" {
        skip("the guest runs programs of this machine and is an x86-64");
        return;
    }
    let modules = match modules(&kernel, &MODULES) {
        Ok(modules) => modules,
        Err(why) => return skip(&why),
    };
    let (kept, doomed) = (random(1, 4 * MIB), random(2, 4 * MIB));
    let lab = Lab::new();
    let programs = PROGRAMS.map(|program| find(program).unwrap());
    let mut initramfs = begun(INIT, programs.iter().map(PathBuf::as_path), &modules);
    initramfs.file("kept", &kept);
    initramfs.file("doomed", &doomed);
    lab.write("initramfs", initramfs.finish());

    for volume in VOLUMES {
        lab.ok(&format!("volume create --pool pool --size {DISK} {volume}"));
    }
    let line = "serve --pool pool --listen 127.0.0.1:0 --unix socket";
    let mut served = Served::start_with(&lab, line).unwrap();
    let port = served.place().rsplit(':').next().unwrap();
    let settings = format!("port={port} mib={}", FILES / MIB);
    let mut guest = Guest::start(&lab, &kernel, &modules, &served.uri("virtio"), &settings);
    let said = guest.ended(&lab);
    assert!(said.contains("connections: 2"), "{said}");

    let doomed: HashSet<&[u8]> = doomed.chunks(BLOCK).collect();
    let mut before = Vec::new();
    for volume in VOLUMES {
        let image = image(&lab, &served, volume);
        run("e2fsck", &["-fn", lab.path(format!("{volume}.raw")).to_str().unwrap()]);
        for path in ["copy", "folder/copy"] {
            assert!(file(&lab, volume, path) == kept, "{path} in {volume}: {said}");
        }
        assert!(image[FILES..] == raw(&kept), "behind the file system in {volume}: {said}");
        let left = image.chunks(BLOCK).filter(|block| doomed.contains(block)).count();
        assert_eq!(left, 0, "blocks of {volume} outlived fstrim: {said}");
        before.push(image);
    }
    // what the guest flushed outlasts the server
    served.signal(Signal::KILL);
    let mut served = Served::start_with(&lab, line).unwrap();
    for (volume, before) in VOLUMES.iter().zip(&before) {
        assert!(image(&lab, &served, volume) == *before, "{volume} after a restart");
    }
    assert_eq!(served.signal(Signal::TERM), 0);
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
}

#[test]
fn a_kernel_may_have_its_modules_built_in_or_compressed() {
    if !have(&["xz"]) {
        return;
    }
    let lab = Lab::new();
    let folder = Path::new("kernel/usr/lib/modules/6.12");
    let (compressed, built_in) = MODULES.split_last().unwrap();
    let list: String =
        built_in.iter().map(|module| format!("kernel/drivers/{module}.ko\n")).collect();
    lab.write(folder.join("modules.builtin"), list);
    let missing = modules(&lab.path("kernel"), &MODULES).unwrap_err();
    assert!(missing.contains(&format!("{compressed}.ko")), "{missing}");
    assert!(missing.contains(lab.path("kernel").to_str().unwrap()), "{missing}");

    let file = folder.join(format!("{compressed}.ko"));
    lab.write(&file, b"a module");
    run("xz", &[lab.path(&file).to_str().unwrap()]);
    assert_eq!(
        modules(&lab.path("kernel"), &MODULES),
        Ok(vec![(*compressed, b"a module".to_vec())])
    );
}
