/* Rabin without tiles, for comparison: each work-item fetches the bytes of its strip from the device's
 * memory by itself, one at a time, as the basic kernel of Shredder does. It finds what candidates_rabin
 * finds. */

FN u32 byte_or_zero(GLOBAL const u8 *data, int at) { return at < 0 ? 0 : data[at]; }

FN u32 search_directly(GLOBAL const u8 *data, GLOBAL const u64 *table, u32 window, u64 limit, u32 from,
                       u32 to, u32 origin, int write, GLOBAL u32 *list, u32 at)
{
    if (to < from) {
        return 0;
    }
    int start = (int)origin - (int)window;
    u64 hash = 0;
    for (u32 byte = 0; byte < window; byte++) {
        u32 index = (u32)(hash >> (RABIN_DEGREE - 8)) ^ byte_or_zero(data, start + (int)byte);
        hash = (hash << 8 & RABIN_MASK) ^ table[index];
    }
    u32 count = 0;
    for (u32 byte = 0; byte < to; byte++) {
        u32 index = (u32)(hash >> (RABIN_DEGREE - 8)) ^ data[origin + byte];
        u32 leaving = byte_or_zero(data, start + (int)byte);
        hash = (hash << 8 & RABIN_MASK) ^ table[index] ^ table[256 + leaving];
        if (hash >= limit && byte + 1 >= from) {
            if (write) {
                list[at + count] = origin + byte + 1;
            }
            count++;
        }
    }
    return count;
}

KERNEL(direct_rabin)
(GLOBAL const u8 *data, GLOBAL const u64 *table, GLOBAL u32 *list, GLOBAL u32 *tiles,
 GLOBAL u32 *counter, u32 first_tile, u32 first, u32 len, u32 window, u64 limit, u64 strict, u32 room)
{
    SHARED(u32, scratch, GROUP + 1);
    u32 origin = (first_tile + GROUP_NUMBER) * TILE + ITEM * STRIP;
    u32 least = first + 1 > window ? first + 1 : window;
    u32 from = least > origin ? least - origin : 1;
    u32 to = len > origin ? (len - origin < STRIP ? len - origin : STRIP) : 0;
    u32 count = search_directly(data, table, window, limit, from, to, origin, 0, list, 0);
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
    if (total <= room && start <= room - total && count > 0) {
        search_directly(data, table, window, limit, from, to, origin, 1, list, start + before);
    }
    (void)strict;
}
