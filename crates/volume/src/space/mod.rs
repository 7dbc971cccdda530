//! Giving space back: compactions, maps of deleted volumes, and room for writes that wait.

pub(crate) mod compact;
pub(crate) mod make_room;
pub(crate) mod settle;
