/* The candidates of rules that test a hash of a window, of HASH bits: this file is read once for 32
 * and once for 64. A candidate is a position, the number of bytes before it, where the test passes.
 *
 * Whoever calls must know that the minimum chunk size is no less than the window: then whether a
 * position passes depends on the window alone, and not on where chunks begin.
 */

#if HASH_BITS == 64
#define HASH u64
#define OF(name) name##_64
#else
#define HASH u32
#define OF(name) name##_32
#endif

/* The hash after `entering`, where `leaving` came a window before it. */
FN HASH OF(roll)(u32 rule, HASH hash, LOCAL const HASH *table, u32 entering, u32 leaving)
{
#if HASH_BITS == 64
    if (rule == RABIN) {
        u64 pushed = (hash << 8 & RABIN_MASK) ^ table[(u32)(hash >> (RABIN_DEGREE - 8)) ^ entering];
        return pushed ^ table[256 + leaving];
    }
#else
    if (rule == CRC) {
        return hash >> 8 ^ table[(hash & 0xff) ^ entering] ^ table[256 + leaving];
    }
    if (rule == BUZHASH) {
        return rotate_left_32(hash, 1) ^ table[entering] ^ table[256 + leaving];
    }
#endif
    return (hash << 1) + table[entering];
}

/* Whether `hash` passes: 2 under the strict limit, 1 under the other alone, 0 if it does not. */
FN u32 OF(passes)(u32 rule, HASH hash, HASH limit, HASH strict)
{
    if (rule == GEAR) {
        return (hash <= limit) + (hash <= strict);
    }
    if (rule == GEAR16) {
        return (hash & 0xffff) <= limit;
    }
    return hash >= limit;
}

/* Gear16's second test: the hash of the 16 bytes that end at byte `end` of the tile. */
FN u32 OF(hash_of_16)(LOCAL const u8 *tile, LOCAL const HASH *table, u32 end)
{
    HASH hash = 0;
    for (u32 at = end - 16; at < end; at++) {
        hash = (hash << 1) + table[tile[in_tile(at)]];
    }
    return (u32)hash & 0xffff;
}

/* Finds the candidates of this work-item's strip at positions from `from` to `to`, counted from the
 * strip's first byte. Writes them to `list` from `at` on if it is to `write`, and counts them. The
 * first two are in `found` afterwards. */
FN u32 OF(search_strip)(u32 rule, LOCAL const u8 *tile, LOCAL const HASH *table, u32 window,
                        HASH limit, HASH strict, u32 from, u32 to, u32 origin, int write,
                        GLOBAL u32 *list, u32 at, u32 *found)
{
    if (to < from) {
        return 0;
    }
    u32 start = (ITEM + 1) * STRIP;
    int rolls = rule == RABIN || rule == CRC || rule == BUZHASH;
    u32 warm = rule == GEAR16 ? 16 : window;
    u32 count = 0;
    HASH hash = 0;
    for (u32 byte = start - warm; byte < start; byte++) {
        u32 entering = tile[in_tile(byte)];
        if (rolls) {
            /* before the window nothing leaves it: zeros, whose own part is taken back */
            hash = OF(roll)(rule, hash, table, entering, 0) ^ table[256];
        } else {
            hash = OF(roll)(rule, hash, table, entering, 0);
        }
    }
    for (u32 byte = 0; byte < to; byte += 4) {
        u32 entering = tile_word(tile, start + byte);
        u32 leaving = rolls ? tile_word_at(tile, start + byte - window) : 0;
        UNROLL_ALL
        for (u32 i = 0; i < 4; i++) {
            hash = OF(roll)(rule, hash, table, entering & 0xff, leaving & 0xff);
            entering >>= 8;
            leaving >>= 8;
            u32 passed = OF(passes)(rule, hash, limit, strict);
            u32 position = byte + i + 1;
            if (passed != 0 && from <= position && position <= to) {
                if (rule == GEAR16
                    && OF(hash_of_16)(tile, table, start + position - 16) > (u32)strict) {
                    continue;
                }
                u32 candidate = (origin + position) | (rule == GEAR && passed == 2 ? STRICT : 0);
                if (write) {
                    list[at + count] = candidate;
                } else if (count == 0) {
                    found[0] = candidate;
                } else if (count == 1) {
                    found[1] = candidate;
                }
                count++;
            }
        }
    }
    return count;
}

/* Appends the candidates of one tile to `list`, in their order, and notes in `tiles` where they are
 * and how many: tiles[2 n] and tiles[2 n + 1] of the n-th group. If they do not fit below `room`, none
 * is written, and `counter` still counts them.
 *
 * `first_tile` is the tile of the first group; positions up to `first`, or with less than a window
 * before them, are left out. */
FN void OF(candidates)(u32 rule, GLOBAL const u8 *data, u32 first_tile, u32 first, u32 len,
                       GLOBAL const HASH *given_table, u32 window, HASH limit, HASH strict,
                       GLOBAL u32 *list, u32 room, GLOBAL u32 *tiles, GLOBAL u32 *counter,
                       LOCAL u8 *tile, LOCAL HASH *table, LOCAL u32 *scratch)
{
    u32 number = first_tile + GROUP_NUMBER;
    u32 entries = rule == GEAR || rule == GEAR16 ? 256 : 512;
    for (u32 entry = ITEM; entry < entries; entry += GROUP) {
        table[entry] = given_table[entry];
    }
    bring_tile(tile, data, number, len);

    u32 origin = number * TILE + ITEM * STRIP;
    u32 least = first + 1 > window ? first + 1 : window;
    u32 from = least > origin ? least - origin : 1;
    u32 to = len > origin ? (len - origin < STRIP ? len - origin : STRIP) : 0;
    u32 found[2] = {0, 0};
    u32 count = OF(search_strip)(rule, tile, table, window, limit, strict, from, to, origin, 0, list,
                                 0, found);

    u32 before = group_sum_before(count, scratch);
    u32 total = scratch[GROUP];
    if (ITEM == 0) {
        u32 start = APPEND(counter, total);
        tiles[2 * GROUP_NUMBER] = start;
        tiles[2 * GROUP_NUMBER + 1] = total;
        scratch[0] = start;
    }
    BARRIER();
    u32 start = scratch[0];
    if (total > room || start > room - total) {
        return;
    }
    if (count <= 2) {
        if (count > 0) {
            list[start + before] = found[0];
        }
        if (count > 1) {
            list[start + before + 1] = found[1];
        }
    } else {
        OF(search_strip)(rule, tile, table, window, limit, strict, from, to, origin, 1, list,
                         start + before, found);
    }
}

/* A kernel for one rule. Shared memory must be declared in the kernel itself. */
#define CANDIDATES(name, rule)                                                                     \
    KERNEL(name)                                                                                   \
    (GLOBAL const u8 *data, GLOBAL const HASH *given_table, GLOBAL u32 *list, GLOBAL u32 *tiles,   \
     GLOBAL u32 *counter, u32 first_tile, u32 first, u32 len, u32 window, HASH limit, HASH strict, \
     u32 room)                                                                                     \
    {                                                                                              \
        SHARED(u8, tile, TILE_ROOM);                                                               \
        SHARED(HASH, table, rule == GEAR || rule == GEAR16 ? 256 : 512);                           \
        SHARED(u32, scratch, GROUP + 1);                                                           \
        OF(candidates)(rule, data, first_tile, first, len, given_table, window, limit, strict,     \
                       list, room, tiles, counter, tile, table, scratch);                          \
    }

#if HASH_BITS == 64
CANDIDATES(candidates_gear, GEAR)
CANDIDATES(candidates_rabin, RABIN)
#else
CANDIDATES(candidates_gear32, GEAR)
CANDIDATES(candidates_gear16, GEAR16)
CANDIDATES(candidates_crc, CRC)
CANDIDATES(candidates_buzhash, BUZHASH)
#endif

#undef CANDIDATES
#undef HASH
#undef OF
