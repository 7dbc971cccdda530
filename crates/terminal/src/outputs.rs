//! Where what was measured is written to.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Access, access};

/// The place of JSON for which none was named.
pub const STANDARD_OUTPUT: &str = "-";

/// The arguments of this process; what is no UTF-8 is shown as near as may be.
pub fn typed() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned())
}

/// Makes the folders of what will be written. An error if that fails, or if it is clear that one cannot
/// be written.
pub fn make_places(json: Option<&Path>, html: Option<&Path>) -> Result<()> {
    let json = json.filter(|out| out.as_os_str() != STANDARD_OUTPUT);
    for (out, is_record) in
        json.map(|out| (out, true)).into_iter().chain(html.map(|out| (out, false)))
    {
        let place = || format!("cannot write '{}'", out.display());
        ensure!(!out.is_dir(), "{}: it is a folder", place());
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(place)?;
        if out.exists() {
            access(out, Access::WRITE_OK).with_context(place)?;
        }
        // another file takes the place of a record
        let is_replaced = is_record && out.symlink_metadata().is_ok_and(|there| there.is_file());
        if is_replaced || !out.exists() {
            access(folder, Access::WRITE_OK).with_context(place)?;
        }
    }
    Ok(())
}

/// Writes `text` to a file, which it replaces.
#[expect(clippy::disallowed_methods, reason = "an output of the command, not of a repository")]
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}
