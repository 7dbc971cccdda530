//! `onefold manual`

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use onefold_terminal::outputs::write_text;

use crate::args::Arguments;
use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;

const AFTER_HELP: &str = "\
Both are made from the text that --help shows. A page has the name of its command, with hyphens:
`man onefold-volume-create`.

Examples:
  onefold manual > commands.md
  onefold manual --man ~/.local/share/man/man1";

/// Columns of help in the document.
const COLUMNS: usize = 80;

/// What stands before the help of the commands.
const INTRODUCTION: &str = "\
# Commands

Everything that `--help` shows, in one document. `onefold manual` prints it; do not edit it by hand. Options of all
commands are shown with the first one only.
";

/// Print the help of every command as one document, or write man pages
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Manual {
    /// Write a man page for each command to this directory instead, which is created if it does not exist
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

impl Manual {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let all = every_command();
        match self.man {
            Some(folder) => {
                let count = write_pages(&all, &folder)?;
                console.notice(format_args!("wrote man pages to '{}': {count}", folder.display()));
            }
            None => {
                let mut output = Output::new();
                output.line(document(&all).trim_end().as_bytes())?;
                output.finish()?;
            }
        }
        Ok(Exit::Fine)
    }
}

/// The commands that are shown, each before those below it.
fn every_command() -> Vec<Command> {
    let mut top = Arguments::described().disable_help_subcommand(true);
    top.build();
    let mut all = Vec::new();
    collect(top, &mut all);
    all
}

fn collect(command: Command, all: &mut Vec<Command>) {
    let below: Vec<Command> =
        command.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect();
    all.push(command);
    below.into_iter().for_each(|one| collect(one, all));
}

/// The whole name of a command, with `between` its words.
fn name(command: &Command, between: &str) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', between)
}

/// The help of all commands in Markdown, the same on every machine.
fn document(all: &[Command]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for (at, command) in all.iter().enumerate() {
        let shown = command.clone().term_width(COLUMNS).mut_args(|one| {
            let is_repeated = at > 0 && one.is_global_set();
            let is_hidden = one.is_hide_set() || is_repeated;
            one.hide_env_values(true).hide(is_hidden)
        });
        let help = shown.clone().render_long_help().to_string();
        text += &format!("\n## {}\n\n```text\n{}\n```\n", name(command, " "), help.trim_end());
    }
    text
}

/// Writes a man page of each command to `folder`, and returns how many.
fn write_pages(all: &[Command], folder: &Path) -> Result<usize> {
    let place = || format!("cannot write to '{}'", folder.display());
    fs::create_dir_all(folder).with_context(place)?;
    for command in all {
        let page = page(command).context("a man page")?;
        write_text(&folder.join(format!("{}.1", name(command, "-"))), &page)?;
    }
    Ok(all.len())
}

/// The man page of a command.
fn page(command: &Command) -> io::Result<String> {
    let top = Arguments::command();
    let source = format!("{} {}", top.get_name(), top.get_version().unwrap_or_default());
    let man = Man::new(command.clone()).title(name(command, "-")).source(source);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (prose, sections) = parts(&help);
    write_prose(&prose).to_writer(&mut page)?;
    if command.get_arguments().any(|one| !one.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    for section in sections {
        write_section(&section).to_writer(&mut page)?;
    }
    String::from_utf8(page).map_err(io::Error::other)
}

/// A list of indented lines under a line that ends with a colon.
struct Section<'a> {
    title: &'a str,
    lines: Vec<&'a str>,
    /// The paragraphs after it.
    prose: Vec<&'a str>,
}

/// The paragraphs at the beginning of `help`, and the sections after them.
fn parts(help: &str) -> (Vec<&str>, Vec<Section<'_>>) {
    let (mut prose, mut sections) = (Vec::new(), Vec::<Section<'_>>::new());
    let mut lines = help.lines().filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let is_listed = |line: &&str| line.starts_with(' ');
        match (line.strip_suffix(':'), lines.peek().is_some_and(is_listed)) {
            (Some(title), true) => {
                let mut listed = Vec::new();
                while let Some(line) = lines.next_if(is_listed) {
                    listed.push(line);
                }
                sections.push(Section { title, lines: listed, prose: Vec::new() });
            }
            _ => match sections.last_mut() {
                Some(section) => section.prose.push(line),
                None => prose.push(line),
            },
        }
    }
    (prose, sections)
}

fn write_prose(paragraphs: &[&str]) -> Roff {
    let mut roff = Roff::new();
    for paragraph in paragraphs {
        roff.control("PP", []);
        roff.text([roman(*paragraph)]);
    }
    roff
}

fn write_section(section: &Section<'_>) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [section.title.to_uppercase().as_str()]);
    roff.control("nf", []);
    for line in &section.lines {
        roff.text([roman(*line)]);
    }
    roff.control("fi", []);
    roff.extend([write_prose(&section.prose)]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shown_command_has_a_page_and_a_heading() {
        let all = every_command();
        let document = document(&all);
        let names: Vec<String> = all.iter().map(|command| name(command, " ")).collect();
        for shown in ["onefold", "onefold backup", "onefold volume create", "onefold bench run"] {
            assert!(names.contains(&shown.to_owned()), "{shown}");
        }
        assert!(!names.iter().any(|name| name.contains("help") || name.contains("trace")));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write_pages(&all, folder.path()).unwrap(), all.len());
        for name in names {
            assert!(document.contains(&format!("\n## {name}\n")), "{name}");
            let page = folder.path().join(format!("{}.1", name.replace(' ', "-")));
            let page = fs::read_to_string(page).unwrap();
            for section in [".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n"] {
                assert!(page.contains(section), "{name} lacks {section}");
            }
            assert!(page.contains(".SH EXAMPLES\n"), "{name}");
        }
    }

    #[test]
    fn help_is_taken_apart_into_prose_and_sections() {
        let (prose, sections) = parts("One.\n\nTwo.\n\nExamples:\n  a\n  b\n\nWith --json: c.");
        assert_eq!(prose, ["One.", "Two."]);
        assert_eq!(sections.len(), 1);
        assert_eq!(sections[0].title, "Examples");
        assert_eq!(sections[0].lines, ["  a", "  b"]);
        assert_eq!(sections[0].prose, ["With --json: c."]);
    }

    #[test]
    fn a_line_that_begins_with_a_dot_is_text_and_no_request() {
        let section = Section { title: "Examples", lines: vec![".x"], prose: vec!["'y"] };
        let page = write_section(&section).render();
        assert!(
            !page.lines().any(|line| line.starts_with(".x") || line.starts_with("'y")),
            "{page}"
        );
    }
}
