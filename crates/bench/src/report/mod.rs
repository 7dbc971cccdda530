//! What was measured, as one page that needs nothing but itself.
//!
//! A [`Page`] is made of text, tables and figures, whatever they are about; [`of_run`] fills one
//! with the results of `onefold bench run`.

#[cfg(test)]
mod boxes;
mod curves;
mod figures;
mod front;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(test)]
pub(crate) mod made_up;
mod names;
mod page;
mod plot;
mod run;
mod scatter;
mod tables;

pub use curves::{Curve, Scale, curves, picture};
#[cfg(feature = "gpu")]
pub use gpu::{gpu_notes, gpu_tables, of_gpu};
pub use page::{Block, Cell, Choice, Column, Figure, Folded, Page, Section, Table, WideFigure};
pub use plot::{Bar, bars};
pub use run::of_run;
