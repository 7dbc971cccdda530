/* A tile is what a group works on: GROUP strips of bytes, one a work-item, and a strip before them,
 * brought into shared memory in pieces of 16 bytes that neighbouring work-items fetch together.
 *
 * Strips lie 16 bytes further apart than they are long: so work-items that read the same place of
 * neighbouring strips 16 bytes at a time meet no other's bank.
 */

#define STRIP 256 /* bytes, no shorter than the longest window */
#define TILE (GROUP * STRIP)
#define STRIP_ROOM (STRIP + 16)
#define TILE_ROOM ((GROUP + 1) * STRIP_ROOM)

/* Where byte `at` of the tile is, 0 being the first of the strip before it. */
FN u32 in_tile(u32 at) { return at + at / STRIP * 16; }

/* Brings tile `number` of `data`, `len` bytes, into `tile`. Zeros stand for bytes before the first.
 * Reads up to 15 bytes behind `len`; what is behind those stays as it was. */
FN void bring_tile(LOCAL u8 *tile, GLOBAL const u8 *data, u32 number, u32 len)
{
    for (u32 piece = ITEM; piece < (TILE + STRIP) / 16; piece += GROUP) {
        u32 at = piece * 16;
        LOCAL u8 *to = tile + in_tile(at);
        if (number == 0 && at < STRIP) {
            for (u32 i = 0; i < 4; i++) {
                ((LOCAL u32 *)to)[i] = 0;
            }
        } else {
            u32 from = number * TILE + at - STRIP;
            if (from < len) {
                COPY_16(to, data + from);
            }
        }
    }
    WAIT_FOR_COPIES();
}

/* The four bytes from byte `at` of the tile on, a multiple of 4. */
FN u32 tile_word(LOCAL const u8 *tile, u32 at) { return *(LOCAL const u32 *)(tile + in_tile(at)); }

/* The same from any byte on. */
FN u32 tile_word_at(LOCAL const u8 *tile, u32 at)
{
    u32 shift = (at & 3) * 8;
    u32 low = tile_word(tile, at & ~3u);
    return shift == 0 ? low : low >> shift | tile_word(tile, (at & ~3u) + 4) << (32 - shift);
}
