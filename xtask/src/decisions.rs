//! The index of decisions, docs/decisions/README.md: it lists each decision by its number and title.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// What the index in `folder` lacks: decisions that it does not list, or lists with another title.
pub(crate) fn unlisted(folder: &Path) -> Result<Vec<String>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let index = folder.join("README.md");
    let text = fs::read_to_string(&index).with_context(|| index.display().to_string())?;
    let mut errors = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let decision = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let title = decision.lines().next().and_then(|line| line.strip_prefix("# "));
        let Some((number, title)) = title.and_then(|title| title.split_once(": ")) else {
            errors.push(format!("{}: its first line is no '# NUMBER: TITLE'", path.display()));
            continue;
        };
        let line = format!("| [{number}]({name}) | {title} | ");
        if !text.lines().any(|one| one.starts_with(&line)) {
            errors.push(format!("{}: expected a line '{line}STATE |'", index.display()));
        }
    }
    errors.sort();
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_has_a_line_with_its_title() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("0001-one.md", "# 0001: One\n\ntext");
        write("0002-two.md", "# 0002: Two\n");
        write("README.md", "| [0001](0001-one.md) | One | accepted |\n");
        let errors = unlisted(folder.path()).unwrap();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].ends_with("expected a line '| [0002](0002-two.md) | Two | STATE |'"));
        write(
            "README.md",
            "| [0001](0001-one.md) | Uno | accepted |\n| [0002](0002-two.md) | Two | superseded |\n",
        );
        assert!(unlisted(folder.path()).unwrap()[0].contains("| One | "));
        write("0001-one.md", "no title");
        assert!(unlisted(folder.path()).unwrap()[0].contains("0001-one.md: its first line"));
    }
}
