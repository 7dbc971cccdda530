//! What every algorithm promises, checked from outside.

mod against_model;
mod cuts;
mod edits;
mod golden;
mod mean;
mod mincdc_crate;
mod paper002;
mod presets;
mod published;
mod rand_rows;
mod secret;
mod shape;
mod stream;
mod support;
mod window;
