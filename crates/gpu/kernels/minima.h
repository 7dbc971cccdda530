/* MinCDC: the least hash of the four bytes before each position, a strip at a time. */

/* minima[s] is the least key of the positions s * STRIP + 1 to (s + 1) * STRIP that have four bytes
 * before them and are no greater than `len`; all ones if there is none. A key is a hash above its
 * position: the least is the first of the least hashes. */
KERNEL(minima)
(GLOBAL const u8 *data, GLOBAL u64 *minima, u32 first_tile, u32 len, u32 factor, u32 addend)
{
    SHARED(u8, tile, TILE_ROOM);
    u32 number = first_tile + GROUP_NUMBER;
    bring_tile(tile, data, number, len);

    u32 strip = number * GROUP + ITEM;
    u32 origin = strip * STRIP;
    if (origin >= len) {
        return;
    }
    u32 start = (ITEM + 1) * STRIP;
    u32 to = len - origin < STRIP ? len - origin : STRIP;
    u32 from = origin == 0 ? 4 : 1;
    u64 least = ~U64(0);
    u32 low = tile_word(tile, start - 4);
    for (u32 byte = 0; byte < to; byte += 4) {
        u32 high = tile_word(tile, start + byte);
        UNROLL_ALL
        for (u32 i = 0; i < 4; i++) {
            u32 position = byte + i + 1;
            /* the four bytes that end with byte i of `high` */
            u32 four = i == 3 ? high : low >> (8 * (i + 1)) | high << (24 - 8 * i);
            u64 key = (u64)(four * factor + addend) << 32 | (origin + position);
            if (key < least && from <= position && position <= to) {
                least = key;
            }
        }
        low = high;
    }
    minima[strip] = least;
}
