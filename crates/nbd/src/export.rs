use std::sync::Arc;

use onefold_block::BlockDevice;

use crate::ServerError;
use crate::limits::MAX_STRING;
use crate::wire::transmission as flag;

/// A device that clients may use, and the name by which they do.
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

    /// Says `description` to those who ask what this is.
    pub fn described(self, description: impl Into<String>) -> Export {
        Export { description: description.into(), ..self }
    }

    /// Refuses whatever would change the device.
    pub fn read_only(self) -> Export {
        Export { is_read_only: true, ..self }
    }

    /// Lets clients change the size of the device.
    pub fn resizable(self) -> Export {
        Export { may_resize: true, ..self }
    }

    /// The flags that tell a client what it may ask for.
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

/// What a server serves, each under another name.
pub(crate) struct Exports(Vec<Arc<Export>>);

impl Exports {
    pub(crate) fn new(exports: Vec<Export>) -> Result<Exports, ServerError> {
        for (position, export) in exports.iter().enumerate() {
            let name = export.name.clone();
            if export.name.len() > MAX_STRING || export.name.contains('\0') {
                return Err(ServerError::ExportName { name });
            }
            if exports[..position].iter().any(|earlier| earlier.name == export.name) {
                return Err(ServerError::SameName { name });
            }
        }
        Ok(Exports(exports.into_iter().map(Arc::new).collect()))
    }

    /// The export called `name`. The empty name also stands for the only export that there is.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Export>> {
        let named = self.0.iter().find(|export| export.name == name);
        match self.0.as_slice() {
            [only] if name.is_empty() => named.or(Some(only)),
            _ => named,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Export>> {
        self.0.iter()
    }
}
