//! Tests of this package, one module a subject: one binary, since each costs a link.

#[cfg(loom)]
mod model;

mod loom_barrier;
mod loom_doorbell;
mod loom_lane;
mod loom_park;
mod loom_queue;
mod loom_queue_lock;
