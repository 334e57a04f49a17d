//! A rank's connections within its job: one endpoint carries all of them.

mod handlers;
mod state;

use crate::deadline::after;
use crate::error::{End, Peer};
use crate::far::Far;
use crate::known::Known;
use crate::local_route::LocalRoute;
use crate::lock::lock;
use crate::transport::send_due;
use clump_am::{
    AsContext, Dest, Endpoint, ErrorKind, Handler, Name, RankContext, Result, SendAttempt,
    SharedEndpoint, Tag,
};
use clump_os::clock;
pub(crate) use state::{HubState, Notice, hang_up};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Time between two attempts to open an endpoint.
const NAP: Duration = Duration::from_millis(1);

/// The hub of each rank of this process, by the address of its context, while it has connections or
/// listeners.
static HUBS: Mutex<Vec<(usize, Weak<Hub>)>> = Mutex::new(Vec::new());

/// The endpoint of a rank for connections, and the state behind them.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) context: Arc<RankContext>,
    pub(crate) endpoint: SharedEndpoint,
    pub(crate) book: Arc<HubState>,
    pub(crate) far: Far,
    dests: Mutex<HashMap<Name, (Dest, usize)>>,
}

/// Returns the tag of the virtual network that connections have for themselves.
fn tag(context: &RankContext) -> Tag {
    Tag(context.node().job().id() ^ 0x636f_6e6e_5f70_6f72)
}

/// Returns true if peers have yet to let go of a closed endpoint of this rank.
fn is_passing(error: &clump_am::Error) -> bool {
    use clump_shm::Error::NoFreeEndpoint;
    matches!(error.kind(), ErrorKind::Memory(NoFreeEndpoint { most, open }) if open < most)
}

impl Hub {
    /// Returns the hub of this rank, and opens it first if need be.
    ///
    /// # Errors
    /// All endpoints of the rank are open.
    pub(crate) fn of(rank: &impl AsContext) -> Result<Arc<Self>> {
        let context = rank.context();
        let mut hubs = lock(&HUBS);
        // A hub holds its context, so another context can have this address only when the hub is
        // gone.
        hubs.retain(|(_, hub)| hub.strong_count() > 0);
        let place = Arc::as_ptr(context) as usize;
        let known = hubs.iter().find(|(at, _)| *at == place);
        if let Some(hub) = known.and_then(|(_, hub)| hub.upgrade()) {
            return Ok(hub);
        }
        let hub = Arc::new(Self::open(context)?);
        hubs.push((place, Arc::downgrade(&hub)));
        Ok(hub)
    }

    /// Returns the hub of this rank as [`Hub::of`] does, but waits until `until` for peers to let
    /// go of endpoints that this rank has closed: a hub closes with its last connection, so a rank
    /// that connects again and again can use up its endpoints.
    ///
    /// # Errors
    /// As [`Hub::of`].
    pub(crate) fn within(rank: &impl AsContext, until: u64) -> Result<Arc<Self>> {
        loop {
            match Self::of(rank) {
                Err(error) if is_passing(&error) && clock::now_ns() < until => clock::pass(NAP),
                other => return other,
            }
        }
    }

    fn open(context: &Arc<RankContext>) -> Result<Self> {
        let endpoint = Endpoint::open_shared(context, tag(context))?;
        let book = Arc::new(HubState::new());
        handlers::equip(&endpoint, &book)?;
        let (context, dests) = (context.clone(), Mutex::default());
        let far = Far::new(&context);
        Ok(Self { context, endpoint, book, far, dests })
    }

    /// Returns the destination of `name`, and counts its users.
    pub(crate) fn route_to(&self, name: Name) -> Result<Dest> {
        self.route_under(name, tag(&self.context))
    }

    pub(crate) fn route_under(&self, name: Name, tag: Tag) -> Result<Dest> {
        let mut dests = lock(&self.dests);
        if let Some((dest, users)) = dests.get_mut(&name) {
            *users += 1;
            return Ok(*dest);
        }
        let dest = self.endpoint.map(&name, tag)?;
        dests.insert(name, (dest, 1));
        Ok(dest)
    }

    /// Releases one use of the destination of `name`.
    pub(crate) fn release_route(&self, name: Name) {
        let mut dests = lock(&self.dests);
        let Some((dest, users)) = dests.get_mut(&name) else { return };
        *users -= 1;
        if *users == 0 {
            let dest = *dest;
            dests.remove(&name);
            // Messages sent before are still delivered.
            let _ = self.endpoint.unmap(dest);
        }
    }

    /// Handles messages that have arrived, and sends what is due then. Never blocks.
    pub(crate) fn step(&self) -> Result<()> {
        self.endpoint.poll()?;
        self.pump()
    }

    /// Sends what is due: credit, rests of messages, notices.
    pub(crate) fn pump(&self) -> Result<()> {
        let mut wrong = Ok(());
        for number in self.book.take_due() {
            let Some(known) = self.book.known(number) else { continue };
            let told = self.send_due(number, &known);
            let end = told.as_ref().err().and_then(|error| end_by(error, known.peer.rank()));
            match (told, end) {
                (Ok(true), _) => {}
                (Ok(false), _) => self.book.mark_due(number),
                (Err(_), Some(end)) => known.line.end(end),
                (Err(error), None) => {
                    self.book.mark_due(number);
                    wrong = Err(error);
                }
            }
        }
        wrong?;
        loop {
            let Some(notice) = self.book.next_notice() else { return Ok(()) };
            let sent = self.say(&notice);
            let gone = |error| end_by(error, notice.to.rank()).is_some();
            if matches!(sent, Ok(SendAttempt::Sent)) || sent.as_ref().is_err_and(gone) {
                continue;
            }
            self.book.put_back(notice);
            return sent.map(drop);
        }
    }

    fn say(&self, notice: &Notice) -> Result<SendAttempt> {
        let dest = self.route_to(notice.to)?;
        let sent = self.endpoint.try_request(dest, Handler(notice.handler), &notice.words);
        self.release_route(notice.to);
        sent
    }

    /// Sends what a connection owes; false when there was no space for it.
    fn send_due(&self, number: u64, known: &Known) -> Result<bool> {
        let near = LocalRoute { number, peer: known.peer, dest: self.route_to(known.peer)? };
        let told = send_due(&(&self.endpoint, &near), &known.line);
        self.release_route(known.peer);
        told
    }

    pub(crate) fn peer_of(&self, name: Name) -> Peer {
        let rank = name.rank();
        Peer::Rank { rank, node: self.context.node().node_of(rank) }
    }
}

/// Maximum time for which a hub that is dropped waits for space for its notices.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Drop for Hub {
    fn drop(&mut self) {
        // The notices are the rank's to send, not its child's by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        let limit = after(LAST_WORDS);
        while !std::thread::panicking() && self.book.has_notices() {
            if self.step().is_err() || clock::now_ns() > limit {
                return;
            }
            clock::yield_now();
        }
    }
}

/// Returns the end of the connection to rank `rank`, if `error` says that this rank is gone.
pub(crate) fn end_by(error: &clump_am::Error, rank: u32) -> Option<End> {
    match error.kind() {
        ErrorKind::RankLeft(left) if *left == rank => Some(End::PeerLeft),
        ErrorKind::RankDied(death) if death.rank == rank => Some(End::PeerDied),
        _ => None,
    }
}
