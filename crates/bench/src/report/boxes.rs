//! Where the texts and lines of an SVG are, for tests of what can be read.

use super::names::{Point, Rect};

/// How wide a letter is in the mean of a word, in units of its font's size: that of a wide font.
const LETTER: f64 = 0.6;

/// Checks that all texts of `svg` are within it, and that those which are seen without pointing at
/// anything are not under lines, bars or one another.
///
/// # Panics
/// If one is.
pub(super) fn check_svg(svg: &str) {
    let tags: Vec<Tag> = Tag::all(svg);
    let frame = Rect {
        left: 0.0,
        top: 0.0,
        right: tags[0].number("width").unwrap(),
        bottom: tags[0].number("height").unwrap(),
    };
    for (text, rect) in tags.iter().filter_map(Tag::text) {
        assert!(frame.holds(&rect), "'{text}' is cut off: {rect:?} of {frame:?}");
    }
    let seen = without_tips(svg);
    let tags = Tag::all(&seen);
    let texts: Vec<(&str, Rect)> = tags.iter().filter_map(Tag::text).collect();
    let shapes: Vec<Vec<Rect>> = tags.iter().map(Tag::covers).collect();
    for (i, (text, rect)) in texts.iter().enumerate() {
        for (other, place) in &texts[..i] {
            assert!(!place.meets(rect), "'{text}' and '{other}' meet: {rect:?} {place:?}\n{svg}");
        }
        let under = shapes.iter().flatten().find(|shape| shape.meets(rect));
        assert_eq!(under, None, "'{text}' at {rect:?} is under a line\n{svg}");
    }
}

/// `svg` without what is seen only where somebody points.
fn without_tips(svg: &str) -> String {
    let mut parts = svg.split(r#"<g class="dot""#);
    let first = parts.next().unwrap().to_owned();
    first
        + &parts
            .filter_map(|part| part.split_once("</g></g>"))
            .map(|(_, rest)| rest)
            .collect::<String>()
}

struct Tag<'a> {
    name: &'a str,
    tag: &'a str,
    content: &'a str,
}

impl<'a> Tag<'a> {
    fn all(svg: &'a str) -> Vec<Self> {
        let tags = svg.split('<').filter_map(|part| {
            let (tag, content) = part.split_once('>')?;
            let name = tag.split(' ').next()?;
            Some(Self { name, tag, content: content.trim() })
        });
        tags.collect()
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.tag.split_once(&format!(" {name}=\""))?;
        value.split('"').next()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.attribute(name)?.parse().ok()
    }

    fn text(&self) -> Option<(&'a str, Rect)> {
        if self.name != "text" || self.content.is_empty() {
            return None;
        }
        let (x, y) = (self.number("x")?, self.number("y")?);
        let size = self.number("font-size")?;
        let letters = self.content.replace("&lt;", "<").chars().count();
        let width = LETTER * size * letters as f64;
        let left = match self.attribute("text-anchor") {
            Some("middle") => x - width / 2.0,
            Some("end") => x - width,
            _ => x,
        };
        // an ex is half an em
        let base = y + size
            * match self.attribute("dy") {
                None => 0.0,
                Some(dy) => match dy.strip_suffix("em") {
                    Some(em) => em.parse::<f64>().unwrap(),
                    None => dy.strip_suffix("ex").unwrap().parse::<f64>().unwrap() / 2.0,
                },
            };
        let (top, bottom) = (base - 0.75 * size, base + 0.2 * size);
        Some((self.content, Rect { left, top, right: left + width, bottom }))
    }

    /// What it draws that a text must not be under; a line in small pieces. A grid is drawn before
    /// all texts, and is no harm to them.
    fn covers(&self) -> Vec<Rect> {
        let number = |name| self.number(name).unwrap();
        if [self.attribute("stroke"), self.attribute("fill")].contains(&Some("#202020")) {
            return Vec::new();
        }
        match self.name {
            "rect" => {
                let (left, top) = (number("x"), number("y"));
                let (right, bottom) = (left + number("width"), top + number("height"));
                vec![Rect { left, top, right, bottom }]
            }
            "circle" => vec![Rect::around((number("cx"), number("cy")), number("r"), number("r"))],
            "line" => pieces((number("x1"), number("y1")), (number("x2"), number("y2"))),
            "polyline" => {
                let points: Vec<Point> = self
                    .attribute("points")
                    .unwrap()
                    .split(' ')
                    .filter_map(|point| point.split_once(','))
                    .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                    .collect();
                points.windows(2).flat_map(|ends| pieces(ends[0], ends[1])).collect()
            }
            "path" => {
                let (start, to) = self.attribute("d").unwrap()[1..].split_once('H').unwrap();
                let (x, y) = start.split_once(' ').unwrap();
                let (x, y, to) = (x.parse().unwrap(), y.parse().unwrap(), to.parse().unwrap());
                pieces((x, y), (to, y))
            }
            _ => Vec::new(),
        }
    }
}

/// Points of a line, two pixels wide.
fn pieces((x, y): Point, (to_x, to_y): Point) -> Vec<Rect> {
    let steps = (to_x - x).abs().max((to_y - y).abs()).ceil().max(1.0);
    let at = |step: u32| {
        let share = f64::from(step) / steps;
        Rect::around((x + share * (to_x - x), y + share * (to_y - y)), 1.0, 1.0)
    };
    (0..=steps as u32).map(at).collect()
}

#[test]
fn a_text_that_is_cut_off_or_under_a_line_is_found() {
    let check = |inside: &str| {
        let svg = format!(r#"<svg width="100" height="50">{inside}</svg>"#);
        std::panic::catch_unwind(|| check_svg(&svg)).is_ok()
    };
    let text = r#"<text x="10" y="20" font-size="10">four</text>"#;
    assert!(check(text));
    assert!(!check(&text.replace("four", "a long name of nobody")));
    assert!(!check(&text.replace("x=\"10\"", "x=\"10\" text-anchor=\"middle\"")));
    assert!(!check(&format!("{text}{}", text.replace("\"10\" y", "\"30\" y"))));
    let line = r##"<line stroke="#303030" x1="20" y1="0" x2="20" y2="50"/>"##;
    assert!(!check(&format!("{line}{text}")));
    assert!(check(&format!("{text}{}", line.replace("#303030", "#202020"))));
    assert!(!check(&format!(r##"{text}<polyline stroke="#400001" points="0,0 40,40 "/>"##)));
    assert!(!check(&format!(r#"{text}<rect x="5" y="5" width="20" height="20"/>"#)));
    assert!(!check(&format!(r##"{text}<path d="M0 18H90" stroke="#400001"/>"##)));
    assert!(!check(&format!(r#"{text}<circle cx="36" cy="17" r="5"/>"#)));
    assert!(check(&format!(
        r#"{text}<g class="dot"><rect x="5" y="5" width="20" height="20"/></g></g>"#
    )));
}
