//! `cargo xtask`; the commands are in the library, of which the laboratory takes a part.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::run()
}
