//! The programs that the tests call, and how to get them.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::area::Area;
use crate::emulate::Target;
use crate::workspace::Cargo;

/// A program that must be on `PATH`, or a file at a place of its own, and the Debian package that
/// brings it.
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) why: &'static str,
}

impl Need {
    pub(crate) fn is_met(&self) -> bool {
        if self.program.starts_with('/') {
            Path::new(self.program).exists()
        } else {
            on_path(self.program)
        }
    }
}

const NEEDS: &[Need] = &[
    Need { program: "git", package: "git", why: "a record names the commit it measured" },
    Need { program: "go", package: "golang-go", why: "fetches the test dataset by checksum" },
    Need {
        program: "strace",
        package: "strace",
        why: "shows that the simulated disk takes the steps that the real one takes",
    },
    Need { program: "borg", package: "borgbackup", why: "cuts what its preset must cut alike" },
    Need {
        program: "/usr/sbin/sshd",
        package: "openssh-server",
        why: "has repositories that are reached by SFTP",
    },
    Need { program: "casync", package: "casync", why: "cuts what its preset must cut alike" },
    Need { program: "restic", package: "restic", why: "cuts what its preset must cut alike" },
    Need {
        program: "debootstrap",
        package: "debootstrap",
        why: "builds datasets, and must fail clearly without a network",
    },
    Need { program: "chromium", package: "chromium", why: "shows that the bench's page works" },
    Need { program: "qemu-img", package: "qemu-utils", why: "is a client of the NBD server" },
    Need { program: "nbdcopy", package: "libnbd-bin", why: "is a client of the NBD server" },
    Need { program: "nbdsh", package: "python3-libnbd", why: "is a client of the NBD server" },
    Need { program: "nbdkit", package: "nbdkit", why: "is a client of the NBD server" },
    Need { program: "nbdfuse", package: "nbdfuse", why: "is a client of the NBD server" },
    Need {
        program: "mkfs.ext4",
        package: "e2fsprogs",
        why: "makes a file system on a volume, and checks it",
    },
    Need { program: "mkfs.vfat", package: "dosfstools", why: "makes a FAT to back up" },
    Need { program: "fstrim", package: "util-linux", why: "gives space back to a volume" },
    Need { program: "losetup", package: "mount", why: "makes a loop device of a volume" },
    Need {
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        why: "runs a guest whose disks are volumes",
    },
    Need { program: "nbd-client", package: "nbd-client", why: "gives a guest's kernel a volume" },
    Need { program: "busybox", package: "busybox-static", why: "is what a guest runs" },
    Need { program: "xz", package: "xz-utils", why: "unpacks modules of a guest's kernel" },
    Need {
        program: "dpkg-shlibdeps",
        package: "dpkg-dev",
        why: "finds out which libraries the Debian package needs",
    },
    Need { program: "ssh-keygen", package: "openssh-client", why: "signs checksums" },
    Need { program: "fio", package: "fio", why: "verifies what it wrote to the NBD server" },
    Need {
        program: "valgrind",
        package: "valgrind",
        why: "counts the instructions of each kernel",
    },
    Need {
        program: "objdump",
        package: "binutils",
        why: "shows the loops of the kernels that valgrind cannot run",
    },
];

/// What the tests of clusters need beside.
const NEEDS_OF_CLUSTERS: &[Need] = &[
    Need { program: "ceph", package: "ceph-common", why: "asks and orders a cluster" },
    Need { program: "ceph-mon", package: "ceph-mon", why: "is the monitor of a cluster" },
    Need { program: "ceph-mgr", package: "ceph-mgr", why: "is the manager of a cluster" },
    Need { program: "ceph-osd", package: "ceph-osd", why: "keeps the objects of a cluster" },
];

/// The library that finds OpenCL devices.
#[cfg(target_arch = "x86_64")]
const OPENCL: &str = "/usr/lib/x86_64-linux-gnu/libOpenCL.so.1";
#[cfg(not(target_arch = "x86_64"))]
const OPENCL: &str = "/usr/lib/aarch64-linux-gnu/libOpenCL.so.1";

/// What the tests of kernels for GPUs need beside.
const NEEDS_OF_GPUS: &[Need] = &[
    Need { program: "g++", package: "g++", why: "compiles the kernels under sanitizers" },
    Need {
        program: "/etc/OpenCL/vendors/pocl.icd",
        package: "pocl-opencl-icd",
        why: "runs the kernels on the CPU",
    },
    Need {
        program: OPENCL,
        package: "ocl-icd-libopencl1",
        why: "finds the OpenCL devices; other packages count as this one and do not bring it",
    },
    Need { program: "oclgrind", package: "oclgrind", why: "finds races in the kernels" },
];

/// What the tests of jobs need beside. Maven fetches the rest.
const NEEDS_OF_JOBS: &[Need] = &[
    Need { program: "javac", package: "openjdk-17-jdk-headless", why: "compiles and runs jobs" },
    Need { program: "mvn", package: "maven", why: "builds the folder jvm and runs its tests" },
];

/// A cargo subcommand, and the rustup component that brings it.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs what `area`, or everything, lacks, and says what it does.
///
/// Failure is only reported: the check that needs the program then fails or skips, by its name.
pub(crate) fn install<'a>(
    cargo: Cargo,
    area: Option<Area>,
    emulated: impl IntoIterator<Item = &'a Target>,
) {
    let emulated: Vec<&Target> = emulated.into_iter().collect();
    let has_clusters = area.is_none_or(|area| area == Area::Cluster);
    let of_clusters = if has_clusters { NEEDS_OF_CLUSTERS } else { &[] };
    let has_gpus = area.is_none_or(|area| area == Area::Gpu);
    let of_gpus = if has_gpus { NEEDS_OF_GPUS } else { &[] };
    let has_jobs = area.is_none_or(|area| area == Area::Jobs);
    let of_jobs = if has_jobs { NEEDS_OF_JOBS } else { &[] };
    let needs = NEEDS
        .iter()
        .chain(of_clusters)
        .chain(of_gpus)
        .chain(of_jobs)
        .chain(emulated.iter().flat_map(|target| target.needs));
    let missing: Vec<&Need> = needs.filter(|need| !need.is_met()).collect();
    for need in &missing {
        println!("setup: {} is missing; {}", need.program, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    report(install_packages(cargo, &packages));
    report(install_components(cargo));
    report(install_targets(cargo, &emulated));
}

/// Installs what a cluster to try lacks.
pub(crate) fn install_clusters(cargo: Cargo) -> Result<()> {
    let missing: Vec<&str> = clusters_lack().map(|need| need.package).collect();
    install_packages(cargo, &missing)
}

/// Whether a cluster can be tried.
pub(crate) fn has_clusters() -> bool {
    clusters_lack().next().is_none()
}

fn clusters_lack() -> impl Iterator<Item = &'static Need> {
    // qemu-io comes with it
    let is_client = |need: &&Need| need.program == "qemu-img";
    let needs = NEEDS_OF_CLUSTERS.iter().chain(NEEDS.iter().filter(is_client));
    needs.filter(|need| !need.is_met())
}

fn report(outcome: Result<()>) {
    if let Err(error) = outcome {
        println!("setup: {error:#}");
    }
}

/// Installs packages of Debian.
pub(crate) fn install_packages(cargo: Cargo, packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if cargo.offline {
        bail!("not installed, being offline: {list}");
    }
    if !on_path("apt-get") {
        bail!("no apt-get here; install by hand: {list}");
    }
    let Some(prefix) = root_prefix() else {
        bail!("neither root nor sudo; install by hand: {list}");
    };
    println!("setup: apt-get install {list}");
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    // A fresh machine has no package lists yet; a used one may have stale ones.
    if apt_get(prefix, &["update"]) && apt_get(prefix, &install) {
        return Ok(());
    }
    bail!("apt-get could not install: {list}")
}

/// Asks which packages of Debian there are now; true if they were told.
pub(crate) fn update_packages() -> bool {
    on_path("apt-get") && root_prefix().is_some_and(|prefix| apt_get(prefix, &["update"]))
}

/// `prefix` are the words before a command that needs root.
fn apt_get(prefix: &[&str], arguments: &[&str]) -> bool {
    let words = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], arguments].concat();
    succeeds(Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()))
}

/// The words before a command that needs root, or `None` where root cannot be had unattended.
fn root_prefix() -> Option<&'static [&'static str]> {
    if rustix::process::geteuid().is_root() {
        return Some(&[]);
    }
    let sudo: &[&str] = &["sudo", "--non-interactive"];
    let works = on_path("sudo") && succeeds(quiet(Command::new("sudo").args(["-n", "true"])));
    works.then_some(sudo)
}

fn install_components(cargo: Cargo) -> Result<()> {
    let missing: Vec<&str> = COMPONENTS
        .iter()
        .filter(|(subcommand, _)| {
            !succeeds(quiet(cargo.command().arg(subcommand).arg("--version")))
        })
        .map(|(_, component)| *component)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if cargo.offline {
        bail!("not installed, being offline: {list}");
    }
    if !on_path("rustup") {
        bail!("no rustup here; install by hand: {list}");
    }
    println!("setup: rustup component add {list}");
    if succeeds(Command::new("rustup").args(["component", "add"]).args(&missing)) {
        return Ok(());
    }
    bail!("rustup could not add: {list}")
}

fn install_targets(cargo: Cargo, targets: &[&Target]) -> Result<()> {
    let missing: Vec<&str> = targets
        .iter()
        .filter(|target| !has_standard_library(target.triple))
        .map(|target| target.triple)
        .collect();
    if missing.is_empty() { Ok(()) } else { add_targets(cargo, &missing) }
}

/// Installs the standard libraries for these targets.
fn add_targets(cargo: Cargo, missing: &[&str]) -> Result<()> {
    let list = missing.join(" ");
    if cargo.offline {
        bail!("no standard library, being offline: {list}");
    }
    if !on_path("rustup") {
        bail!("no rustup here; install the standard library by hand for {list}");
    }
    println!("setup: rustup target add {list}");
    if succeeds(Command::new("rustup").args(["target", "add"]).args(missing)) {
        return Ok(());
    }
    bail!("rustup could not add: {list}")
}

/// Installs the standard library for the target called `triple`, if it is missing.
///
/// # Errors
///
/// If it cannot be had.
pub(crate) fn install_standard_library(cargo: Cargo, triple: &str) -> Result<()> {
    match has_standard_library(triple) {
        true => Ok(()),
        false => add_targets(cargo, &[triple]),
    }
}

/// Whether the compiler in use has a standard library for the target called `triple`.
pub(crate) fn has_standard_library(triple: &str) -> bool {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = rustc.args(["--print", "target-libdir", "--target", triple]).output();
    output.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout);
        output.status.success() && Path::new(folder.trim()).exists()
    })
}

/// Whether a command called `program` would be found.
pub fn on_path(program: &str) -> bool {
    let Some(path) = env::var_os("PATH") else { return false };
    env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Runs a command that must succeed and asks nothing.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Runs `command`, which must succeed. Calls `check` after each `pause` until then, and kills the command if that
/// fails.
///
/// # Errors
/// That of `check`, or how the command ended.
pub fn run_while(
    command: &mut Command,
    pause: Duration,
    mut check: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Err(reason) = check() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(reason);
        }
        thread::sleep(pause);
    };
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
