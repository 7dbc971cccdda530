//! A page of HTML without any reference to elsewhere: light and dark, wide and narrow.

use anyhow::{Context, Result};
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use super::plot::{COLOURS, code};

const TEMPLATE: &str = include_str!("page.html");

/// All that is on a page. Texts are plain: whatever HTML they seem to have is shown as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Of the page and its first heading.
    pub title: String,
    /// Paragraphs below the title.
    pub lead: Vec<String>,
    /// What follows.
    pub sections: Vec<Section>,
}

/// Something under a heading.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Whether it is a part of the section before it.
    pub is_part: bool,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Tables and figures.
    pub blocks: Vec<Block>,
}

/// What a section is made of.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Can be sorted by each column.
    Table(Table),
    /// At the width of a phone; they may stand side by side.
    Figures(Vec<Figure>),
    /// Small ones.
    SmallFigures(Vec<Figure>),
    /// One over the whole width.
    WideFigure(WideFigure),
    /// Some of which one at a time is shown.
    Choice(Choice),
    /// What is shown if asked for.
    Folded(Folded),
}

/// Blocks of which one set at a time is shown, without a script.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// What is chosen.
    pub label: String,
    /// What stands on each button, and what it shows.
    pub options: Vec<(String, Vec<Block>)>,
    /// The number of the one that is shown first.
    pub first: usize,
}

/// Blocks under a line that opens them.
#[derive(Clone, Debug, Serialize)]
pub struct Folded {
    /// The line.
    pub summary: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// What follows.
    pub blocks: Vec<Block>,
}

/// Rows under columns.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// From left to right.
    pub columns: Vec<Column>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// The head of a column.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Short.
    pub name: String,
    /// What is shown of it where the mouse rests.
    pub explanation: String,
    /// Whether its cells are set to the right.
    pub is_number: bool,
}

/// What stands in a table.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// As it is shown.
    pub text: String,
    /// What it is sorted by, if that is no text.
    pub number: Option<f64>,
}

/// A plot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// What is to be seen, in a sentence.
    pub caption: String,
    /// An `svg` element as the functions of this module make it. Not escaped.
    pub svg: String,
    /// Names, and the colours that stand for them.
    pub legend: Vec<(String, usize)>,
}

/// A plot for a screen, and the same for a phone.
#[derive(Clone, Debug, Serialize)]
pub struct WideFigure {
    /// What is to be seen.
    pub caption: String,
    /// An `svg` element. Not escaped.
    pub wide: String,
    /// The same in less width. Not escaped.
    pub narrow: String,
}

impl Column {
    /// Of numbers.
    pub fn number(name: &str, explanation: &str) -> Self {
        Self { name: name.into(), explanation: explanation.into(), is_number: true }
    }

    /// Of words.
    pub fn text(name: &str, explanation: &str) -> Self {
        Self { is_number: false, ..Self::number(name, explanation) }
    }
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), number: None }
    }

    /// A number with so many places; nothing if there is none.
    pub fn number(number: impl Into<Option<f64>>, places: usize) -> Self {
        let number = number.into();
        let text = number.map_or(String::new(), |number| format!("{number:.places$}"));
        Self { text, number }
    }
}

impl Page {
    /// The page.
    pub fn html(&self) -> Result<String> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.add_template("page", TEMPLATE).context("the template")?;
        let colours: Vec<String> = (0..COLOURS).map(|colour| code(Some(colour))).collect();
        let template = environment.get_template("page").context("the template")?;
        template.render(context! { page => self, colours }).context("the template")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shown_and_not_run() {
        let evil = "<script>alert('x')</script>&\"";
        let figure = Figure {
            caption: evil.into(),
            svg: "<svg></svg>".into(),
            legend: vec![(evil.into(), 1)],
        };
        let wide = WideFigure {
            caption: evil.into(),
            wide: "<svg></svg>".into(),
            narrow: "<svg></svg>".into(),
        };
        let folded = Folded {
            summary: evil.into(),
            text: vec![evil.into()],
            blocks: vec![Block::WideFigure(wide)],
        };
        let choice = Choice {
            label: evil.into(),
            options: vec![(evil.into(), vec![Block::Folded(folded)])],
            first: 0,
        };
        let page = Page {
            title: evil.into(),
            lead: vec![evil.into()],
            sections: vec![Section {
                heading: evil.into(),
                is_part: false,
                text: vec![evil.into()],
                blocks: vec![
                    Block::Table(Table {
                        columns: vec![Column::text(evil, evil)],
                        rows: vec![vec![Cell::text(evil)]],
                    }),
                    Block::Figures(vec![figure]),
                    Block::Choice(choice),
                ],
            }],
        };
        let html = page.html().unwrap();
        assert!(!html.contains("<script>alert"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;alert").count(), 16, "{html}");
        assert_eq!(html.matches("<svg></svg>").count(), 3);
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        let page = Page { title: "t".into(), lead: Vec::new(), sections: Vec::new() };
        let html = page.html().unwrap();
        for reference in ["http:", "https:", "//", "src=", "@import", "url(", "<link"] {
            let found = html
                .lines()
                .find(|line| line.contains(reference) && !line.trim().starts_with("//"));
            assert_eq!(found, None, "{reference}");
        }
    }
}
