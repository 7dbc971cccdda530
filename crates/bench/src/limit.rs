//! The read limit: how fast data can be taken in at all, against which chunkers are held.

/// The sum of `data` as little-endian numbers of 64 bits, the last one filled up with zeros; read
/// with the widest vectors of this CPU.
pub fn read_all(data: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: AVX-512 F is here, by the line before.
            return unsafe { sum_avx512(data) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 is here, by the line before.
            return unsafe { sum_avx2(data) };
        }
    }
    sum(data)
}

/// The instruction set that [`read_all`] reads with here.
pub fn read_kernel() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return "avx512";
        }
        if is_x86_feature_detected!("avx2") {
            return "avx2";
        }
    }
    // every 64-bit x86 and Arm has vectors of 16 bytes, which the compiler sums with
    "16-byte vectors"
}

/// Simple enough for the compiler to find the vectors.
#[inline(always)]
fn sum(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let all = words.iter().fold(0_u64, |sum, &word| sum.wrapping_add(u64::from_le_bytes(word)));
    all.wrapping_add(u64::from_le_bytes(last))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(data: &[u8]) -> u64 {
    sum(data)
}

/// Written out, since compilers prefer the narrower vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(data: &[u8]) -> u64 {
    use std::arch::x86_64::{
        _mm512_add_epi64, _mm512_loadu_si512, _mm512_reduce_add_epi64, _mm512_setzero_si512,
    };
    let (blocks, rest) = data.as_chunks::<256>();
    let mut sums = [_mm512_setzero_si512(); 4];
    for block in blocks {
        for (sum, vector) in sums.iter_mut().zip(block.as_chunks::<64>().0) {
            // SAFETY: a vector is 64 bytes, by its type.
            let vector = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
            *sum = _mm512_add_epi64(*sum, vector);
        }
    }
    let [a, b, c, d] = sums;
    let all = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
    _mm512_reduce_add_epi64(all).cast_unsigned().wrapping_add(sum(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_at_every_length() {
        let data: Vec<u8> = (0..1100_u32).map(|i| (i * i % 251) as u8).collect();
        for len in 0..data.len() {
            let data = &data[..len];
            let by_byte = data.iter().enumerate().fold(0_u64, |sum, (place, &byte)| {
                sum.wrapping_add(u64::from(byte) << (8 * (place % 8)))
            });
            assert_eq!(read_all(data), by_byte, "{len} bytes");
            assert_eq!(sum(data), by_byte, "{len} bytes");
        }
    }
}
