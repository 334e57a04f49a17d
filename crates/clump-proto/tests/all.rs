//! Tests of this package, one module a subject: one binary, since each costs a link.

mod pair;

mod congestion;
mod crowd;
mod hostile;
mod length;
mod loss;
mod model;
mod silence;
