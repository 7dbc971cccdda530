//! Measurements of whole programs: backups beside those of other tools, volumes as their clients see them,
//! the index and the tables in memory.

pub(crate) mod backups;
pub(crate) mod campaign;
pub(crate) mod cluster;
mod fio;
pub(crate) mod incremental;
pub(crate) mod install;
mod limited;
pub(crate) mod loss;
mod measure;
pub(crate) mod nbd;
mod process;
mod record;
pub(crate) mod rivals;
mod s3_process;
pub(crate) mod similarity;
mod similarity_plot;
pub(crate) mod sizes;
mod source;
mod table;
pub(crate) mod tool;
pub(crate) mod traces;
mod traces_plot;
pub(crate) mod volumes;
