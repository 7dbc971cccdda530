//! Builds a dataset to measure on.
//!
//!     cargo run --release -p onefold-bench --example dataset -- typescript DIR
//!     cargo run --release -p onefold-bench --example dataset -- roots DIR COUNT
//!     cargo run --release -p onefold-bench --example dataset -- series DIR EDITS insert|overwrite

use std::path::Path;

use anyhow::{Context, Result, bail};
use onefold_bench::{root_file_systems, typescript, version_series};

/// The paper's series: ten versions, of 500 MB there; a tenth of it here.
const VERSIONS: usize = 10;
const VERSION_BYTES: usize = 50_000_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().with_context(|| text.to_owned());
    match arguments[..] {
        ["typescript", dir] => typescript(Path::new(dir)),
        ["roots", dir, count] => root_file_systems(Path::new(dir), number(count)?),
        ["series", dir, edits, kind @ ("insert" | "overwrite")] => {
            let overwrite = kind == "overwrite";
            version_series(Path::new(dir), VERSIONS, VERSION_BYTES, number(edits)?, overwrite)
        }
        _ => {
            bail!("expected: typescript DIR | roots DIR COUNT | series DIR EDITS insert|overwrite")
        }
    }
}
