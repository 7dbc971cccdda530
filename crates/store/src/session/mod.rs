pub(crate) mod index;
