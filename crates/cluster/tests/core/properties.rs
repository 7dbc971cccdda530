//! What must hold in every state, and what must happen in some state so that the rest says anything.

use stateright::Property;

use crate::model::{Core, State};
use crate::objects::Access;
use crate::shard::{Registration, Write};

/// No page that a map names is in a container that is removed.
pub(crate) const NO_DANGLING: &str = "no live map needs a removed container";
/// A registration keeps each container that a map needs, with the value that the journal says, so that
/// no guard holds for its removal.
pub(crate) const PROTECTED: &str = "every live map is protected by its registration";
/// A map has what was acknowledged last, and the page has its bytes.
pub(crate) const NOTHING_LOST: &str = "no acknowledged write is lost";
/// When nothing is under way and all maps are empty, the protocol's own steps remove all containers.
pub(crate) const SPACE_RETURNS: &str = "space returns";

/// All properties.
pub(crate) fn all() -> Vec<Property<Core>> {
    vec![
        Property::always(NO_DANGLING, |_, state: &State| {
            state.maps().all(|(_, _, place)| !state.objects.containers[place.container].removed)
        }),
        Property::always(PROTECTED, |_, state: &State| {
            state.maps().all(|(shard, journal, place)| {
                let registration = journal.registrations[place.container];
                matches!(registration, Registration::Registered(_))
                    && state.objects.registered(place.container, shard) == registration.value()
            })
        }),
        Property::always(NOTHING_LOST, |_, state: &State| {
            state.shards.iter().all(|of| {
                let read = of.journal.map.map(|place| {
                    let container = &state.objects.containers[place.container];
                    (place.offset < container.length)
                        .then(|| container.pages[place.offset as usize])
                });
                read == of.acknowledged.map(Some)
            })
        }),
        Property::always(SPACE_RETURNS, |core: &Core, state: &State| {
            let is_quiet = state.objects.late.is_empty()
                && state.maps().next().is_none()
                && state.shards.iter().all(|of| of.write == Write::None);
            let takes_space = |state: &State| {
                state.objects.containers.iter().any(|container| container.guard.is_some())
            };
            !is_quiet || !takes_space(state) || !takes_space(&core.drain(state))
        }),
        Property::sometimes("three shards use one container", |_, state: &State| {
            state.objects.containers.iter().any(|container| {
                let users = container.guard.as_ref().map(|guard| guard.users);
                users.is_some_and(|users| users.iter().all(Option::is_some))
            })
        }),
        Property::sometimes("a late registration is a leak", |_, state: &State| {
            state.shards.iter().enumerate().any(|(shard, of)| {
                (0..of.journal.registrations.len()).any(|container| {
                    of.journal.registrations[container] == Registration::None
                        && state.objects.registered(container, shard).is_some()
                })
            })
        }),
        Property::sometimes(
            "a closing container's last user went elsewhere",
            |_, state: &State| {
                state.maps().any(|(_, _, place)| {
                    let others = &state.objects.containers[1 - place.container];
                    others.guard.as_ref().is_some_and(|guard| {
                        guard.access == Access::Closing && guard.users.iter().all(Option::is_none)
                    })
                })
            },
        ),
        Property::sometimes(
            "a superseded gateway's registration arrives afterwards",
            |_, state: &State| {
                state.maps().any(|(shard, journal, place)| {
                    let other = 1 - place.container;
                    let found = state.objects.registered(other, shard);
                    journal.registrations[other] == Registration::None
                        && found.is_some_and(|value| value.writer < state.shards[shard].writer)
                })
            },
        ),
        Property::sometimes("two containers came and went", |_, state: &State| {
            state.objects.containers.iter().all(|container| container.removed)
        }),
    ]
}
