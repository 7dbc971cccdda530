//! Where bytes rest: immutable objects, logs and pages, with fault and crash wrappers.
