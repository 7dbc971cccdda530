pub(crate) mod claims;
pub(crate) mod stripes;
pub(crate) mod turns;
