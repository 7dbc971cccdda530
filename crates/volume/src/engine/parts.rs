//! The parts of an open pool, and the locks of those that change.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use onefold_backend::{Folder, Log};
use onefold_container::Codec;
use onefold_fingerprint::Fingerprinter;
use onefold_index::Table;

use crate::containers::append::Appender;
use crate::containers::files::Files;
use crate::containers::foreign::ForeignDirectories;
use crate::engine::counters::{Counters, count};
use crate::engine::hook::{Between, Hook};
use crate::engine::neighbours::Neighbours;
use crate::engine::options::Options;
use crate::engine::room::Room;
use crate::engine::shard::OwnShard;
use crate::engine::table::CurrentTable;
use crate::sharing::Sharing;
use crate::state::State;
use crate::state::paging::Paging;
use crate::sync::claims::Claims;
use crate::sync::maintenance::Maintenance;
use crate::sync::stripes::Stripes;
use crate::sync::turns::Turns;

/// What a pool is made of when it is opened.
pub(crate) struct Opened {
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) files: Arc<Files>,
    pub(crate) options: Options,
    pub(crate) fingerprinter: Fingerprinter,
    /// By which new pages are compressed if no option says otherwise.
    pub(crate) own_codec: Codec,
    pub(crate) table: Arc<dyn Table>,
    pub(crate) state: State,
    /// Where a paged pool keeps nodes.
    pub(crate) paging: Option<Arc<Paging>>,
    pub(crate) appender: Appender,
    pub(crate) shard: OwnShard,
    /// The pool's own log, which nobody else can have meanwhile.
    pub(crate) own: Box<dyn Log + Sync>,
}

pub(crate) struct Engine {
    pub(super) folder: Arc<dyn Folder>,
    pub(crate) files: Arc<Files>,
    pub(crate) options: Options,
    pub(crate) fingerprinter: Fingerprinter,
    /// By which new pages are compressed, and by which they are if no option says otherwise.
    pub(super) codec: Codec,
    pub(crate) own_codec: Codec,
    pub(crate) table: CurrentTable,
    /// Beside what the table knows, if it is sampled. Its lock is held by itself or after all others, and
    /// never while a file is read.
    pub(crate) neighbours: Neighbours,
    state: Turns<State>,
    pub(crate) paging: Option<Arc<Paging>>,
    appender: Mutex<Appender>,
    pub(crate) shard: OwnShard,
    pub(crate) maintenance: Maintenance,
    pub(crate) room: Room,
    /// One check at a time: what it has the pool note is for it alone.
    pub(crate) checking: Mutex<()>,
    /// One registration at a time.
    pub(super) adopting: Mutex<()>,
    /// Directories of containers of other shards that were looked at lately.
    pub(super) foreign: Mutex<ForeignDirectories>,
    pub(crate) blocks: Stripes,
    pub(super) claims: Claims,
    pub(crate) counters: Counters,
    hook: OnceLock<Box<Hook>>,
    _own: Box<dyn Log + Sync>,
}

impl Engine {
    pub(crate) fn new(opened: Opened) -> Self {
        let Opened { folder, files, options, own_codec, appender, shard, .. } = opened;
        let counters = Counters::default();
        count(&counters.journal_bytes, shard.batches_len() as usize);
        Self {
            room: Room::new(Arc::clone(&folder), appender.container_len(), options.quota),
            codec: options.codec.unwrap_or(own_codec),
            neighbours: Neighbours::new(options.directory_bytes()),
            folder,
            files,
            adopting: Mutex::default(),
            foreign: Mutex::default(),
            options,
            fingerprinter: opened.fingerprinter,
            own_codec,
            table: CurrentTable::new(opened.table),
            state: Turns::new(opened.state),
            paging: opened.paging,
            appender: Mutex::new(appender),
            shard,
            maintenance: Maintenance::default(),
            checking: Mutex::new(()),
            blocks: Stripes::new(),
            claims: Claims::new(),
            counters,
            hook: OnceLock::new(),
            _own: opened.own,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Lets those who wait for the state have it; see [`Turns::let_others`].
    pub(crate) fn let_others(&self) {
        self.state.let_others();
    }

    pub(crate) fn appender(&self) -> MutexGuard<'_, Appender> {
        self.appender.lock().expect("nobody panics with it")
    }

    /// What the pool shares containers by, if it does.
    pub(crate) fn sharing(&self) -> Option<&Arc<dyn Sharing>> {
        self.files.sharing()
    }

    /// Lets a test do something between steps, unless another one does already.
    pub(crate) fn set_hook(&self, hook: impl Fn(Between) + Send + Sync + 'static) {
        let _ = self.hook.set(Box::new(hook));
    }

    /// Where a test may do something between steps.
    pub(crate) fn between(&self, steps: Between) {
        if let Some(hook) = self.hook.get() {
            hook(steps);
        }
    }
}
