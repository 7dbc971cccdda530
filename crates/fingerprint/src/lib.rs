//! Fingerprints of chunks, many at a time.
