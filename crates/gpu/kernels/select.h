/* MinCDC's cut-points from the least keys of strips. Each range depends on the cut-point before, so a group
 * takes one after another. But ranges overlap: two chains that begin at different bytes soon have a cut-point
 * in common, and are one from there on. So each group begins at a stretch of its own, and the host joins the
 * chains. */

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

/* chains[n * room] is how many cut-points the n-th group found, and they follow it: those after byte
 * start + n * stretch, as if it were a cut-point, of which `more` may lie behind the stretch. Only those that the
 * first `len` bytes decide, all if they are the end. A rest no longer than `first` is one chunk. */
KERNEL(select_least)
(GLOBAL const u8 *data, GLOBAL const u64 *minima, GLOBAL u32 *chains, u32 start, u32 stretch, u32 more,
 u32 room, u32 len, u32 first, u32 max, u32 is_end, u32 factor, u32 addend)
{
    SHARED(u64, scratch, GROUP);
    GLOBAL u32 *chain = chains + GROUP_NUMBER * room;
    u32 at = start + GROUP_NUMBER * stretch;
    u32 stretch_end = at + stretch;
    u32 count = 0;
    while (at < len && (len - at >= max || is_end) && (at < stretch_end || more > 0)) {
        more -= at >= stretch_end;
        u32 cut = len - at < max ? len : at + max;
        if (cut - at > first) {
            u64 least = least_of_range(data, minima, at + first, cut, factor, addend);
            cut = (u32)group_least(least, scratch);
        }
        count++;
        if (ITEM == 0) {
            chain[count] = cut;
        }
        at = cut;
    }
    if (ITEM == 0) {
        chain[0] = count;
    }
}
