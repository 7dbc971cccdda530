/* MinCDC's cut-points from the least keys of strips, one after another: what the host selects, for data
 * that the host does not have. One group does it, since each range depends on the cut-point before. */

/* The least key of the positions from `from` to `to` that this work-item looks at. */
FN u64 least_of_positions(GLOBAL const u8 *data, u32 from, u32 to, u32 factor, u32 addend)
{
    u64 least = ~U64(0);
    for (u32 at = from + ITEM; at <= to; at += GROUP) {
        u32 four = data[at - 4] | (u32)data[at - 3] << 8 | (u32)data[at - 2] << 16
                   | (u32)data[at - 1] << 24;
        u64 key = (u64)(four * factor + addend) << 32 | at;
        least = key < least ? key : least;
    }
    return least;
}

/* The least key of the positions from `from` to `to`; whole strips are looked up in `minima`. */
FN u64 least_of_range(GLOBAL const u8 *data, GLOBAL const u64 *minima, u32 from, u32 to, u32 factor,
                      u32 addend)
{
    u32 whole_from = (from + STRIP - 2) / STRIP;
    u32 whole_to = to / STRIP;
    if (whole_from >= whole_to) {
        return least_of_positions(data, from, to, factor, addend);
    }
    u64 least = least_of_positions(data, from, whole_from * STRIP, factor, addend);
    u64 tail = least_of_positions(data, whole_to * STRIP + 1, to, factor, addend);
    least = tail < least ? tail : least;
    for (u32 strip = whole_from + ITEM; strip < whole_to; strip += GROUP) {
        least = minima[strip] < least ? minima[strip] : least;
    }
    return least;
}

/* The cut-points after `start` that the first `len` bytes decide, all if they are the end, and in
 * `counter` how many. A rest no longer than `first` is one chunk. */
KERNEL(select_least)
(GLOBAL const u8 *data, GLOBAL const u64 *minima, GLOBAL u32 *cuts, GLOBAL u32 *counter, u32 start,
 u32 len, u32 first, u32 max, u32 is_end, u32 factor, u32 addend)
{
    SHARED(u64, scratch, GROUP);
    u32 count = 0;
    while (start < len && (len - start >= max || is_end)) {
        u32 cut = len - start < max ? len : start + max;
        if (cut - start > first) {
            u64 least = least_of_range(data, minima, start + first, cut, factor, addend);
            cut = (u32)group_least(least, scratch);
        }
        if (ITEM == 0) {
            cuts[count] = cut;
        }
        count++;
        start = cut;
    }
    if (ITEM == 0) {
        counter[0] = count;
    }
}
