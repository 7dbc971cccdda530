//! How many instructions the chunkers take a byte, and whether that became more: a guard of their
//! speed that needs no clock and no quiet machine.
//!
//! Valgrind counts each algorithm on each kernel that it can run, which are those up to AVX2. The
//! processor's own counter counts the rest where the machine offers it. The disassembly shows the
//! loops of the rest everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::loops::{self, Loops};
use crate::programs;
use crate::workspace::{self, Cargo};

const TABLE: &str = "crates/cdc/instructions.json";

/// By how much a count may grow: what small changes elsewhere do to the code around a loop.
const TOLERANCE: f64 = 0.10;

/// The same if another compiler made the table.
const TOLERANCE_OF_COMPILERS: f64 = 0.25;

/// How often a case is repeated under the processor's counter; a single run is subtracted.
const ROUNDS: u32 = 10;

/// What was counted, as it is kept in the repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Table {
    /// What the code was compiled with.
    compiler: String,
    /// `algorithm/kernel/input` to instructions a byte.
    instructions_per_byte: BTreeMap<String, f64>,
    /// Function to the numbers of instructions of its innermost loops over 64-byte vectors.
    avx512_loops: Loops,
}

/// What a comparison with the table found.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// What is wrong, a line each.
    pub(crate) findings: Vec<String>,
    /// What could not be compared here, and why.
    pub(crate) skips: Vec<(String, String)>,
}

/// Counts, and compares with the table.
pub(crate) fn check(cargo: Cargo) -> Result<Report> {
    let skipped = |reason: &str| Report {
        skips: vec![("instructions".to_owned(), reason.to_owned())],
        ..Report::default()
    };
    if !cfg!(target_arch = "x86_64") {
        return Ok(skipped("the table is of x86-64"));
    }
    if cargo.offline && !programs::on_path("valgrind") {
        return Ok(skipped("offline, and valgrind is not installed"));
    }
    let table = read_table()?;
    let counted = count(cargo)?;
    let mut report = compare(&table, &counted);
    if !report.findings.is_empty() {
        report.findings.push(format!(
            "if this is meant, renew the table of {}: cargo xtask instructions --write",
            table.compiler
        ));
    }
    Ok(report)
}

/// Counts, shows what differs from the table, and writes it anew if `write` says so.
pub(crate) fn run(cargo: Cargo, write: bool) -> Result<()> {
    let counted = count(cargo)?;
    let old = read_table().ok();
    print_differences(old.as_ref(), &counted);
    if write {
        let json = serde_json::to_string_pretty(&counted)? + "\n";
        fs::write(workspace::root().join(TABLE), json).context(TABLE)?;
        println!("instructions: wrote {TABLE}");
    }
    Ok(())
}

fn read_table() -> Result<Table> {
    let json = fs::read(workspace::root().join(TABLE)).context(TABLE)?;
    serde_json::from_slice(&json).context(TABLE)
}

fn count(cargo: Cargo) -> Result<Table> {
    let program = build(cargo)?;
    let mut instructions_per_byte = count_by_valgrind(&program)?;
    instructions_per_byte.extend(count_by_processor(&program, &instructions_per_byte)?);
    let compiler = text_of(Command::new("rustc").arg("--version"))?;
    Ok(Table {
        compiler: compiler.trim().to_owned(),
        instructions_per_byte,
        avx512_loops: loops_of(&program)?,
    })
}

/// Builds the example as a release is built, with names that tell one generic function's instances
/// apart.
fn build(cargo: Cargo) -> Result<PathBuf> {
    let status = cargo
        .command()
        .args(["build", "--release", "-p", "onefold-cdc", "--example", "instructions"])
        .env("RUSTFLAGS", "-C symbol-mangling-version=v0")
        .status()?;
    ensure!(status.success(), "cargo build ended with {status}");
    Ok(workspace::target_dir().join("release/examples/instructions"))
}

/// Runs the example once; valgrind writes down what each case took.
fn count_by_valgrind(program: &Path) -> Result<BTreeMap<String, f64>> {
    let folder = workspace::target_dir().join("instructions");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let counts = folder.join("counts");
    let cases = text_of(
        Command::new("valgrind")
            .args(["--tool=callgrind", "--toggle-collect=*cut_counted*"])
            .arg("--dump-before=*case_ends*")
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(program),
    )?;
    let mut per_byte = BTreeMap::new();
    for (number, case) in (1..).zip(cases.lines()) {
        let (name, len) = read_case(case)?;
        let file = counts.with_extension(number.to_string());
        let dump = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let total = dump.lines().find_map(|line| line.strip_prefix("totals: "));
        let total: u64 = total.context("a dump without a total")?.trim().parse()?;
        per_byte.insert(name.to_owned(), rounded(total as f64 / len as f64));
    }
    ensure!(!per_byte.is_empty(), "valgrind ran no case");
    Ok(per_byte)
}

/// Counts the cases that are not among `counted` by the processor's counter; none where the machine
/// does not offer it.
fn count_by_processor(
    program: &Path,
    counted: &BTreeMap<String, f64>,
) -> Result<BTreeMap<String, f64>> {
    let mut per_byte = BTreeMap::new();
    if processor_count(Command::new("true").arg("--"))?.is_none() {
        return Ok(per_byte);
    }
    for case in text_of(&mut Command::new(program))?.lines() {
        let (name, len) = read_case(case)?;
        if counted.contains_key(name) {
            continue;
        }
        let rounds = |rounds: u32| {
            let count = processor_count(Command::new(program).arg(name).arg(rounds.to_string()))?;
            count.context("the counter stopped counting")
        };
        let cutting = rounds(ROUNDS + 1)?.saturating_sub(rounds(1)?);
        per_byte.insert(name.to_owned(), rounded(cutting as f64 / f64::from(ROUNDS) / len as f64));
    }
    Ok(per_byte)
}

/// How many instructions `command` took in user mode.
fn processor_count(command: &Command) -> Result<Option<u64>> {
    if !programs::on_path("perf") {
        return Ok(None);
    }
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x,", "-e", "instructions:u", "--"]);
    let output = perf.arg(command.get_program()).args(command.get_args()).output()?;
    Ok(read_perf(&String::from_utf8_lossy(&output.stderr)))
}

/// The number in `123456,,instructions:u,98765,100.00,,`; there is none in `<not supported>,,…`.
fn read_perf(output: &str) -> Option<u64> {
    let line = output.lines().find(|line| line.contains(",instructions:u"))?;
    line.split(',').next()?.trim().parse().ok()
}

/// Name and number of bytes in `gear/scalar/text 1048576`.
fn read_case(line: &str) -> Result<(&str, u64)> {
    let (name, len) = line.split_once(' ').context("a case without a length")?;
    Ok((name, len.parse()?))
}

fn loops_of(program: &Path) -> Result<Loops> {
    let mut objdump = Command::new("objdump");
    let disassembly = text_of(objdump.args(["-d", "-C", "--no-show-raw-insn"]).arg(program))?;
    Ok(loops::read(&disassembly, "onefold_cdc"))
}

/// What `command` writes to standard output; an error with its other output if it fails.
fn text_of(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("{}", command.get_program().display()))?;
    let complaint = String::from_utf8_lossy(&stderr);
    ensure!(
        status.success(),
        "{} ended with {status}: {complaint}",
        command.get_program().display()
    );
    Ok(String::from_utf8(stdout)?)
}

/// Four places behind the point, which is all that a table of numbers near 1 needs.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

fn compare(table: &Table, counted: &Table) -> Report {
    let mut report = Report::default();
    compare_counts(table, counted, &mut report);
    compare_loops(table, counted, &mut report);
    report
}

fn compare_counts(table: &Table, counted: &Table, report: &mut Report) {
    let same_compiler = table.compiler == counted.compiler;
    let tolerance = if same_compiler { TOLERANCE } else { TOLERANCE_OF_COMPILERS };
    for (name, &found) in &counted.instructions_per_byte {
        match table.instructions_per_byte.get(name) {
            Some(&expected) if found <= expected * (1.0 + tolerance) => {}
            Some(&expected) => report.findings.push(format!(
                "{name}: {found} instructions a byte, expected {expected} and at most {:.0} % more",
                tolerance * 100.0
            )),
            // The machine that made the table had no counter for it; its loops are compared.
            None if kernel(name).starts_with("avx512") => {}
            None => report.findings.push(format!("{name}: not in the table")),
        }
    }
    let kernels: BTreeSet<&str> =
        counted.instructions_per_byte.keys().map(|name| kernel(name)).collect();
    let mut uncounted = BTreeSet::new();
    for name in table.instructions_per_byte.keys() {
        if counted.instructions_per_byte.contains_key(name) {
            continue;
        }
        if kernels.contains(kernel(name)) {
            report.findings.push(format!("{name}: in the table, and cannot be run any more"));
        } else {
            uncounted.insert(kernel(name));
        }
    }
    for kernel in uncounted {
        let reason = "nothing here can count what it takes".to_owned();
        report.skips.push((format!("instructions of {kernel}"), reason));
    }
}

fn compare_loops(table: &Table, counted: &Table, report: &mut Report) {
    if table.compiler != counted.compiler {
        let reason = format!("the table was made with {}", table.compiler);
        report.skips.push(("loops of avx512".to_owned(), reason));
        return;
    }
    for (function, found) in &counted.avx512_loops {
        match table.avx512_loops.get(function) {
            None => report.findings.push(format!("loops of {function}: not in the table")),
            Some(expected) if !as_short(found, expected) => report.findings.push(format!(
                "loops of {function}: {found:?} instructions, expected {expected:?}"
            )),
            Some(_) => {}
        }
    }
    for function in table.avx512_loops.keys() {
        if !counted.avx512_loops.contains_key(function) {
            report.findings.push(format!("loops of {function}: in the table, and gone"));
        }
    }
}

/// Whether there are as many loops, none of which grew by more than the tolerance.
fn as_short(found: &[usize], expected: &[usize]) -> bool {
    let grew =
        |(&found, &expected): (&usize, &usize)| found as f64 > expected as f64 * (1.0 + TOLERANCE);
    found.len() == expected.len() && !found.iter().zip(expected).any(grew)
}

/// The second part of `algorithm/kernel/input`.
fn kernel(name: &str) -> &str {
    name.split('/').nth(1).unwrap_or_default()
}

fn print_differences(old: Option<&Table>, new: &Table) {
    let empty = Table {
        compiler: "no compiler, as there was no table".to_owned(),
        instructions_per_byte: BTreeMap::new(),
        avx512_loops: Loops::new(),
    };
    let old = old.unwrap_or(&empty);
    if old.compiler != new.compiler {
        println!("compiler: {} -> {}", old.compiler, new.compiler);
    }
    let mut names: BTreeSet<_> = old.instructions_per_byte.keys().collect();
    names.extend(new.instructions_per_byte.keys());
    for name in names {
        let shown = |table: &Table| match table.instructions_per_byte.get(name) {
            Some(count) => count.to_string(),
            None => "-".to_owned(),
        };
        if shown(old) != shown(new) {
            println!("{name}: {} -> {} instructions a byte", shown(old), shown(new));
        }
    }
    let mut functions: BTreeSet<_> = old.avx512_loops.keys().collect();
    functions.extend(new.avx512_loops.keys());
    for function in functions {
        let shown = |table: &Table| match table.avx512_loops.get(function) {
            Some(loops) => format!("{loops:?}"),
            None => "-".to_owned(),
        };
        if shown(old) != shown(new) {
            println!("loops of {function}: {} -> {}", shown(old), shown(new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(counts: &[(&str, f64)], loops: &[(&str, &[usize])]) -> Table {
        Table {
            compiler: "rustc 1.95.0".to_owned(),
            instructions_per_byte: counts.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect(),
            avx512_loops: loops.iter().map(|(n, l)| ((*n).to_owned(), l.to_vec())).collect(),
        }
    }

    #[test]
    fn what_stayed_or_shrank_is_fine() {
        let old = table(&[("ae/avx2/text", 1.0)], &[("ae", &[20, 30])]);
        for (count, loops) in [(1.0, [20, 30]), (1.1, [22, 33]), (0.2, [1, 1])] {
            let new = table(&[("ae/avx2/text", count)], &[("ae", &loops)]);
            assert_eq!(compare(&old, &new), Report::default());
        }
    }

    #[test]
    fn what_grew_appeared_or_went_is_found() {
        let old = table(&[("ae/avx2/text", 1.0), ("ram/avx2/text", 1.0)], &[("ae", &[20])]);
        let new = table(&[("ae/avx2/text", 1.11), ("pci/avx2/text", 1.0)], &[("ae", &[20, 1])]);
        let report = compare(&old, &new);
        assert_eq!(
            report.findings,
            [
                "ae/avx2/text: 1.11 instructions a byte, expected 1 and at most 10 % more",
                "pci/avx2/text: not in the table",
                "ram/avx2/text: in the table, and cannot be run any more",
                "loops of ae: [20, 1] instructions, expected [20]",
            ]
        );
        assert_eq!(report.skips, []);
        let (grown, gone) = (table(&[], &[("ae", &[23])]), table(&[], &[]));
        let old = table(&[], &[("ae", &[20])]);
        assert_eq!(compare(&old, &grown).findings.len(), 1);
        assert_eq!(compare(&old, &gone).findings.len(), 1);
        assert_eq!(compare(&gone, &old).findings.len(), 1);
    }

    #[test]
    fn what_cannot_be_compared_here_is_skipped() {
        let old = table(&[("ae/avx2/text", 1.0), ("ae/avx512/text", 1.0)], &[("ae", &[20])]);
        let mut new = table(&[("ae/avx2/text", 1.2)], &[("ae", &[50])]);
        new.compiler = "rustc 1.96.0".to_owned();
        let report = compare(&old, &new);
        assert!(report.findings.is_empty(), "{report:?}");
        let skipped: Vec<_> = report.skips.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(skipped, ["instructions of avx512", "loops of avx512"]);
    }

    #[test]
    fn the_processors_count_is_read_where_there_is_one() {
        assert_eq!(read_perf("123456,,instructions:u,98765,100.00,,\n"), Some(123_456));
        assert_eq!(read_perf("<not supported>,,instructions:u,0,100.00,,\n"), None);
        assert_eq!(read_perf("perf: no permission\n"), None);
    }
}
