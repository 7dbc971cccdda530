//! The index: fingerprint to a hint of a location, over sorted runs.
