//! The kernels as a program that sanitizers watch, as a device: see `shim.cpp`.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use onefold_gpu::{Argument, Arrays, Kernel, Simulated, Slot, opencl_source};
use onefold_testkit::skip;

/// The compiler, and what its sanitizers are called.
const COMPILER: &str = "g++";
pub(crate) const ADDRESS: &str = "address,undefined";
pub(crate) const THREAD: &str = "thread";

/// The program under a sanitizer.
pub(crate) struct Shim {
    program: PathBuf,
    sanitizer: String,
}

/// The program under `sanitizer`; skips and returns `None` where there is no compiler.
pub(crate) fn shim(sanitizer: &str) -> Option<Shim> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    build(sanitizer, &here.join("kernels"))
}

/// The same with the kernels in `kernels`.
pub(crate) fn build(sanitizer: &str, kernels: &Path) -> Option<Shim> {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        skip(&format!("{COMPILER} is not installed"));
        return None;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("shim");
    let output = Command::new(COMPILER)
        .args(["-std=c++17", "-O1", "-g", "-fno-strict-aliasing", "-pthread"])
        .args(["-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all"])
        .arg(format!("-fsanitize={sanitizer}"))
        .arg("-I")
        .arg(kernels)
        .arg("-I")
        .arg(&tests)
        .arg(tests.join("shim.cpp"))
        .arg("-o")
        .arg(&built)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(Shim { program: keep(folder), sanitizer: sanitizer.to_owned() })
}

/// The program's place, whose folder stays until the tests end.
fn keep(folder: tempfile::TempDir) -> PathBuf {
    thread_local! {
        static KEPT: RefCell<Vec<tempfile::TempDir>> = const { RefCell::new(Vec::new()) };
    }
    let program = folder.path().join("shim");
    KEPT.with_borrow_mut(|kept| kept.push(folder));
    program
}

/// A copy of the kernels with `found` replaced in one file: a seeded error.
pub(crate) fn seeded(file: &str, found: &str, replacement: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    for entry in fs::read_dir(kernels).unwrap() {
        let entry = entry.unwrap();
        let mut text = fs::read_to_string(entry.path()).unwrap();
        if entry.file_name() == file {
            assert!(text.contains(found), "{found} is not in {file}");
            text = text.replace(found, replacement);
        }
        write(&folder.path().join(entry.file_name()), &text);
    }
    folder
}

#[expect(clippy::disallowed_methods, reason = "a source for a compiler, no durable byte")]
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// The source for OpenCL with kernels of the tests, and with `found` replaced if any.
pub(crate) fn opencl_with_tests(seeded: Option<(&str, &str)>) -> String {
    let source = opencl_source() + include_str!("../primitive_tests.h");
    let Some((found, replacement)) = seeded else { return source };
    assert!(source.contains(found), "{found} is not in the source");
    source.replace(found, replacement)
}

impl Shim {
    /// A device whose kernels one process of the program runs.
    pub(crate) fn device(&self) -> Simulated {
        let process = Mutex::new(Process::start(&self.program));
        let run = move |kernel, groups, arguments: &[Argument], arrays: &mut Arrays| {
            launch(&mut process.lock().unwrap(), kernel, groups, arguments, arrays)
        };
        Simulated::with_kernels(format!("shim under {}", self.sanitizer), run)
    }

    /// Runs `kernel` in a process of its own, on `arrays`, which change. An error is what the process
    /// said at its end.
    pub(crate) fn run(
        &self,
        kernel: &str,
        groups: usize,
        arguments: &[Value],
        arrays: &mut [Vec<u8>],
    ) -> Result<(), String> {
        let mut process = Process::start(&self.program);
        process.run(kernel, groups, arguments, arrays)
    }
}

/// What a kernel is called with; an array by its number.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Array(usize),
    Word(u32),
    Wide(u64),
}

/// The program at work.
struct Process {
    child: Child,
}

impl Process {
    fn start(program: &Path) -> Self {
        let child = Command::new(program)
            .env("TSAN_OPTIONS", "halt_on_error=1 exitcode=66")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child }
    }

    fn run(
        &mut self,
        kernel: &str,
        groups: usize,
        arguments: &[Value],
        arrays: &mut [Vec<u8>],
    ) -> Result<(), String> {
        let mut request = Vec::new();
        let mut number = |number: usize| request.extend((number as u32).to_le_bytes());
        number(kernel.len());
        request.extend(kernel.bytes());
        let mut number = |number: usize| request.extend((number as u32).to_le_bytes());
        number(groups);
        number(arguments.len());
        for argument in arguments {
            match *argument {
                Value::Array(array) => [0, array].map(&mut number).len(),
                Value::Word(word) => [1, word as usize].map(&mut number).len(),
                Value::Wide(wide) => {
                    [2, wide as u32 as usize, (wide >> 32) as usize].map(&mut number).len()
                }
            };
        }
        number(arrays.len());
        for array in arrays.iter() {
            request.extend((array.len() as u32).to_le_bytes());
            request.extend(array);
        }
        let sent = self.child.stdin.as_mut().unwrap().write_all(&request);
        let answer = self.child.stdout.as_mut().unwrap();
        let answered =
            sent.and_then(|()| arrays.iter_mut().try_for_each(|array| answer.read_exact(array)));
        answered.map_err(|error| {
            // the sanitizer's report says more than that the pipe is closed
            let mut report = String::new();
            let _ = self.child.stderr.take().unwrap().read_to_string(&mut report);
            format!("{error}: {report}")
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Runs `kernel` in `process`, which gets copies of the arrays that it is called with.
fn launch(
    process: &mut Process,
    kernel: Kernel,
    groups: usize,
    arguments: &[Argument],
    arrays: &mut Arrays,
) -> Result<(), String> {
    let mut slots = Vec::new();
    let values: Vec<Value> = arguments
        .iter()
        .map(|argument| match *argument {
            Argument::Slot(slot) => {
                slots.push(slot);
                Value::Array(slots.len() - 1)
            }
            Argument::U32(word) => Value::Word(word),
            Argument::U64(wide) => Value::Wide(wide),
        })
        .collect();
    let mut sent: Vec<Vec<u8>> = slots.iter().map(|slot: &Slot| arrays[slot].clone()).collect();
    process.run(kernel.name(), groups, &values, &mut sent)?;
    arrays.extend(slots.into_iter().zip(sent));
    Ok(())
}
