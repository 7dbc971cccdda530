//! Containers: groups of compressed chunks with a self-describing footer.
