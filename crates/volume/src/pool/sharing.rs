//! What a pool that shares containers tells those who sweep them.

use std::ops::Range;

use onefold_container::Directory;
use onefold_fingerprint::Fingerprint;

use crate::containers::located::Located;
use crate::engine::adopt::Sought;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::{SharedName, Writer};
use crate::pool::open::Pool;
use crate::pool::volumes::find;
use crate::sharing::{PageHint, RegisteredAs};
use crate::state::State;
use crate::state::registrations::Stage;

/// A page in a container that shards share, and the first block that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedPage {
    /// The block.
    pub block: u64,
    /// What names the page.
    pub fingerprint: Fingerprint,
    /// In bytes.
    pub len: u32,
    /// Where it is stored.
    pub hint: PageHint,
}

/// How a pool uses a container that shards share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The container.
    pub container: SharedName,
    /// By what the pool is registered there, or was announced to be.
    pub registered: RegisteredAs,
    /// Whether the registration counts, and is not about to be dropped.
    pub is_registered: bool,
    /// Stored bytes of the pages there that the pool refers to.
    pub live_bytes: u64,
}

impl Pool {
    /// The writer that has the pool open.
    pub fn writer(&self) -> Writer {
        self.0.shard.writer()
    }

    /// How the pool uses container `name`; nothing if it was never announced, or is settled as gone.
    pub fn use_of(&self, name: &SharedName) -> Option<Use> {
        let state = self.0.state();
        let number = state.pages.registrations.of(name)?.0;
        drop(state);
        self.0.use_by(number)
    }

    /// All containers that shards share and that the pool uses or announced.
    pub fn uses(&self) -> Vec<Use> {
        let numbers: Vec<u32> =
            self.0.state().pages.registrations.iter().map(|(number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.0.use_by(number)).collect()
    }

    /// Container `name` is closing: its pages are written again and it is dropped by the next
    /// [`maintain`](Self::maintain). Whether the pool has it.
    pub fn note_closing(&self, name: &SharedName) -> bool {
        self.0.state().pages.note_closing(name).is_some()
    }

    /// Drops registrations that nothing needs, and removes containers of which this was the last one. What has
    /// no answer is tried again by the next commit.
    ///
    /// # Errors
    /// If the announcements cannot be made durable.
    pub fn drop_unused(&self) -> Result<(), VolumeError> {
        // the first announces, the second settles
        self.0.commit()?;
        self.0.commit()
    }

    /// Closes the container that takes new pages, so that its directory lists them, and gives up those that
    /// were made to come next.
    ///
    /// # Errors
    /// If that cannot be made durable.
    pub fn seal_open(&self) -> Result<(), VolumeError> {
        let engine = &*self.0;
        {
            let mut appender = engine.appender();
            if appender.number().is_some() {
                engine.shard.ensure_current()?;
                engine.seal(&mut appender)?;
            }
            let ready: Vec<_> = appender.ready.drain(..).collect();
            ready.into_iter().for_each(|file| engine.give_up(file));
        }
        engine.commit()
    }

    /// The pages of those of `blocks` of volume `name` that are no holes, as far as they are in containers
    /// that shards share and that are sealed; and whether that is all of them.
    ///
    /// # Errors
    /// If a container cannot be read.
    pub fn shared_pages(
        &self,
        name: &str,
        blocks: Range<u64>,
    ) -> Result<(Vec<SharedPage>, bool), VolumeError> {
        let engine = &*self.0;
        let volume = find(&engine.state().volumes, name)?.0;
        let located = engine.locate(volume, blocks.clone(), &(blocks.end..blocks.end))?;
        let mut directory: Option<(u32, Option<Directory>)> = None;
        let (mut found, mut is_all) = (Vec::with_capacity(located.len()), true);
        for (block, located) in blocks.zip(located) {
            let Some(Located { page, file, offset, stored_len, check, .. }) = located else {
                continue;
            };
            let number = page.container();
            if directory.as_ref().is_none_or(|(one, _)| *one != number) {
                directory = Some((number, engine.directory(number)?));
            }
            let listed = directory.as_ref().and_then(|(_, directory)| directory.as_ref());
            let chunk = listed.and_then(|listed| listed.chunks.get(page.slot() as usize));
            match chunk.zip(file.shared()) {
                Some((chunk, container)) => {
                    let (fingerprint, len) = (chunk.fingerprint, chunk.len);
                    let hint = PageHint { container, offset, stored_len, check };
                    found.push(SharedPage { block, fingerprint, len, hint });
                }
                None => is_all = false,
            }
        }
        Ok((found, is_all))
    }

    /// Maps blocks of volume `name`, to which nothing writes, to pages that another shard has, without reading
    /// them: they are looked up in this pool's table, and then in the directories of their containers. Returns which of `pages` it did; they
    /// are durable with the next flush.
    ///
    /// # Errors
    /// If the pool cannot be changed. Some are mapped then.
    pub fn map_shared(&self, name: &str, pages: &[SharedPage]) -> Result<Vec<usize>, VolumeError> {
        let engine = &*self.0;
        let volume = find(&engine.state().volumes, name)?.0;
        engine.ensure_room(volume)?;
        let whole = pages.iter().map(|page| page.block..page.block + 1);
        let _blocks = engine.blocks.lock(volume, whole, []);
        let block = |at: usize| std::iter::once(pages[at].block);
        let here = |state: &State, at| state.ensure_here(volume, block(at));
        let table = engine.table.get();
        let fingerprints: Vec<Fingerprint> = pages.iter().map(|page| page.fingerprint).collect();
        let known = engine.look_up_again(&*table, &fingerprints);
        let (mut mapped, mut sought) = (Vec::new(), Vec::new());
        for (at, known) in known.into_iter().enumerate() {
            let mut state = engine.state_with(|state| here(state, at))?;
            if let Some(page) = state.found(known) {
                state.map_all(volume, block(at), page);
                mapped.push(at);
                continue;
            }
            let SharedPage { fingerprint, len, hint, .. } = pages[at];
            sought.push((Sought { at, page: None, len, fingerprint }, hint));
        }
        let adopted = engine.adopt_pages(sought, 0, &*table, here, |state, page, at| {
            state.map_all(volume, block(at), page);
        })?;
        mapped.extend(adopted);
        Ok(mapped)
    }
}

impl Engine {
    fn use_by(&self, number: u32) -> Option<Use> {
        let state = self.state();
        let one = state.pages.registrations.get(number)?;
        Some(Use {
            container: one.name,
            registered: RegisteredAs { writer: one.writer, number },
            is_registered: one.stage == Stage::Registered,
            live_bytes: state.pages.all.get(number).map_or(0, |container| container.live_bytes),
        })
    }
}
