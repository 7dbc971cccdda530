//! Exports that are found when a client names them, here or at another server.

use std::fmt;
use std::sync::Arc;

/// Finds exports that clients name, and lists them.
///
/// Calls may block: the server makes them on threads of their own.
pub trait Finder: Send + Sync {
    /// Where the export `name` is. Called before each option of a handshake that names an export.
    fn find(&self, name: &str) -> Found;

    /// The names of all exports, or why they cannot be listed.
    fn names(&self) -> Result<Vec<String>, String>;
}

/// Where an export is.
#[derive(Clone, Debug)]
pub enum Found {
    /// In the list of exports, to which the finder may just have added it, or nowhere.
    Here,
    /// At another server, to which requests are passed on.
    There(Upstream),
    /// It changes places, or cannot be had now: the finder is asked again, for a while. Why.
    NotNow(String),
    /// Clients cannot have it. Why.
    Refused(String),
}

/// Another server, to which the bytes of a client are passed on.
#[derive(Clone)]
pub struct Upstream {
    /// A host and a port, or the path of a Unix socket, which begins with `/`.
    pub place: String,
    /// Whether the other server must no longer be used, though the connection to it may still be open.
    /// Called now and then; must not block.
    pub is_over: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("place", &self.place).finish_non_exhaustive()
    }
}
