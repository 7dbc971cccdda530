//! Whether all pages of a container that shards share are as its directory says, whoever uses them.

use std::ops::Range;

use onefold_backend::BackendError;
use onefold_container::{ContainerError, Directory, GroupEntry};
use onefold_fingerprint::Fingerprinter;
use onefold_seal::Envelope;

use crate::containers::entry::MAX_PAGE;
use crate::ids::{SharedName, container_id};
use crate::pool::head::Hash;

/// Bytes that are read together, unless one page takes more.
const TOGETHER: u64 = 1 << 20;

/// What a scrub of a container found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubbedContainer {
    /// Pages that are as they were written.
    pub pages: u64,
    /// Pages that are not; one if the directory cannot be read, which may be all.
    pub bad: u64,
    /// What is wrong with the first of these.
    pub problem: Option<String>,
}

impl ScrubbedContainer {
    fn note(&mut self, problem: impl ToString) {
        self.bad += 1;
        self.problem.get_or_insert_with(|| problem.to_string());
    }
}

/// Reads all pages of the sealed container `name`, whose `len` bytes `read` reads, and compares them with the
/// fingerprints by `hash` that its directory has. `go_on` is asked before each read, and hears of how many bytes:
/// none is returned if it said no.
///
/// # Errors
/// Those of `read`.
pub fn scrub_shared(
    name: SharedName,
    hash: Hash,
    len: u64,
    read: &dyn Fn(Range<u64>) -> Result<Vec<u8>, BackendError>,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<Option<ScrubbedContainer>, BackendError> {
    let mut found = ScrubbedContainer::default();
    let (id, envelope) = (container_id(name.number as u32), Envelope::plain(name.shard));
    let directory = match Directory::read_by(&envelope, id, len, read) {
        Ok(directory) => directory,
        Err(ContainerError::Backend { source, .. }) => return Err(source),
        Err(error) => {
            found.note(format!("its directory cannot be read: {error}"));
            return Ok(Some(found));
        }
    };
    let pages: Vec<(u32, &GroupEntry)> =
        (0..).zip(&directory.groups).filter(|(_, group)| !group.is_padding()).collect();
    let mut rest = &pages[..];
    while let Some((_, first)) = rest.first() {
        let begin = first.offset;
        let end_of = |group: &GroupEntry| group.offset + u64::from(group.stored_len);
        let fits = |(_, group): &&(u32, &GroupEntry)| {
            group.offset >= begin && end_of(group) - begin <= TOGETHER
        };
        let (run, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        let end = run.iter().map(|(_, group)| end_of(group)).max().unwrap_or(begin);
        if !go_on(end - begin) {
            return Ok(None);
        }
        let bytes = read(begin..end)?;
        let fingerprinter = hash.fingerprinter();
        for (number, group) in run {
            let stored = (group.offset - begin) as usize..(end_of(group) - begin) as usize;
            match bytes.get(stored) {
                Some(stored) => {
                    check(&directory, *number, group, stored, &fingerprinter, &mut found)
                }
                None => found.note(format!("page {number} is beyond the end of the container")),
            }
        }
        rest = others;
    }
    Ok(Some(found))
}

/// Checks one page, which is group `number`.
fn check(
    directory: &Directory,
    number: u32,
    group: &GroupEntry,
    stored: &[u8],
    fingerprinter: &Fingerprinter,
    found: &mut ScrubbedContainer,
) {
    if group.len > MAX_PAGE {
        return found.note(format!("page {number} is longer than any page"));
    }
    let opened = directory.open_group(number, stored, Vec::new());
    match opened.and_then(|bytes| directory.verify_group(number, &bytes, fingerprinter)) {
        Ok(()) => found.pages += 1,
        Err(error) => found.note(format!("page {number}: {error}")),
    }
}
