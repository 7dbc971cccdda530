package onefold.incremental.files;

/** How many files a collection deleted or would delete, their bytes, and how many leases kept. */
public record Reclaimed(long files, long bytes, long leased) {
}
