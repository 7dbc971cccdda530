//! Standard error: what is said beside the answer.

use std::fmt::Display;
use std::io::{self, Write};

use indicatif::{MultiProgress, ProgressDrawTarget};

use crate::name::shown;

/// Says things on standard error, above a progress bar if there is one.
#[derive(Clone, Debug)]
pub struct Console {
    json: bool,
    quiet: bool,
    verbosity: u8,
    bars: MultiProgress,
}

impl Console {
    /// A console as talkative as the user wants it; with `json`, standard output is for programs.
    pub fn new(json: bool, quiet: bool, verbosity: u8) -> Self {
        // Draws nothing where standard error is no terminal.
        let bars = MultiProgress::new();
        if quiet || json {
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self { json, quiet, verbosity, bars }
    }

    /// Whether standard output is for programs.
    pub const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether summaries are left out.
    pub const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether it is said what is being done.
    pub const fn is_verbose(&self) -> bool {
        self.verbosity > 0
    }

    /// How often it was asked to say what is being done.
    pub const fn verbosity(&self) -> u8 {
        self.verbosity
    }

    /// Where progress bars are drawn.
    pub const fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Says what the user should know and need not act on.
    pub fn notice(&self, text: impl Display) {
        if !self.quiet {
            self.line(text);
        }
    }

    /// Says what is being done, if the user wants to know.
    pub fn detail(&self, text: impl Display) {
        if self.is_verbose() {
            self.line(text);
        }
    }

    /// Says what may need the user's attention.
    pub fn warn(&self, text: impl Display) {
        self.line(format_args!("warning: {text}"));
    }

    /// Writes one line; control characters, which a file's name may have, are escaped.
    pub fn line(&self, text: impl Display) {
        let line = shown(text.to_string().as_bytes());
        // A standard error that is closed cannot be told of.
        self.bars.suspend(|| drop(writeln!(io::stderr(), "{line}")));
    }
}
