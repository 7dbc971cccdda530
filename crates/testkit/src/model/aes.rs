//! AES with a key of 128 bits as FIPS 197 has it, a byte at a time.

pub(super) struct Aes {
    substitutes: [u8; 256],
    round_keys: [[u8; 16]; 11],
}

impl Aes {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let substitutes = std::array::from_fn(|byte| substitute(byte as u8));
        let mut words: Vec<[u8; 4]> =
            key.chunks(4).map(|word| std::array::from_fn(|i| word[i])).collect();
        let mut constant = 1;
        for i in 4..44 {
            let mut word = words[i - 1];
            if i % 4 == 0 {
                word.rotate_left(1);
                word = word.map(|byte| substitutes[usize::from(byte)]);
                word[0] ^= constant;
                constant = times(constant, 2);
            }
            words.push(std::array::from_fn(|j| word[j] ^ words[i - 4][j]));
        }
        let round_keys =
            std::array::from_fn(|round| std::array::from_fn(|i| words[4 * round + i / 4][i % 4]));
        Self { substitutes, round_keys }
    }

    pub(super) fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let add = |state: [u8; 16], round: usize| -> [u8; 16] {
            std::array::from_fn(|i| state[i] ^ self.round_keys[round][i])
        };
        (1..=10).fold(add(block, 0), |state, round| {
            // byte i is row i mod 4 of column i / 4; row r comes from r columns further
            let shifted: [u8; 16] = std::array::from_fn(|i| {
                self.substitutes[usize::from(state[(i + 4 * (i % 4)) % 16])]
            });
            add(if round < 10 { mix_columns(shifted) } else { shifted }, round)
        })
    }
}

fn mix_columns(state: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let row = |behind: usize| state[i / 4 * 4 + (i + behind) % 4];
        times(row(0), 2) ^ times(row(1), 3) ^ row(2) ^ row(3)
    })
}

/// The inverse (0 for 0), turned and turned again.
fn substitute(byte: u8) -> u8 {
    let inverse = (0..254).fold(1, |power, _| times(power, byte));
    (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

/// The product modulo x^8 + x^4 + x^3 + x + 1.
fn times(a: u8, b: u8) -> u8 {
    (0..8).rev().fold(0_u8, |sum, bit| {
        let doubled = sum << 1 ^ if sum >> 7 == 1 { 0x1b } else { 0 };
        doubled ^ if b >> bit & 1 == 1 { a } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_come_out() {
        // appendix C.1, then appendix B
        let key = std::array::from_fn(|i| i as u8);
        let block = std::array::from_fn(|i| 0x11 * i as u8);
        let expected = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes();
        assert_eq!(Aes::new(key).encrypt(block), expected);

        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
        let block = 0x3243_f6a8_885a_308d_3131_98a2_e037_0734_u128.to_be_bytes();
        let expected = 0x3925_841d_02dc_09fb_dc11_8597_196a_0b32_u128.to_be_bytes();
        assert_eq!(Aes::new(key).encrypt(block), expected);
    }
}
