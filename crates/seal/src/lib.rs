//! Framing of stored objects: header, identity, check; keys join it later.
