/// Defines an enum of errors built in on purpose, and the switch for them.
///
/// A test that has never failed proves nothing. Each error breaks one rule; a test switches them on one
/// by one, by `activate`, and fails unless the test of that rule notices. `active` says whether an error
/// is on: a constant `false` unless the crate that uses this has the feature `seeded-bugs`, so that the
/// compiler removes what depends on it.
#[doc(hidden)]
#[macro_export]
macro_rules! seeded_bugs {
    ($(#[$attribute:meta])* pub enum $Bug:ident { $($(#[$doc:meta])* $bug:ident,)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $Bug {
            $($(#[$doc])* $bug,)+
        }

        impl $Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$bug),+];
        }

        /// The error that is on, counted from 1.
        static ACTIVE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

        /// Switches `bug` on for the whole process, and any other off.
        #[cfg(feature = "seeded-bugs")]
        pub fn activate(bug: Option<$Bug>) {
            let number = bug.map_or(0, |bug| bug as u8 + 1);
            ACTIVE.store(number, std::sync::atomic::Ordering::SeqCst);
        }

        pub(crate) fn active(bug: $Bug) -> bool {
            cfg!(feature = "seeded-bugs")
                && ACTIVE.load(std::sync::atomic::Ordering::SeqCst) == bug as u8 + 1
        }
    };
}

/// Where an error can be built in: `fault!(Bug)` is whether it is on, and `fault!(Bug => wrong)` does
/// `wrong` if it is. A crate that has [`seeded_bugs`] imports it into its module `seeded` as `fault`.
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the errors are those of the crate that uses it")]
macro_rules! seeded_fault {
    ($bug:ident) => {
        crate::seeded::active(crate::seeded::Bug::$bug)
    };
    ($bug:ident => $wrong:expr) => {
        if crate::seeded::active(crate::seeded::Bug::$bug) {
            $wrong;
        }
    };
}
