/* A kernel for each primitive, which tests run by themselves. */

/* sums[2 i] is the sum before number i of its group, sums[2 i + 1] the sum of the group: twice, so that
 * the second call meets what the first left. */
KERNEL(test_sums)(GLOBAL const u32 *numbers, GLOBAL u32 *sums)
{
    SHARED(u32, scratch, GROUP + 1);
    u32 at = GROUP_NUMBER * GROUP + ITEM;
    group_sum_before(7, scratch);
    u32 sum = group_sum_before(numbers[at], scratch);
    sums[2 * at] = sum;
    sums[2 * at + 1] = scratch[GROUP];
}

KERNEL(test_least)(GLOBAL const u64 *keys, GLOBAL u64 *least)
{
    SHARED(u64, scratch, GROUP);
    group_least(5, scratch);
    least[GROUP_NUMBER * GROUP + ITEM] = group_least(keys[GROUP_NUMBER * GROUP + ITEM], scratch);
}

/* Every work-item takes as many places as its number says, and writes its own index there. */
KERNEL(test_append)(GLOBAL const u32 *numbers, GLOBAL u32 *list, GLOBAL u32 *counter)
{
    u32 at = GROUP_NUMBER * GROUP + ITEM;
    u32 start = APPEND(counter, numbers[at]);
    for (u32 i = 0; i < numbers[at]; i++) {
        list[start + i] = at;
    }
}

/* Sixteen bytes a work-item, by way of shared memory, where the neighbour's are taken. */
KERNEL(test_copy)(GLOBAL const u8 *from, GLOBAL u8 *to)
{
    SHARED(u8, shared, 16 * GROUP);
    u32 at = 16 * (GROUP_NUMBER * GROUP + ITEM);
    COPY_16(shared + 16 * ITEM, from + at);
    WAIT_FOR_COPIES();
    u32 other = 16 * ((ITEM + 1) % GROUP);
    for (u32 i = 0; i < 16; i++) {
        to[at + i] = shared[other + i];
    }
}

/* found[i] is the word at byte i. */
KERNEL(test_words)(GLOBAL const u32 *words, GLOBAL u32 *found)
{
    u32 at = GROUP_NUMBER * GROUP + ITEM;
    found[at] = reversed_32(word_at(words, at));
}

/* Turns the numbers of a group around. */
KERNEL(test_shared)(GLOBAL const u32 *numbers, GLOBAL u32 *turned)
{
    SHARED(u32, shared, GROUP);
    shared[ITEM] = numbers[GROUP_NUMBER * GROUP + ITEM];
    BARRIER();
    turned[GROUP_NUMBER * GROUP + ITEM] = shared[GROUP - 1 - ITEM];
}

/* Each number turned left in 64 bits, and its lower half turned left and right in 32. */
KERNEL(test_rotate)(GLOBAL const u64 *numbers, GLOBAL u64 *turned)
{
    u32 at = GROUP_NUMBER * GROUP + ITEM;
    u32 by = 1 + ITEM % 31;
    turned[2 * at] = rotate_left_64(numbers[at], 1 + ITEM % 63);
    u32 low = (u32)numbers[at];
    turned[2 * at + 1] = (u64)rotate_left_32(low, by) << 32 | rotate_right_32(low, by);
}
