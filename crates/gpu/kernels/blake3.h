/* BLAKE3: J. O'Connor, J.-P. Aumasson, S. Neves, Z. Wilcox-O'Hearn, "BLAKE3: one function, fast
 * everywhere", 2020. A leaf is 1,024 bytes, a block 64; a chunk's leaves are hashed at once, and then
 * joined in pairs, level by level, which is the tree that BLAKE3 defines. */

#define LEAF 1024
#define CHUNK_START 1
#define CHUNK_END 2
#define PARENT 4
#define ROOT 8

#define MIX(a, b, c, d, x, y)                                                                      \
    do {                                                                                           \
        a += b + (x);                                                                              \
        d = rotate_right_32(d ^ a, 16);                                                            \
        c += d;                                                                                    \
        b = rotate_right_32(b ^ c, 12);                                                            \
        a += b + (y);                                                                              \
        d = rotate_right_32(d ^ a, 8);                                                             \
        c += d;                                                                                    \
        b = rotate_right_32(b ^ c, 7);                                                             \
    } while (0)

/* `value` becomes the compression of the 16 words of `block` under it. `block` is used up. */
FN void compress(u32 *value, u32 *block, u32 counter, u32 block_len, u32 flags)
{
    u32 v0 = value[0], v1 = value[1], v2 = value[2], v3 = value[3];
    u32 v4 = value[4], v5 = value[5], v6 = value[6], v7 = value[7];
    u32 v8 = 0x6a09e667, v9 = 0xbb67ae85, v10 = 0x3c6ef372, v11 = 0xa54ff53a;
    u32 v12 = counter, v13 = 0, v14 = block_len, v15 = flags;
    UNROLL_ALL
    for (u32 round = 0; round < 7; round++) {
        MIX(v0, v4, v8, v12, block[0], block[1]);
        MIX(v1, v5, v9, v13, block[2], block[3]);
        MIX(v2, v6, v10, v14, block[4], block[5]);
        MIX(v3, v7, v11, v15, block[6], block[7]);
        MIX(v0, v5, v10, v15, block[8], block[9]);
        MIX(v1, v6, v11, v12, block[10], block[11]);
        MIX(v2, v7, v8, v13, block[12], block[13]);
        MIX(v3, v4, v9, v14, block[14], block[15]);
        u32 p0 = block[2], p1 = block[6], p2 = block[3], p3 = block[10];
        u32 p4 = block[7], p5 = block[0], p6 = block[4], p7 = block[13];
        u32 p8 = block[1], p9 = block[11], p10 = block[12], p11 = block[5];
        u32 p12 = block[9], p13 = block[14], p14 = block[15], p15 = block[8];
        block[0] = p0, block[1] = p1, block[2] = p2, block[3] = p3;
        block[4] = p4, block[5] = p5, block[6] = p6, block[7] = p7;
        block[8] = p8, block[9] = p9, block[10] = p10, block[11] = p11;
        block[12] = p12, block[13] = p13, block[14] = p14, block[15] = p15;
    }
    value[0] = v0 ^ v8, value[1] = v1 ^ v9, value[2] = v2 ^ v10, value[3] = v3 ^ v11;
    value[4] = v4 ^ v12, value[5] = v5 ^ v13, value[6] = v6 ^ v14, value[7] = v7 ^ v15;
}

/* The number of the last of `count` chunks, at least one, whose first leaf is at or before `leaf`:
 * chunks[3 c + 2] is the first leaf of chunk c, ascending from 0. */
FN u32 chunk_of_leaf(GLOBAL const u32 *chunks, u32 count, u32 leaf)
{
    u32 low = 0, high = count;
    while (high - low > 1) {
        u32 middle = low + (high - low) / 2;
        if (chunks[3 * middle + 2] <= leaf) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The value of each leaf of `count` chunks. chunks[3 c] is where chunk c begins in `data`, in bytes,
 * chunks[3 c + 1] its length and chunks[3 c + 2] its first leaf; a chunk of no bytes has one leaf.
 * `key` holds eight words and the flags of the whole hash: the initial value and 0, or a key and 16. */
KERNEL(blake3_leaves)
(GLOBAL const u32 *data, GLOBAL const u32 *chunks, GLOBAL const u32 *key, GLOBAL u32 *values,
 u32 count, u32 leaves)
{
    u32 leaf = GROUP_NUMBER * GROUP + ITEM;
    if (leaf >= leaves) {
        return;
    }
    u32 chunk = chunk_of_leaf(chunks, count, leaf);
    u32 number = leaf - chunks[3 * chunk + 2];
    u32 len = chunks[3 * chunk + 1];
    u32 at = chunks[3 * chunk] + number * LEAF;
    u32 left = len - number * LEAF;
    u32 is_alone = number == 0 && left <= LEAF;
    left = left < LEAF ? left : LEAF;

    u32 value[8];
    for (u32 i = 0; i < 8; i++) {
        value[i] = key[i];
    }
    u32 flags = key[8] | CHUNK_START;
    for (;;) {
        u32 block_len = left < 64 ? left : 64;
        u32 block[16];
        UNROLL_ALL
        for (u32 i = 0; i < 16; i++) {
            u32 bytes = block_len > 4 * i ? block_len - 4 * i : 0;
            u32 word = bytes == 0 ? 0 : word_at(data, at + 4 * i);
            block[i] = bytes < 4 ? word & ((1u << 8 * bytes) - 1) : word;
        }
        left -= block_len;
        at += block_len;
        if (left == 0) {
            flags |= CHUNK_END | (is_alone ? ROOT : 0);
            compress(value, block, number, block_len, flags);
            break;
        }
        compress(value, block, number, block_len, flags);
        flags = key[8];
    }
    for (u32 i = 0; i < 8; i++) {
        values[8 * leaf + i] = value[i];
    }
}

/* Joins the values of each chunk's leaves; a group a chunk. digests[8 c …] is the fingerprint of
 * chunk c. The values are used up. `leaves` is their number, of all chunks. */
KERNEL(blake3_join)
(GLOBAL const u32 *chunks, GLOBAL const u32 *key, GLOBAL u32 *values, GLOBAL u32 *digests, u32 count,
 u32 leaves)
{
    u32 chunk = GROUP_NUMBER;
    u32 first = chunks[3 * chunk + 2];
    u32 left = (chunk + 1 < count ? chunks[3 * chunk + 5] : leaves) - first;
    GLOBAL u32 *own = values + 8 * first;
    while (left > 1) {
        u32 pairs = left / 2;
        /* a stretch of pairs is read before the place in front of it is written */
        for (u32 base = 0; base < pairs; base += GROUP) {
            u32 pair = base + ITEM;
            u32 value[8], block[16];
            if (pair < pairs) {
                for (u32 i = 0; i < 16; i++) {
                    block[i] = own[16 * pair + i];
                }
                for (u32 i = 0; i < 8; i++) {
                    value[i] = key[i];
                }
                compress(value, block, 0, 64, key[8] | PARENT | (left == 2 ? ROOT : 0));
            }
            BARRIER();
            if (pair < pairs) {
                for (u32 i = 0; i < 8; i++) {
                    own[8 * pair + i] = value[i];
                }
            }
            BARRIER();
        }
        /* one without a partner goes up a level as it is */
        if (left % 2 == 1 && ITEM < 8) {
            own[8 * pairs + ITEM] = own[8 * (left - 1) + ITEM];
        }
        BARRIER();
        left -= pairs;
    }
    if (ITEM < 8) {
        digests[8 * chunk + ITEM] = own[ITEM];
    }
}
