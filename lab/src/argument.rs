//! The arguments of programs that measure: names, each with a value behind it.

use std::env;

use anyhow::{Context, Error, Result, anyhow};

/// A name, and the value behind it.
pub struct Argument {
    /// With its dashes.
    pub name: String,
    /// As it was given.
    pub value: String,
}

impl Argument {
    /// Those of this process; an error if the last name has no value.
    pub fn all() -> Result<Vec<Self>> {
        Self::pair(env::args().skip(1))
    }

    fn pair(mut words: impl Iterator<Item = String>) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name} needs a value"))?;
            found.push(Self { name, value });
        }
        Ok(found)
    }

    /// The value, if it is a whole number.
    pub fn number(&self) -> Result<u64> {
        self.value.parse().with_context(|| format!("{} {}", self.name, self.value))
    }

    /// What to say if nobody knows the name.
    pub fn unknown(&self) -> Error {
        anyhow!("unknown argument {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(line: &str) -> Result<Vec<Argument>> {
        Argument::pair(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn each_name_has_the_value_behind_it() {
        let found = paired("--rounds 5 --out --odd").unwrap();
        let found: Vec<_> = found.iter().map(|one| (&one.name[..], &one.value[..])).collect();
        assert_eq!(found, [("--rounds", "5"), ("--out", "--odd")]);
        let error = paired("--rounds 5 --out").err().expect("nothing is behind it");
        assert_eq!(error.to_string(), "--out needs a value");
    }

    #[test]
    fn what_is_no_number_is_named() {
        let found = paired("--rounds 5 --depth -1").unwrap();
        assert_eq!(found[0].number().unwrap(), 5);
        assert_eq!(found[1].number().unwrap_err().to_string(), "--depth -1");
        assert_eq!(found[1].unknown().to_string(), "unknown argument --depth");
    }
}
