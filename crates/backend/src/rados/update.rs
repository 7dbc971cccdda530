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
    /// Guard: an entry of the omap equals `value`. An absent entry is an empty value. The engine knows no
    /// [`Compare::Different`] here.
    Omap {
        /// The key.
        key: String,
        /// The given value.
        value: Bytes,
    },
    /// Makes the object; refused if it exists.
    Create,
    /// Writes at the end. Not in a pool with an alignment if the length is no multiple of it.
    Append(Bytes),
    /// Writes at an offset in bytes. What lies between the end and the offset becomes zeros. In a pool
    /// with an alignment only at the end, as an append.
    Write(u64, Bytes),
    /// Sets the length in bytes; what it adds is zeros. Not in a pool with an alignment.
    Truncate(u64),
    /// Sets an extended attribute.
    SetXattr(String, Bytes),
    /// Adds or replaces entries of the omap.
    SetOmap(Vec<(String, Bytes)>),
    /// Removes entries of the omap, those that are there.
    RemoveOmap(Vec<String>),
    /// Removes the object.
    Remove,
}

impl Step {
    /// Whether it only guards.
    pub fn is_guard(&self) -> bool {
        matches!(self, Self::Exists | Self::Version(_) | Self::Xattr { .. } | Self::Omap { .. })
    }
}

/// Steps of one object that are applied together or not at all.
///
/// The first one makes the object or requires it: no update makes an object by accident. Guards follow,
/// then at least one change; a removal is the last. Bytes to be written are not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    steps: Vec<Step>,
    is_for_full_pool: bool,
}

impl Update {
    /// One that makes the object.
    pub fn creating() -> Self {
        Self { steps: vec![Step::Create], is_for_full_pool: false }
    }

    /// One that requires that the object exists.
    pub fn existing() -> Self {
        Self { steps: vec![Step::Exists], is_for_full_pool: false }
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

    /// Lets it be applied also in a full pool. Without this the engine refuses there what adds an object or
    /// bytes; all else is applied in any case. For what gives room back, and what a take-over needs.
    #[must_use]
    pub fn even_if_full(mut self) -> Self {
        self.is_for_full_pool = true;
        self
    }

    /// Whether it is to be applied also in a full pool.
    pub fn is_for_full_pool(&self) -> bool {
        self.is_for_full_pool
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Panics unless the steps are in the order that an update must have.
    #[track_caller]
    pub(super) fn expect_in_order(&self) {
        let (first, rest) = self.steps.split_first().expect("there is a first step");
        let guards = rest.iter().take_while(|step| step.is_guard()).count();
        let changes = &rest[guards..];
        let is_making = *first == Step::Create;
        assert!(is_making || !changes.is_empty(), "an update without a change: {self:?}");
        assert!(!is_making || guards == 0, "a guard of an object that is made: {self:?}");
        for (at, change) in changes.iter().enumerate() {
            let is_in_place = match change {
                Step::Append(bytes) | Step::Write(_, bytes) => !bytes.is_empty(),
                Step::Remove => !is_making && at + 1 == changes.len(),
                Step::Truncate(_) | Step::SetXattr(..) => true,
                Step::SetOmap(entries) => !entries.is_empty(),
                Step::RemoveOmap(keys) => !keys.is_empty(),
                Step::Create
                | Step::Exists
                | Step::Version(_)
                | Step::Xattr { .. }
                | Step::Omap { .. } => false,
            };
            assert!(is_in_place, "change {at} is empty or out of place: {self:?}");
        }
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
