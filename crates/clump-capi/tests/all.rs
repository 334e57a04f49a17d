//! Tests of this package, one module a subject: one binary, since each costs a link.

#[path = "../examples/headers/generate.rs"]
mod generate;
#[path = "../examples/am2_calls/text.rs"]
mod text;

mod am2_header;
mod headers;
