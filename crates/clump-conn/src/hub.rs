//! A rank's connections within its job: one endpoint carries all of them.

mod handlers;

use crate::error::{End, Peer};
use crate::far::Far;
use crate::line::ConnectionLine;
use crate::queue::Queue;
use crate::route::{LocalRoute, send_due};
use crate::words::ask;
use clump_am::{
    AsContext, Dest, Endpoint, ErrorKind, Handler, Name, RankContext, Result, SendAttempt,
    SharedEndpoint, Tag,
};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Maximum number of bytes of one fragment, so that no connection delays others for long.
pub(crate) const MAX_FRAGMENT: usize = 32 << 10;

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

/// State for handlers, which must not hold the endpoint.
#[derive(Debug)]
pub(crate) struct HubState {
    lines: Mutex<HashMap<u64, Known>>,
    queues: Mutex<HashMap<u16, Arc<Queue>>>,
    /// At most as many as connections that this rank had, or requested: each is sent once.
    notices: Mutex<VecDeque<Notice>>,
    /// Connections of this job that have credit to report, or the rest of a message to send.
    due: Mutex<Vec<u64>>,
    /// Answers to port requests, by the number of the request.
    pub(crate) found: Mutex<HashMap<u64, Option<u64>>>,
    next: AtomicU64,
}

/// A connection of this rank.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) line: Arc<ConnectionLine>,
    pub(crate) peer: Name,
}

/// A message to a peer of which no other state is kept.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) to: Name,
    pub(crate) handler: u8,
    pub(crate) words: Vec<u64>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the tag of the virtual network that connections have for themselves.
fn tag(context: &RankContext) -> Tag {
    Tag(context.node().job().id() ^ 0x636f_6e6e_5f70_6f72)
}

impl HubState {
    /// Returns a number that no connection or request of this rank has had.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn enter(&self, number: u64, line: Arc<ConnectionLine>, peer: Name) {
        lock(&self.lines).insert(number, Known { line, peer });
    }

    pub(crate) fn forget(&self, number: u64) {
        lock(&self.lines).remove(&number);
    }

    pub(crate) fn known(&self, number: u64) -> Option<Known> {
        lock(&self.lines).get(&number).cloned()
    }

    pub(crate) fn queue(&self, port: u16) -> Option<Arc<Queue>> {
        lock(&self.queues).get(&port).cloned()
    }

    /// Enters the queue of a port; false when this rank listens at that port.
    pub(crate) fn enter_queue(&self, port: u16, queue: &Arc<Queue>) -> bool {
        match lock(&self.queues).entry(port) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(queue.clone());
                true
            }
        }
    }

    pub(crate) fn forget_queue(&self, port: u16) {
        lock(&self.queues).remove(&port);
    }

    pub(crate) fn note(&self, notice: Notice) {
        lock(&self.notices).push_back(notice);
    }

    pub(crate) fn mark_due(&self, number: u64) {
        let mut due = lock(&self.due);
        if !due.contains(&number) {
            due.push(number);
        }
    }
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
        let book = Arc::new(HubState {
            lines: Mutex::default(),
            queues: Mutex::default(),
            notices: Mutex::default(),
            due: Mutex::default(),
            found: Mutex::default(),
            next: AtomicU64::new(1),
        });
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
        let due = std::mem::take(&mut *lock(&self.book.due));
        for number in due {
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
            let Some(notice) = lock(&self.book.notices).pop_front() else { return Ok(()) };
            let sent = self.say(&notice);
            let gone = |error| end_by(error, notice.to.rank()).is_some();
            if matches!(sent, Ok(SendAttempt::Sent)) || sent.as_ref().is_err_and(gone) {
                continue;
            }
            lock(&self.book.notices).push_front(notice);
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
        let told = send_due(&(self, &near), &known.line);
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
        let limit = crate::wait::after(LAST_WORDS);
        while !std::thread::panicking() && !lock(&self.book.notices).is_empty() {
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

/// Gives up a connection that waited to be accepted.
pub(crate) fn hang_up(book: &HubState, number: u64, known: &Known) {
    book.forget(number);
    let theirs = known.line.state().theirs;
    book.note(Notice::hang_up(known.peer, theirs, number));
}

impl Notice {
    /// Makes a notice that closes the connection that is `theirs` at the endpoint `to`, and `mine`
    /// here.
    pub(crate) fn hang_up(to: Name, theirs: u64, mine: u64) -> Self {
        Self { to, handler: ask::CLOSE, words: vec![theirs, mine, 0, 0] }
    }

    /// Adds the number of messages that were sent, and that the last of them is incomplete if
    /// `broken`.
    pub(crate) fn after(mut self, messages: u64, broken: bool) -> Self {
        self.words.splice(2.., [messages, u64::from(broken)]);
        self
    }
}
