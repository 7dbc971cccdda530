//! Reading and writing the fields of stored objects.
//!
//! Integers are little-endian and of explicit width, or *varints*: seven bits a byte, low bits
//! first, the high bit set on every byte but the last, never longer than needed, so that a value
//! has one encoding. Signed varints are zigzag-encoded. Byte strings are a varint length and the
//! bytes.

use thiserror::Error;

/// Stored fields do not have the form they must have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("malformed at byte {at}: expected {expected}")]
pub struct WireError {
    /// Offset in the decoded bytes.
    pub at: usize,
    /// What should have been there.
    pub expected: &'static str,
}

/// Appends fields to a buffer.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends four bytes, little-endian.
    fn put_u32(&mut self, value: u32);
    /// Appends eight bytes, little-endian.
    fn put_u64(&mut self, value: u64);
    /// Appends a varint.
    fn put_varint(&mut self, value: u64);
    /// Appends a zigzag varint.
    fn put_signed(&mut self, value: i64);
    /// Appends a byte string.
    fn put_bytes(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_signed(&mut self, value: i64) {
        self.put_varint(((value << 1) ^ (value >> 63)) as u64);
    }

    fn put_bytes(&mut self, value: &[u8]) {
        self.put_varint(value.len() as u64);
        self.extend_from_slice(value);
    }
}

/// Takes fields from bytes that nobody vouches for.
///
/// Nothing is allocated: a length is believed only if that many bytes are there.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    ran_out: bool,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, ran_out: false }
    }

    /// Whether a field was refused because `bytes` ended: with more of them it may be there.
    pub const fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// Bytes not yet taken.
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The error that the field just before the current position is not `expected`.
    pub const fn error(&self, expected: &'static str) -> WireError {
        WireError { at: self.at, expected }
    }

    /// Takes the next `len` bytes.
    pub fn take(&mut self, len: usize, expected: &'static str) -> Result<&'a [u8], WireError> {
        if len > self.remaining() {
            self.ran_out = true;
            return Err(self.error(expected));
        }
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    /// Takes an array of `N` bytes.
    pub fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], WireError> {
        Ok(self.take(N, expected)?.try_into().expect("N bytes were taken"))
    }

    /// Takes one byte.
    pub fn u8(&mut self, expected: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(expected)?[0])
    }

    /// Takes four bytes, little-endian.
    pub fn u32(&mut self, expected: &'static str) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array(expected)?))
    }

    /// Takes eight bytes, little-endian.
    pub fn u64(&mut self, expected: &'static str) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array(expected)?))
    }

    /// Takes a varint; one that is longer than needed or above 64 bits is refused.
    pub fn varint(&mut self, expected: &'static str) -> Result<u64, WireError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(expected)?;
            let bits = u64::from(byte & 0x7f);
            let overflows = shift == 63 && bits > 1;
            let padded = shift > 0 && byte == 0;
            if overflows || padded {
                return Err(self.error(expected));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(expected))
    }

    /// Takes a varint that must not exceed `max`.
    pub fn varint_to(&mut self, max: u64, expected: &'static str) -> Result<u64, WireError> {
        let value = self.varint(expected)?;
        if value > max {
            return Err(self.error(expected));
        }
        Ok(value)
    }

    /// Takes a zigzag varint.
    pub fn signed(&mut self, expected: &'static str) -> Result<i64, WireError> {
        let value = self.varint(expected)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Takes a byte string.
    pub fn bytes(&mut self, expected: &'static str) -> Result<&'a [u8], WireError> {
        let len = self.varint(expected)?;
        match usize::try_from(len) {
            Ok(len) => self.take(len, expected),
            Err(_) => Err(self.error(expected)),
        }
    }

    /// Takes the count of items that follow, each of at least `item_len` bytes.
    ///
    /// The count is refused unless that many items can still be there, so it may size a buffer.
    pub fn count(&mut self, item_len: usize, expected: &'static str) -> Result<usize, WireError> {
        let count = self.varint(expected)?;
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() / item_len => Ok(count),
            _ => {
                self.ran_out = true;
                Err(self.error(expected))
            }
        }
    }

    /// Fails unless every byte was taken.
    pub fn finish(&self) -> Result<(), WireError> {
        match self.remaining() {
            0 => Ok(()),
            _ => Err(self.error("the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_put() {
        let mut bytes = Vec::new();
        let varints = [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX];
        let signed = [0, -1, 1, 63, -64, i64::MIN, i64::MAX];
        varints.iter().for_each(|&v| bytes.put_varint(v));
        signed.iter().for_each(|&v| bytes.put_signed(v));
        bytes.put_bytes(b"name");
        bytes.put_u32(0xdead_beef);
        bytes.put_u64(42);
        let mut reader = Reader::new(&bytes);
        for v in varints {
            assert_eq!(reader.varint("v"), Ok(v));
        }
        for v in signed {
            assert_eq!(reader.signed("s"), Ok(v));
        }
        assert_eq!(reader.bytes("b"), Ok(&b"name"[..]));
        assert_eq!(reader.u32("u"), Ok(0xdead_beef));
        assert_eq!(reader.u64("u"), Ok(42));
        reader.finish().unwrap();
    }

    #[test]
    fn a_varint_has_one_encoding() {
        for bad in [
            &[0x80, 0x00][..],
            &[0xff; 10],
            &[0x80],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02],
        ] {
            assert!(Reader::new(bad).varint("v").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lengths_are_bounded_by_what_is_there() {
        let mut bytes = Vec::new();
        bytes.put_varint(u64::MAX);
        bytes.extend_from_slice(&[0; 8]);
        assert!(Reader::new(&bytes).bytes("b").is_err());
        assert!(Reader::new(&bytes).count(1, "c").is_err());
        assert!(Reader::new(&[9, 0, 0]).count(1, "c").is_err());
        assert_eq!(Reader::new(&[2, 0, 0]).count(1, "c"), Ok(2));
    }

    #[test]
    fn a_reader_tells_bytes_that_end_from_bytes_that_are_wrong() {
        for (bytes, ran_out) in [(&[3, 0, 0][..], true), (&[0x80, 0, 0], false)] {
            let mut reader = Reader::new(bytes);
            assert!(reader.bytes("b").is_err());
            assert_eq!(reader.ran_out(), ran_out);
        }
        let mut reader = Reader::new(&[3, 0, 0]);
        assert!(reader.count(1, "c").is_err() && reader.ran_out());
    }
}
