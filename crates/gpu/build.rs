//! Takes in machine code that was compiled before: `ONEFOLD_CUBINS` names a folder with `sm_80.cubin` and so on, which
//! `cargo xtask gpu-kernels --cubins FOLDER` writes. Without it the driver compiles the kernels.

#![allow(clippy::disallowed_methods, reason = "writes to cargo's own folder")]

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The major numbers of compute capabilities; code for N.0 runs on every N.x.
const GENERATIONS: [u32; 3] = [8, 9, 10];

fn main() {
    println!("cargo::rerun-if-env-changed=ONEFOLD_CUBINS");
    let mut table = String::from("&[");
    if let Some(folder) = env::var_os("ONEFOLD_CUBINS").map(PathBuf::from) {
        assert!(
            folder.is_absolute(),
            "ONEFOLD_CUBINS={}, expected an absolute path",
            folder.display()
        );
        for generation in GENERATIONS {
            let file = folder.join(format!("sm_{generation}0.cubin"));
            println!("cargo::rerun-if-changed={}", file.display());
            write!(table, "({generation}, {}),", code(&file)).expect("a text takes all");
        }
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it"));
    fs::write(out.join("cubins.rs"), table).expect("cargo's own folder can be written");
}

/// An expression of the bytes in `file`, aligned, since a driver may read words of them.
fn code(file: &Path) -> String {
    format!(
        "{{ #[repr(C, align(16))] struct Aligned<T: ?Sized>(T); \
         const CODE: &Aligned<[u8]> = &Aligned(*include_bytes!({file:?})); &CODE.0 }}"
    )
}
