//! Polynomials over GF(2) of degree up to 62 as numbers: bit i is the coefficient of x^i.

/// The first irreducible polynomial upwards from x^`degree` and the bits of `start` below it, with
/// the constant term set; behind the last of the degree the search goes on at the first.
///
/// One odd number in about half of `degree` is irreducible, so it is never far.
pub(crate) fn irreducible_from(degree: u32, start: u64) -> u64 {
    let leading = 1 << degree;
    let mut rest = start & (leading - 1) | 1;
    while !is_irreducible(leading | rest) {
        rest = (rest + 2) & (leading - 1);
    }
    leading | rest
}

/// Ben-Or's test: a polynomial of degree n is irreducible if and only if it has no factor in
/// common with x^(2^i) − x for i up to n / 2, the product of all irreducible polynomials whose
/// degree divides i.
pub(crate) fn is_irreducible(modulus: u64) -> bool {
    const X: u64 = 0b10;
    let mut power = X;
    (0..modulus.ilog2() / 2).all(|_| {
        power = product(power, power, modulus);
        greatest_common_divisor(modulus, power ^ X) == 1
    })
}

/// x · `p`, where `p` is of a degree below that of `modulus`.
pub(crate) fn times_x(p: u64, modulus: u64) -> u64 {
    let shifted = p << 1;
    // the one without the leading term of the modulus
    shifted.min(shifted ^ modulus)
}

fn product(a: u64, b: u64, modulus: u64) -> u64 {
    (0..modulus.ilog2()).rev().fold(0, |sum, bit| {
        let doubled = times_x(sum, modulus);
        if b >> bit & 1 == 1 { doubled ^ a } else { doubled }
    })
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        while a != 0 && a.ilog2() >= b.ilog2() {
            a ^= b << (a.ilog2() - b.ilog2());
        }
        (a, b) = (b, a);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_testkit::model;

    #[test]
    fn ben_ors_test_finds_what_rabins_test_finds() {
        for low in 0..2000 {
            let candidate = 1 << 53 | low;
            assert_eq!(is_irreducible(candidate), model::is_irreducible(candidate), "{low}");
        }
    }

    /// By Gauss's formula: the sum of μ(d) 2^(n/d) over the divisors d of n, divided by n.
    #[test]
    fn there_are_as_many_irreducible_polynomials_of_a_degree_as_gauss_counted() {
        for (degree, count) in [(2, 1), (3, 2), (4, 3), (8, 30), (11, 186), (12, 335), (13, 630)] {
            let found = (1_u64 << degree..2 << degree).filter(|&p| is_irreducible(p)).count();
            assert_eq!(found, count, "{degree}");
        }
    }

    #[test]
    fn an_irreducible_polynomial_is_found_from_every_start() {
        for (degree, start) in [(32, 0), (32, u64::MAX), (53, 0), (53, u64::MAX), (53, 1 << 60)] {
            let found = irreducible_from(degree, start);
            assert!(found.ilog2() == degree && is_irreducible(found), "{degree} {start}");
        }
        // the standard's, which is primitive
        assert_eq!(irreducible_from(32, 0x04c1_1db7), 0x1_04c1_1db7);
    }
}
