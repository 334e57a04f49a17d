//! A rank's identity from its agent, and the user's configuration.
//!
//! Called by the facade of a rank (and by all layers for [`config`]); calls only `clump-os`, and
//! takes a name from `clump-wire`. The agent uses the other half: it offers each rank a boot
//! connection ([`boot::offer`]) before the rank's program starts.
//!
//! Types to know: [`boot::Boot`] (a rank's resources), [`config::Config`] (the effective
//! configuration).
//!
//! # Invariants
//! 1. A boot connection is taken once: of all processes that inherit its descriptor, one becomes
//!    the rank.
//! 2. No secret is in an argument or in the environment: a rank's data travels over a descriptor
//!    that only it inherited.
//! 3. This is the only crate that reads the environment; every variable is in one table.
//!
//! ```
//! let boot = clump_boot::boot::join()?;
//! assert!(boot.is_none(), "a program started by hand is a job of its own");
//! # Ok::<(), clump_boot::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod boot;
mod choices;
pub mod config;
mod error;
mod former_name;
mod key;
mod key_list;
mod key_table;
mod lab;
pub mod machine;
mod nearest;
mod net_faults;
mod setting_value;
mod unknown_variables;
pub mod virtual_machine;

pub use boot::{Boot, join};
pub use choices::{
    Dispatch, NetBulk, NetDriver, SvmAhead, SvmConsistency, SvmDiffs, SvmFaults, SvmFetch,
    SvmNotices, SvmProtocol, SvmShare,
};
pub use config::Config;
pub use error::{Error, Result};
pub use lab::{LAB_KEYS, Lab};
pub use nearest::nearest;
pub use net_faults::{NET_FAULT_KEYS, NetFaults};
pub use unknown_variables::unknown_variables;
