//! Hints as bytes: in messages between gateways and in dumps.
//!
//! A hint is a varint and its fields. The varint is 0 if there is no hint, or else one more than the number of
//! the container's name. Names are numbered from 0 as they appear: one that is new follows its number. So a run
//! of pages of one container costs one byte a page for the name.

use std::collections::HashMap;

use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};

use super::{ContainerName, Hint, KEY_LEN, Key};

/// The fewest bytes of a hint that is there: number, offset, length and check.
const LEAST: usize = 1 + 4 + 1 + 4;

/// The most bytes of a hint.
pub(crate) const MOST: usize = 3 + 32 + 4 + 5 + 4;

/// Appends hints to `bytes`.
pub(crate) struct Encoder {
    pub(crate) bytes: Vec<u8>,
    names: HashMap<ContainerName, u64>,
}

impl Encoder {
    /// Appends to `bytes`.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, names: HashMap::new() }
    }

    /// Appends a hint, or that there is none.
    pub(crate) fn hint(&mut self, hint: Option<&Hint>) {
        let Some(hint) = hint else { return self.bytes.put_varint(0) };
        let next = self.names.len() as u64;
        let number = *self.names.entry(hint.container).or_insert(next);
        self.bytes.put_varint(number + 1);
        if number == next {
            let ContainerName { shard, writer, number } = hint.container;
            self.bytes.extend_from_slice(shard.as_bytes());
            self.bytes.put_u64(writer);
            self.bytes.put_u64(number);
        }
        self.bytes.put_u32(hint.offset);
        self.bytes.put_varint(hint.stored_len.into());
        self.bytes.put_u32(hint.check);
    }

    /// Appends a page.
    pub(crate) fn page(&mut self, key: &Key, hint: &Hint) {
        self.bytes.extend_from_slice(key);
        self.hint(Some(hint));
    }
}

/// Takes hints from bytes.
pub(crate) struct Decoder<'a> {
    pub(crate) reader: Reader<'a>,
    names: Vec<ContainerName>,
}

impl<'a> Decoder<'a> {
    /// Takes from `reader`.
    pub(crate) fn new(reader: Reader<'a>) -> Self {
        Self { reader, names: Vec::new() }
    }

    /// Takes a hint, or that there is none.
    pub(crate) fn hint(&mut self) -> Result<Option<Hint>, WireError> {
        let count = self.names.len() as u64;
        let number = self.reader.varint_to(count + 1, "the number of a container's name")?;
        let Some(number) = number.checked_sub(1) else { return Ok(None) };
        if number == count {
            let shard = ObjectId::from_bytes(self.reader.array("a shard")?);
            let (writer, number) = (self.reader.u64("a writer")?, self.reader.u64("a number")?);
            self.names.push(ContainerName { shard, writer, number });
        }
        let container = self.names[number as usize];
        let offset = self.reader.u32("an offset")?;
        let stored_len = self.reader.varint_to(u32::MAX.into(), "a length")? as u32;
        Ok(Some(Hint { container, offset, stored_len, check: self.reader.u32("a check")? }))
    }

    /// Takes the next page.
    pub(crate) fn page(&mut self) -> Result<(Key, Hint), WireError> {
        let key = self.reader.array("a fingerprint")?;
        let hint = self.hint()?.ok_or_else(|| self.reader.error("a hint"))?;
        Ok((key, hint))
    }

    /// Takes pages up to the end, `most` of them at most.
    pub(crate) fn pages(mut self, most: usize) -> Result<Vec<(Key, Hint)>, WireError> {
        let there = self.reader.remaining() / (KEY_LEN + LEAST);
        let mut pages = Vec::with_capacity(there.min(most));
        while self.reader.remaining() > 0 {
            if pages.len() == most {
                return Err(self.reader.error("no more pages"));
            }
            pages.push(self.page()?);
        }
        Ok(pages)
    }

    /// Takes `count` hints that may be missing, up to the end.
    pub(crate) fn hints(mut self, count: usize) -> Result<Vec<Option<Hint>>, WireError> {
        if count > self.reader.remaining() {
            return Err(self.reader.error("as many answers as fingerprints"));
        }
        let hints = (0..count).map(|_| self.hint()).collect::<Result<_, _>>()?;
        self.reader.finish()?;
        Ok(hints)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use onefold_testkit::SplitMix64;

    use super::*;

    /// Pages that a seed makes, of few containers.
    pub(crate) fn made(seed: u64, count: usize) -> Vec<(Key, Hint)> {
        let mut numbers = SplitMix64::new(seed);
        let page = |_| {
            let mut key = [0; KEY_LEN];
            key[..8].copy_from_slice(&numbers.next_u64().to_le_bytes());
            key[8..].copy_from_slice(&numbers.next_u64().to_le_bytes());
            let number = numbers.next_u64() % 7;
            let shard = ObjectId::from_bytes([number as u8; 16]);
            let container = ContainerName { shard, writer: number << 40, number };
            let any = numbers.next_u64();
            let stored_len = (any % 4097) as u32;
            (key, Hint { container, offset: (any >> 32) as u32, stored_len, check: any as u32 })
        };
        (0..count).map(page).collect()
    }

    fn encoded(pages: &[(Key, Hint)]) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new());
        pages.iter().for_each(|(key, hint)| encoder.page(key, hint));
        encoder.bytes
    }

    #[test]
    fn pages_and_answers_come_back() {
        for count in [0, 1, 2, 100] {
            let pages = made(3, count);
            let bytes = encoded(&pages);
            assert_eq!(Decoder::new(Reader::new(&bytes)).pages(count).unwrap(), pages);
            let answers: Vec<_> = pages
                .iter()
                .enumerate()
                .map(|(at, (_, hint))| (at % 3 > 0).then_some(*hint))
                .collect();
            let mut encoder = Encoder::new(Vec::new());
            answers.iter().for_each(|hint| encoder.hint(hint.as_ref()));
            let bytes = encoder.bytes;
            assert_eq!(Decoder::new(Reader::new(&bytes)).hints(count).unwrap(), answers);
            assert!(Decoder::new(Reader::new(&bytes)).hints(count + 1).is_err());
        }
    }

    #[test]
    fn bytes_that_are_cut_short_or_too_many_are_refused() {
        let pages = made(4, 5);
        let bytes = encoded(&pages);
        let ends: Vec<usize> = (0..=5).map(|count| encoded(&pages[..count]).len()).collect();
        for len in 0..=bytes.len() {
            let decoded = Decoder::new(Reader::new(&bytes[..len])).pages(5);
            assert_eq!(decoded.is_ok(), ends.contains(&len), "{len}");
        }
        assert!(Decoder::new(Reader::new(&bytes)).pages(4).is_err());
    }

    #[test]
    fn a_name_that_was_not_given_is_refused() {
        let mut bytes = vec![7; KEY_LEN];
        bytes.put_varint(2);
        bytes.extend([0; 64]);
        assert!(Decoder::new(Reader::new(&bytes)).pages(1).is_err());
    }
}
