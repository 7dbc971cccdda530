//! The container that takes new pages, behind a lock of its own: who reads, or changes a map, does
//! not wait for its file.
//!
//! What is appended counts once the state knows of it, under the state's lock. Until then it is
//! bytes behind the last page, which mean nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use onefold_container::{AppendedContainer, Content, Directory, MAX_FOOTER_LEN};
use onefold_seal::Envelope;

use crate::containers::entry::{ContainerImage, MOST_PAGES, PageEntry};
use crate::containers::files::{Files, PageFile};
use crate::containers::new_pages::Rest;
use crate::error::VolumeError;
use crate::ids::container_id;

/// A page and its fingerprint take at most so many bytes in a footer, and so does all else there.
const FOOTER_ENTRY: u64 = 64;

// Who finds a longer footer reads none of its pages.
const _: () = assert!(needed(MOST_PAGES as usize, 0) <= MAX_FOOTER_LEN as u64);

/// Bytes that a container of so many pages, whose footer is yet to come, has more with one of
/// `stored_len` bytes.
const fn needed(pages: usize, stored_len: usize) -> u64 {
    stored_len as u64 + FOOTER_ENTRY * (pages as u64 + 2)
}

/// The open container, if there is one. There is never another one without a footer.
pub(crate) struct Appender {
    pub(crate) files: Arc<Files>,
    pub(crate) envelope: Envelope,
    /// Length in bytes from which on a container gets its footer.
    container_len: u64,
    /// How many pages it has then at most.
    pub(crate) most_pages: usize,
    open: Option<(Arc<PageFile>, AppendedContainer)>,
    /// Containers of a shard that were made and have no bytes yet.
    pub(crate) ready: VecDeque<Arc<PageFile>>,
}

impl Appender {
    pub(crate) fn new(files: Arc<Files>, envelope: Envelope, container_len: u64) -> Self {
        let (most_pages, ready) = (MOST_PAGES as usize, VecDeque::new());
        Self { files, envelope, container_len, most_pages, open: None, ready }
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
        self.open.as_ref().is_some_and(|(_, writer)| {
            writer.len() >= self.container_len || writer.directory().groups.len() >= self.most_pages
        })
    }

    /// Begins container `number`; its file, and how long it is. There must be none open.
    pub(crate) fn begin(&mut self, number: u32) -> Result<(Arc<PageFile>, u32), VolumeError> {
        let file = self.files.open(number)?;
        self.begin_in(file)
    }

    /// The same in `file`, which is that of a container which may be begun.
    pub(crate) fn begin_in(
        &mut self,
        file: Arc<PageFile>,
    ) -> Result<(Arc<PageFile>, u32), VolumeError> {
        assert!(self.open.is_none(), "one container at a time");
        let number = file.number();
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
            let is_full =
                offset >= self.container_len || pages_there + entries.len() >= self.most_pages;
            if is_full || !(fits || entries.is_empty()) {
                break;
            }
            entries.push(PageEntry {
                offset: len as u32,
                stored_len: page.stored_len,
                len: page.len,
                codec: page.codec,
                check: page.check,
                fingerprint: page.fingerprint,
            });
            len += stored_len;
        }
        let begin = file.append(&rest.bytes[..len])? as u32;
        for page in &mut entries {
            page.offset += begin;
            writer.enter(page.group(), [(page.fingerprint, page.len)]);
        }
        Ok(entries)
    }

    /// Gives the open container its footer; its number, and how many bytes come after its last page. After an error it
    /// is open as before.
    pub(crate) fn seal(&mut self) -> Result<(u32, u64), VolumeError> {
        let (file, writer) = self.open.as_ref().expect("a container is open");
        file.append_footer(writer.directory())?;
        let sealed = (file.number(), file.len() - writer.len());
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
        let (mut writer, start) =
            AppendedContainer::new(&self.envelope, container_id(file.number()), Content::Data);
        for page in &image.pages {
            if u64::from(page.offset) != writer.len() {
                let problem =
                    format!("a page is said to be here, expected one at {}", writer.len());
                return Err(file.damaged(page.offset.into(), problem));
            }
            writer.enter(page.group(), [(page.fingerprint, page.len)]);
        }
        if file.len() < writer.len() {
            let problem = format!("it ends here, expected {} bytes that were synced", writer.len());
            return Err(file.damaged(file.len(), problem));
        }
        let mut found = vec![0; start.len()];
        file.read(0, &mut found)?;
        if found != start {
            return Err(file.damaged(0, "it does not begin as a container of this pool".into()));
        }
        file.truncate(writer.len())?;
        self.open = Some((Arc::clone(file), writer));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryFolder;
    use onefold_block::{BlockDevice, BlockSize, Durability};
    use onefold_container::{Codec, GroupEntry};
    use onefold_fingerprint::Fingerprint;
    use onefold_seal::{CHECK_LEN, Check, ObjectId};
    use onefold_testkit::random;

    use super::*;
    use crate::{Hash, Options, Pool};

    #[test]
    fn no_page_takes_more_of_a_footer_than_is_counted() {
        let envelope = Envelope::plain(ObjectId::from_bytes([1; ObjectId::LEN]));
        let (mut container, start) =
            AppendedContainer::new(&envelope, container_id(1), Content::Data);
        let mut before = container.footer().len() as u64;
        assert!(before + start.len() as u64 <= needed(0, 0));
        for pages in 1..300_u64 {
            // of the longest block, which was not compressed
            let len = BlockSize::B4096.bytes();
            let (offset, check) = (container.len(), Check::from_bytes([2; CHECK_LEN]));
            let group = GroupEntry { offset, stored_len: len, len, codec: Codec::Raw, check };
            container.enter(group, [(Fingerprint::from_bytes([3; 32]), len)]);
            let footer = container.footer().len() as u64;
            assert!(footer <= before + FOOTER_ENTRY, "{pages} pages: {before}, then {footer}");
            before = footer;
        }
    }

    #[test]
    fn a_container_of_as_many_pages_as_a_footer_may_have_is_closed() {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options { table_bytes: 1 << 20, ..Options::default() };
        let open = || {
            let (pool, damage) = Pool::open(folder.clone(), options.clone()).unwrap();
            assert!(damage.is_empty(), "{damage:?}");
            pool.0.appender().most_pages = 4;
            pool
        };
        let counts = |pool: &Pool| pool.0.state().pages.counts();
        let pool = open();
        pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
        let volume = pool.volume("a").unwrap();
        let bytes = random(1, 15 * 4096);
        // at once, and with what is there
        volume.write(0, &bytes[..10 * 4096], Durability::OnReturn).unwrap();
        assert_eq!(counts(&pool), [(1, 4), (2, 4), (3, 2)]);
        drop((volume, pool));
        let pool = open();
        let volume = pool.volume("a").unwrap();
        volume.write(10 * 4096, &bytes[10 * 4096..], Durability::OnReturn).unwrap();
        assert_eq!(counts(&pool), [(1, 4), (2, 4), (3, 4), (4, 3)]);
        // one page is left in each of three containers
        for from in [1, 5, 9] {
            volume.erase(from * 4096..(from + 3) * 4096, Durability::OnReturn).unwrap();
        }
        assert_eq!(pool.maintain().unwrap().compacted, 3);
        assert_eq!(counts(&pool), [(4, 4), (5, 2)]);
        drop((volume, pool));
        let pool = open();
        assert_eq!(counts(&pool), [(4, 4), (5, 2)]);
        let mut page = vec![0; 4096];
        for block in [0, 4, 8, 12, 13, 14] {
            pool.volume("a").unwrap().read(block * 4096, &mut page).unwrap();
            assert!(page == bytes[block as usize * 4096..][..4096], "{block}");
        }
        assert_eq!(pool.check(), Vec::<String>::new());
    }
}
