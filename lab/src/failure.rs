//! What is said of an error before the program ends.

use onefold_lab::build::BuildError;
use onefold_terminal::{Console, Failure};

use crate::commands::trace::NotAlone;
use crate::exit::Exit;

/// Says what went wrong, why, and what can be done about it.
pub(crate) fn report(error: &anyhow::Error, console: &Console) {
    Failure::of(error, Exit::of(error).code(), hint(error)).say(console);
}

/// Says to programs what is wrong with the arguments.
pub(crate) fn report_misuse(answer: &clap::Error) {
    let console = Console::new(true, false, 0);
    Failure::of_misuse(answer, Exit::Fatal.code()).say(&console);
}

/// A way out, where one is known.
fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(unbuilt) = error.downcast_ref::<BuildError>() {
        return unbuilt.hint();
    }
    error.downcast_ref::<NotAlone>().map(|_| {
        "replay to the `onefold serve` that has it, by --nbd 'nbd+unix:///VOLUME?socket=PATH' or \
         --nbd nbd://HOST/VOLUME, or end that"
            .into()
    })
}
