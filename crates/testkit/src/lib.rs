//! Corpora and reference models for the tests of every crate.
