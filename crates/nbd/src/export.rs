use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use onefold_block::BlockDevice;
use tokio::sync::watch;

use crate::ServerError;
use crate::limits::MAX_STRING;
use crate::wire::transmission as flag;

/// A device that clients may use, and its name.
#[derive(Clone)]
pub struct Export {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) is_read_only: bool,
    pub(crate) may_resize: bool,
}

impl Export {
    /// `device` under `name`, which may be empty.
    pub fn new(name: impl Into<String>, device: Arc<dyn BlockDevice>) -> Export {
        let is_read_only = device.is_read_only();
        let (name, description) = (name.into(), String::new());
        Export { name, description, device, is_read_only, may_resize: false }
    }

    /// Sets the description that clients can request.
    pub fn described(self, description: impl Into<String>) -> Export {
        Export { description: description.into(), ..self }
    }

    /// Makes the export read-only.
    pub fn read_only(self) -> Export {
        Export { is_read_only: true, ..self }
    }

    /// Allows clients to change the size of the device.
    pub fn resizable(self) -> Export {
        Export { may_resize: true, ..self }
    }

    /// The flags that tell a client which requests it may send.
    pub(crate) fn flags(&self, is_structured: bool) -> u16 {
        let may = |condition, flags| if condition { flags } else { 0 };
        flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_CACHE
            | flag::CAN_MULTI_CONN
            | may(self.is_read_only, flag::READ_ONLY)
            | may(!self.is_read_only, flag::SEND_TRIM)
            | may(!self.is_read_only, flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO)
            | may(self.may_resize && !self.is_read_only, flag::SEND_RESIZE)
            | may(is_structured, flag::SEND_DF)
    }
}

/// An export while it is offered, and afterwards while clients still use it.
pub(crate) struct Offered {
    export: Export,
    /// Whether it was removed. Each user subscribes, so the number of receivers is that of users.
    is_over: watch::Sender<bool>,
}

impl Offered {
    /// A use of an export: notifies when the export is removed, and counts as a user until then.
    pub(crate) fn used(&self) -> Use {
        let ends = self.is_over.subscribe();
        let is_late = *ends.borrow();
        Use { ends, is_late }
    }
}

impl Deref for Offered {
    type Target = Export;

    fn deref(&self) -> &Export {
        &self.export
    }
}

/// A connection's use of an export.
pub(crate) struct Use {
    ends: watch::Receiver<bool>,
    /// Whether the export was removed before the use began.
    is_late: bool,
}

impl Use {
    /// Whether the export was removed. Takes no lock.
    pub(crate) fn is_over(&self) -> bool {
        // the value changes once; if the sender was dropped, the export was removed as well
        self.is_late || self.ends.has_changed().unwrap_or(true)
    }

    /// Waits until the export is removed.
    pub(crate) async fn wait_for_end(&mut self) {
        // a dropped export was removed as well
        let _ = self.ends.wait_for(|is_over| *is_over).await;
    }
}

/// The default export: the only writable one, or the only one.
fn default_of(all: &[Arc<Offered>]) -> Option<&Arc<Offered>> {
    let mut writable = all.iter().filter(|export| !export.is_read_only);
    match (writable.next(), writable.next(), all) {
        (Some(only), None, _) | (None, None, [only]) => Some(only),
        _ => None,
    }
}

/// The exports of a server, with distinct names. They may change at any time.
#[derive(Default)]
pub(crate) struct Exports {
    all: RwLock<Arc<Vec<Arc<Offered>>>>,
    /// The export that the empty name stands for, since a client first used it.
    nameless: OnceLock<String>,
}

impl Exports {
    pub(crate) fn new(exports: Vec<Export>) -> Result<Exports, ServerError> {
        let all = Exports::default();
        exports.into_iter().try_for_each(|export| all.add(export))?;
        Ok(all)
    }

    /// Adds an export.
    pub(crate) fn add(&self, export: Export) -> Result<(), ServerError> {
        let name = export.name.clone();
        if name.len() > MAX_STRING || name.contains('\0') {
            return Err(ServerError::ExportName { name });
        }
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|earlier| earlier.name == name) {
            return Err(ServerError::SameName { name });
        }
        Arc::make_mut(&mut all)
            .push(Arc::new(Offered { export, is_over: watch::Sender::new(false) }));
        Ok(())
    }

    /// Removes the export `name`, and flushes its device before notifying its clients. Fails if clients use
    /// it, unless `is_forced`.
    pub(crate) fn remove(&self, name: &str, is_forced: bool) -> Result<(), ServerError> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = all.iter().position(|export| export.name == name) else {
            return Err(ServerError::NoExport { name: name.to_owned() });
        };
        let connections = all[at].is_over.receiver_count();
        if connections > 0 && !is_forced {
            return Err(ServerError::ExportInUse { name: name.to_owned(), connections });
        }
        let removed = Arc::make_mut(&mut all).remove(at);
        // a flush may take long, and other exports must be accessible meanwhile
        drop(all);
        let flushed = if removed.is_read_only { Ok(()) } else { removed.device.flush() };
        // connections that began to use it after the count see this
        removed.is_over.send_replace(true);
        flushed.map_err(|source| ServerError::Flush { name: name.to_owned(), source })
    }

    /// The export named `name`. The empty name also stands for the default export, and from then on always
    /// for that export: a client that reconnects must not get another one.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Offered>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let named = |name: &str| all.iter().find(|export| export.name == name).cloned();
        named(name).or_else(|| match (name, self.nameless.get()) {
            ("", Some(kept)) => named(kept),
            ("", None) => {
                let only = default_of(&all)?;
                named(self.nameless.get_or_init(|| only.name.clone()))
            }
            _ => None,
        })
    }

    /// All current exports. Allocates no memory per caller.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Offered>>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
