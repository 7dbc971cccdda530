//! One document as a page.

use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Tag, TagEnd, html};

use super::Documents;
use super::links::{anchor, is_elsewhere, parser, resolve};

const STYLE: &str = "\
:root{color-scheme:light dark}body{margin:0;display:flex;font:16px/1.55 system-ui,sans-serif}\
nav{flex:0 0 13em;padding:1.5em;border-right:1px solid #8884}nav h2{font-size:.8em;margin:1.4em 0 .3em;opacity:.7}\
nav a{display:block;padding:.12em 0;text-decoration:none}nav a.here{font-weight:600}\
main{flex:1;min-width:0;max-width:52em;padding:1.5em 2.5em 5em}\
pre{overflow-x:auto;padding:.8em 1em;background:#8881;border-radius:6px;font-size:.86em;line-height:1.4}\
code{font-family:ui-monospace,monospace;font-size:.92em}pre code{font-size:1em}\
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #8884;padding:.3em .6em;\
text-align:left;vertical-align:top}img{max-width:100%}\
@media(max-width:50em){body{display:block}nav{border:0}main{padding:1em}}";

/// Where the page of the document at `path` lies.
pub(super) fn place(path: &Path) -> PathBuf {
    match path.file_name().is_some_and(|name| name == "README.md") {
        true => path.with_file_name("index.html"),
        false => path.with_extension("html"),
    }
}

/// The page of the document at `path`.
pub(super) fn of(
    path: &Path,
    text: &str,
    navigation: &[(&str, &[&str])],
    documents: &Documents,
) -> String {
    let mut body = String::new();
    html::push_html(&mut body, events(path, text, documents).into_iter());
    let title = title(text);
    let mut list = String::new();
    for (heading, all) in navigation {
        list += &format!("<h2>{heading}</h2>");
        for name in *all {
            let target = Path::new(name);
            let Some(text) = documents.get(target) else { continue };
            let class = if target == path { " class=\"here\"" } else { "" };
            let link = relative(path, &place(target));
            list += &format!("<a{class} href=\"{link}\">{}</a>", escaped(&self::title(text)));
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<nav>{list}</nav>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escaped(&title)
    )
}

/// What the document consists of, with names of headings, and links to pages in the place of documents.
fn events<'t>(path: &Path, text: &'t str, documents: &Documents) -> Vec<Event<'t>> {
    let mut events: Vec<Event<'t>> = parser(text).collect();
    let mut used = Vec::<String>::new();
    let mut at = 0;
    while at < events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { .. }) => {
                let name = anchor(&heading(&events[at + 1..]));
                let before = used.iter().filter(|one| **one == name).count();
                used.push(name.clone());
                let name = if before == 0 { name } else { format!("{name}-{before}") };
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
                    *id = Some(CowStr::from(name));
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) if !is_elsewhere(dest_url) => {
                let to = CowStr::from(link(path, dest_url, documents));
                if let Event::Start(Tag::Link { dest_url, .. }) = &mut events[at] {
                    *dest_url = to;
                }
            }
            _ => {}
        }
        at += 1;
    }
    events
}

/// The text of the heading that `events` go on with.
fn heading(events: &[Event<'_>]) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            Event::End(TagEnd::Heading(_)) => break,
            Event::Text(part) | Event::Code(part) => text += part,
            _ => {}
        }
    }
    text
}

/// The text of the first heading of the first level.
fn title(text: &str) -> String {
    let events: Vec<Event<'_>> = parser(text).collect();
    let is_first = |event: &Event<'_>| {
        matches!(event, Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }))
    };
    let at = events.iter().position(is_first);
    at.map_or_else(|| "Onefold".to_owned(), |at| heading(&events[at + 1..]))
}

/// Where a link of the document at `path` leads on the page.
fn link(path: &Path, target: &str, documents: &Documents) -> String {
    let (file, rest) = match target.split_once('#') {
        Some((file, rest)) => (file, format!("#{rest}")),
        None => (target, String::new()),
    };
    if file.is_empty() {
        return rest;
    }
    let Some(file) = resolve(path, file) else { return target.to_owned() };
    let readme = file.join("README.md");
    let document = [&file, &readme].into_iter().find(|one| documents.contains_key(*one));
    let leads_to = document.map_or_else(|| file.clone(), |document| place(document));
    relative(path, &leads_to) + &rest
}

/// The way from the document at `from` to `to`.
fn relative(from: &Path, to: &Path) -> String {
    let above = from.parent().map_or(0, |folder| {
        folder.components().filter(|one| matches!(one, Component::Normal(_))).count()
    });
    format!("{}{}", "../".repeat(above), to.display())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_and_headings_have_names() {
        let texts = [
            (
                "README.md",
                "# One\n[two](docs/two.md#a-b) [folder](docs) [code](x.rs) [far](https://x/y.md)",
            ),
            ("docs/README.md", "# Docs <1>\n"),
            ("docs/two.md", "# Two\n## A b\n## A b\n[up](../README.md) [here](#a-b)\n"),
        ];
        let documents: Documents =
            texts.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        let navigation: &[(&str, &[&str])] = &[("All", &["README.md", "docs/README.md"])];
        let page = |at: usize| of(Path::new(texts[at].0), texts[at].1, navigation, &documents);
        for link in ["docs/two.html#a-b", "docs/index.html", "x.rs", "https://x/y.md"] {
            assert!(page(0).contains(&format!("href=\"{link}\"")), "{link}: {}", page(0));
        }
        assert!(page(0).contains("<a class=\"here\" href=\"index.html\">One</a>"));
        assert!(page(2).contains("<h2 id=\"a-b\">") && page(2).contains("<h2 id=\"a-b-1\">"));
        assert!(page(2).contains("href=\"../index.html\"") && page(2).contains("href=\"#a-b\""));
        assert!(page(2).contains("Docs &lt;1></a>"));
        assert_eq!(place(Path::new("docs/README.md")), Path::new("docs/index.html"));
    }
}
