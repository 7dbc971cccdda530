package onefold.incremental.layout;

/** How a file's splits are kept; the ordinal is the number in a manifest. */
public enum Layout {
    /** One ordinary file, on HDFS with a block boundary at each end of a split. */
    BLOCKS,
    /** Each distinct split of a folder once, as a file of its own. */
    SHARED
}
