//! Bundles, whose copies are held against their originals.

use std::collections::HashSet;

use super::Check;
use crate::StoreError;
use crate::bundles::compare;
use crate::finding::describe;
use crate::objects::bundle::{ListedBundle, Of};

impl Check<'_> {
    /// Nothing depends on a bundle, so a damaged one harms nothing but time; one that says what is not
    /// so was not made by this program. Both are findings until a prune has replaced it.
    pub(super) fn bundles(&mut self, listed: &[ListedBundle]) -> Result<(), StoreError> {
        let objects = &self.repository.objects;
        let mut gone = 0;
        for of in Of::ALL {
            if !listed.iter().any(|bundle| bundle.of == of) {
                continue;
            }
            let names = objects.list_names(of.prefix())?;
            let there: HashSet<_> = names.iter().filter_map(|name| of.id(name)).collect();
            for bundle in listed.iter().filter(|bundle| bundle.of == of) {
                self.cancel.check()?;
                match compare(self.repository, bundle, &there) {
                    Ok(compared) => {
                        gone += compared.gone.len();
                        if let Some(first) = compared.different.first() {
                            let (original, count) = (of.name(*first), compared.different.len());
                            let way_out = match of {
                                Of::Runs => {
                                    "`check --repair` renews those runs, then prune replaces it"
                                }
                                Of::Entries | Of::Snapshots => "prune replaces it",
                            };
                            let problem = format!(
                                "{count} of its copies are not what they are copies of, such as \
                                 that of {original}; {way_out}"
                            );
                            self.find(bundle.name(), problem);
                        }
                        if of == Of::Runs {
                            // A client may have learnt from the copy what the run does not say.
                            self.found.bad_runs.extend(compared.different);
                        }
                    }
                    // Another one has taken its place.
                    Err(error) if error.is_not_found() => {}
                    Err(error) if error.is_unreachable() => return Err(error),
                    Err(error) if !self.repository.is_damage(&error) => {
                        self.note(format!("{}; it was not compared", describe(&error)));
                    }
                    Err(error) => {
                        let problem = format!(
                            "{}; nothing depends on it, and prune replaces it",
                            describe(&error)
                        );
                        self.find(bundle.name(), problem);
                    }
                }
            }
        }
        if gone > 0 {
            self.note(format!(
                "{gone} objects that are gone have copies in bundles until the next prune"
            ));
        }
        Ok(())
    }
}
