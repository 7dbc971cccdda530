//! `cargo lab dataset`

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};
use onefold_lab::build::{
    BuildError, Built, Order, Plan, RECIPES, Receipt, Recipe, Sameness, Watch,
};
use onefold_store::Cancel;
use onefold_terminal::{Console, Output, count, table};
use serde::Serialize;

use crate::exit::Exit;
use crate::interrupt::cancel_on_signal;

const AFTER_HELP: &str = "\
A dataset is ordered by its name, or by NAME:CHOICE=VALUE,… where it can be built in several ways;
each way has a folder of its own below DIR. What is built is left alone, and a build that was broken
off goes on where it was.

Examples:
  cargo lab dataset list --dir /data
  cargo lab dataset build numpy rand:bytes=100000000 --dir /data
  cargo lab dataset build series:edits=1000,kind=overwrite --dir /data";

/// Build datasets to measure chunkers on, or list what can be built
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Dataset {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Build(Build),
}

const LIST_AFTER_HELP: &str = "\
Examples:
  cargo lab dataset list
  cargo lab dataset list --dir /data --json

With --json: one document, a list; each has name, kind, about, bytes, download_bytes, source (null if
nothing is downloaded), reproducible, digest or reason, choices, missing_tools and built: a list of
what was built below DIR, each with name, files, bytes and digest.";

/// List the datasets that can be built, and what that takes
#[derive(Debug, Args)]
#[command(after_help = LIST_AFTER_HELP)]
struct List {
    /// Say of each whether it was built below DIR
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const BUILD_AFTER_HELP: &str = "\
Examples:
  cargo lab dataset build numpy --dir /data
  cargo lab dataset build series:edits=1000,kind=overwrite --dir /data

With --json: one document, a list; each has name, files, bytes, digest and folder.";

/// Build datasets
#[derive(Debug, Args)]
#[command(after_help = BUILD_AFTER_HELP)]
struct Build {
    /// What to build: NAME, or NAME:CHOICE=VALUE,…
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Where; each dataset in a folder of its name
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

impl Dataset {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.command {
            Command::List(list) => list.run(console),
            Command::Build(build) => build.run(console),
        }
    }
}

/// A recipe in JSON.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    kind: &'static str,
    about: &'static str,
    bytes: u64,
    download_bytes: u64,
    source: Option<&'static str>,
    reproducible: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    choices: Vec<ListedChoice>,
    missing_tools: Vec<&'static str>,
    built: Vec<Receipt>,
}

#[derive(Serialize)]
struct ListedChoice {
    name: &'static str,
    about: &'static str,
    standard: &'static str,
    expected: String,
}

impl List {
    fn run(self, console: &Console) -> Result<Exit> {
        let listed: Vec<Listed> =
            RECIPES.iter().map(|recipe| self.listed(recipe)).collect::<Result<_>>()?;
        let mut output = Output::new();
        match console.is_json() {
            true => output.json_document(&listed)?,
            false => {
                for line in self.lines(&listed) {
                    output.line(line)?;
                }
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }

    fn listed(&self, recipe: &'static Recipe) -> Result<Listed> {
        let order: Order = recipe.name.parse()?;
        let cost = order.cost();
        let dir = self.dir.clone().unwrap_or_default();
        let plan = Plan::new(order, &dir)?;
        let (digest, reason) = match recipe.sameness {
            Sameness::Bytes(digest) => (Some(digest), None),
            Sameness::NotBytes(reason) => (None, Some(reason)),
        };
        Ok(Listed {
            name: recipe.name,
            kind: recipe.kind,
            about: recipe.about,
            bytes: cost.built,
            download_bytes: cost.download,
            source: recipe.source,
            reproducible: digest.is_some(),
            digest,
            reason,
            choices: recipe
                .choices
                .iter()
                .map(|choice| ListedChoice {
                    name: choice.name,
                    about: choice.about,
                    standard: choice.standard,
                    expected: choice.expectation(),
                })
                .collect(),
            missing_tools: plan.missing_tools().iter().map(|tool| tool.program).collect(),
            built: self.dir.as_ref().map_or(Vec::new(), |dir| Receipt::all(dir, recipe)),
        })
    }

    fn lines(&self, listed: &[Listed]) -> Vec<String> {
        let header = ["Name", "Kind", "Size", "Download", "Same bytes", "Built", "What it is"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for one in listed {
            let download = match one.source {
                Some(source) => format!("{} from the {source}", DecimalBytes(one.download_bytes)),
                None => "none".into(),
            };
            let is_standard = |receipt: &Receipt| receipt.name == one.name;
            let built = match (one.built.len(), &self.dir, one.missing_tools.is_empty()) {
                (1, _, _) if is_standard(&one.built[0]) => "yes".to_owned(),
                (ways @ 1.., _, _) => format!("in {ways} ways"),
                (0, _, false) => format!("needs {}", one.missing_tools.join(", ")),
                (0, Some(_), true) => "no".into(),
                (0, None, true) => String::new(),
            };
            rows.push(vec![
                one.name.to_owned(),
                one.kind.to_owned(),
                DecimalBytes(one.bytes).to_string(),
                download,
                if one.reproducible { "yes" } else { "no" }.to_owned(),
                built,
                one.about.to_owned(),
            ]);
        }
        let mut lines = table::lines(&rows, &[2]);
        lines.push(String::new());
        lines.push("Choices, as in series:edits=1000,kind=overwrite:".into());
        let mut rows = Vec::new();
        for one in listed {
            for choice in &one.choices {
                rows.push(vec![
                    format!("  {}", one.name),
                    format!("{}={}", choice.name, choice.standard),
                    choice.about.to_owned(),
                ]);
            }
        }
        lines.extend(table::lines(&rows, &[]));
        lines
    }
}

/// A dataset that was built, in JSON.
#[derive(Serialize)]
struct BuiltHere {
    #[serde(flatten)]
    receipt: Receipt,
    folder: PathBuf,
}

impl Build {
    fn run(self, console: &Console) -> Result<Exit> {
        // all names are read before anything is downloaded
        let orders: Vec<Order> =
            self.names.iter().map(|name| name.parse()).collect::<Result<_, BuildError>>()?;
        let cancel = cancel_on_signal(console, "the parts of datasets that are done are kept")?;
        let mut all = Vec::new();
        for order in orders {
            let plan = Plan::new(order, &self.dir)?;
            let folder = plan.folder.clone();
            announce(&plan, console);
            let watch = Progress { bar: bar(console), cancel: &cancel };
            let built = plan.build(&watch);
            watch.bar.finish_and_clear();
            let (receipt, was) = match built? {
                Built::Before(receipt) => (receipt, "was built before"),
                Built::Now(receipt) => (receipt, "built"),
            };
            console.notice(format_args!(
                "{}: {was}, {}, {}, {}",
                receipt.name,
                count::files(receipt.files),
                DecimalBytes(receipt.bytes),
                receipt.digest
            ));
            all.push(BuiltHere { receipt, folder });
        }
        if console.is_json() {
            let mut output = Output::new();
            output.json_document(&all)?;
            output.finish()?;
        }
        Ok(Exit::Fine)
    }
}

/// Says what will be downloaded and what it takes, before it is.
fn announce(plan: &Plan, console: &Console) {
    if plan.receipt.is_some() {
        return;
    }
    let name = plan.order.folder();
    let left = plan.needed() as f64 / (plan.cost.built + plan.cost.scratch) as f64;
    let download = match plan.order.recipe.source {
        Some(source) => format!(
            "downloads about {} from the {source}",
            DecimalBytes((plan.cost.download as f64 * left) as u64)
        ),
        None => "downloads nothing".into(),
    };
    console.notice(format_args!(
        "{name}: {download}; takes {} of disk in '{}', where {} are free",
        DecimalBytes(plan.needed()),
        plan.folder.display(),
        DecimalBytes(plan.free)
    ));
}

fn bar(console: &Console) -> ProgressBar {
    let style = "{bar:20} {pos}/{len}  {elapsed}  {wide_msg}";
    let style = ProgressStyle::with_template(style).expect("the template above is valid");
    let bar = console.bars().add(ProgressBar::no_length().with_style(style));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

struct Progress<'a> {
    bar: ProgressBar,
    cancel: &'a Cancel,
}

impl Watch for Progress<'_> {
    fn step(&self, done: usize, of: usize, what: &str) {
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(what.to_owned());
    }

    fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }
}
