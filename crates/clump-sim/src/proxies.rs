//! Paper 002's experiment in virtual time: ranks whose messages proxies carry. It measures message
//! time, queues, utilisation and the slowdown of programs by ranks and proxies per node, for each
//! dispatch policy.
//!
//! Proxies are the real ones ([`clump_interface::Server`]: submission queue, channels, undelivered
//! messages, delivery queues, monitor), and so are the ranks' proxy clients (room, dispatch), their
//! inboxes, and the lanes between them. Only the network and time are simulated: the cost of each
//! step is a parameter ([`Costs`]), taken from measurements. A core for each rank and proxy is
//! assumed. A rank sees the results of a proxy's turn when the turn ends.

mod cell;
mod setting;
mod station;
mod tables;
mod tally;
mod world;

pub use crate::time::Costs;
pub use cell::{Bounds, ProxyCell, StageTime};
pub use clump_transport::Dispatch;
pub use setting::{Destinations, ProxyWorkload, Setting, name_of};
pub use tables::{ProxyReport, Scaled, Scaling, TableOptions, report};

use crate::kernel;

/// Measures one cell.
///
/// # Errors
/// Fails if there is no memory, or if the run never ends.
pub fn measure(setting: &Setting) -> anyhow::Result<ProxyCell> {
    kernel::run(&mut world::ProxyCluster::new(setting)?)
}
