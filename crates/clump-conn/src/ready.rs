//! Waiting for one of several connections and listeners.

use crate::connection::Connection;
use crate::deadline::after;
use crate::error::Result;
use crate::hub::Hub;
use crate::line::ConnectionLine;
use crate::listener::Listener;
use crate::route::ConnectionRoute;
use crate::wait::wait;
use std::time::Duration;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Connection {}
    impl Sealed for super::Listener {}
}

/// Something that becomes ready: a connection to receive from, or a listener to accept at.
pub trait Source: sealed::Sealed {
    /// Returns true if the next call would not have to wait.
    fn is_ready(&self) -> bool;
    #[doc(hidden)]
    fn watched(&self) -> ReadySource<'_>;
}

/// The parts of a source that a wait needs.
#[doc(hidden)]
#[derive(Debug)]
pub struct ReadySource<'a> {
    hub: &'a Hub,
    line: Option<(&'a ConnectionRoute, &'a ConnectionLine)>,
}

impl Source for Connection {
    fn is_ready(&self) -> bool {
        Connection::is_ready(self)
    }

    fn watched(&self) -> ReadySource<'_> {
        let (hub, way, line) = self.watched();
        ReadySource { hub, line: Some((way, line)) }
    }
}

impl Source for Listener {
    fn is_ready(&self) -> bool {
        Listener::is_ready(self)
    }

    fn watched(&self) -> ReadySource<'_> {
        ReadySource { hub: self.hub(), line: None }
    }
}

/// Blocks until one of the sources, which belong to one rank, is ready; returns true then. Returns
/// false when `limit` has passed, at once without sources.
///
/// # Errors
/// A rank of this job died.
pub fn wait_any(sources: &[&dyn Source], limit: Option<Duration>) -> Result<bool> {
    let Some(first) = sources.first() else { return Ok(false) };
    let watched: Vec<_> = sources.iter().filter_map(|source| source.watched().line).collect();
    let ready = || Ok(sources.iter().any(|source| source.is_ready()));
    wait(first.watched().hub, &watched, limit.map(after), ready)
}
