//! Reads single settings out of a `Cargo.toml`.
//!
//! Understands `key = value` lines under a `[section]` header and nothing else of TOML. A setting
//! that is written in another way counts as absent, so a check built on this fails rather than
//! passes by mistake.

/// The value of `key` in `[section]` as written, quotes included.
pub(crate) fn value<'a>(manifest: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let header = format!("[{section}]");
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::value;

    const MANIFEST: &str = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n\n[features]\n";

    #[test]
    fn a_value_is_found_in_its_section_only() {
        assert_eq!(value(MANIFEST, "lints", "workspace"), Some("true"));
        assert_eq!(value(MANIFEST, "package", "workspace"), None);
        assert_eq!(value(MANIFEST, "features", "workspace"), None);
        assert_eq!(value(MANIFEST, "package", "name"), Some("\"a\""));
    }
}
