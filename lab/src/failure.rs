//! What is said of an error before the program ends.

use onefold_lab::build::BuildError;
use onefold_terminal::Console;

use crate::commands::trace::NotAlone;

/// Says what went wrong, why, and what can be done about it.
pub(crate) fn report(error: &anyhow::Error, console: &Console) {
    let mut told: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // those that an error before them quotes are left out
        if !told.iter().any(|before| before.contains(&text)) {
            let what = if told.is_empty() { "error" } else { "  caused by" };
            console.line(format_args!("{what}: {text}"));
            told.push(text);
        }
    }
    if let Some(hint) = hint(error) {
        console.line(format_args!("hint: {hint}"));
    }
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
