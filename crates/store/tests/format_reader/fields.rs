//! "Conventions" of docs/format.md: fields of bytes, checks, and names.

pub type Id = [u8; 16];
pub type Print = [u8; 32];

/// "Conventions": takes fields from bytes and refuses what the document refuses.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        assert!(len <= self.0.len(), "{len} bytes expected, {} left", self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap()
    }

    pub fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub fn varint(&mut self) -> u64 {
        let mut value = 0;
        for at in 0..10 {
            let byte = self.u8();
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                assert!(at == 0 || byte != 0, "a varint is longer than needed");
                assert!(at < 9 || byte == 1, "a varint is above 64 bits");
                return value;
            }
        }
        panic!("a varint has more than ten bytes");
    }

    pub fn signed(&mut self) -> i64 {
        let n = self.varint();
        if n.is_multiple_of(2) { (n / 2) as i64 } else { -((n / 2) as i64) - 1 }
    }

    pub fn bytes(&mut self) -> &'a [u8] {
        let len = self.varint() as usize;
        self.take(len)
    }

    pub fn text(&mut self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("text is UTF-8")
    }

    pub fn time(&mut self) -> (i64, u64) {
        let time = (self.signed(), self.varint());
        assert!(time.1 <= 999_999_999);
        time
    }

    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.varint()).map(|_| item(self)).collect()
    }

    pub fn end(&self) {
        assert!(self.0.is_empty(), "{} bytes are left over", self.0.len());
    }
}

pub fn hash(parts: &[&[u8]]) -> Print {
    *blake3::hash(&parts.concat()).as_bytes()
}

pub fn check(parts: &[&[u8]]) -> [u8; 16] {
    hash(parts)[..16].try_into().unwrap()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn parse_id(text: &str) -> Id {
    assert!(text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}
