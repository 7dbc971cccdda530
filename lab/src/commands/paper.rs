//! `cargo lab paper`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use onefold_bench::{Header, Record, command_line};
use onefold_lab::paper::{Effort, Paper as Reproduced, Reproduction, Session, page};
use onefold_terminal::count::count;
use onefold_terminal::outputs::{STANDARD_OUTPUT, make_places, typed, write_text};
use onefold_terminal::{Console, Output};

use crate::exit::Exit;
use crate::interrupt::cancel_on_signal;

const AFTER_HELP: &str = "\
Datasets are taken from the folders below DIR that `cargo lab dataset build` makes; those that
are not there or not finished are named, and the claims about them count as not measured. A folder of
your own in the place of one is cut, and called 'not built by the command'. Random and synthetic data
are made as they are needed. Stopped by a signal, it shows and writes what was measured.

Examples:
  cargo lab paper vectorcdc --dir /data --quick
  cargo lab paper investigation --dir /data --json docs/records/NAME.json

With --json: one record with machine, datasets and their digests, missing ones, findings (each with
place, claim, reported, found, verdict, reason and measured_by), tables, every sample, and whether it
was quick or interrupted.";

/// Put the claims of a paper beside what is measured here
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Paper {
    /// Whose claims
    #[arg(value_name = "PAPER", value_parser = papers())]
    paper: Reproduced,
    /// Where datasets were built
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Minutes instead of an hour: little data, few rounds
    #[arg(long)]
    quick: bool,
    /// Write a page for a browser to OUT
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write everything as JSON to OUT, or to standard output instead of tables
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
}

fn papers() -> impl TypedValueParser<Value = Reproduced> {
    PossibleValuesParser::new(Reproduced::ALL.map(Reproduced::name)).map(|name| {
        let named = Reproduced::ALL.into_iter().find(|paper| paper.name() == name);
        named.expect("only names of papers come through")
    })
}

impl Paper {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        make_places(self.json.as_deref(), self.html.as_deref())?;
        let cancel = cancel_on_signal(console, "what was measured will be shown")?;
        let bar = spinner(console);
        let told = |what: &str| {
            bar.set_message(what.to_owned());
            console.detail(what);
        };
        let effort = if self.quick { Effort::QUICK } else { Effort::FULL };
        let is_stopped = || cancel.is_cancelled();
        let session = Session::new(&self.dir, effort, &told, &is_stopped);
        let result = self.paper.reproduce(session);
        bar.finish_and_clear();
        for missing in &result.missing {
            console.warn(format_args!(
                "no finished '{missing}' in '{}': `cargo lab dataset build {missing}` makes it",
                self.dir.display()
            ));
        }
        let exit = if result.interrupted { Exit::Interrupted } else { Exit::Fine };
        let [hold, differ, not_measured] = result.count();
        self.show(result, console)?;
        let hold = count(hold as u64, "claim holds", "claims hold");
        let differ = count(differ as u64, "differs", "differ");
        console.notice(format_args!("{hold}, {differ}, {not_measured} not measured"));
        Ok(exit)
    }

    fn show(&self, result: Reproduction, console: &Console) -> Result<()> {
        let mut output = Output::new();
        if !console.is_json() {
            output.line(result.markdown())?;
        }
        if let Some(out) = self.json.as_ref().or(self.html.as_ref()) {
            let command = command_line("cargo lab", typed());
            let mut header = Header::here(out, command, "in memory")?;
            header.notes.extend(result.notes());
            let record = Record { header, results: result };
            match &self.json {
                None => {}
                Some(_) if console.is_json() => output.json_document(&record)?,
                Some(out) => record.write(out)?,
            }
            if let Some(html) = &self.html {
                write_text(html, &page(&record)?.html()?)?;
            }
        }
        output.finish()
    }
}

fn spinner(console: &Console) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}");
    let style = style.expect("the template above is valid");
    let bar = console.bars().add(ProgressBar::new_spinner().with_style(style));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}
