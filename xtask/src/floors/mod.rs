//! The floors of a crate: which of its folders may use which, by a table in ARCHITECTURE.md, "Floors".
//!
//! A row names one floor: folders and files of the crate's `src`, which do not use one another. A floor
//! uses those below it. Within a folder no files use one another in a circle; the folder's own `mod.rs`
//! is left out of that, for it declares the others.
//!
//! Only paths are seen: not a method that an upper floor adds to a type of a lower one, nor a name that a
//! folder shows by a glob.

mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use modules::{Import, Modules};

/// Where the tables are.
const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Floors";

/// The floors of one crate, from the top.
#[derive(Debug)]
struct Floors {
    /// The folder below crates/.
    name: String,
    floors: Vec<Vec<String>>,
}

/// Every departure of the crates of `workspace` from their tables.
pub(crate) fn violations(workspace: &Path) -> Result<Vec<String>> {
    let document = workspace.join(DOCUMENT);
    if !document.is_file() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&document).with_context(|| document.display().to_string())?;
    let tables = tables(&text);
    ensure!(!tables.is_empty(), "{}: no table below '{HEADING}'", document.display());
    let mut found = Vec::new();
    for table in tables {
        let source = workspace.join("crates").join(&table.name).join("src");
        let modules = Modules::read(&source)?;
        found.extend(table.violations(&modules));
        found.extend(circles(&modules));
    }
    Ok(found)
}

/// Fails if a crate departs from its table.
pub(crate) fn check(workspace: &Path) -> Result<()> {
    let found = violations(workspace)?;
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

/// The tables below the heading. The first line of each names its crate.
fn tables(document: &str) -> Vec<Floors> {
    let mut tables: Vec<Floors> = Vec::new();
    let mut is_in_table = false;
    for line in document.lines().skip_while(|line| *line != HEADING).skip(1) {
        if line.starts_with("## ") {
            break;
        }
        let cell = line.strip_prefix('|').and_then(|line| line.split('|').next()).map(str::trim);
        match cell {
            None => is_in_table = false,
            Some(cell) if cell.starts_with("---") => {}
            Some(cell) if is_in_table => {
                let floor = cell.split(',').map(|name| name.trim().to_owned()).collect();
                tables.last_mut().expect("a row follows a head").floors.push(floor);
            }
            Some(name) => {
                tables.push(Floors { name: name.to_owned(), floors: Vec::new() });
                is_in_table = true;
            }
        }
    }
    tables
}

impl Floors {
    /// Which floor the folder or file is on.
    fn of(&self, room: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.iter().any(|name| name == room))
    }

    fn violations(&self, modules: &Modules) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let rooms: BTreeSet<&str> = modules.names().filter_map(room).collect();
        for room in &rooms {
            if self.of(room).is_none() {
                found.push(self.error(&format!("`{room}` is on no floor; expected it in a row")));
            }
        }
        for name in self.floors.iter().flatten().filter(|name| !rooms.contains(name.as_str())) {
            found.push(self.error(&format!("`{name}` is no folder or file of the crate's src")));
        }
        found.extend(modules.imports().filter_map(|import| self.judge(import)));
        found
    }

    fn judge(&self, import: &Import) -> Option<String> {
        // the root may use whatever it shows
        let user = room(&import.user)?;
        let place = format!("{}:{}", import.file.display(), import.line);
        let Some(used) = room(&import.used) else {
            return Some(format!(
                "{place}: `{user}` uses an item of lib.rs; expected it in a file"
            ));
        };
        let is_allowed = user == used || self.of(user)? < self.of(used)?;
        (!is_allowed).then(|| {
            format!(
                "{place}: `{user}` uses `{}`; expected a lower floor of {DOCUMENT}",
                import.used
            )
        })
    }

    fn error(&self, what: &str) -> String {
        format!("{DOCUMENT}: floors of {}: {what}", self.name)
    }
}

/// The folder or file of a crate's src that the module is in; none for the root.
fn room(module: &str) -> Option<&str> {
    module.split("::").next().filter(|name| !name.is_empty())
}

/// Files and folders of one folder that use one another in a circle.
fn circles(modules: &Modules) -> Vec<String> {
    let folders: BTreeSet<&str> =
        modules.names().filter_map(|name| Some(name.rsplit_once("::")?.0)).collect();
    folders.into_iter().flat_map(|folder| circles_in(modules, folder)).collect()
}

fn circles_in(modules: &Modules, folder: &str) -> Vec<String> {
    let child = |module: &str| -> Option<String> {
        let within = module.strip_prefix(folder)?.strip_prefix("::")?;
        within.split("::").next().map(str::to_owned)
    };
    let edges: BTreeSet<(String, String)> = modules
        .imports()
        .filter_map(|import| Some((child(&import.user)?, child(&import.used)?)))
        .filter(|(user, used)| user != used)
        .collect();
    let mut left = edges.clone();
    // whatever uses nothing that is left, or is used by nothing, is in no circle
    loop {
        let users: BTreeSet<_> = left.iter().map(|(user, _)| user.clone()).collect();
        let used: BTreeSet<_> = left.iter().map(|(_, used)| used.clone()).collect();
        let before = left.len();
        left.retain(|(a, b)| users.contains(b) && used.contains(a));
        if left.len() == before {
            break;
        }
    }
    if left.is_empty() {
        return Vec::new();
    }
    let shown: Vec<_> = left.iter().map(|(user, used)| format!("{user} → {used}")).collect();
    let place = modules.source().join(folder.replace("::", "/"));
    vec![format!("{}: a circle: {}; expected none", place.display(), shown.join(", "))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A\n\n## Floors\n\ntext\n\n| one | does |\n| --- | --- |\n\
                         | top, side | a |\n| low | b |\n| error | c |\n\n## B\n\n| x | y |\n";

    /// A workspace with a crate `one` of these files.
    fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(DOCUMENT), TABLE).unwrap();
        let always = [("lib.rs", "mod error; pub use low::Deep;"), ("error.rs", "")];
        let rest =
            [("top.rs", ""), ("side.rs", ""), ("low/mod.rs", "mod deep; pub use deep::Deep;")];
        let deep = [("low/deep.rs", "pub struct Deep;")];
        let all = always.iter().chain(&rest).chain(&deep).chain(files);
        for (name, text) in all {
            let path = folder.path().join("crates/one/src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let folder = workspace(files);
        let root = format!("{}/", folder.path().display());
        let found = violations(folder.path()).unwrap();
        found.into_iter().map(|line| line.replace(&root, "")).collect()
    }

    #[test]
    fn tables_stand_below_their_heading() {
        let tables = tables(TABLE);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].name, "one");
        assert_eq!(tables[0].floors, [vec!["top", "side"], vec!["low"], vec!["error"]]);
    }

    #[test]
    fn a_floor_uses_those_below_it() {
        let clean = [
            ("top.rs", "use crate::{low::{deep::Deep}, error};\nfn a() { crate::Deep }"),
            ("low/deep.rs", "use super::other; use crate::error::Error;"),
            ("low/other.rs", "// crate::top\nconst A: &str = \"crate::top\";"),
        ];
        assert_eq!(found(&clean), Vec::<String>::new());
    }

    #[test]
    fn an_upward_import_is_named_with_its_line() {
        let upward = "crates/one/src/low/deep.rs:2: `low` uses `top`; \
                      expected a lower floor of ARCHITECTURE.md";
        for text in [
            "\nuse crate::top::Top;",
            "\nuse crate::{error, top};",
            "\nfn a() { println!(\"{}\", crate::top::B) }",
            "\nfn a() { super::super::top::b() }",
        ] {
            assert_eq!(found(&[("low/deep.rs", text)]), [upward], "{text}");
        }
        let sideways = found(&[("top.rs", "use crate::side;")]);
        assert_eq!(sideways.len(), 1);
        assert!(sideways[0].contains("`top` uses `side`"), "{sideways:?}");
    }

    #[test]
    fn what_lib_shows_is_where_it_is_defined() {
        let files =
            [("lib.rs", "pub use top::Top; pub struct Own;"), ("error.rs", "use crate::Top;")];
        assert!(found(&files)[0].contains("error.rs:1: `error` uses `top`"));
        let own = [("lib.rs", "pub struct Own;"), ("error.rs", "use crate::Own;")];
        assert!(found(&own)[0].contains("uses an item of lib.rs"));
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let tested = [("error.rs", "#[cfg(test)]\nmod tests { use crate::top; use super::*; }")];
        assert_eq!(found(&tested), Vec::<String>::new());
        let field = [("error.rs", "struct A { #[cfg(test)] a: crate::top::A, b: crate::top::B }")];
        assert_eq!(found(&field).len(), 1);
    }

    #[test]
    fn a_document_without_tables_is_wrong() {
        let folder = workspace(&[]);
        fs::write(folder.path().join(DOCUMENT), "# A\n\n## Storeys\n").unwrap();
        assert!(violations(folder.path()).unwrap_err().to_string().contains("no table below"));
    }

    #[test]
    fn files_of_a_folder_use_one_another_in_one_direction() {
        let circle = [
            ("low/deep.rs", "use super::other::Other;"),
            ("low/other.rs", "use crate::low::Deep;"),
            ("low/apart.rs", "use super::deep::Deep;"),
        ];
        let expected = "crates/one/src/low: a circle: deep → other, other → deep; expected none";
        assert_eq!(found(&circle), [expected]);
    }

    #[test]
    fn each_file_is_in_a_row_and_each_row_is_there() {
        let extra = found(&[("new.rs", "")]);
        assert_eq!(
            extra,
            ["ARCHITECTURE.md: floors of one: `new` is on no floor; expected it in a row"]
        );
    }
}
