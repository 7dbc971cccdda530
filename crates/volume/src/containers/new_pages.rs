//! Pages on their way to a container: their stored bytes lie one behind the other in one buffer, as
//! they will in the container. So no page takes memory of its own, and many are one write.

use std::cell::RefCell;

use onefold_container::{Codec, Compressor, ContainerError};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_seal::{CHECK_LEN, Check, Suite};

/// A page that is to be appended, and what it is for.
#[derive(Debug)]
pub(crate) struct NewPage<T> {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) codec: Codec,
    /// Over the stored bytes.
    pub(crate) check: Check,
    /// Bytes of the page.
    pub(crate) len: u32,
    /// Bytes that it takes in the container.
    pub(crate) stored_len: u32,
    pub(crate) of: T,
}

/// What each thread keeps from one batch of pages to the next.
#[derive(Default)]
struct Kept {
    compressor: Option<(Codec, Compressor)>,
    /// As long as the longest so far: a little more than a mebibyte after a batch of 256 pages of
    /// 4 KiB.
    bytes: Vec<u8>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Takes pages together.
pub(crate) struct Packer<T>(NewPages<T>);

impl<T> Packer<T> {
    /// Without pages, and with room for `count`.
    pub(crate) fn new(count: usize) -> Self {
        let bytes = KEPT.with_borrow_mut(|kept| std::mem::take(&mut kept.bytes));
        Self(NewPages { pages: Vec::with_capacity(count), bytes, used: 0 })
    }

    /// One more page, compressed by `codec` if that makes it shorter.
    pub(crate) fn push(
        &mut self,
        fingerprint: Fingerprint,
        page: &[u8],
        codec: Codec,
        of: T,
    ) -> Result<(), ContainerError> {
        let (codec, stored_len) = KEPT.with_borrow_mut(|kept| {
            let kept = &mut kept.compressor;
            let compressor = match kept {
                Some((kept_codec, compressor)) if *kept_codec == codec => compressor,
                _ => &mut kept.insert((codec, Compressor::of(codec, Suite::Plain)?)).1,
            };
            let bound = compressor.bound(page.len());
            compressor.compress_into(page, self.room(bound))
        })?;
        self.take_up(fingerprint, codec, page.len() as u32, stored_len, of);
        Ok(())
    }

    /// One more page, of `len` bytes, whose stored bytes are known.
    pub(crate) fn push_stored(
        &mut self,
        fingerprint: Fingerprint,
        stored: &[u8],
        codec: Codec,
        len: u32,
        of: T,
    ) {
        self.room(stored.len())[..stored.len()].copy_from_slice(stored);
        self.take_up(fingerprint, codec, len, stored.len(), of);
    }

    /// What lies behind the stored bytes so far: `len` bytes or more.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let NewPages { bytes, used, .. } = &mut self.0;
        if bytes.len() < *used + len {
            bytes.resize(*used + len, 0);
        }
        &mut bytes[*used..]
    }

    fn take_up(
        &mut self,
        fingerprint: Fingerprint,
        codec: Codec,
        len: u32,
        stored_len: usize,
        of: T,
    ) {
        self.0.used += stored_len;
        let (check, stored_len) = (Check::from_bytes([0; CHECK_LEN]), stored_len as u32);
        self.0.pages.push(NewPage { fingerprint, codec, check, len, stored_len, of });
    }

    /// All pages, with their checks: computed together, which for short ones takes less time.
    pub(crate) fn finish(self) -> NewPages<T> {
        let Self(mut new) = self;
        let mut rest = new.all();
        let mut stored = Vec::with_capacity(rest.pages.len());
        while let Some(page) = rest.pages.first() {
            stored.push(&rest.bytes[..page.stored_len as usize]);
            rest.skip(1);
        }
        let mut hashes = Vec::with_capacity(stored.len());
        // a check is the first bytes of BLAKE3, whoever computes it
        Fingerprinter::blake3().fingerprint_many(&stored, &mut hashes);
        for (page, hash) in new.pages.iter_mut().zip(hashes) {
            let (check, _) = hash.as_bytes().split_first_chunk().expect("a hash is longer");
            page.check = Check::from_bytes(*check);
        }
        new
    }
}

/// Pages that are to be appended, in order.
pub(crate) struct NewPages<T> {
    pages: Vec<NewPage<T>>,
    /// Stored bytes of all pages, and what was there before.
    bytes: Vec<u8>,
    /// How many of them are stored bytes.
    used: usize,
}

impl<T> NewPages<T> {
    /// Keeps those for which `is_kept` is true.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&NewPage<T>) -> bool) {
        let (mut from, mut to) = (0, 0);
        let bytes = &mut self.bytes;
        self.pages.retain(|page| {
            let len = page.stored_len as usize;
            let stays = is_kept(page);
            if stays {
                if to < from {
                    bytes.copy_within(from..from + len, to);
                }
                to += len;
            }
            from += len;
            stays
        });
        self.used = to;
    }

    pub(crate) fn all(&self) -> Rest<'_, T> {
        Rest { pages: &self.pages, bytes: &self.bytes[..self.used] }
    }
}

impl<T> Drop for NewPages<T> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // a thread that ends has no use for it
        let _ = KEPT.try_with(|kept| kept.borrow_mut().bytes = bytes);
    }
}

/// Pages that are still to be appended.
pub(crate) struct Rest<'a, T> {
    pub(crate) pages: &'a [NewPage<T>],
    /// Their stored bytes.
    pub(crate) bytes: &'a [u8],
}

impl<T> Rest<'_, T> {
    /// Leaves out the first `count`.
    pub(crate) fn skip(&mut self, count: usize) {
        let (first, pages) = self.pages.split_at(count);
        let len: usize = first.iter().map(|page| page.stored_len as usize).sum();
        (self.pages, self.bytes) = (pages, &self.bytes[len..]);
    }
}

#[cfg(test)]
mod tests {
    use onefold_container::decompress_into;
    use onefold_testkit::{SplitMix64, random, text};

    use super::*;

    fn page(n: u64) -> Vec<u8> {
        if n.is_multiple_of(3) { random(n, 4096) } else { text(n, 4096) }
    }

    fn fingerprint(n: u64) -> Fingerprint {
        Fingerprinter::sha3().fingerprint(&page(n))
    }

    /// What is there is the pages of these numbers.
    fn expect(new: &NewPages<u64>, numbers: &[u64]) {
        let mut rest = new.all();
        let total: usize = rest.pages.iter().map(|page| page.stored_len as usize).sum();
        assert_eq!((rest.pages.len(), rest.bytes.len()), (numbers.len(), total));
        for &n in numbers {
            let one = &rest.pages[0];
            let stored = &rest.bytes[..one.stored_len as usize];
            assert_eq!((one.of, one.fingerprint, one.len), (n, fingerprint(n), 4096));
            assert_eq!(one.check, Check::of(&[stored]));
            let mut found = vec![0; 4096];
            decompress_into(one.codec, stored, &mut found).unwrap();
            assert!(found == page(n), "{n}");
            rest.skip(1);
        }
        assert!(rest.bytes.is_empty());
    }

    fn packed(numbers: &[u64], codec: Codec) -> NewPages<u64> {
        let mut packer = Packer::new(numbers.len());
        for &n in numbers {
            packer.push(fingerprint(n), &page(n), codec, n).unwrap();
        }
        packer.finish()
    }

    #[test]
    fn pages_lie_one_behind_the_other_and_those_that_go_leave_no_bytes() {
        let mut numbers = SplitMix64::new(1);
        // longer and shorter in turn, in the same buffer, and one beside another
        for count in [0, 1, 40, 3, 17] {
            for codec in Codec::ALL {
                let all: Vec<u64> = (0..count).map(|_| numbers.next_u64() % 1000).collect();
                let (mut new, other) = (packed(&all, codec), packed(&all, Codec::Zstd));
                expect(&new, &all);
                let stays = |n: &u64| n % 5 < 2;
                new.retain(|one| stays(&one.of));
                let left: Vec<u64> = all.iter().copied().filter(stays).collect();
                expect(&new, &left);
                new.retain(|_| true);
                expect(&new, &left);
                expect(&other, &all);
                let mut moved = Packer::new(left.len());
                let mut rest = new.all();
                while let Some(one) = rest.pages.first() {
                    let stored = &rest.bytes[..one.stored_len as usize];
                    moved.push_stored(one.fingerprint, stored, one.codec, one.len, one.of);
                    rest.skip(1);
                }
                expect(&moved.finish(), &left);
                new.retain(|_| false);
                expect(&new, &[]);
            }
        }
    }
}
