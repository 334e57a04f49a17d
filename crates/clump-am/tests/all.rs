//! Tests of this package, one module a subject: one binary, since each costs a link.

mod cluster;
mod waiting;
mod world;

mod berths;
mod enemy;
mod hostile;
mod interrupted;
mod messages;
mod programs;
mod rare;
mod threads;
mod unhandled;
