//! What the fuzz targets call.

use onefold_seal::wire::{Reader, WireError};

use crate::hints::{Slice, dump};
use crate::journal::head::State;
use crate::peers::message::{self, Hello};

/// A record of a gateway, a shard or a volume, decoded and encoded again. The first byte says which.
pub fn rerecord(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    let (kind, fields) = bytes.split_first().unwrap_or((&0, &[]));
    let again = crate::gateway::rerecord(*kind, &mut Reader::new(fields))?;
    Ok([&[*kind], &again[..]].concat())
}

/// The fields of a head, decoded and encoded again.
pub fn restate(fields: &[u8]) -> Result<Vec<u8>, WireError> {
    State::read(&mut Reader::new(fields)).map(|state| state.fields())
}

/// How much a shard uses of each container, decoded and encoded again.
pub fn reuse(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    crate::containers::reuse(bytes)
}

/// What each shard uses of all containers, decoded and encoded again.
pub fn respace(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    crate::gateway::respace(bytes)
}

/// Decodes messages between gateways and dumps. What decodes must come back from what it is encoded as.
///
/// # Panics
/// If it does not.
pub fn messages(kind: u8, bytes: &[u8]) {
    match kind % 5 {
        0 => {
            let Ok(hello) = Hello::decode(bytes) else { return };
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
        1 => {
            let Ok(keys) = message::decode_find(bytes) else { return };
            assert_eq!(message::encode_find(keys), bytes);
        }
        2 => {
            let count = usize::from(kind / 5) * 100;
            let Ok(hints) = message::decode_found(bytes, count) else { return };
            let again = message::decode_found(&message::encode_found(&hints), count);
            assert_eq!(again, Ok(hints));
        }
        3 => {
            let Ok(pages) = message::decode_add(bytes) else { return };
            assert_eq!(message::decode_add(&message::encode_add(&pages)), Ok(pages));
        }
        _ => {
            let slice = Slice::all().nth(usize::from(kind / 5)).expect("there are more");
            let Ok(pages) = dump::fields(slice, bytes) else { return };
            let again = dump::decode(slice, &dump::encode(slice, &pages)).expect("it is whole");
            assert_eq!(again, pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_testkit::SplitMix64;

    use super::*;
    use crate::hints::encoding::tests::made;
    use crate::hints::{Hint, Key};

    #[test]
    fn messages_that_are_damaged_are_refused_or_come_back() {
        let mut numbers = SplitMix64::new(55);
        for round in 0..2_000 {
            let pages = made(round, (round % 40) as usize);
            let (keys, hints): (Vec<Key>, Vec<Option<Hint>>) =
                pages.iter().map(|(key, hint)| (*key, Some(*hint))).unzip();
            let slice = Slice::all().next().expect("there are many");
            let dump = dump::encode(slice, &pages);
            let whole = [
                Hello { version: 1, gateway: onefold_seal::ObjectId::random() }.encode(),
                message::encode_find(&keys),
                message::encode_found(&hints),
                message::encode_add(&pages),
                dump[..dump.len() - 16].to_vec(),
            ];
            for (kind, mut bytes) in whole.into_iter().enumerate() {
                messages(kind as u8, &bytes);
                for _ in 0..numbers.next_u64() % 3 {
                    let at = numbers.next_u64() as usize % bytes.len().max(1);
                    let bit = numbers.next_u64() % 8;
                    bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << bit);
                }
                bytes.truncate(bytes.len() - numbers.next_u64() as usize % (bytes.len() + 1) / 7);
                messages(kind as u8, &bytes);
            }
        }
    }
}
