//! Help that wraps to the terminal.

/// `command` and those below it with paragraphs of help as long lines, which clap wraps.
pub fn with_joined_lines(command: clap::Command) -> clap::Command {
    let joined = command.get_after_help().map(|help| join_lines(&help.to_string()));
    let command = match joined {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.mut_subcommands(with_joined_lines)
}

/// `text` with each paragraph in one line. Indented lines, as examples are, stay as they are.
fn join_lines(text: &str) -> String {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut joined = String::new();
    let mut before = "";
    for line in text.lines() {
        if !joined.is_empty() {
            // what follows a colon begins a list of its own
            let goes_on = is_prose(before) && is_prose(line) && !before.ends_with(':');
            joined.push(if goes_on { ' ' } else { '\n' });
        }
        joined.push_str(line);
        before = line;
    }
    joined
}
