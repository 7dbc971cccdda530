//! Tables of figures in the documents, computed from records.
//!
//! A document says in a comment which figures a table has, and the table follows it:
//!
//! ```text
//! <!-- figures: 2026-11-22-backup-kubernetes
//! columns: tool = onefold, restic
//! First backup, s | phase = first | seconds
//! Stored, MB | phase = first | stored_bytes / 1000000
//! -->
//!
//! | | onefold | restic |
//! …
//! <!-- end of figures -->
//! ```
//!
//! The first line names the record, in docs/records. The second says which field of a sample tells its
//! column, and which columns there are. Each row has a label, the field and value that its samples have,
//! and the field to show, which may be divided by numbers and other fields, as `bytes / seconds / 1000`. A
//! figure is the median of all samples of its row and column. A line `record: NAME` has the rows behind it come from another record.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::workspace;

const BEGIN: &str = "<!-- figures: ";
const END_OF_SPECIFICATION: &str = "-->";
const END: &str = "<!-- end of figures -->";

/// Documents with such tables may lie in these folders, below the root of the workspace.
const FOLDERS: [&str; 3] = ["", "docs", "docs/lab"];

/// Writes all tables anew; prints which documents changed.
pub(crate) fn write() -> Result<()> {
    let root = workspace::root();
    for path in documents(root)? {
        let text = read(&path)?;
        let made = rendered(&text, root).with_context(|| path.display().to_string())?;
        if made != text {
            fs::write(&path, made).with_context(|| path.display().to_string())?;
            println!("figures: wrote {}", path.display());
        }
    }
    Ok(())
}

/// Documents below `root` of which a table is not what the records say.
pub(crate) fn stale(root: &Path) -> Result<Vec<String>> {
    let mut errors = Vec::new();
    for path in documents(root)? {
        let text = read(&path)?;
        match rendered(&text, root) {
            Ok(made) if made == text => {}
            Ok(_) => errors.push(format!(
                "{}: a table is not what the records say; `cargo xtask figures` writes it anew",
                path.display()
            )),
            Err(error) => errors.push(format!("{}: {error:#}", path.display())),
        }
    }
    Ok(errors)
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut documents = Vec::new();
    for folder in FOLDERS.map(|folder| root.join(folder)).iter().filter(|one| one.is_dir()) {
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path);
            }
        }
    }
    documents.sort();
    Ok(documents)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// `text` with all of its tables made from the records below `root`.
fn rendered(text: &str, root: &Path) -> Result<String> {
    let (mut made, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(BEGIN) {
        let (before, from) = rest.split_at(at);
        let specification = from[BEGIN.len()..].split(END_OF_SPECIFICATION).next().unwrap_or("");
        let first = specification.lines().next().unwrap_or("").to_owned();
        let end = from.find(END).with_context(|| format!("figures of {first}: no '{END}'"))?;
        let table = table(specification, root).with_context(|| format!("figures of {first}"))?;
        made.push_str(before);
        made.push_str(&format!("{BEGIN}{specification}{END_OF_SPECIFICATION}\n\n{table}\n{END}"));
        rest = &from[end + END.len()..];
    }
    made.push_str(rest);
    Ok(made)
}

fn table(specification: &str, root: &Path) -> Result<String> {
    let mut lines = specification.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut samples = samples(lines.next().context("no record is named")?, root)?;
    let columns = lines.next().and_then(|line| line.strip_prefix("columns: "));
    let (field, names) = columns
        .and_then(|line| line.split_once(" = "))
        .context("the second line is not 'columns: FIELD = NAME, NAME…'")?;
    let names: Vec<&str> = names.split(", ").collect();
    let mut table =
        format!("| | {} |\n| --- |{}\n", names.join(" | "), " ---: |".repeat(names.len()));
    for line in lines {
        if let Some(record) = line.strip_prefix("record: ") {
            samples = self::samples(record, root)?;
            continue;
        }
        let row = Row::parse(line)?;
        let figures = names.iter().map(|name| row.figure(&samples, field, name));
        let figures: Vec<String> = figures.collect::<Result<_>>()?;
        ensure!(figures.iter().any(|figure| !figure.is_empty()), "'{line}': no sample is so");
        table.push_str(&format!("| {} | {} |\n", row.label, figures.join(" | ")));
    }
    Ok(table)
}

fn samples(record: &str, root: &Path) -> Result<Vec<Value>> {
    let path = root.join("docs/records").join(format!("{record}.json"));
    let record: Value =
        serde_json::from_str(&read(&path)?).with_context(|| path.display().to_string())?;
    match record["samples"].as_array() {
        Some(samples) => Ok(samples.clone()),
        None => bail!("{}: no samples", path.display()),
    }
}

/// One line of a table.
struct Row<'a> {
    label: &'a str,
    /// The field of its samples, and what that has to be.
    of: (&'a str, &'a str),
    shown: &'a str,
    /// Numbers and fields.
    divisors: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Result<Self> {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [label, of, shown] = parts[..] else {
            bail!("'{line}': expected 'LABEL | FIELD = VALUE | FIELD'");
        };
        let of =
            of.split_once(" = ").with_context(|| format!("'{of}': expected 'FIELD = VALUE'"))?;
        let mut terms = shown.split(" / ");
        let shown = terms.next().unwrap_or_default();
        Ok(Self { label, of, shown, divisors: terms.collect() })
    }

    /// What a sample shows.
    fn value(&self, sample: &Value) -> Result<f64> {
        let field = |name: &str| {
            sample[name].as_f64().with_context(|| format!("a sample has no number '{name}'"))
        };
        let divided = |value: f64, by: &&str| Ok(value / by.parse().or_else(|_| field(by))?);
        self.divisors.iter().try_fold(field(self.shown)?, divided)
    }

    /// The median of the samples of column `name`; nothing if it has none.
    fn figure(&self, samples: &[Value], field: &str, name: &str) -> Result<String> {
        let is = |sample: &Value, (field, value): (&str, &str)| {
            sample[field].as_str().is_some_and(|found| found == value)
        };
        let mut values = Vec::new();
        for sample in samples.iter().filter(|one| is(one, (field, name)) && is(one, self.of)) {
            values.push(self.value(sample)?);
        }
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
        Ok(values.get(high).map_or_else(String::new, |above| shown((values[low] + above) / 2.0)))
    }
}

/// Three digits, or all before the point.
fn shown(value: f64) -> String {
    let digits = if value >= 100.0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"samples": [
        {"tool": "one", "phase": "first", "seconds": 3.0, "bytes": 5000},
        {"tool": "one", "phase": "first", "seconds": 1.0, "bytes": 5000},
        {"tool": "one", "phase": "first", "seconds": 2.5, "bytes": 5000},
        {"tool": "two", "phase": "first", "seconds": 123.4, "bytes": 12345},
        {"tool": "one", "phase": "again", "seconds": 0.1, "bytes": 5000},
        {"tool": "one", "phase": "again", "seconds": 0.3, "bytes": 5000}]}"#;

    const TEXT: &str = "before\n<!-- figures: a\ncolumns: tool = one, two\n\
        First, s | phase = first | seconds\nAgain, s | phase = again | seconds\n\
        First, KB | phase = first | bytes / 1000\n\
        First, KB a second | phase = first | bytes / seconds / 1000\n-->\n\nold\n<!-- end of figures -->\nbehind\n";

    fn root(text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/records")).unwrap();
        fs::write(root.path().join("docs/records/a.json"), RECORD).unwrap();
        fs::write(root.path().join("README.md"), text).unwrap();
        root
    }

    #[test]
    fn a_table_has_the_medians_of_the_record_and_stays() {
        let root = root(TEXT);
        assert!(stale(root.path()).unwrap()[0].contains("`cargo xtask figures`"));
        let made = rendered(TEXT, root.path()).unwrap();
        let table = "| | one | two |\n| --- | ---: | ---: |\n| First, s | 2.50 | 123 |\n\
            | Again, s | 0.20 |  |\n| First, KB | 5.00 | 12.3 |\n\
            | First, KB a second | 2.00 | 0.10 |\n";
        assert!(
            made.contains(&format!("-->\n\n{table}\n<!-- end of figures -->\nbehind\n")),
            "{made}"
        );
        assert_eq!(rendered(&made, root.path()).unwrap(), made);
        fs::write(root.path().join("README.md"), made).unwrap();
        assert_eq!(stale(root.path()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_computed_is_an_error_that_names_it() {
        let said = |text: &str| stale(root(text).path()).unwrap().join("\n");
        let wrong = |from: &str, to: &str| said(&TEXT.replace(from, to));
        assert!(wrong("figures: a", "figures: b").contains("b.json"));
        assert!(wrong("columns: tool = ", "columns ").contains("the second line"));
        assert!(wrong("phase = again", "phase = never").contains("no sample is so"));
        assert!(wrong("| seconds", "| minutes").contains("'minutes'"));
        assert!(wrong("First, s | phase = first | seconds", "First").contains("expected 'LABEL"));
        assert!(wrong("<!-- end of figures -->", "").contains("no '<!-- end"));
    }
}
