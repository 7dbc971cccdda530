//! What adds to a repository and takes away: copying chunks, the commit, forgetting.

pub(crate) mod added;
pub(crate) mod alive;
pub(crate) mod chunk_writer;
pub(crate) mod commit;
pub(crate) mod copier;
pub(crate) mod forget;
pub(crate) mod press;
