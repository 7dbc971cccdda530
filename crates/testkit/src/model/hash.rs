use crate::SplitMix64;

/// What tables, polynomials and divisors are made of: the numbers of the seed, or those that
/// BLAKE3 derives from the secret with the seed behind it.
pub(super) fn numbers(algorithm: &str, seed: u64, secret: Option<[u8; 32]>) -> Numbers {
    let Some(secret) = secret else {
        let mut numbers = SplitMix64::new(seed);
        return Box::new(std::iter::repeat_with(move || numbers.next_u64()));
    };
    let context = format!("onefold 2026 content-defined chunking: numbers of {algorithm}");
    let key = [&secret[..], &seed.to_le_bytes()].concat();
    let mut output = blake3::Hasher::new_derive_key(&context).update(&key).finalize_xof();
    Box::new(std::iter::repeat_with(move || {
        let mut bytes = [0; 8];
        output.fill(&mut bytes);
        (0..8).map(|i| u64::from(bytes[i]) << (8 * i)).sum()
    }))
}

pub(super) type Numbers = Box<dyn Iterator<Item = u64>>;

/// Two numbers as one each, the lower half first.
pub(super) fn pairs_of(mut numbers: Numbers) -> impl Iterator<Item = u128> {
    std::iter::repeat_with(move || {
        u128::from(first(&mut numbers)) + (u128::from(first(&mut numbers)) << 64)
    })
}

pub(super) fn gear_table(numbers: &mut Numbers) -> Vec<u64> {
    numbers.take(256).collect()
}

/// Each byte's number, doubled for every byte behind it, summed up modulo 2^64.
pub(super) fn gear_hash(window: &[u8], table: &[u64]) -> u64 {
    let shifted = |(age, byte): (usize, &u8)| table[usize::from(*byte)] << age;
    window.iter().rev().enumerate().map(shifted).fold(0, u64::wrapping_add)
}

/// The rest of the division of the window's bits and 53 zeros, bit by bit.
pub(super) fn rabin_fingerprint(window: &[u8], polynomial: u64) -> u64 {
    let bits = window.iter().flat_map(|byte| (0..8).rev().map(move |i| u64::from(byte >> i & 1)));
    bits.chain([0; 53]).fold(0, |rest, bit| divide_once(rest << 1 | bit, polynomial))
}

pub(super) fn divide_once(dividend: u64, polynomial: u64) -> u64 {
    if dividend >> 53 == 1 { dividend ^ polynomial } else { dividend }
}

pub(super) fn irreducible_polynomial(numbers: &mut Numbers) -> u64 {
    let low = first(numbers) % (1 << 53);
    (0_u64..)
        .map(|i| (1 << 53) + ((low | 1) + 2 * i) % (1 << 53))
        .find(|&polynomial| is_irreducible(polynomial))
        .expect("some polynomial is irreducible")
}

/// Rabin's test. 53 is prime, so if x^(2^53) = x modulo a polynomial of that degree, its factors
/// have degree 1 or 53; those of degree 1 show as roots 0 and 1.
pub fn is_irreducible(polynomial: u64) -> bool {
    assert_eq!(polynomial >> 53, 1, "a polynomial of degree 53");
    let no_root = polynomial & 1 == 1 && polynomial.count_ones() % 2 == 1;
    let frobenius = (0..53).fold(0b10, |power, _| square(power, polynomial));
    no_root && frobenius == 0b10
}

/// Squaring spreads the bits: (Σ x^i)² = Σ x^2i.
pub(super) fn square(p: u64, polynomial: u64) -> u64 {
    (0..53).rev().fold(0, |sum, i| {
        let times_x = divide_once(sum << 1, polynomial);
        divide_once(times_x << 1, polynomial) ^ (p >> i & 1)
    })
}

/// The polynomial of ISO 3309, or the first one from that of the secret that nothing divides.
pub(super) fn crc_polynomial(secret: Option<Numbers>) -> u64 {
    let Some(mut numbers) = secret else { return 0x1_04c1_1db7 };
    let low = first(&mut numbers) % (1 << 32);
    (0_u64..)
        .map(|i| (1 << 32) + ((low | 1) + 2 * i) % (1 << 32))
        .find(|&polynomial| (2..1 << 17).all(|divisor| !divides(divisor, polynomial)))
        .expect("some polynomial is irreducible")
}

/// Whether the division of one polynomial by the other, term by term, leaves nothing.
fn divides(divisor: u64, polynomial: u64) -> bool {
    let mut rest = polynomial;
    while rest != 0 && rest.ilog2() >= divisor.ilog2() {
        rest ^= divisor << (rest.ilog2() - divisor.ilog2());
    }
    rest == 0
}

/// Factor and addend of MinCDC: the crate's, or those of the secret.
pub(super) fn mincdc_hash(secret: Option<Numbers>) -> (u32, u32) {
    let Some(mut numbers) = secret else { return (0x915f_77f5, 0x3463_6463) };
    let number = first(&mut numbers);
    ((number % (1 << 32)) as u32 | 1, (number / (1 << 32)) as u32)
}

fn first(numbers: &mut Numbers) -> u64 {
    numbers.next().expect("there is no end of numbers")
}

/// The rest of the division by `polynomial`, which is of degree 32, of the window's bits, each byte's lowest
/// first, and 32 zeros; the coefficient of x^31 lowest.
pub(super) fn crc(window: &[u8], polynomial: u64) -> u32 {
    let bits = window.iter().flat_map(|byte| (0..8).map(move |i| u64::from(byte >> i & 1)));
    let rest = bits.chain([0; 32]).fold(0, |rest, bit| {
        let dividend = rest << 1 | bit;
        if dividend >> 32 == 1 { dividend ^ polynomial } else { dividend }
    });
    (rest as u32).reverse_bits()
}

/// Each byte's number, rotated once for every byte behind it, exclusive or.
pub(super) fn buzhash(window: &[u8], table: &[u64]) -> u32 {
    let number = |byte: &u8| (table[usize::from(*byte)] >> 32) as u32;
    let rotated = |(age, byte)| number(byte).rotate_left(age as u32 % 32);
    window.iter().rev().enumerate().map(rotated).fold(0, |sum, entry| sum ^ entry)
}

/// The numbers that Gear adds up to a hash of 32 bits.
pub(super) fn gear32_table(numbers: &mut Numbers) -> Vec<u64> {
    gear_table(numbers).into_iter().map(|number| number >> 32).collect()
}

/// The numbers that Gear adds up to a hash of 16 bits: one for each half of a byte, joined.
pub(super) fn gear16_table(numbers: &mut Numbers) -> Vec<u64> {
    let numbers = gear_table(numbers);
    (0..256).map(|byte| (numbers[byte % 16] ^ numbers[16 + byte / 16]) >> 48).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_irreducible_has_no_small_factor_and_is_as_frequent_as_it_should() {
        let mut irreducible = 0;
        for polynomial in (1 << 53..).take(2000) {
            if is_irreducible(polynomial) {
                irreducible += 1;
                assert!((2..1 << 10).all(|divisor| !divides(divisor, polynomial)));
            }
        }
        // one in 53 of all polynomials of the degree, so 38 with a deviation of 6
        assert!((20..60).contains(&irreducible), "{irreducible}");
        // x^53 + x^6 + x^2 + x + 1, from tables of primitive polynomials
        assert!(is_irreducible(1 << 53 | 0b100_0111));
    }

    #[test]
    fn crc_is_the_standards_but_for_the_inversions() {
        // inverting the first 32 bits is to start from ones
        let inverted: Vec<_> = b"123456789"
            .iter()
            .enumerate()
            .map(|(i, byte)| if i < 4 { !byte } else { *byte })
            .collect();
        assert_eq!(!crc(&inverted, crc_polynomial(None)), 0xcbf4_3926);
    }
}
