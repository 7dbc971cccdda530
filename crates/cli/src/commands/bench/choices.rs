//! Options that list algorithms, kernels and means.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use onefold_cdc::{Kernel, Scheme};
use onefold_terminal::size;

/// The word for all entries of a list, such as all algorithms.
const ALL: &str = "all";

/// The word for all presets.
const PRESETS: &str = "presets";

/// The smallest mean chunk size in bytes. A quarter of it, the usual minimum, has room for the window of a
/// rolling hash, and a chunk is longer than its entries in a repository.
const SMALLEST_MEAN: usize = 256;

/// One word of a list: a name, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice<T> {
    All,
    One(T),
}

/// One word of a list of chunkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemeChoice {
    /// All algorithms that a repository may have.
    All,
    Presets,
    One(Scheme),
}

impl SchemeChoice {
    fn takes(self, scheme: Scheme) -> bool {
        match self {
            Self::All => matches!(scheme, Scheme::Own(_)),
            Self::Presets => matches!(scheme, Scheme::Tool(_)),
            Self::One(one) => one == scheme,
        }
    }
}

/// Reads a mean chunk size in bytes.
pub(super) fn mean(text: &str) -> Result<usize, String> {
    let mean = size::parse(text)?;
    match mean < SMALLEST_MEAN {
        true => {
            Err(format!("{mean} bytes are too few for a mean, expected at least {SMALLEST_MEAN}"))
        }
        false => Ok(mean),
    }
}

/// Reads the name of an algorithm or preset, `all` or `presets`.
pub(super) fn schemes() -> impl TypedValueParser<Value = SchemeChoice> {
    let names = Scheme::all().map(Scheme::name).chain([ALL, PRESETS]);
    PossibleValuesParser::new(names).try_map(|name| match &*name {
        ALL => Ok(SchemeChoice::All),
        PRESETS => Ok(SchemeChoice::Presets),
        name => name.parse::<Scheme>().map(SchemeChoice::One),
    })
}

/// The chosen chunkers, in the order of `onefold algorithms`.
pub(super) fn chosen_schemes(choices: &[SchemeChoice]) -> Vec<Scheme> {
    Scheme::all().filter(|&scheme| choices.iter().any(|choice| choice.takes(scheme))).collect()
}

/// Reads the name of a kernel, or `all`.
pub(super) fn kernels() -> impl TypedValueParser<Value = Choice<Kernel>> {
    let names = Kernel::ALL.iter().map(|kernel| kernel.name());
    PossibleValuesParser::new(names.chain([ALL])).try_map(|name| match &*name {
        ALL => Ok(Choice::All),
        name => name.parse::<Kernel>().map(Choice::One),
    })
}

/// The chosen entries of `all`, in the order of `all`.
pub(super) fn chosen<T: Copy + PartialEq>(choices: &[Choice<T>], all: &[T]) -> Vec<T> {
    let wanted = |one: &T| choices.contains(&Choice::All) || choices.contains(&Choice::One(*one));
    all.iter().copied().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_cdc::Preset;

    #[test]
    fn means_have_a_lower_bound() {
        assert_eq!(mean("256"), Ok(256));
        assert_eq!(mean("4KiB"), Ok(4096));
        for small in ["0", "1", "255"] {
            let refusal = mean(small).unwrap_err();
            assert!(refusal.contains("expected at least 256"), "{refusal}");
        }
    }

    #[test]
    fn every_algorithm_cuts_at_the_smallest_mean() {
        for scheme in chosen_schemes(&[SchemeChoice::All]) {
            let params = scheme.params_for_mean(SMALLEST_MEAN).unwrap();
            assert!(onefold_cdc::Chunker::new(&params).is_ok(), "{scheme}");
        }
    }

    #[test]
    fn all_is_all_and_names_keep_their_order() {
        let list = [1, 2, 3];
        assert_eq!(chosen(&[Choice::One(3), Choice::One(1)], &list), [1, 3]);
        assert_eq!(chosen(&[Choice::One(3), Choice::All], &list), list);
        assert!(chosen(&[], &list).is_empty());
    }

    #[test]
    fn all_is_what_a_repository_takes_and_presets_are_the_rest() {
        let all = chosen_schemes(&[SchemeChoice::All]);
        let presets = chosen_schemes(&[SchemeChoice::Presets]);
        assert_eq!(presets.len(), Preset::ALL.len());
        assert_eq!([all, presets].concat(), Scheme::all().collect::<Vec<_>>());
        let borg = Scheme::Tool(Preset::Borg);
        assert_eq!(chosen_schemes(&[SchemeChoice::One(borg)]), [borg]);
    }
}
