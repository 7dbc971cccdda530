//! Groups of snapshots: options and descriptions.

use onefold_store::forget::{GroupBy, Shared};

use crate::name::shown;

/// Reads a list of `host`, `paths` and `tags`; an empty one makes one group of all.
pub(crate) fn group_by(text: &str) -> Result<GroupBy, String> {
    let mut by = GroupBy { host: false, paths: false, tags: false };
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match word {
            "host" | "hosts" => by.host = true,
            "path" | "paths" => by.paths = true,
            "tag" | "tags" => by.tags = true,
            _ => return Err("expected host, paths and tags, separated by commas".into()),
        }
    }
    Ok(by)
}

/// A description of what the snapshots of a group have in common.
pub(crate) fn describe(shared: &Shared) -> String {
    let mut parts = Vec::new();
    if let Some(host) = &shared.host {
        parts.push(format!("host {}", shown(host.as_bytes())));
    }
    if let Some(paths) = &shared.paths {
        let paths: Vec<_> = paths.iter().map(|path| shown(path)).collect();
        parts.push(format!("paths {}", paths.join(" ")));
    }
    if let Some(tags) = &shared.tags {
        parts.push(format!("tags {}", shown(tags.join(",").as_bytes())));
    }
    if shared.is_from_client {
        parts.push("from write-only clients".into());
    }
    if parts.is_empty() { "all snapshots".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_by_words_or_not_at_all() {
        let all = GroupBy { host: true, paths: true, tags: true };
        assert_eq!(group_by("host,paths,tags"), Ok(all));
        assert_eq!(group_by("tags"), Ok(GroupBy { host: false, paths: false, ..all }));
        assert_eq!(group_by(""), Ok(GroupBy { host: false, paths: false, tags: false }));
        assert!(group_by("user").is_err());
    }
}
