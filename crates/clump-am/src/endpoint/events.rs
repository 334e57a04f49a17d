//! Events that end waits.

/// Events that end an [`Endpoint::wait`](super::Endpoint::wait): the event mask of Active Messages
/// II.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Events {
    /// A message was handled.
    #[default]
    NotEmpty,
    /// No event but the end of the job.
    None,
}
