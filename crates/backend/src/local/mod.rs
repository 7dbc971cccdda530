//! Storage in directories and files of this machine.

mod cache;
mod folder;
mod itself;
mod listing;
mod log;
mod mount;
mod objects;
mod own_place;
mod owned;
mod pages;
mod reserve;

pub use cache::LocalCache;
pub use folder::LocalFolder;
pub use log::LocalLog;
pub use objects::LocalObjects;
pub use own_place::own_place;
pub use pages::LocalPages;

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes the names in a directory durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
