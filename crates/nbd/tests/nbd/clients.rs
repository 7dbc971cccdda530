//! Programs that people use.
