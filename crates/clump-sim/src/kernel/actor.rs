//! Behaviour common to actors of all worlds: polling, computing, being stopped; the work of the
//! progress thread.

use super::link::Time;
use super::plan::MILLISECOND;

/// Polling interval of the backstop while something is in flight (`clump-transport`).
pub(crate) const BACKSTOP: Time = 2 * MILLISECOND;
/// Polling interval of the backstop otherwise.
pub(crate) const BACKSTOP_IDLE: Time = 20 * MILLISECOND;

/// Activity of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Polling.
    Polling,
    /// Computing until then; only its backstop polls.
    Computing(Time),
    /// Stopped until then.
    Frozen(Time),
}
