//! The modules of a crate, and which of them use which, as its source says.
//!
//! A use is a path that begins with `crate`, `super` or `self`, in a `use` or anywhere else, macros
//! included. It leads to the module that defines what it names: names that a module shows of others are
//! followed. Modules of tests do not count.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// That one module uses another. Modules are named from the root, which has no name: `a::b`.
pub(super) struct Import {
    pub(super) user: String,
    pub(super) used: String,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

/// The modules of a crate by name, and what they import.
pub(super) struct Modules {
    source: PathBuf,
    files: BTreeMap<String, PathBuf>,
    imports: Vec<Import>,
}

/// A path in the source, and where it stands.
struct Named {
    path: Vec<String>,
    line: usize,
    /// It stands in a `use`, by which the module has a name of its own for it.
    is_use: bool,
}

impl Modules {
    /// Reads all files below `source`.
    pub(super) fn read(source: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(source, "", &mut files)?;
        let mut named: BTreeMap<String, Vec<Named>> = BTreeMap::new();
        for (module, file) in &files {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let tokens: TokenStream =
                text.parse().map_err(|error| anyhow!("{}: {error}", file.display()))?;
            let mut found = Vec::new();
            paths(tokens, &mut found);
            named.insert(module.clone(), found);
        }
        let shown = shown(&files, &named);
        let mut imports = Vec::new();
        for (module, paths) in &named {
            for Named { path, line, .. } in paths {
                let is_own = !matches!(path[0].as_str(), "crate" | "super" | "self");
                let Some(used) = resolve(&files, &shown, module, path).filter(|_| !is_own) else {
                    continue;
                };
                if used != *module {
                    let (user, file, line) = (module.clone(), files[module].clone(), *line);
                    imports.push(Import { user, used, file, line });
                }
            }
        }
        Ok(Self { source: source.to_owned(), files, imports })
    }

    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(super) fn imports(&self) -> impl Iterator<Item = &Import> {
        self.imports.iter()
    }
}

/// Adds the modules of the files below `folder`, which is the module `name`.
fn collect(folder: &Path, name: &str, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, &child(name, &stem), files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_folder = matches!(stem.as_str(), "mod" | "lib" | "main");
            files.insert(if is_folder { name.to_owned() } else { child(name, &stem) }, path);
        }
    }
    Ok(())
}

fn child(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Of each module, the names that it has by a `use`, and the paths that they stand for.
type Shown<'a> = HashMap<&'a str, HashMap<&'a str, &'a [String]>>;

fn shown<'a>(
    files: &'a BTreeMap<String, PathBuf>,
    named: &'a BTreeMap<String, Vec<Named>>,
) -> Shown<'a> {
    let of = |module: &'a String| {
        let uses = named[module].iter().filter(|named| named.is_use);
        uses.filter_map(|named| Some((named.path.last()?.as_str(), named.path.as_slice())))
            .collect()
    };
    files.keys().map(|module| (module.as_str(), of(module))).collect()
}

/// The module that defines what `path` names in `module`; none if it is of another crate.
fn resolve(
    files: &BTreeMap<String, PathBuf>,
    shown: &Shown<'_>,
    module: &str,
    path: &[String],
) -> Option<String> {
    let mut at = module.to_owned();
    for (number, name) in path.iter().enumerate() {
        let within = child(&at, name);
        if name == "crate" {
            at.clear();
        } else if name == "super" {
            at = at.rsplit_once("::").map_or(String::new(), |(parent, _)| parent.to_owned());
        } else if name == "self" {
        } else if files.contains_key(&within) {
            at = within;
        } else if let Some(path) = shown.get(at.as_str()).and_then(|names| names.get(name.as_str()))
            && (number > 0 || path[0] != *name)
        {
            let leads_back = path.len() == 1 && path[0] == *name;
            return if leads_back { None } else { resolve(files, shown, &at, path) };
        } else {
            return (number > 0).then_some(at);
        }
    }
    Some(at)
}

/// Adds the paths of `tokens`, but for those in modules of tests.
fn paths(tokens: TokenStream, found: &mut Vec<Named>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_of_tests(&tokens[at + 1..]) => {
                at = end_of_tested(&tokens, at + 2);
                continue;
            }
            // others say what a type captures: `use<'a>`
            TokenTree::Ident(word) if *word == "use" && !is_punct(&tokens, at + 1, '<') => {
                let end = end_of_item(&tokens, at);
                uses(&tokens[at + 1..end], &[], found);
                at = end;
                continue;
            }
            TokenTree::Ident(word)
                if matches!(word.to_string().as_str(), "crate" | "super" | "self") =>
            {
                let (path, end) = path_at(&tokens, at);
                if path.len() > 1 {
                    found.push(Named { path, line: line(&tokens[at]), is_use: false });
                }
                at = end;
                continue;
            }
            TokenTree::Group(group) => paths(group.stream(), found),
            _ => {}
        }
        at += 1;
    }
}

/// Whether an attribute follows that says `cfg(test)`, or a part of it.
fn is_of_tests(tokens: &[TokenTree]) -> bool {
    match tokens.first() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            let text = group.stream().to_string().replace(' ', "");
            text.starts_with("cfg(test)") || text.starts_with("cfg(all(test")
        }
        _ => false,
    }
}

/// Behind the item that begins at `at`: behind its semicolon, or its braces if it is no `use`.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let is_use = matches!(tokens.get(at), Some(TokenTree::Ident(word)) if *word == "use");
    let end = tokens.iter().skip(at).position(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => !is_use && group.delimiter() == Delimiter::Brace,
        _ => false,
    });
    end.map_or(tokens.len(), |end| at + end + 1)
}

/// Behind what a `cfg(test)` stands before: an item, or a field, variant or argument, which a comma ends.
fn end_of_tested(tokens: &[TokenTree], at: usize) -> usize {
    let comma = (at..tokens.len()).find(|at| is_punct(tokens, *at, ','));
    comma.map_or(tokens.len(), |comma| comma + 1).min(end_of_item(tokens, at))
}

/// Adds the paths of a `use` whose first parts are `before`.
fn uses(tokens: &[TokenTree], before: &[String], found: &mut Vec<Named>) {
    for one in tokens.split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ',')) {
        let mut path = before.to_vec();
        for token in one {
            match token {
                TokenTree::Ident(word) if *word == "as" => break,
                TokenTree::Ident(word) if *word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let within: Vec<_> = group.stream().into_iter().collect();
                    uses(&within, &path, found);
                    path.clear();
                    break;
                }
                _ => {}
            }
        }
        if let (false, Some(first)) = (path.is_empty(), one.first()) {
            found.push(Named { path, line: line(first), is_use: true });
        }
    }
}

/// The path that begins at `at`, and where it ends.
fn path_at(tokens: &[TokenTree], mut at: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        path.push(word.to_string());
        at += 1;
        if !(is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')) {
            break;
        }
        at += 2;
    }
    (path, at)
}

fn is_punct(tokens: &[TokenTree], at: usize, what: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == what)
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}
