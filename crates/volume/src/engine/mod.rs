pub(crate) mod checkpoint;
pub(crate) mod look_up;
pub(crate) mod parts;
pub(crate) mod room;
