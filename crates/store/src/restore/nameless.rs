//! Files without a name, until they are whole.
//!
//! A file that is opened by `O_TMPFILE` and linked when it is finished spares the system one name
//! and us a lock, and a restore that is killed leaves nothing of it. Not every file system has
//! such files, and how they get a name depends on the kernel: that is tried once.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD};

use super::target::{Target, component};
use crate::system;

/// Whether files can do without a name here, as far as it was tried.
#[derive(Default)]
pub(super) struct Nameless(OnceLock<Option<Way>>);

/// How a file without a name gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By its descriptor; kernels before 6.10 let only root do that.
    Descriptor,
    /// By its path in /proc.
    Proc,
}

impl Nameless {
    /// A file without a name that can get one in `directory`, or `None` if there is no such thing.
    pub(super) fn create(&self, directory: &Target) -> Option<File> {
        let file = || create(directory).ok();
        (*self.0.get_or_init(|| Way::found(directory, &file()?))).and_then(|_| file())
    }

    /// Gives a file the name `name`, in place of whatever but a directory has it if it `may_replace`
    /// that.
    pub(super) fn name(
        &self,
        file: &File,
        directory: &Target,
        name: &[u8],
        may_replace: bool,
    ) -> io::Result<()> {
        let way = self.0.get().copied().flatten().expect("a file was made");
        match way.link(file, directory, name) {
            Err(error) if may_replace && error.kind() == io::ErrorKind::AlreadyExists => {
                directory.replace(name, |temporary| way.link(file, directory, temporary))
            }
            linked => linked,
        }
    }
}

impl Way {
    fn found(directory: &Target, file: &File) -> Option<Self> {
        [Self::Descriptor, Self::Proc].into_iter().find(|way| {
            directory.temporary_name().is_ok_and(|name| {
                way.link(file, directory, &name).is_ok() && directory.remove(&name).is_ok()
            })
        })
    }

    fn link(self, file: &File, directory: &Target, name: &[u8]) -> io::Result<()> {
        let (to, name) = (directory.descriptor(), component(name)?);
        match self {
            Self::Descriptor => system::link_nameless(file, to, name)?,
            Self::Proc => {
                rustix::fs::linkat(CWD, system::path_of(file), to, name, AtFlags::SYMLINK_FOLLOW)?;
            }
        }
        Ok(())
    }
}

/// A file without a name on the file system of `directory`.
pub(super) fn create(directory: &Target) -> io::Result<File> {
    Ok(system::create_nameless(directory.descriptor())?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn written(nameless: &Nameless, directory: &Target, bytes: &[u8]) -> File {
        let mut file = nameless.create(directory).expect("the folder for tests has such files");
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_whole_whatever_had_it() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Target::open(folder.path()).unwrap();
        if create(&directory).is_err() {
            println!("skipped: no files without names in {}", folder.path().display());
            return;
        }
        let (at, names) = (folder.path().join("a"), || folder.path().read_dir().unwrap().count());
        for way in [None, Some(Way::Descriptor), Some(Way::Proc)] {
            let nameless = Nameless::default();
            if way.is_some() {
                nameless.0.set(way).unwrap();
            }
            let _ = std::fs::remove_file(&at);
            for bytes in [b"one", b"two"] {
                let before = names();
                let file = written(&nameless, &directory, bytes);
                assert_eq!(names(), before, "nothing is there yet");
                nameless.name(&file, &directory, b"a", true).unwrap();
                assert_eq!(std::fs::read(&at).unwrap(), bytes);
                assert_eq!(names(), 1);
            }
            let file = written(&nameless, &directory, b"three");
            let error = nameless.name(&file, &directory, b"a", false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&at).unwrap(), b"two");
        }
    }

    #[test]
    fn a_directory_is_not_replaced_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Target::open(folder.path()).unwrap();
        directory.make_directory(b"a").unwrap();
        let nameless = Nameless::default();
        let Some(file) = nameless.create(&directory) else {
            println!("skipped: no files without names in {}", folder.path().display());
            return;
        };
        assert!(nameless.name(&file, &directory, b"a", true).is_err());
        assert!(nameless.name(&file, &directory, b"../a", true).is_err());
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        assert!(folder.path().join("a").is_dir());
    }
}
