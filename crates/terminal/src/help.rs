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

/// What the commands below `above` lack: each says what it does and has an example with its whole name
/// in its own help, or, if `above_counts`, in that of the command above.
pub fn unhelpful(above: &clap::Command, path: &str, above_counts: bool) -> Vec<String> {
    let examples = |command: &clap::Command| {
        command.get_after_help().map(ToString::to_string).unwrap_or_default()
    };
    let mut lacks = Vec::new();
    for command in above.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = format!("{path} {}", command.get_name());
        if command.get_about().is_none() {
            lacks.push(format!("{path} says nothing of itself"));
        }
        let is_shown_above = above_counts && examples(above).contains(&path);
        if !is_shown_above && !examples(command).contains(&path) {
            lacks.push(format!("{path} gives no example"));
        }
        lacks.extend(unhelpful(command, &path, above_counts));
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn what_says_nothing_or_shows_nothing_is_named() {
        let good = Command::new("good").about("Is good").after_help("run good");
        let bad = Command::new("bad").subcommand(Command::new("worse").about("Is worse"));
        let all = Command::new("run").after_help("run bad").subcommands([good, bad]);
        let own = ["run bad says nothing of itself", "run bad gives no example"];
        let below = "run bad worse gives no example";
        assert_eq!(unhelpful(&all, "run", false), [own[0], own[1], below]);
        assert_eq!(unhelpful(&all, "run", true), [own[0], below]);
    }
}
