//! Tests of ranks on other machines: ssh and its failures, Slurm, engines of others, MPI beside,
//! two users. A step of its own in `cargo xtask ci`: it starts services and namespaces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod beside_mpi;
mod engines;
mod machines;
mod relays;
mod slurm;
mod sshd;
mod users;
