//! The repository: ingest, snapshots, restore, check.
