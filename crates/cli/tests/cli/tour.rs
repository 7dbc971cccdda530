//! The picture of a terminal in README.md, docs/tour.svg. The test holds it to what the commands print now;
//! with `ONEFOLD_WRITE_TOUR=1` it draws the picture anew.

use std::env;
use std::fs;
use std::path::Path;

use onefold_testkit::text;

use crate::lab::Lab;

/// What happens before a command.
type Prepare = fn(&Lab);

/// What is typed, and what happens before it.
const TOUR: [(&str, Prepare); 5] = [
    ("backup --init --no-encryption --repo backup --host laptop project", write_project),
    ("backup --repo backup --host laptop project", copy_project),
    ("snapshots --repo backup", |_| {}),
    ("check --repo backup --read-data", |_| {}),
    ("restore --repo backup latest --target restored", |_| {}),
];

/// Pixels that a character and a line take, and what is left at each side.
const CHARACTER: f64 = 8.43;
const LINE: usize = 20;
const MARGIN: usize = 18;

fn write_project(lab: &Lab) {
    for number in 0..40 {
        lab.write(format!("project/{number:02}.txt"), text(number, 30_000));
    }
    lab.settle();
}

/// The same files under other names, and a changed one.
fn copy_project(lab: &Lab) {
    for number in 0..40 {
        lab.write(format!("project/copy/{number:02}.txt"), text(number, 30_000));
    }
    lab.write("project/00.txt", [text(0, 30_000), b"one line more\n".to_vec()].concat());
    lab.settle();
}

/// The lines of the terminal, without what is of this machine and this moment alone.
fn lines() -> Vec<String> {
    let lab = Lab::new();
    let mut lines = Vec::new();
    for (line, prepare) in TOUR {
        prepare(&lab);
        let ran = lab.ok(line);
        lines.push(format!("$ onefold {line}"));
        let here = lab.path("").canonicalize().unwrap();
        let here = here.to_str().unwrap().trim_end_matches('/');
        let printed = ran.stderr.lines().chain(ran.stdout.lines());
        lines.extend(printed.map(|line| line.replace(here, "/home/me")));
        lines.push(String::new());
    }
    lines.pop();
    lines
}

fn drawn(lines: &[String]) -> String {
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (longest as f64 * CHARACTER) as usize + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"Two backups, a check and a restore in a terminal\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#16191d\"/>\n"
    );
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let colour = if line.starts_with('$') { "#8fd694" } else { "#d8dee6" };
        let y = MARGIN + number * LINE + 14;
        let text = line.replace('&', "&amp;").replace('<', "&lt;");
        svg.push_str(&format!(
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\" xml:space=\"preserve\">{text}</text>\n"
        ));
    }
    svg + "</svg>\n"
}

/// `svg` without numbers: times, identities and what threads that ran in another order stored.
fn shape(svg: &str) -> String {
    let texts = svg.lines().filter(|line| line.starts_with("<text"));
    let words = texts.flat_map(|line| {
        let text = line.split('>').nth(1).unwrap_or("").trim_end_matches("</text").to_owned();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let is_number = |word: &str| word.chars().any(|one| one.is_ascii_digit());
    words.map(|word| if is_number(&word) { "#".into() } else { word }).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_picture_of_a_terminal_shows_what_the_commands_print() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.svg");
    let made = drawn(&lines());
    if env::var_os("ONEFOLD_WRITE_TOUR").is_some() {
        fs::write(&place, &made).unwrap();
    }
    let kept = fs::read_to_string(&place).unwrap();
    assert_eq!(shape(&made), shape(&kept), "ONEFOLD_WRITE_TOUR=1 draws the picture anew");
}
