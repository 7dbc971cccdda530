//! Guards and changes of one object.

use bytes::Bytes;

/// How a stored value must compare with the given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The stored value equals the given one.
    Equal,
    /// The stored value differs from the given one.
    Different,
    /// The given value is greater than the stored one, byte by byte.
    Greater,
}

/// A guard or a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Guard: the object exists.
    Exists,
    /// Guard: the object has this version.
    Version(u64),
    /// Guard: an extended attribute compares with `value`. An absent attribute is an empty value.
    Xattr {
        /// The attribute.
        name: String,
        /// How.
        is: Compare,
        /// The given value.
        value: Bytes,
    },
    /// Guard: an entry of the omap compares with `value`. An absent entry is an empty value.
    Omap {
        /// The key.
        key: String,
        /// How.
        is: Compare,
        /// The given value.
        value: Bytes,
    },
    /// Makes the object; refused if it exists. It must be the first step of its update, guards included.
    Create,
    /// Writes at the end.
    Append(Bytes),
    /// Writes at an offset in bytes. What lies between the end and the offset becomes zeros.
    Write(u64, Bytes),
    /// Sets the length in bytes.
    Truncate(u64),
    /// Sets an extended attribute.
    SetXattr(String, Bytes),
    /// Adds or replaces entries of the omap.
    SetOmap(Vec<(String, Bytes)>),
    /// Removes entries of the omap, those that are there.
    RemoveOmap(Vec<String>),
    /// Removes the object; refused if it does not exist. It must be the last step.
    Remove,
}

impl Step {
    /// Whether it only guards.
    pub fn is_guard(&self) -> bool {
        matches!(self, Self::Exists | Self::Version(_) | Self::Xattr { .. } | Self::Omap { .. })
    }
}

/// Steps of one object that are applied together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    steps: Vec<Step>,
}

impl Update {
    /// One that makes the object.
    pub fn creating() -> Self {
        Self { steps: vec![Step::Create] }
    }

    /// One that requires that the object exists.
    pub fn existing() -> Self {
        Self { steps: vec![Step::Exists] }
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds the guard that the attribute `name` equals `value`.
    #[must_use]
    pub fn expect(self, name: &str, value: impl Into<Bytes>) -> Self {
        self.then(Step::Xattr { name: name.to_owned(), is: Compare::Equal, value: value.into() })
    }

    /// Adds the guard that `value` is greater than the attribute `name`.
    #[must_use]
    pub fn expect_below(self, name: &str, value: impl Into<Bytes>) -> Self {
        self.then(Step::Xattr { name: name.to_owned(), is: Compare::Greater, value: value.into() })
    }

    /// Adds a change of an attribute.
    #[must_use]
    pub fn set(self, name: &str, value: impl Into<Bytes>) -> Self {
        self.then(Step::SetXattr(name.to_owned(), value.into()))
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The bytes that it writes.
    pub fn bytes(&self) -> u64 {
        let of = |step: &Step| match step {
            Step::Append(bytes) | Step::Write(_, bytes) | Step::SetXattr(_, bytes) => bytes.len(),
            Step::SetOmap(entries) => {
                entries.iter().map(|(key, value)| key.len() + value.len()).sum()
            }
            _ => 0,
        };
        self.steps.iter().map(|step| of(step) as u64).sum()
    }
}
