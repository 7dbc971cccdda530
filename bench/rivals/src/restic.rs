//! restic's own chunker, which is a Go module: a program in go/ drives it in a process of its own,
//! over the same bytes, once between any two rounds.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use onefold_bench::{Outcome, Sample};
use onefold_cdc::{Chunker, Params, Preset};
use serde::Deserialize;

use crate::entry::restic_sizes;

/// Its name in tables and records.
pub(crate) const NAME: &str = "restic chunker (Go), 1 MiB";

/// Whom it was compared with.
const MODEL: &str = "preset restic, 1 MiB, scalar";

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// The program at work, and what it has found so far.
pub(crate) struct Restic {
    child: Child,
    /// Dropped to end the program.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    outcome: Outcome,
}

/// What the program says of one run.
#[derive(Deserialize)]
struct Run {
    seconds: f64,
    cut_points: Vec<usize>,
}

impl Restic {
    /// Builds and starts the program, and compares its cut-points with those of the preset.
    pub(crate) fn start(data: &[u8]) -> Result<Self> {
        let program = env::current_exe()?.with_file_name("restic-chunker");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(".").current_dir(Path::new(SOURCE));
        let status = build.status().context("go build")?;
        ensure!(status.success(), "go build ended with {status}");

        let params = Params { sizes: restic_sizes(), ..Preset::Restic.params() };
        let (min, max) = (params.sizes.min(), params.sizes.max());
        let mut command = Command::new(program);
        command.args([min, max, params.sizes.avg().ilog2() as usize].map(|n| n.to_string()));
        command.arg(format!("{:x}", params.seed)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the Go program")?;
        let mut input = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        input.write_all(&(data.len() as u64).to_le_bytes())?;
        input.write_all(data)?;
        let outcome = Outcome {
            name: NAME.into(),
            equal_to: Some(MODEL.into()),
            cut_points: Chunker::new(&params)?.cut_points(data).collect(),
            samples: Vec::new(),
            counts: None,
        };
        let mut restic = Self { child, input: Some(input), output, outcome };
        restic.run()?;
        Ok(restic)
    }

    /// Keeps the time of one more run.
    pub(crate) fn measure(&mut self, round: u32) -> Result<()> {
        let seconds = self.run()?;
        self.outcome.samples.push(Sample { round, seconds, thread_seconds: 0.0 });
        Ok(())
    }

    /// Ends the program.
    pub(crate) fn end(mut self) -> Result<Outcome> {
        drop(self.input.take());
        let status = self.child.wait().context("the Go program")?;
        ensure!(status.success(), "the Go program ended with {status}");
        Ok(self.outcome)
    }

    /// Seconds of one run, whose cut-points are the preset's.
    fn run(&mut self) -> Result<f64> {
        let input = self.input.as_mut().expect("open until the end");
        input.write_all(b"\n").and_then(|()| input.flush()).context("the Go program")?;
        let mut line = String::new();
        self.output.read_line(&mut line).context("the Go program")?;
        let Run { seconds, cut_points } =
            serde_json::from_str(&line).context("an answer of the Go program")?;
        ensure!(cut_points == self.outcome.cut_points, "{NAME} and {MODEL} cut differently");
        Ok(seconds)
    }
}
