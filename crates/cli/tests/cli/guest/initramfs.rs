//! What a guest finds in its memory when it starts: an archive of cpio's "newc" form.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// Files and the folders they lie in.
#[derive(Default)]
pub(super) struct Initramfs {
    archive: Vec<u8>,
    /// What is in the archive, by path without the first slash.
    names: BTreeSet<String>,
}

impl Initramfs {
    /// Adds a folder, and those above it.
    pub(super) fn folder(&mut self, path: &str) {
        let path = path.trim_start_matches('/');
        if path.is_empty() || self.names.contains(path) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.names.insert(path.to_owned());
        self.entry(path, FOLDER, &[]);
    }

    /// Adds a file that all may run, once.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        let path = path.trim_start_matches('/');
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        if self.names.insert(path.to_owned()) {
            self.entry(path, FILE, content);
        }
    }

    /// Adds a program of this machine to /bin, with the libraries it is linked to, at their places.
    pub(super) fn program(&mut self, program: &Path) {
        let name = program.file_name().unwrap().to_str().unwrap();
        self.file(&format!("bin/{name}"), &fs::read(program).unwrap());
        // one that is linked to none is an error of ldd's
        let listed = Command::new("ldd").arg(program).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            self.file(library, &fs::read(library).unwrap());
        }
    }

    /// The archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.archive
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        let length = u32::try_from(content.len()).unwrap();
        let number = self.names.len() as u32;
        // number, mode, owner, group, links, time, length, four of devices, the name's length with
        // its NUL, and a check that this form has not
        let fields = [number, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.archive.extend(b"070701");
        for field in fields {
            self.archive.extend(format!("{field:08x}").into_bytes());
        }
        self.archive.extend(name.as_bytes());
        self.archive.push(0);
        self.pad();
        self.archive.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.archive.resize(self.archive.len().next_multiple_of(4), 0);
    }
}
