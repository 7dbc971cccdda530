//! Errors as programs print them before they end.

use std::ffi::OsString;

use clap::error::ErrorKind;
use serde::Serialize;

use crate::Console;

/// An error, why it came about, and what can be done about it.
#[derive(Debug, Serialize)]
pub struct Failure {
    r#type: &'static str,
    code: u8,
    message: String,
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Failure {
    /// An error that ends the program with the exit code `code`; the nearest cause is first.
    pub fn new(
        code: u8,
        message: impl Into<String>,
        causes: Vec<String>,
        hint: Option<String>,
    ) -> Self {
        Self { r#type: "error", code, message: message.into(), causes, hint }
    }

    /// `error` with its causes.
    pub fn of(error: &anyhow::Error, code: u8, hint: Option<String>) -> Self {
        let mut causes = tell(error);
        let message = causes.remove(0);
        Self::new(code, message, causes, hint)
    }

    /// The error of wrong arguments: the first paragraph of clap's message, and the others as the hint.
    pub fn of_misuse(answer: &clap::Error, code: u8) -> Self {
        if answer.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let hint = Some("--help lists the commands".to_owned());
            return Self::new(code, "a command is missing", Vec::new(), hint);
        }
        let text = answer.render().to_string();
        let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut paragraphs = text.split("\n\n").map(in_one_line).filter(|one| !one.is_empty());
        let first = paragraphs.next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(&first);
        let rest = paragraphs.collect::<Vec<_>>().join("; ");
        Self::new(code, message, Vec::new(), (!rest.is_empty()).then_some(rest))
    }

    /// Prints it on standard error: in lines, or as one JSON object for programs.
    pub fn say(self, console: &Console) {
        if console.is_json() {
            console.line(serde_json::to_string(&self).expect("texts and a number make JSON"));
            return;
        }
        console.line(format_args!("error: {}", self.message));
        for cause in self.causes {
            console.line(format_args!("  caused by: {cause}"));
        }
        if let Some(hint) = self.hint {
            console.line(format_args!("hint: {hint}"));
        }
    }
}

/// The error, then its causes, without causes that an earlier message quotes.
pub fn tell(error: &anyhow::Error) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !told.iter().any(|before| before.contains(&text)) {
            told.push(text);
        }
    }
    told
}

/// Whether `words`, which could not be parsed, ask for JSON on standard output. After one of the
/// commands `placing`, `--json` takes a place for it.
pub fn ask_for_json(words: &[OsString], placing: &[&str]) -> bool {
    let words: Vec<&OsString> = words.iter().take_while(|word| *word != "--").collect();
    words.iter().enumerate().any(|(i, word)| {
        let is_value = |next: &&OsString| !next.as_encoded_bytes().starts_with(b"-");
        let takes_place =
            words[..i].iter().any(|before| placing.iter().any(|command| *before == *command));
        *word == "--json" && !(takes_place && words.get(i + 1).is_some_and(is_value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_cause_that_was_quoted_is_not_repeated() {
        let error = anyhow!("no room").context("cannot write: no room").context("stopped");
        assert_eq!(tell(&error), ["stopped", "cannot write: no room"]);
        let failure = Failure::of(&error, 1, Some("make room".into()));
        assert_eq!(
            serde_json::to_string(&failure).unwrap(),
            r#"{"type":"error","code":1,"message":"stopped","causes":["cannot write: no room"],"hint":"make room"}"#
        );
    }

    #[test]
    fn json_is_asked_for_unless_it_is_to_be_placed() {
        let asks = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            ask_for_json(&words, &["paper"])
        };
        assert!(
            asks("lab nosuch --json") && asks("lab --json paper x") && asks("lab paper --json")
        );
        assert!(!asks("lab paper x --json out.json") && !asks("lab paper x -- --json"));
    }
}
