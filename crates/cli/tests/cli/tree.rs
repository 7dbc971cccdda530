//! Trees to back up.

use std::fs;
use std::path::Path;

use onefold_testkit::{SplitMix64, random, text};

/// Makes version `version` of a tree of about 8 MB in which, as in a repository of source code,
/// little changes from one version to the next.
pub(crate) fn make_version(root: &Path, version: u64) {
    let mut numbers = SplitMix64::new(version);
    for number in 0..240 {
        let path = root.join(format!("package-{:02}/file-{number}.txt", number % 12));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut content = text(number, 200 + (number as usize * 977) % 60_000);
        // One file in eight has an insertion; version 0 has none.
        if version > 0 && numbers.below(8) == 0 {
            let at = numbers.below(content.len());
            content.splice(at..at, text(1000 * version + number, 50));
        }
        fs::write(path, content).unwrap();
    }
    fs::write(root.join("image.bin"), random(7, 1 << 20)).unwrap();
    std::os::unix::fs::symlink("image.bin", root.join("latest")).unwrap();
    fs::write(root.join(format!("only-in-{version}")), version.to_string()).unwrap();
}
