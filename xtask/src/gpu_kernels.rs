//! The kernels of crates/gpu as PTX, built ahead: compiled by NVIDIA's compiler from pinned wheels, checked
//! in, and compared here with what the compiler makes of the sources now.
//!
//! What is compared is the code for three generations of devices, since the text has names that mean
//! nothing. Its registers and instructions are guarded by a table: the speed of a kernel follows from
//! both, and no device is needed to count them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::python;
use crate::workspace::{self, Cargo};

const FOLDER: &str = "crates/gpu/kernels";
const TABLE: &str = "crates/gpu/kernels.json";

/// The compiler, what it includes, and what shows its code.
const WHEELS: &[&str] = &[
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-nvdisasm==13.5.37",
];

/// The oldest version of PTX that has all that the kernels use, so that old drivers read it too. The
/// compiler writes its own, the newest.
const VERSION: &str = "7.0";

/// Devices of these are compiled for.
const GENERATIONS: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// What the kernels take, as it is kept in the repository: `generation/kernel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Table {
    compiler: String,
    kernels: BTreeMap<String, Kernel>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Kernel {
    registers: u32,
    /// Bytes of shared memory.
    shared: u32,
    instructions: usize,
    /// Instructions of the shortest loop, 0 without one: of a hash, those of a round.
    innermost: usize,
}

/// What the kernels became, if the wheels can be had.
pub(crate) enum Report {
    /// Why nothing was compared.
    Skipped(String),
    /// What is wrong, a line each.
    Findings(Vec<String>),
}

/// Compiles the kernels, and compares with what is checked in.
pub(crate) fn check(cargo: Cargo) -> Result<Report> {
    let compiler = match Compiler::install(cargo) {
        Ok(compiler) => compiler,
        Err(error) => return Ok(Report::Skipped(format!("no compiler for CUDA: {error:#}"))),
    };
    let place = workspace::root().join(FOLDER).join("kernels.ptx");
    let kept = fs::read_to_string(&place).with_context(|| place.display().to_string())?;
    let built = compiler.ptx()?;
    let mut findings = Vec::new();
    let mut table = Table { compiler: WHEELS[0].to_owned(), kernels: BTreeMap::new() };
    for generation in GENERATIONS {
        let [old, new] = [&kept, &built].map(|ptx| compiler.code(ptx, generation));
        let (old, new) = (old?, new?);
        if old.code != new.code {
            findings
                .push(format!("{FOLDER}/kernels.ptx is not what the sources give {generation}"));
        }
        table.kernels.extend(new.kernels);
    }
    let text = fs::read(workspace::root().join(TABLE)).context(TABLE)?;
    findings.extend(compare(&serde_json::from_slice(&text).context(TABLE)?, &table));
    if !findings.is_empty() {
        findings.push("if this is meant, renew both: cargo xtask gpu-kernels --write".to_owned());
    }
    Ok(Report::Findings(findings))
}

/// Compiles the PTX that is checked in for each generation, and writes sm_80.cubin and so on to `folder`, which
/// crates/gpu/build.rs takes them from.
///
/// # Errors
/// If the compiler cannot be had, or refuses the PTX.
pub(crate) fn write_cubins(cargo: Cargo, folder: &Path) -> Result<()> {
    let compiler = Compiler::install(cargo)?;
    let place = workspace::root().join(FOLDER).join("kernels.ptx");
    let ptx = fs::read_to_string(&place).with_context(|| place.display().to_string())?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for generation in GENERATIONS {
        compiler.assemble(&ptx, generation)?;
        let place = folder.join(generation).with_extension("cubin");
        fs::copy(compiler.binary(), &place).with_context(|| place.display().to_string())?;
        println!("gpu-kernels: wrote {}", place.display());
    }
    Ok(())
}

/// Shows what the kernels take, and writes PTX and table anew if `write` says so.
pub(crate) fn run(cargo: Cargo, write: bool) -> Result<()> {
    let compiler = Compiler::install(cargo)?;
    let ptx = compiler.ptx()?;
    let mut table = Table { compiler: WHEELS[0].to_owned(), kernels: BTreeMap::new() };
    for generation in GENERATIONS {
        table.kernels.extend(compiler.code(&ptx, generation)?.kernels);
    }
    for (name, Kernel { registers, shared, instructions, innermost }) in &table.kernels {
        println!(
            "{name}: {registers} registers, {shared} bytes shared, {instructions} instructions, {innermost} \
             in the innermost loop"
        );
    }
    if write {
        let root = workspace::root();
        fs::write(root.join(FOLDER).join("kernels.ptx"), ptx).context(FOLDER)?;
        let json = serde_json::to_string_pretty(&table)? + "\n";
        fs::write(root.join(TABLE), json).context(TABLE)?;
        println!("gpu-kernels: wrote {FOLDER}/kernels.ptx and {TABLE}");
    }
    Ok(())
}

/// What grew, and what is not in both.
fn compare(kept: &Table, built: &Table) -> Vec<String> {
    let mut findings = Vec::new();
    for name in kept.kernels.keys().filter(|name| !built.kernels.contains_key(*name)) {
        findings.push(format!("{TABLE}: {name} is no kernel any more"));
    }
    for (name, new) in &built.kernels {
        let Some(old) = kept.kernels.get(name) else {
            findings.push(format!("{TABLE} has no {name}"));
            continue;
        };
        for (what, old, new) in [
            ("registers", old.registers as usize, new.registers as usize),
            ("bytes of shared memory", old.shared as usize, new.shared as usize),
            ("instructions", old.instructions, new.instructions),
            ("instructions in its innermost loop", old.innermost, new.innermost),
        ] {
            if new > old {
                findings.push(format!("{name} takes {new} {what}, {TABLE} has {old}"));
            }
        }
    }
    findings
}

/// The compiler's programs.
struct Compiler {
    folder: PathBuf,
    scratch: PathBuf,
}

/// What a device of one generation runs.
struct Code {
    /// Instructions without addresses, kernel by kernel.
    code: BTreeMap<String, Vec<String>>,
    kernels: BTreeMap<String, Kernel>,
}

impl Compiler {
    fn install(cargo: Cargo) -> Result<Self> {
        let folder = python::environment(cargo, "cuda", WHEELS, &["--no-deps"])?;
        let folder = python::site_packages(&folder)?.join("nvidia/cu13");
        let scratch = workspace::target_dir().join("gpu-kernels");
        fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
        Ok(Self { folder, scratch })
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        command.current_dir(&self.scratch);
        command
    }

    /// The kernels as PTX of the oldest version that has what they use, without comments, after a line
    /// that names their sources.
    fn ptx(&self) -> Result<String> {
        let sources = workspace::root().join(FOLDER);
        let out = self.scratch.join("built.ptx");
        output(
            self.program("nvcc")
                .args(["-ptx", "-arch=compute_80", "-std=c++17"])
                .arg(sources.join("kernels.cu"))
                .arg("-o")
                .arg(&out),
        )?;
        let text = fs::read_to_string(&out).with_context(|| out.display().to_string())?;
        Ok(format!("// sources: {}\n{}", digest(&sources)?, stripped(&text)))
    }

    /// Where the code of the last generation that was compiled is.
    fn binary(&self) -> PathBuf {
        self.scratch.join("kernels.cubin")
    }

    /// Compiles `ptx` for a `generation`; what the assembler tells of it.
    fn assemble(&self, ptx: &str, generation: &str) -> Result<String> {
        let text = self.scratch.join("kernels.ptx");
        fs::write(&text, ptx)?;
        let mut assembler = self.program("ptxas");
        assembler.arg(format!("-arch={generation}")).args(["-v", "-o"]);
        Ok(String::from_utf8(output(assembler.arg(self.binary()).arg(&text))?.stderr)?)
    }

    /// What `ptx` becomes for a `generation`.
    fn code(&self, ptx: &str, generation: &str) -> Result<Code> {
        let told = self.assemble(ptx, generation)?;
        let mut disassembler = self.program("nvdisasm");
        disassembler.arg("-c").arg(self.binary());
        let listing = String::from_utf8(output(&mut disassembler)?.stdout)?;
        let code = instructions(&listing);
        let loops = innermost(&listing);
        let kernels = resources(&told)
            .into_iter()
            .map(|(name, registers, shared)| {
                let instructions = code.get(&name).map_or(0, Vec::len);
                ensure!(instructions > 0, "{name} has no instructions in the listing");
                let innermost = loops.get(&name).copied().unwrap_or(0);
                let kernel = Kernel { registers, shared, instructions, innermost };
                Ok((format!("{generation}/{name}"), kernel))
            })
            .collect::<Result<_>>()?;
        Ok(Code { code, kernels })
    }
}

/// The BLAKE3 of all sources, in the order of their names.
fn digest(sources: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(sources)? {
        let name = entry?.file_name().into_string().ok().context("a name that is not UTF-8")?;
        if name.ends_with(".h") || name.ends_with(".cu") {
            names.push(name);
        }
    }
    names.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(&fs::read(sources.join(&name)).context(name)?);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Without comments and empty lines, and of the version that the kernels need.
fn stripped(ptx: &str) -> String {
    let mut lines = Vec::new();
    for line in ptx.lines() {
        let line = line.split("//").next().unwrap_or_default().trim_end();
        match line.starts_with(".version ") {
            true => lines.push(format!(".version {VERSION}")),
            false if line.trim().is_empty() => {}
            false => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

/// The kernels that `ptxas -v` tells of, each with its registers and bytes of shared memory.
fn resources(told: &str) -> Vec<(String, u32, u32)> {
    let mut found = Vec::new();
    let mut name = None;
    for line in told.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            name = rest.split('\'').next().map(str::to_owned);
        } else if let (Some((_, used)), Some(kernel)) = (line.split_once(": Used "), &name) {
            let number_before = |what: &str| {
                let before = used.split(what).next().filter(|before| before.len() < used.len());
                before
                    .and_then(|before| before.rsplit([' ', ',']).find(|word| !word.is_empty()))
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(0)
            };
            found.push((kernel.clone(), number_before(" registers"), number_before(" bytes smem")));
        }
    }
    found
}

/// The instructions of each kernel in the disassembler's listing, without addresses. Padding is left out.
fn instructions(listing: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut kernel = None;
    for line in listing.lines() {
        if let Some(name) =
            line.trim().strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':'))
        {
            kernel = Some(name.to_owned());
        } else if let (Some(name), Some((_, code))) = (&kernel, line.split_once("*/")) {
            let code = code.split(';').next().unwrap_or_default().trim();
            if line.trim_start().starts_with("/*") && !code.is_empty() && code != "NOP" {
                found.entry(name.clone()).or_default().push(code.to_owned());
            }
        }
    }
    found
}

/// How many instructions the shortest loop of each kernel has: from a label to a branch back to it. What follows
/// the end of a kernel is a branch to itself, and no loop.
fn innermost(listing: &str) -> BTreeMap<String, usize> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let (mut kernel, mut count, mut labels) = (String::new(), 0, BTreeMap::new());
    for line in listing.lines() {
        if let Some(label) = line.strip_suffix(':') {
            match label.strip_prefix(".text.") {
                Some(name) => {
                    (kernel, count) = (name.to_owned(), 0);
                    labels.clear();
                }
                None => drop(labels.insert(label, count)),
            }
        } else if line.trim_start().starts_with("/*") && line.contains(';') {
            count += 1;
            let target = line.split_once(" BRA").and_then(|(_, to)| to.split_once("`("));
            let target = target.and_then(|(_, to)| to.split(')').next());
            let start = target.and_then(|target| labels.get(target)).copied();
            if let Some(len) = start.map(|start| count - start).filter(|&len| len > 1) {
                found.entry(kernel.clone()).and_modify(|old| *old = len.min(*old)).or_insert(len);
            }
        }
    }
    found
}

fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {told}", output.status);
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ptx_is_of_the_sources_that_are_there() {
        let folder = workspace::root().join(FOLDER);
        let ptx = fs::read_to_string(folder.join("kernels.ptx")).unwrap();
        let first = ptx.lines().next().unwrap();
        let expected = format!("// sources: {}", digest(&folder).unwrap());
        assert_eq!(first, expected, "renew it: cargo xtask gpu-kernels --write");
    }

    #[test]
    fn comments_go_and_the_version_becomes_the_oldest() {
        let ptx = "//\n// Generated\n.version 9.0\n.target sm_80\n\n\tadd.u32 %r1; // why\n";
        assert_eq!(stripped(ptx), ".version 7.0\n.target sm_80\n\tadd.u32 %r1;\n");
    }

    #[test]
    fn what_a_kernel_takes_is_read_from_what_the_assembler_tells() {
        let told = "ptxas info    : Compiling entry function 'a' for 'sm_90'\n\
                    ptxas info    : Used 52 registers, used 1 barriers, 8 bytes cumulative stack size, 37652 bytes smem\n\
                    ptxas info    : Compiling entry function 'b' for 'sm_90'\n\
                    ptxas info    : Used 40 registers, used 0 barriers\n";
        assert_eq!(resources(told), [("a".into(), 52, 37652), ("b".into(), 40, 0)]);
    }

    #[test]
    fn instructions_are_counted_without_padding() {
        let listing = "\t.section\t.text.a,\"ax\"\n.text.a:\n        /*0000*/                   MOV R1, c[0x0][0x28] ;\n\
                       .L_x_0:\n        /*0010*/                   BRA `(.L_x_0) ;\n        /*0020*/                   NOP;\n";
        let found = instructions(listing);
        assert_eq!(found["a"], ["MOV R1, c[0x0][0x28]", "BRA `(.L_x_0)"]);
    }

    #[test]
    fn the_innermost_loop_is_the_shortest_that_goes_back() {
        let listing = ".text.a:\n /*00*/ MOV R1, R2 ;\n.L_1:\n /*10*/ MOV R3, R2 ;\n.L_2:\n\
                       /*20*/ IADD3 R1, R1 ;\n /*30*/ @P0 BRA `(.L_2) ;\n\
                       /*40*/ BRA.U UP0, `(.L_1) ;\n /*50*/ BRA `(.L_3) ;\n /*60*/ EXIT ;\n.L_3:\n\
                       /*70*/ BRA `(.L_3);\n.text.b:\n /*00*/ BRA `(.L_1) ;\n";
        assert_eq!(innermost(listing), [("a".to_owned(), 2)].into());
    }

    #[test]
    fn what_grew_is_found_and_what_shrank_is_not() {
        let kernel = Kernel { registers: 40, shared: 100, instructions: 500, innermost: 50 };
        let table = |kernel| Table {
            compiler: String::new(),
            kernels: [("sm_80/a".to_owned(), kernel)].into(),
        };
        assert!(compare(&table(kernel), &table(kernel)).is_empty());
        let smaller = Kernel { registers: 39, instructions: 499, ..kernel };
        assert!(compare(&table(kernel), &table(smaller)).is_empty());
        let larger = compare(&table(smaller), &table(kernel));
        assert_eq!(larger.len(), 2, "{larger:?}");
        let other = Table { kernels: [("sm_80/b".to_owned(), kernel)].into(), ..table(kernel) };
        assert_eq!(compare(&table(kernel), &other).len(), 2);
    }
}
