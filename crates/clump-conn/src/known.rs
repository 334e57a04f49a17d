//! A connection within the job, as its rank knows it.

use crate::line::ConnectionLine;
use clump_am::Name;
use std::sync::Arc;

/// A connection of this rank.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) line: Arc<ConnectionLine>,
    pub(crate) peer: Name,
}
