//! What clients saw of registers, and whether one register could have shown it.
//!
//! Each write has a value of its own. The operations on one value form a *zone* between the first response and
//! the last invocation of any of them: a *forward* zone if the response comes first, a *backward* zone
//! otherwise. A history is linearizable if and only if no two forward zones overlap, no backward zone lies
//! within a forward zone, and no read precedes its write (Gibbons and Korach, Testing Shared Memories, 1997).

use std::collections::BTreeMap;

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Write(u64),
    Read(u64),
}

/// An operation on one register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Which gateway was asked.
    pub(crate) by: usize,
    pub(crate) register: u64,
    pub(crate) did: Did,
    /// When the client asked.
    pub(crate) invoked: u64,
    /// When it was answered. A write without an answer may have happened at any time since, or never.
    pub(crate) answered: Option<u64>,
}

/// The operations on one value.
#[derive(Clone, Copy)]
struct Zone {
    value: u64,
    written: u64,
    first_answer: u64,
    last_invocation: u64,
    is_seen: bool,
}

/// What is wrong with the history of registers that have 0 at first; none if nothing is.
pub(crate) fn violation(history: &[Seen]) -> Option<String> {
    let mut registers: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    for one in history {
        registers.entry(one.register).or_default().push(*one);
    }
    registers.iter().find_map(|(register, seen)| {
        of_one(seen).err().map(|problem| format!("register {register}: {problem}"))
    })
}

fn of_one(seen: &[Seen]) -> Result<(), String> {
    let zone = |value, written, first_answer, is_seen| Zone {
        value,
        written,
        first_answer,
        last_invocation: written,
        is_seen,
    };
    let mut zones = BTreeMap::from([(0, zone(0, 0, 0, true))]);
    for one in seen {
        if let Did::Write(value) = one.did {
            let answer = one.answered.unwrap_or(u64::MAX);
            let made = zone(value, one.invoked, answer, one.answered.is_some());
            if zones.insert(value, made).is_some() {
                return Err(format!("{value} is written twice"));
            }
        }
    }
    for one in seen {
        // a read without an answer says nothing
        let (Did::Read(value), Some(answered)) = (one.did, one.answered) else { continue };
        let zone = zones.get_mut(&value).ok_or(format!("{one:?} was never written"))?;
        if answered < zone.written {
            return Err(format!("{one:?} came before its write at {}", zone.written));
        }
        zone.is_seen = true;
        zone.first_answer = zone.first_answer.min(answered);
        zone.last_invocation = zone.last_invocation.max(one.invoked);
    }
    let zones = || zones.values().filter(|zone| zone.is_seen);
    let mut forward: Vec<&Zone> =
        zones().filter(|zone| zone.first_answer < zone.last_invocation).collect();
    forward.sort_by_key(|zone| zone.first_answer);
    for pair in forward.windows(2) {
        if pair[0].last_invocation > pair[1].first_answer {
            return Err(format!("{} and {} were seen in turn", pair[0].value, pair[1].value));
        }
    }
    for inner in zones().filter(|zone| zone.first_answer >= zone.last_invocation) {
        let is_around = |outer: &&&Zone| {
            outer.first_answer < inner.last_invocation && inner.first_answer < outer.last_invocation
        };
        if let Some(outer) = forward.iter().find(is_around) {
            let (inner, outer) = (inner.value, outer.value);
            return Err(format!("{outer} was seen before {inner}, and again"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(value: u64, invoked: u64, answered: u64) -> Seen {
        let answered = (answered > 0).then_some(answered);
        Seen { by: 0, register: 1, did: Did::Write(value), invoked, answered }
    }

    fn read(value: u64, invoked: u64, answered: u64) -> Seen {
        Seen { by: 0, register: 1, did: Did::Read(value), invoked, answered: Some(answered) }
    }

    #[test]
    fn what_one_register_can_show_is_told_from_what_it_cannot() {
        let can: &[&[Seen]] = &[
            &[read(0, 1, 2), write(5, 3, 4), read(5, 5, 6)],
            // reads beside a write see either
            &[write(5, 1, 9), read(0, 2, 3), read(5, 4, 5), read(5, 6, 7)],
            &[write(5, 1, 9), write(6, 2, 8), read(6, 10, 11)],
            &[write(5, 1, 9), write(6, 2, 8), read(5, 10, 11)],
            // no answer: at once, later, never
            &[write(5, 1, 0), read(5, 2, 3)],
            &[write(5, 1, 0), read(0, 2, 3), read(5, 4, 5)],
            &[write(5, 1, 0), read(0, 2, 3), write(6, 4, 5), read(6, 6, 7)],
        ];
        let cannot: &[&[Seen]] = &[
            &[write(5, 1, 2), read(0, 3, 4)],
            &[read(5, 1, 2)],
            &[read(5, 1, 2), write(5, 3, 4)],
            &[write(5, 1, 2), write(6, 3, 4), read(5, 5, 6)],
            // back and forth
            &[write(5, 1, 20), read(5, 2, 3), read(0, 4, 5)],
            &[write(5, 1, 20), write(6, 2, 21), read(5, 3, 4), read(6, 5, 6), read(5, 7, 8)],
            // seen once, and gone
            &[write(5, 1, 0), read(5, 2, 3), read(0, 4, 5)],
        ];
        for history in can {
            assert_eq!(violation(history), None, "{history:?}");
        }
        for history in cannot {
            assert!(violation(history).is_some(), "{history:?}");
        }
    }
}
