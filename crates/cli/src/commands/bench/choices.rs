//! Lists of what is to be measured, as the user writes them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use onefold_cdc::{Algorithm, Kernel};

/// The word for every one of a list.
const ALL: &str = "all";

/// One word of a list: a name, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice<T> {
    All,
    One(T),
}

/// Reads the name of an algorithm, or `all`.
pub(super) fn algorithms() -> impl TypedValueParser<Value = Choice<Algorithm>> {
    let names = Algorithm::ALL.iter().map(|algorithm| algorithm.name());
    PossibleValuesParser::new(names.chain([ALL])).try_map(|name| match &*name {
        ALL => Ok(Choice::All),
        name => name.parse::<Algorithm>().map(Choice::One),
    })
}

/// Reads the name of a kernel, or `all`.
pub(super) fn kernels() -> impl TypedValueParser<Value = Choice<Kernel>> {
    let names = Kernel::ALL.iter().map(|kernel| kernel.name());
    PossibleValuesParser::new(names.chain([ALL])).try_map(|name| match &*name {
        ALL => Ok(Choice::All),
        name => name.parse::<Kernel>().map(Choice::One),
    })
}

/// What was chosen of `all`, in the order of `all`.
pub(super) fn chosen<T: Copy + PartialEq>(choices: &[Choice<T>], all: &[T]) -> Vec<T> {
    let wanted = |one: &T| choices.contains(&Choice::All) || choices.contains(&Choice::One(*one));
    all.iter().copied().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_all_and_names_keep_their_order() {
        let list = [1, 2, 3];
        assert_eq!(chosen(&[Choice::One(3), Choice::One(1)], &list), [1, 3]);
        assert_eq!(chosen(&[Choice::One(3), Choice::All], &list), list);
        assert!(chosen(&[], &list).is_empty());
    }
}
