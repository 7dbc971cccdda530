use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips a bit of the byte at `at` of a file; twice is as if nothing had been.
///
/// Panics if the file has no such byte, or cannot be read and written.
#[expect(clippy::disallowed_methods, reason = "damage is not what the storage writes")]
pub fn flip_bit(path: &Path, at: u64) {
    let flip = || {
        let file = File::options().read(true).write(true).open(path)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 4], at)
    };
    flip().unwrap_or_else(|error| panic!("byte {at} of {}: {error}", path.display()));
}
