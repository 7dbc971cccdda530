/* SHA-256 (FIPS 180-4), a chunk a work-item. */

/* The first bits of the fractions of the cube roots of the first 64 primes. */
CONSTANT u32 SHA256_K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* The 64 rounds over the 16 words of `block`, which become the schedule's last 16. */
FN void sha256_block(u32 *state, u32 *block)
{
    u32 a = state[0], b = state[1], c = state[2], d = state[3];
    u32 e = state[4], f = state[5], g = state[6], h = state[7];
    for (u32 base = 0; base < 64; base += 16) {
        UNROLL_ALL
        for (u32 i = 0; i < 16; i++) {
            if (base > 0) {
                u32 w15 = block[(i + 1) & 15], w2 = block[(i + 14) & 15];
                u32 s0 = rotate_right_32(w15, 7) ^ rotate_right_32(w15, 18) ^ w15 >> 3;
                u32 s1 = rotate_right_32(w2, 17) ^ rotate_right_32(w2, 19) ^ w2 >> 10;
                block[i] += s0 + block[(i + 9) & 15] + s1;
            }
            u32 sum1 = rotate_right_32(e, 6) ^ rotate_right_32(e, 11) ^ rotate_right_32(e, 25);
            u32 choice = (e & f) ^ (~e & g);
            u32 t1 = h + sum1 + choice + SHA256_K[base + i] + block[i];
            u32 sum0 = rotate_right_32(a, 2) ^ rotate_right_32(a, 13) ^ rotate_right_32(a, 22);
            u32 majority = (a & b) ^ (a & c) ^ (b & c);
            h = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + sum0 + majority;
        }
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

/* The fingerprint of each of `count` chunks: chunks[3 c] is where chunk c begins in `data`, in bytes,
 * and chunks[3 c + 1] its length, at most 64 MiB. */
KERNEL(sha256)
(GLOBAL const u32 *data, GLOBAL const u32 *chunks, GLOBAL u32 *digests, u32 count)
{
    u32 chunk = GROUP_NUMBER * GROUP + ITEM;
    if (chunk >= count) {
        return;
    }
    u32 at = chunks[3 * chunk], len = chunks[3 * chunk + 1];
    u32 state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    /* a set bit, zeros, and the length in bits in the last eight bytes of a block */
    u32 blocks = (len + 8) / 64 + 1;
    for (u32 number = 0; number < blocks; number++) {
        u32 block[16];
        UNROLL_ALL
        for (u32 i = 0; i < 16; i++) {
            u32 place = number * 64 + 4 * i;
            u32 word = 0;
            if (place < len) {
                word = word_at(data, at + place);
            }
            if (place <= len && len < place + 4) {
                u32 bytes = len - place;
                word = (word & ((1u << 8 * bytes) - 1)) | 0x80u << 8 * bytes;
            }
            block[i] = reversed_32(word);
        }
        if (number == blocks - 1) {
            block[14] = len >> 29;
            block[15] = len << 3;
        }
        sha256_block(state, block);
    }
    for (u32 i = 0; i < 8; i++) {
        digests[8 * chunk + i] = reversed_32(state[i]);
    }
}
