//! Waiting for connections: the only way in which calls of this crate block.

use crate::error::Result;
use crate::hub::{Hub, end_by};
use crate::line::ConnectionLine;
use crate::route::ConnectionRoute;
use clump_am::WaitFor;
use clump_os::clock;
use clump_shm::rank::WaitReason;
use std::time::Duration;

/// Maximum sleep between two checks if no wake-up comes.
const NAP: Duration = Duration::from_millis(10);

/// A connection that a wait polls.
pub(crate) type Watched<'a> = (&'a ConnectionRoute, &'a ConnectionLine);

/// A wait until `ready`, or until the time has passed.
struct Until<'a, F> {
    hub: &'a Hub,
    watched: &'a [Watched<'a>],
    ready: F,
    until: Option<u64>,
    over: bool,
}

/// Blocks until `ready` holds (true), or `until` has passed (false). Handles meanwhile the messages
/// for all connections of this rank. A dead peer ends its line; `ready` has to check for that.
/// `ready` may be called again after it held, and has to hold again then.
pub(crate) fn wait(
    hub: &Hub,
    watched: &[Watched<'_>],
    until: Option<u64>,
    ready: impl FnMut() -> clump_am::Result<bool>,
) -> Result<bool> {
    if until.is_some_and(|until| clock::now_ns() >= until) {
        // Without time to wait nothing would be polled, and a loop of such calls never end.
        hub.step()?;
    }
    let mut what = Until { hub, watched, ready, until, over: false };
    loop {
        let waited = hub.endpoint.block_on(&mut what);
        let Err(error) = waited else { return Ok(!what.over) };
        // One peer is gone, which does not concern the whole rank: its connection records the end,
        // and the wait goes on.
        let gone = watched.iter().find_map(|(way, line)| {
            let end = end_by(&error, way.rank()?)?;
            Some((line, end))
        });
        match gone {
            Some((line, end)) if hub.context.fatal_death().is_none() => line.end(end),
            _ => return Err(error.into()),
        }
    }
}

impl<F: FnMut() -> clump_am::Result<bool>> WaitFor for Until<'_, F> {
    fn done(&mut self) -> clump_am::Result<bool> {
        let now = clock::now_ns();
        for (way, line) in self.watched {
            way.poll();
            line.handle_time(now);
        }
        self.hub.pump()?;
        if (self.ready)()? {
            self.over = false;
            return Ok(true);
        }
        self.over = self.until.is_some_and(|until| now >= until);
        Ok(self.over)
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Message
    }

    /// Returns one watched peer that is gone, so that its end is noticed once all its messages have
    /// arrived.
    fn depends_on(&self) -> Option<u32> {
        let open = |line: &ConnectionLine| !line.state().is_cut();
        let gone = |(way, line): &&Watched<'_>| way.gone(self.hub).is_some() && open(line);
        self.watched.iter().find(gone).and_then(|(way, _)| way.rank())
    }

    fn nap(&self) -> Duration {
        let left = |until: u64| Duration::from_nanos(until.saturating_sub(clock::now_ns()));
        self.until.map_or(NAP, |until| left(until).min(NAP))
    }
}
