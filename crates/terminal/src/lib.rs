//! What commands share, whatever they do: the answer on standard output, all else on standard error,
//! errors, help, tables, counts, sizes and names.
//!
//! For the command `onefold` and for the laboratory, which is another program.

mod bar;
mod console;
pub mod count;
mod failure;
mod files;
mod help;
pub mod name;
mod output;
pub mod outputs;
pub mod ratio;
mod signals;
pub mod size;
pub mod table;

pub use bar::Bar;
pub use console::Console;
pub use failure::{Failure, ask_for_json, tell};
pub use files::most_files;
pub use help::{unhelpful, with_joined_lines};
pub use output::Output;
pub use signals::{say_stopping, stop_on_signal};
