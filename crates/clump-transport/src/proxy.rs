//! Proxies: how ranks and the agent's threads that drive the network for them hand each other
//! messages.
//!
//! ```text
//! rank: client -- lane --> submission queue --> stack ==> network      (interface of its node)
//!       endpoint <-- lane -- delivery queue <-- stack <== network
//! ```

mod client;
mod clock;
mod close_handshakes;
mod delivery_queue;
mod forward;
mod monitor;
mod relayed;
mod routes;
mod submission_queue;

pub use client::{ProxyClient, ProxyClientClock, proxy_name};
pub use clock::{Clock, MachineClock, Wire, Work};
pub use close_handshakes::{CloseHandshakes, control_endpoint_name};
pub use delivery_queue::DeliveryQueue;
pub use forward::{Forward, Spill, stamped};
pub use monitor::{Taking, Watcher};
pub use routes::Routes;
pub use submission_queue::SubmissionQueue;
