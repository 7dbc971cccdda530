//! Volumes over many machines.
