//! What was measured, as one page that needs nothing but itself.
//!
//! A [`Page`] is made of text, tables and figures, whatever they are about; [`of_run`] fills one
//! with the results of `onefold bench run`.

mod page;
mod plot;
mod run;

pub use page::{Block, Cell, Column, Figure, Page, Section, Table};
pub use plot::{Bar, Line, bars, histogram, lines};
pub use run::of_run;
