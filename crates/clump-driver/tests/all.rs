//! Tests of this package, one module a subject: one binary, since each costs a link.

mod packet;
mod several;
mod udp;
mod xdp;
