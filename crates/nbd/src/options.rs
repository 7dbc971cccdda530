//! The data of options, as clients send them.

use crate::limits::{MAX_QUERIES, MAX_STRING};
use crate::wire::option;

/// Why the data of an option are invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// They violate the protocol.
    Invalid(&'static str),
    /// They exceed a limit.
    TooBig(&'static str),
}

/// Data of INFO and GO.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoQuery<'a> {
    pub(crate) name: &'a str,
    /// The requested items besides the mandatory one.
    pub(crate) wanted: Vec<u16>,
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContextQuery<'a> {
    pub(crate) name: &'a str,
    pub(crate) queries: Vec<&'a str>,
}

impl<'a> InfoQuery<'a> {
    pub(crate) fn decode(data: &'a [u8]) -> Result<InfoQuery<'a>, Bad> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u16()?;
        let wanted = (0..count).map(|_| fields.u16()).collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(InfoQuery { name, wanted })
    }

    pub(crate) fn wants(&self, info: u16) -> bool {
        self.wanted.contains(&info)
    }
}

impl<'a> ContextQuery<'a> {
    pub(crate) fn decode(data: &'a [u8]) -> Result<ContextQuery<'a>, Bad> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u32()?;
        if count > MAX_QUERIES {
            return Err(Bad::TooBig("too many queries"));
        }
        let queries = (0..count).map(|_| fields.string()).collect::<Result<Vec<_>, _>>()?;
        fields.end()?;
        if queries.iter().any(|query| !query.contains(':')) {
            return Err(Bad::Invalid("a query without a namespace"));
        }
        Ok(ContextQuery { name, queries })
    }
}

/// The export that an option names, if it is an option that names one and has the right form so far.
pub(crate) fn named(option: u32, data: &[u8]) -> Option<&str> {
    match option {
        option::EXPORT_NAME => string(data).ok(),
        option::INFO | option::GO => InfoQuery::decode(data).ok().map(|query| query.name),
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
            ContextQuery::decode(data).ok().map(|query| query.name)
        }
        _ => None,
    }
}

/// A string of the protocol: UTF-8 without zeroes, not too long.
pub(crate) fn string(bytes: &[u8]) -> Result<&str, Bad> {
    if bytes.len() > MAX_STRING {
        return Err(Bad::TooBig("a string of more than 4,096 bytes"));
    }
    match str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Bad::Invalid("a string that is not UTF-8, or has zeroes")),
    }
}

/// The data that have not been consumed yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) =
            self.0.split_at_checked(len).ok_or(Bad::Invalid("data that end too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, Bad> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, Bad> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A string with its length in front.
    fn string(&mut self) -> Result<&'a str, Bad> {
        let len = self.u32()? as usize;
        string(self.take(len)?)
    }

    fn end(&self) -> Result<(), Bad> {
        if self.0.is_empty() { Ok(()) } else { Err(Bad::Invalid("data after the last field")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_for_information_has_a_name_and_numbers() {
        let data = [0, 0, 0, 2, b'a', b'b', 0, 2, 0, 3, 1, 0];
        let query = InfoQuery::decode(&data).unwrap();
        assert_eq!(query, InfoQuery { name: "ab", wanted: vec![3, 256] });
        assert!(query.wants(3) && !query.wants(0));
    }

    #[test]
    fn data_cut_off_anywhere_are_invalid() {
        let info = [0, 0, 0, 2, b'a', b'b', 0, 2, 0, 3, 1, 0];
        for len in 0..info.len() {
            let found = InfoQuery::decode(&info[..len]);
            assert!(matches!(found, Err(Bad::Invalid(_))), "{len}: {found:?}");
        }
        let context = [0, 0, 0, 1, b'a', 0, 0, 0, 1, 0, 0, 0, 2, b'x', b':'];
        assert_eq!(ContextQuery::decode(&context).unwrap().queries, ["x:"]);
        for len in 0..context.len() {
            let found = ContextQuery::decode(&context[..len]);
            assert!(matches!(found, Err(Bad::Invalid(_))), "{len}: {found:?}");
        }
    }

    #[test]
    fn data_that_are_too_long_are_invalid() {
        assert_eq!(
            InfoQuery::decode(&[0, 0, 0, 0, 0, 0, 9]),
            Err(Bad::Invalid("data after the last field"))
        );
        assert_eq!(
            ContextQuery::decode(&[0, 0, 0, 0, 0, 0, 0, 0, 9]),
            Err(Bad::Invalid("data after the last field"))
        );
    }

    #[test]
    fn counts_and_lengths_are_bounded_before_anything_is_taken() {
        let mut data = vec![0; 4];
        data.extend(u32::MAX.to_be_bytes());
        assert_eq!(ContextQuery::decode(&data), Err(Bad::TooBig("too many queries")));
        let long = u32::MAX.to_be_bytes();
        assert_eq!(InfoQuery::decode(&long), Err(Bad::Invalid("data that end too early")));
        let mut data = 4097_u32.to_be_bytes().to_vec();
        data.resize(4 + 4097 + 2, b'x');
        assert!(matches!(InfoQuery::decode(&data), Err(Bad::TooBig(_))));
    }

    #[test]
    fn strings_are_text() {
        assert_eq!(string("ü".as_bytes()), Ok("ü"));
        assert!(matches!(string(b"a\0b"), Err(Bad::Invalid(_))));
        assert!(matches!(string(&[0xFF]), Err(Bad::Invalid(_))));
        assert!(string(&[b'x'; 4096]).is_ok());
    }
}
