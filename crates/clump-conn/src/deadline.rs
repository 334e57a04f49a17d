//! Times at which calls give up.

use clump_os::clock;
use std::time::Duration;

/// Returns the time at which a span that begins now ends.
pub(crate) fn after(span: Duration) -> u64 {
    clock::now_ns().saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
