use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::skip;

/// Builds a driver of CUDA, with NVML, that runs the kernels of crates/gpu on the host, in `folder`, for a process with
/// this folder in `LD_LIBRARY_PATH`; `FAKE_CUDA` tells it what to do wrong. Skips and returns false where
/// there is no compiler.
pub fn build_fake_cuda(folder: &Path) -> bool {
    if Command::new("g++").arg("--version").output().is_err() {
        skip("g++ is not installed");
        return false;
    }
    let gpu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu");
    let library = folder.join("libcuda.so.1");
    let output = Command::new("g++")
        .args(["-std=c++17", "-O1", "-fno-strict-aliasing", "-pthread", "-fPIC", "-shared"])
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(gpu.join("kernels"))
        .arg("-I")
        .arg(gpu.join("tests"))
        .arg(gpu.join("tests/fake_cuda.cpp"))
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // the loader asks for the name without a number first
    symlink(&library, folder.join("libcuda.so")).unwrap();
    symlink(&library, folder.join("libnvidia-ml.so.1")).unwrap();
    true
}
