//! Links between documents: what they name, and whether it exists.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::Documents;

/// A link to something in the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// As it is written.
    text: String,
    /// The file or folder, by its path in the workspace; none if it is outside.
    pub(super) file: Option<PathBuf>,
    /// The heading, if it names one.
    heading: Option<String>,
}

/// A parser of what documents are written in.
pub(super) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH)
}

/// Whether `target` leads out of the workspace, to a host or a program.
pub(super) fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The links of the document at `path` into the workspace.
pub(super) fn of(path: &Path, text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for event in parser(text) {
        let (Event::Start(Tag::Link { dest_url, .. }) | Event::Start(Tag::Image { dest_url, .. })) =
            event
        else {
            continue;
        };
        if is_elsewhere(&dest_url) {
            continue;
        }
        let (file, heading) = match dest_url.split_once('#') {
            Some((file, heading)) => (file, Some(heading.to_owned())),
            None => (&*dest_url, None),
        };
        let file = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
        found.push(Link { text: dest_url.to_string(), file, heading });
    }
    found
}

/// The path in the workspace that `target` has in the document at `path`.
pub(super) fn resolve(path: &Path, target: &str) -> Option<PathBuf> {
    let mut resolved: Vec<Component<'_>> = path.parent()?.components().collect();
    for part in Path::new(target).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop()?;
            }
            Component::Normal(_) => resolved.push(part),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved.into_iter().collect())
}

/// What is wrong with the links of all documents.
pub(super) fn broken(root: &Path, documents: &Documents) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in documents {
        for link in of(path, text) {
            if let Some(why) = fault(root, documents, &link) {
                wrong.push(format!("{}: the link '{}' {why}", path.display(), link.text));
            }
        }
    }
    wrong
}

fn fault(root: &Path, documents: &Documents, link: &Link) -> Option<String> {
    let Some(file) = &link.file else {
        return Some("leads out of the repository; expected a relative path in it".into());
    };
    if !root.join(file).exists() {
        return Some("leads to no file; expected one of the repository".into());
    }
    let heading = link.heading.as_ref()?;
    // lines of source code have no headings
    let text = documents.get(file)?;
    let is_there = headings(text).contains(heading);
    (!is_there).then(|| format!("names no heading of {}", file.display()))
}

/// The names of all headings of a document.
fn headings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().unwrap_or_default());
                let mut numbered = name.clone();
                let mut number = 0;
                while !names.insert(numbered.clone()) {
                    number += 1;
                    numbered = format!("{name}-{number}");
                }
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            _ => {}
        }
    }
    names
}

/// The name by which a heading is linked to, as forges make it.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|one| one.is_alphanumeric() || " -_".contains(*one));
    kept.flat_map(char::to_lowercase).map(|one| if one == ' ' { '-' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn documents(all: &[(&str, &str)]) -> Documents {
        all.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn a_link_to_a_missing_file_or_heading_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/a.md"), "").unwrap();
        fs::write(root.path().join("code.rs"), "").unwrap();
        let good = "# A heading: `x`!\n[a](#a-heading-x) [b](../code.rs) [c](https://host/x)\n";
        assert!(broken(root.path(), &documents(&[("docs/a.md", good)])).is_empty());
        let bad = "# A\n[a](b.md) ![b](/etc/hosts) [c](#b) [d](../../x)\n";
        let wrong = broken(root.path(), &documents(&[("docs/a.md", bad)]));
        let expected = [
            "docs/a.md: the link 'b.md' leads to no file; expected one of the repository",
            "docs/a.md: the link '/etc/hosts' leads out of the repository; expected a relative path in it",
            "docs/a.md: the link '#b' names no heading of docs/a.md",
            "docs/a.md: the link '../../x' leads out of the repository; expected a relative path in it",
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn headings_of_one_name_are_numbered() {
        let names = headings("# A\n## A\n## The *same* `one`\n");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "a-1", "the-same-one"]);
    }
}
