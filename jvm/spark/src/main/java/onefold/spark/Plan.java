package onefold.spark;

/**
 * What the driver found when an action was called.
 *
 * @param hits splits whose results are replayed, and {@code hitBytes} their bytes
 * @param misses splits that are computed, and {@code missBytes} their bytes
 * @param nodes nodes of the reduce tree that are computed, out of {@code allNodes}
 * @param nanos how long planning took
 * @param memo the folder of the memo, or an empty text without one
 * @param reason why there is no memo, or an empty text
 */
public record Plan(long hits, long hitBytes, long misses, long missBytes, long nodes, long allNodes,
        long nanos, String memo, String reason) {
}
