//! A dataset as it is asked for: `NAME` or `NAME:CHOICE=VALUE,CHOICE=VALUE`.

use std::str::FromStr;

use crate::build::{BuildError, Cost, RECIPES, Recipe, Sameness};

/// Something about a recipe that may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// What it is chosen by.
    pub name: &'static str,
    /// What it changes.
    pub about: &'static str,
    /// What is chosen where nothing is.
    pub standard: &'static str,
    /// What may be chosen.
    pub(super) allowed: Allowed,
}

/// Values of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Allowed {
    /// A whole number from the first to the second.
    Number(u64, u64),
    /// One of these.
    Word(&'static [&'static str]),
}

impl Allowed {
    fn allows(self, value: &str) -> bool {
        match self {
            Self::Number(least, most) => {
                value.parse::<u64>().is_ok_and(|number| (least..=most).contains(&number))
            }
            Self::Word(words) => words.contains(&value),
        }
    }

    fn expectation(self) -> String {
        match self {
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Word(words) => words.join(" or "),
        }
    }
}

impl Choice {
    /// Of a recipe that makes one file.
    pub(super) const fn length(least: u64) -> Self {
        Self {
            name: "bytes",
            about: "length of the file",
            standard: "1073741824",
            allowed: Allowed::Number(least, 1 << 50),
        }
    }

    pub(super) const fn seed(standard: &'static str) -> Self {
        let allowed = Allowed::Number(0, u64::MAX);
        Self { name: "seed", about: "of the random bytes", standard, allowed }
    }

    /// What may be chosen, in words.
    pub fn expectation(&self) -> String {
        self.allowed.expectation()
    }
}

/// A value for each choice of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices(Vec<(&'static str, String)>);

impl Choices {
    /// The word chosen.
    ///
    /// # Panics
    ///
    /// If the recipe has no such choice.
    pub(super) fn word(&self, name: &str) -> &str {
        let choice = self.0.iter().find(|(known, _)| *known == name);
        &choice.unwrap_or_else(|| panic!("a recipe asks for its choice '{name}'")).1
    }

    /// The number chosen, where only numbers are allowed.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.word(name).parse().expect("numbers were checked when they were chosen")
    }
}

/// A recipe, and a value for each of its choices.
#[derive(Clone)]
pub struct Order {
    /// What is built.
    pub recipe: &'static Recipe,
    /// How.
    pub choices: Choices,
}

impl Order {
    /// Name of the folder that it is built in: the recipe's, and what was chosen otherwise than by
    /// default.
    pub fn folder(&self) -> String {
        let mut name = self.recipe.name.to_owned();
        for (choice, (_, value)) in self.recipe.choices.iter().zip(&self.choices.0) {
            if value != choice.standard {
                name.push_str(&format!("-{}-{value}", choice.name));
            }
        }
        name
    }

    /// What building it takes.
    pub fn cost(&self) -> Cost {
        (self.recipe.cost)(&self.choices)
    }

    /// The digest that it must have, if one was recorded for these choices.
    pub fn digest(&self) -> Option<&'static str> {
        match self.recipe.sameness {
            Sameness::Bytes(digest) if self.folder() == self.recipe.name => Some(digest),
            _ => None,
        }
    }
}

impl FromStr for Order {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        let (name, chosen) = text.split_once(':').unwrap_or((text, ""));
        let recipe = RECIPES.iter().find(|recipe| recipe.name == name);
        let Some(&recipe) = recipe else {
            return Err(BuildError::Unknown { name: name.to_owned(), nearest: nearest(name) });
        };
        let mut values: Vec<(&'static str, String)> =
            recipe.choices.iter().map(|choice| (choice.name, choice.standard.to_owned())).collect();
        for part in chosen.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let refused = |expected: String| BuildError::Choice {
                name: recipe.name,
                choice: part.to_owned(),
                expected,
            };
            let place = recipe.choices.iter().position(|choice| choice.name == key);
            let Some(place) = place else {
                let known: Vec<&str> = recipe.choices.iter().map(|choice| choice.name).collect();
                return Err(refused(match known.is_empty() {
                    true => "none at all".into(),
                    false => format!("one of {}", known.join(", ")),
                }));
            };
            let allowed = recipe.choices[place].allowed;
            if !allowed.allows(value) {
                return Err(refused(format!("{key} as {}", allowed.expectation())));
            }
            values[place].1 = value.to_owned();
        }
        Ok(Self { recipe, choices: Choices(values) })
    }
}

/// Names that need at most three letters changed to be `name`, the nearest first; all names if
/// there are none.
fn nearest(name: &str) -> Vec<&'static str> {
    let mut near: Vec<(usize, &'static str)> = RECIPES
        .iter()
        .map(|recipe| (distance(name, recipe.name), recipe.name))
        .filter(|&(distance, known)| distance <= 3.min(known.len() - 1))
        .collect();
    near.sort();
    if near.is_empty() {
        return RECIPES.iter().map(|recipe| recipe.name).collect();
    }
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Letters to put in, take out or change to make one of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in b.bytes().enumerate() {
            let changed = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Order>().err().unwrap().to_string()
    }

    #[test]
    fn a_name_alone_is_the_standard_and_choices_name_the_folder() {
        let order: Order = "series".parse().unwrap();
        assert_eq!(order.folder(), "series");
        assert!(order.digest().is_some());
        let order: Order = "series:edits=5,kind=overwrite,versions=10".parse().unwrap();
        assert_eq!(order.folder(), "series-edits-5-kind-overwrite");
        assert_eq!(order.choices.number("edits"), 5);
        assert_eq!(order.digest(), None, "recorded for the standard choices alone");
    }

    #[test]
    fn an_unknown_name_is_told_the_nearest() {
        assert_eq!(error("typscript"), "no dataset 'typscript', expected one like typescript");
        assert!(error("radn").starts_with("no dataset 'radn', expected one like rand"));
        assert!(error("something else").contains("kubernetes"));
        assert!(error("").contains("kubernetes"));
    }

    #[test]
    fn a_choice_that_there_is_not_is_told_those_that_there_are() {
        assert!(error("series:edit=5").contains("one of versions, bytes, edits, kind"));
        assert!(error("series:edits=-1").contains("edits as a whole number from"));
        assert!(error("series:edits").contains("edits as a whole number from"));
        assert!(error("series:kind=move").contains("kind as insert-delete or insert"));
        assert!(
            error("typescript:x=1").contains("one of count")
                || error("typescript:x=1").contains("none")
        );
    }

    #[test]
    fn distances_are_those_of_single_changes() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "axc", 1),
            ("abc", "bc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
