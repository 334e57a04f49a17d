//! Tests of this package, one module a subject: one binary, since each costs a link.

mod model;

mod golden;
mod hostile;
mod round_trip;
