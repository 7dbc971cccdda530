//! A small Debian in a folder, as a new machine or container has it, whose programs run in it by `chroot`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// What is in the root beside the smallest Debian: what packages recommend, and what looks at them.
const INCLUDED: &str =
    "bash-completion,ca-certificates,fish,fuse3,man-db,openssh-client,systemd,zsh";

const SUITE: &str = "bookworm";

/// Programs of this machine that the tests need.
const PROGRAMS: [&str; 5] = ["debootstrap", "unshare", "chroot", "dpkg-deb", "dpkg-shlibdeps"];

/// A root of its own, which goes when it is dropped.
pub(crate) struct Root {
    folder: TempDir,
}

impl Root {
    /// A new root, or why there is none.
    pub(crate) fn new() -> Result<Self, String> {
        let id = Command::new("id").arg("-u").output().map_err(|error| error.to_string())?;
        if id.stdout != b"0\n" {
            return Err("only root can make a root file system and change into it".into());
        }
        if let Some(missing) = PROGRAMS.iter().find(|one| !xtask::programs::on_path(one)) {
            return Err(format!("no {missing} here"));
        }
        let base = base()?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let copied = Command::new("cp")
            .args(["--archive", "--reflink=auto"])
            .arg(base.join("."))
            .arg(folder.path())
            .status();
        match copied {
            Ok(status) if status.success() => Ok(Self { folder }),
            other => Err(format!("a copy of {}: {other:?}", base.display())),
        }
    }

    /// Where `path` of the root is on this machine.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    /// Runs a line of shell in the root, in `/root`, as root.
    pub(crate) fn sh(&self, line: &str) -> Output {
        let root = self.folder.path();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork"])
            .arg(format!("--mount-proc={}", root.join("proc").display()))
            .arg("chroot")
            .arg(root)
            .args(["/bin/bash", "-c", &format!("cd /root && {line}")])
            .env_clear()
            .envs([
                ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
                ("HOME", "/root"),
                ("LC_ALL", "C.UTF-8"),
                ("MANPAGER", "cat"),
                ("DEBIAN_FRONTEND", "noninteractive"),
                ("TERM", "dumb"),
            ])
            .stdin(Stdio::null());
        command.output().expect("unshare runs")
    }

    /// What a line of shell, which must succeed, says.
    pub(crate) fn ok(&self, line: &str) -> String {
        let output = self.sh(line);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {}\n{said}{complained}", output.status);
        said + &complained
    }

    /// Writes a file of the root.
    pub(crate) fn write(&self, path: &str, text: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// The root that others are copies of, in the target folder. It is made once.
fn base() -> Result<PathBuf, String> {
    let above = xtask::workspace::target_dir().join("packages");
    let base = above.join(format!("root-{SUITE}"));
    // One process makes it at a time; the tests of one share this lock as well.
    fs::create_dir_all(&above).map_err(|error| error.to_string())?;
    let lock = fs::File::create(above.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let marker = base.join("root/.included");
    if fs::read_to_string(&marker).is_ok_and(|included| included == INCLUDED) {
        return Ok(base);
    }
    let _ = fs::remove_dir_all(&base);
    let log = above.join("debootstrap.log");
    let output = fs::File::create(&log).map_err(|error| error.to_string())?;
    let status = Command::new("debootstrap")
        .args(["--variant=minbase", &format!("--include={INCLUDED}"), SUITE])
        .arg(&base)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(|error| error.to_string())?)
        .stderr(output)
        .status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        return Err(format!("debootstrap: {status:?}; {} says why", log.display()));
    }
    remove_packages(&base);
    fs::write(&marker, INCLUDED).map_err(|error| error.to_string())?;
    Ok(base)
}

/// Removes downloaded packages, which every copy would have.
fn remove_packages(base: &Path) {
    let archives = base.join("var/cache/apt/archives");
    for entry in fs::read_dir(archives).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "deb") {
            let _ = fs::remove_file(entry.path());
        }
    }
}
