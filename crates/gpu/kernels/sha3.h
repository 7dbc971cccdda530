/* SHA3-256 (FIPS 202), a chunk a work-item. */

#define RATE 136 /* bytes that a permutation takes in */

/* What each round adds to the first lane. */
CONSTANT u64 SHA3_ROUNDS[24] = {
    U64(0x0000000000000001), U64(0x0000000000008082), U64(0x800000000000808a),
    U64(0x8000000080008000), U64(0x000000000000808b), U64(0x0000000080000001),
    U64(0x8000000080008081), U64(0x8000000000008009), U64(0x000000000000008a),
    U64(0x0000000000000088), U64(0x0000000080008009), U64(0x000000008000000a),
    U64(0x000000008000808b), U64(0x800000000000008b), U64(0x8000000000008089),
    U64(0x8000000000008003), U64(0x8000000000008002), U64(0x8000000000000080),
    U64(0x000000000000800a), U64(0x800000008000000a), U64(0x8000000080008081),
    U64(0x8000000000008080), U64(0x0000000080000001), U64(0x8000000080008008),
};

/* Lane `at` gets the lane before it in the walk of pi, turned by rho. */
#define RHO_PI(at, by)                                                                             \
    do {                                                                                           \
        u64 next = s[at];                                                                          \
        s[at] = rotate_left_64(moved, by);                                                         \
        moved = next;                                                                              \
    } while (0)

FN void sha3_round(u64 *s, u64 addend)
{
    u64 column[5];
    UNROLL_ALL
    for (u32 x = 0; x < 5; x++) {
        column[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
    }
    UNROLL_ALL
    for (u32 x = 0; x < 5; x++) {
        u64 both = column[(x + 4) % 5] ^ rotate_left_64(column[(x + 1) % 5], 1);
        UNROLL_ALL
        for (u32 y = 0; y < 25; y += 5) {
            s[x + y] ^= both;
        }
    }
    u64 moved = s[1];
    RHO_PI(10, 1);
    RHO_PI(7, 3);
    RHO_PI(11, 6);
    RHO_PI(17, 10);
    RHO_PI(18, 15);
    RHO_PI(3, 21);
    RHO_PI(5, 28);
    RHO_PI(16, 36);
    RHO_PI(8, 45);
    RHO_PI(21, 55);
    RHO_PI(24, 2);
    RHO_PI(4, 14);
    RHO_PI(15, 27);
    RHO_PI(23, 41);
    RHO_PI(19, 56);
    RHO_PI(13, 8);
    RHO_PI(12, 25);
    RHO_PI(2, 43);
    RHO_PI(20, 62);
    RHO_PI(14, 18);
    RHO_PI(22, 39);
    RHO_PI(9, 61);
    RHO_PI(6, 20);
    RHO_PI(1, 44);
    UNROLL_ALL
    for (u32 y = 0; y < 25; y += 5) {
        u64 a = s[y], b = s[y + 1], c = s[y + 2], d = s[y + 3], e = s[y + 4];
        s[y] = a ^ (~b & c);
        s[y + 1] = b ^ (~c & d);
        s[y + 2] = c ^ (~d & e);
        s[y + 3] = d ^ (~e & a);
        s[y + 4] = e ^ (~a & b);
    }
    s[0] ^= addend;
}

/* The fingerprint of each of `count` chunks: chunks[3 c] is where chunk c begins in `data`, in bytes,
 * and chunks[3 c + 1] its length. */
KERNEL(sha3_256)
(GLOBAL const u32 *data, GLOBAL const u32 *chunks, GLOBAL u32 *digests, u32 count)
{
    u32 chunk = GROUP_NUMBER * GROUP + ITEM;
    if (chunk >= count) {
        return;
    }
    u32 at = chunks[3 * chunk], len = chunks[3 * chunk + 1];
    u64 s[25];
    UNROLL_ALL
    for (u32 i = 0; i < 25; i++) {
        s[i] = 0;
    }
    u32 blocks = len / RATE + 1;
    for (u32 number = 0; number < blocks; number++) {
        UNROLL_ALL
        for (u32 lane = 0; lane < RATE / 8; lane++) {
            u32 words[2];
            UNROLL_ALL
            for (u32 i = 0; i < 2; i++) {
                u32 place = number * RATE + 8 * lane + 4 * i;
                u32 word = 0;
                if (place < len) {
                    word = word_at(data, at + place);
                }
                if (place <= len && len < place + 4) {
                    u32 bytes = len - place;
                    word = (word & ((1u << 8 * bytes) - 1)) | 6u << 8 * bytes;
                }
                words[i] = word;
            }
            s[lane] ^= (u64)words[1] << 32 | words[0];
        }
        if (number == blocks - 1) {
            s[RATE / 8 - 1] ^= U64(1) << 63;
        }
        for (u32 round = 0; round < 24; round++) {
            sha3_round(s, SHA3_ROUNDS[round]);
        }
    }
    for (u32 i = 0; i < 8; i++) {
        digests[8 * chunk + i] = (u32)(s[i / 2] >> 32 * (i % 2));
    }
}
