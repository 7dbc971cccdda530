//! Content-defined chunking: bytes to cut-points.
