//! The container that takes new pages, behind a lock of its own: who reads, or changes a map, does
//! not wait for its file.
//!
//! What is appended counts once the state knows of it, under the state's lock. Until then it is
//! bytes behind the last page, which mean nothing.

use std::sync::Arc;

use onefold_container::{AppendedContainer, Content, Directory};
use onefold_seal::Envelope;

use crate::VolumeError;
use crate::files::{Files, PageFile, container_id};
use crate::new_pages::Rest;
use crate::pages::ContainerImage;
use crate::record::PageEntry;

/// A page and its fingerprint take at most so many bytes in a footer, and so does all else there.
const FOOTER_ENTRY: u64 = 64;

/// Bytes that a container of so many pages, whose footer is yet to come, has more with one of
/// `stored_len` bytes.
fn needed(pages: usize, stored_len: usize) -> u64 {
    stored_len as u64 + FOOTER_ENTRY * (pages as u64 + 2)
}

/// The open container, if there is one. There is never another one without a footer.
pub(crate) struct Appender {
    pub(crate) files: Arc<Files>,
    pub(crate) envelope: Envelope,
    /// Length in bytes from which on a container gets its footer.
    container_len: u64,
    open: Option<(Arc<PageFile>, AppendedContainer)>,
}

impl Appender {
    pub(crate) fn new(files: Arc<Files>, envelope: Envelope, container_len: u64) -> Self {
        Self { files, envelope, container_len, open: None }
    }

    /// The number of the open container.
    pub(crate) fn number(&self) -> Option<u32> {
        self.open.as_ref().map(|(file, _)| file.number())
    }

    /// What is in the open container.
    pub(crate) fn directory(&self) -> Option<&Directory> {
        self.open.as_ref().map(|(_, writer)| writer.directory())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, writer)| writer.len() >= self.container_len)
    }

    /// Begins container `number`; its file, and how long it is. There must be none open.
    pub(crate) fn begin(&mut self, number: u32) -> Result<(Arc<PageFile>, u32), VolumeError> {
        assert!(self.open.is_none(), "one container at a time");
        let file = self.files.open(number)?;
        let (writer, start) =
            AppendedContainer::new(&self.envelope, container_id(number), Content::Data);
        // what a crash, or a full disk, may have left under this name
        if file.len() > 0 {
            file.truncate(0)?;
        }
        file.append(&start)?;
        self.open = Some((Arc::clone(&file), writer));
        Ok((file, start.len() as u32))
    }

    /// Length in bytes from which on a container gets its footer.
    pub(crate) fn container_len(&self) -> u64 {
        self.container_len
    }

    /// Bytes that a container has more, once it has its footer, with a page of so many stored bytes.
    pub(crate) fn needed(&self, stored_len: usize) -> u64 {
        let pages = self.directory().map_or(0, |directory| directory.groups.len());
        needed(pages, stored_len)
    }

    /// Appends as many of the `rest` as fit into the container and `room` bytes, at least one, in one
    /// write. After an error nothing has changed.
    ///
    /// # Panics
    ///
    /// If no container is open.
    pub(crate) fn append<T>(
        &mut self,
        rest: &Rest<'_, T>,
        room: u64,
    ) -> Result<Vec<PageEntry>, VolumeError> {
        let (file, writer) = self.open.as_mut().expect("a container is open");
        let (begin, pages_there) = (writer.len(), writer.directory().groups.len());
        let (mut entries, mut len) = (Vec::with_capacity(rest.pages.len()), 0);
        for page in rest.pages {
            let stored_len = page.stored_len as usize;
            let fits = needed(pages_there + entries.len(), len + stored_len) <= room;
            let offset = begin + len as u64;
            if offset >= self.container_len || !(fits || entries.is_empty()) {
                break;
            }
            entries.push(PageEntry {
                offset: offset as u32,
                stored_len: page.stored_len,
                len: page.len,
                codec: page.codec,
                check: page.check,
                fingerprint: page.fingerprint,
            });
            len += stored_len;
        }
        file.append(&rest.bytes[..len])?;
        for page in &entries {
            writer.enter(page.group(), [(page.fingerprint, page.len)]);
        }
        Ok(entries)
    }

    /// Gives the open container its footer; its number, and how long the footer is. After an error it
    /// is open as before.
    pub(crate) fn seal(&mut self) -> Result<(u32, u64), VolumeError> {
        let (file, writer) = self.open.as_ref().expect("a container is open");
        let footer = writer.footer();
        file.append(&footer)?;
        let sealed = (file.number(), footer.len() as u64);
        self.open = None;
        Ok(sealed)
    }

    /// Nothing is appended to the open container any more.
    pub(crate) fn abandon(&mut self) {
        self.open = None;
    }

    /// Goes on with a container that has no footer: cuts off what no record tells of.
    pub(crate) fn go_on(
        &mut self,
        file: &Arc<PageFile>,
        image: &ContainerImage,
    ) -> Result<(), VolumeError> {
        let damaged =
            |at, problem| Err(VolumeError::Damaged { object: file.name.clone(), at, problem });
        let (mut writer, start) =
            AppendedContainer::new(&self.envelope, container_id(file.number()), Content::Data);
        for page in &image.pages {
            if u64::from(page.offset) != writer.len() {
                let problem =
                    format!("a page is said to be here, expected one at {}", writer.len());
                return damaged(page.offset.into(), problem);
            }
            writer.enter(page.group(), [(page.fingerprint, page.len)]);
        }
        if file.len() < writer.len() {
            let problem = format!("it ends here, expected {} bytes that were synced", writer.len());
            return damaged(file.len(), problem);
        }
        let mut found = vec![0; start.len()];
        file.read(0, &mut found)?;
        if found != start {
            return damaged(0, "it does not begin as a container of this pool".into());
        }
        file.truncate(writer.len())?;
        self.open = Some((Arc::clone(file), writer));
        Ok(())
    }
}
