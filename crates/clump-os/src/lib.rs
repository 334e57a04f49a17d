//! Every system call that clump makes, and nothing else.
//!
//! Bottom layer: all other crates call it, it calls the kernel (through `rustix`, and `libc` where
//! rustix has no binding). All unsafe operating-system code is in one place, so the rest of the
//! tree can be read without a Linux manual.
//!
//! Main types: [`map::Mapping`] (shared memory of a job), [`sync`] (atomics that loom can replace),
//! [`futex`] (parking), [`fence`] (the asymmetric fence behind parking), [`clock`].
//!
//! # Invariants
//! 1. A [`map::Mapping`] stays mapped, at one address, for as long as any clone of it lives.
//! 2. Memory of a mapping is never handed out behind `&T` or `&mut T` unless `T` is made of
//!    atomics.
//! 3. A child by `fork` has private memory in place of a [`map::Mapping`] ([`forked`]).
//! 4. No function here panics on an error from the kernel; errors name the call.

#[cfg(not(loom))]
pub mod access_fault;
pub mod alarm;
pub mod available;
pub mod bound_child;
pub mod c_library;
pub mod cable;
pub mod claim;
pub mod clock;
pub mod console;
pub mod crc;
pub mod differing;
pub mod epoll;
pub mod error;
pub mod executable;
pub mod fence;
pub mod file;
pub mod folder;
pub mod foreign_process;
#[cfg_attr(loom, path = "forked/model.rs")]
pub mod forked;
pub mod futex;
pub mod interface_address;
pub mod keyboard;
pub mod lifeline;
pub mod limit;
pub mod link;
pub mod listeners;
pub mod loaded_code;
pub mod local_listener;
pub mod lookahead;
pub mod map;
pub mod memory;
pub mod namespace;
mod netlink;
pub mod netns;
pub mod oom;
pub mod packet;
mod page;
pub mod printable;
pub mod probe;
pub mod process;
pub mod procfs;
pub mod promptness;
pub mod raw_udp;
mod refusal;
pub mod scm_message;
pub mod scratch;
pub mod secret;
pub mod shell_text;
pub mod signal;
pub mod socket;
pub mod standard_streams;
pub mod stopped_thread;
pub mod stream;
pub mod symbols;
pub mod sync;
pub mod tcp;
pub mod text_file;
pub mod thread;
pub mod thread_state;
pub mod thread_value;
pub mod topology;
pub mod transfer;
pub mod tun;
pub mod udp;
pub mod used_pages;
pub mod userfault;
#[cfg(not(loom))]
pub mod virtual_thread;
pub mod writer;
pub mod xdp;

pub use error::{OsError, Result};
