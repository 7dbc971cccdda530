//! Where the names of dots stand, so that none lies on a dot, a line or another name.

use super::plot::{LETTER, escaped};
use super::scatter::RADIUS;

/// In pixels, from the left and from the top.
pub(super) type Point = (f64, f64);

/// A line that lies or stands.
pub(super) type Segment = (Point, Point);

/// Half the height of a name in pixels.
const HALF_HEIGHT: f64 = 7.0;

/// Pixels from the middle of a line to a name.
const GAP: f64 = 3.0;

/// Pixels from left to right and from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    pub(super) fn around((x, y): Point, half_width: f64, half_height: f64) -> Self {
        let (left, right) = (x - half_width, x + half_width);
        Self { left, top: y - half_height, right, bottom: y + half_height }
    }

    /// What a line covers, with some room.
    pub(super) fn of(((x, y), (to_x, to_y)): Segment) -> Self {
        let (left, right) = (x.min(to_x) - GAP, x.max(to_x) + GAP);
        Self { left, top: y.min(to_y) - GAP, right, bottom: y.max(to_y) + GAP }
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        let beside = self.right <= other.left || other.right <= self.left;
        let above = self.bottom <= other.top || other.bottom <= self.top;
        !beside && !above
    }

    pub(super) fn holds(&self, other: &Self) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && other.right <= self.right
            && other.bottom <= self.bottom
    }
}

/// The pixels that a text takes at most, at the size of names.
pub(super) fn width_of(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// The name of a bound above its line, from `least` on.
pub(super) fn of_limit(name: &str, (x, y): Point, least: f64, frame: &Rect) -> String {
    let half = width_of(name) / 2.0;
    text_at(name, (x.min(frame.right - half).max(least + half), y - 10.0), "limit")
}

/// The names of `dots` beside them where there is room, those of the best first.
pub(super) fn beside(dots: &[(&str, Point, bool)], lines: &[Segment], frame: &Rect) -> String {
    let mut taken: Vec<Rect> = lines.iter().copied().map(Rect::of).collect();
    taken.extend(dots.iter().map(|(_, at, _)| Rect::around(*at, RADIUS + 1.0, RADIUS + 1.0)));
    let mut names = String::new();
    let best = dots.iter().filter(|(.., is_best)| *is_best);
    for &(name, at, is_best) in best.chain(dots.iter().filter(|(.., is_best)| !is_best)) {
        let half = width_of(name) / 2.0;
        let is_free = |middle: &Point| {
            let rect = Rect::around(*middle, half, HALF_HEIGHT);
            frame.holds(&rect) && !taken.iter().any(|other| other.meets(&rect))
        };
        if let Some(middle) = around(at, half, is_best).find(is_free) {
            names.push_str(&text_at(name, middle, "name"));
            taken.push(Rect::around(middle, half, HALF_HEIGHT));
        }
    }
    names
}

/// Where the middle of a name may be, best first: next to the dot, then further out if the dot is one
/// of the best.
fn around((x, y): Point, half: f64, is_best: bool) -> impl Iterator<Item = Point> {
    let distances = if is_best { &[0.0, 8.0, 16.0][..] } else { &[0.0] };
    distances.iter().flat_map(move |further| {
        let (aside, up) = (half + RADIUS + 5.0 + further, RADIUS + HALF_HEIGHT + 2.0 + further);
        [
            (x + aside, y),
            (x + aside, y - up),
            (x, y - up),
            (x + aside, y + up),
            (x - aside, y),
            (x, y + up),
            (x - aside, y + up),
            (x - aside, y - up),
        ]
    })
}

fn text_at(text: &str, (x, y): Point, class: &str) -> String {
    let text = escaped(text);
    format!(
        r##"<text class="{class}" x="{x}" y="{y}" dy="0.35em" text-anchor="middle" font-size="12" fill="#101010">{text}</text>
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Rect = Rect { left: 0.0, top: 0.0, right: 300.0, bottom: 200.0 };

    #[test]
    fn a_name_avoids_what_lies_at_its_side() {
        let dots = [("mincdc", (150.0, 100.0), true)];
        let free = beside(&dots, &[], &FRAME);
        let at_its_side = r#"x="181.9" y="100""#;
        assert!(free.contains(at_its_side), "{free}");
        let line = ((170.0, 90.0), (170.0, 110.0));
        let moved = beside(&dots, &[line], &FRAME);
        assert!(moved.contains("mincdc") && !moved.contains(at_its_side), "{moved}");
    }

    #[test]
    fn where_there_is_no_room_there_is_no_name() {
        let crowd: Vec<(&str, Point, bool)> = (0..400)
            .map(|i| ("gear", (f64::from(i % 20) * 15.0, f64::from(i / 20) * 10.0), false))
            .collect();
        assert_eq!(beside(&crowd, &[], &FRAME), "");
    }

    #[test]
    fn the_best_have_their_names_first() {
        let place = (150.0, 100.0);
        let dots = [("one", place, false), ("two", place, true)];
        let names = beside(&dots, &[], &FRAME);
        assert!(names.find("two") < names.find("one"), "{names}");
    }
}
