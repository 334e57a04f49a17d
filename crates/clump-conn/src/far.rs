//! Connections between jobs: stacks of their own beside the rank's, handshake sockets that receive
//! hellos of other jobs, and the thread that services them.
//!
//! No agent tells one job of deaths in another. So silence ends a connection: each side sends
//! keepalives eight times in that time, and a thread of this process answers while the program
//! computes.

mod connect;
mod cookie;
mod half_open;
mod handshake;
mod handshake_socket;
pub(crate) mod link;

use crate::between::Between;
use crate::error::{Error, Result};
use crate::lock::lock;
use crate::port::Port;
use crate::queue::{PendingConnection, Queue};
use crate::token::{MAX_ADDRESSES, Token};
use clump_am::RankContext;
use clump_os::alarm::Alarm;
use clump_os::epoll::{Interest, Poller};
use clump_os::secret::Secret;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_os::{clock, thread, udp};
use clump_trace::{Counter, Counters};
use handshake_socket::{HandshakeSocket, Invitation};
use link::FarLink;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest sleep of the thread.
const NAP_NS: u64 = 200_000_000;
/// Poller token of the alarm; links and handshake sockets count from 1.
const ALARM: u64 = 0;

/// The connections of a rank to other jobs.
#[derive(Debug)]
pub(crate) struct Far {
    context: Arc<RankContext>,
    watch: Mutex<Option<FarThread>>,
}

/// The thread, once it is needed.
#[derive(Debug)]
struct FarThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    context: Arc<RankContext>,
    poller: Poller,
    alarm: Arc<Alarm>,
    links: Mutex<HashMap<u64, (Arc<FarLink>, OwnedFd)>>,
    handshake_sockets: Mutex<HashMap<u64, Arc<HandshakeSocket>>>,
    /// Invitations of listeners that are gone, while clients complete handshakes that were answered
    /// before.
    closed: Mutex<Vec<Arc<Invitation>>>,
    next: AtomicU64,
    ending: AtomicBool,
}

impl Far {
    pub(crate) fn new(context: &Arc<RankContext>) -> Self {
        Self { context: context.clone(), watch: Mutex::default() }
    }

    /// Returns the state of the thread, which is started if need be.
    fn shared(&self) -> Result<Arc<Shared>> {
        let mut watch = lock(&self.watch);
        if let Some(watch) = &*watch {
            return Ok(watch.shared.clone());
        }
        let unusable = |e: clump_os::OsError| Error::Between(e.to_string());
        let (poller, alarm) =
            (Poller::new().map_err(unusable)?, Arc::new(Alarm::new().map_err(unusable)?));
        poller.add(&*alarm, ALARM, Interest::Read).map_err(unusable)?;
        let shared = Arc::new(Shared {
            context: self.context.clone(),
            poller,
            alarm,
            links: Mutex::default(),
            handshake_sockets: Mutex::default(),
            closed: Mutex::default(),
            next: AtomicU64::new(ALARM + 1),
            ending: AtomicBool::new(false),
        });
        let mine = shared.clone();
        let thread = thread::spawn("clump-far", move || mine.watch());
        let thread = thread.map_err(|e| Error::Between(format!("no thread for them: {e}")))?;
        *watch = Some(FarThread { shared: shared.clone(), thread: Some(thread) });
        Ok(shared)
    }

    /// Opens handshake sockets at `addresses` for the listener of `queue`; returns the token that
    /// admits clients.
    pub(crate) fn invite(
        &self,
        queue: &Arc<Queue>,
        port: Port,
        addresses: &[SocketAddr],
        between: &Between,
    ) -> Result<Token> {
        let unusable = |e: clump_os::OsError| Error::Between(e.to_string());
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            return Err(Error::Between(format!("a token has 1 to {MAX_ADDRESSES} addresses")));
        }
        for address in addresses {
            if let Some(why) = udp::not_one_machine(address.ip()) {
                let why = format!("{address} {why}: nobody can be told to come there");
                return Err(Error::Between(format!("{why}; name an address of this machine")));
            }
        }
        let shared = self.shared()?;
        let secret = Arc::new(Secret::random().map_err(unusable)?);
        let invitation = Arc::new(Invitation::new(queue, port, between, secret.clone())?);
        let mut bound = Vec::new();
        for &address in addresses {
            let socket = UdpSocket::from(udp::bind(address).map_err(unusable)?);
            let local = socket.local_addr().map_err(|e| Error::Between(e.to_string()))?;
            let handshake_socket =
                HandshakeSocket { socket, local, invitation: invitation.clone() };
            shared.register_handshake_socket(handshake_socket).map_err(unusable)?;
            bound.push(local);
        }
        Ok(Token { port, security: between.security, addresses: bound, secret })
    }

    /// Admits no client for that listener any more.
    pub(crate) fn close_handshake_sockets(&self, queue: &Arc<Queue>) {
        if let Some(watch) = &*lock(&self.watch) {
            let shared = &watch.shared;
            let of = |invitation: &Arc<Invitation>| Arc::ptr_eq(&invitation.queue, queue);
            let ended = shared.invitations().into_iter().filter(of);
            lock(&shared.closed).extend(ended);
            lock(&shared.handshake_sockets)
                .retain(|_, handshake_socket| !of(&handshake_socket.invitation));
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // The thread does not exist in a child by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        if let Some(mut watch) = lock(&self.watch).take() {
            watch.shared.ending.store(true, Ordering::Release);
            watch.shared.alarm.ring();
            if let Some(thread) = watch.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn register_handshake_socket(
        &self,
        handshake_socket: HandshakeSocket,
    ) -> std::result::Result<(), clump_os::OsError> {
        let number = self.number();
        // Nothing else holds the socket: closing it takes it out of the poller.
        self.poller.add(&handshake_socket.socket, number, Interest::Read)?;
        lock(&self.handshake_sockets).insert(number, Arc::new(handshake_socket));
        Ok(())
    }

    /// Services `link` from now on.
    fn enter_link(&self, link: Arc<FarLink>) -> Result<()> {
        let unusable = || Error::Between("its socket cannot be watched".into());
        let socket = link.readiness().ok_or_else(unusable)?;
        let number = self.number();
        self.poller
            .add(&socket, number, Interest::Read)
            .map_err(|e| Error::Between(e.to_string()))?;
        lock(&self.links).insert(number, (link, socket));
        self.alarm.ring();
        Ok(())
    }

    fn watch(&self) {
        loop {
            let (due_ns, links) = self.service_links();
            if self.ending.load(Ordering::Acquire) && links == 0 {
                return;
            }
            let nap = due_ns.saturating_sub(clock::ticked_ns()).min(NAP_NS);
            let Ok(ready) = self.poller.wait(Some(Duration::from_nanos(nap))) else { return };
            for ready in ready {
                if ready.token == ALARM {
                    self.alarm.clear();
                    continue;
                }
                let handshake_socket = lock(&self.handshake_sockets).get(&ready.token).cloned();
                match handshake_socket {
                    Some(handshake_socket) => self.open_handshake_socket(&handshake_socket),
                    None => self.let_in(ready.token),
                }
            }
            self.forget_old();
        }
    }

    /// Services all links; returns the time of the next service, and how many there are.
    fn service_links(&self) -> (u64, usize) {
        let links: Vec<(u64, Arc<FarLink>)> =
            lock(&self.links).iter().map(|(&number, (link, _))| (number, link.clone())).collect();
        let mut due_ns = u64::MAX;
        let mut news = false;
        for (number, link) in &links {
            let tended = link.service();
            news |= tended.news;
            due_ns = due_ns.min(tended.due_ns);
            if tended.over
                && let Some((_, socket)) = lock(&self.links).remove(number)
            {
                let _ = self.poller.remove(&socket);
            }
        }
        if news {
            self.wake();
        }
        (due_ns, lock(&self.links).len())
    }

    fn open_handshake_socket(&self, handshake_socket: &HandshakeSocket) {
        let watch = |socket: &UdpSocket| {
            let number = self.number();
            // Nothing else holds the socket: closing it takes it out of the poller.
            self.poller.add(socket, number, Interest::Read).ok().map(|()| number)
        };
        let hellos = handshake_socket.answer(&watch);
        let counters = self.counters();
        counters.add(Counter::ConnForeign, hellos.foreign);
        counters.add(Counter::ConnRefused, hellos.refused);
        counters.add(Counter::ConnPutOff, hellos.put_off);
    }

    /// Returns the counters, which this thread alone writes.
    fn counters(&self) -> Counters<'_> {
        Counters::over(self.context.block().counters())
    }

    fn invitations(&self) -> Vec<Arc<Invitation>> {
        let mut all = lock(&self.closed).clone();
        for handshake_socket in lock(&self.handshake_sockets).values() {
            if !all.iter().any(|known| Arc::ptr_eq(known, &handshake_socket.invitation)) {
                all.push(handshake_socket.invitation.clone());
            }
        }
        all
    }

    /// Handles packets of a half-open handshake: if one authenticates the client, its connection is
    /// queued to be accepted.
    fn let_in(&self, number: u64) {
        for invitation in self.invitations() {
            let between = &invitation.between;
            let shown = lock(&invitation.half_open).take_arrived(number, between.security);
            let Some(half_open) = shown else { continue };
            let _ = self.poller.remove(&half_open.socket);
            let Ok((link, reservation)) = half_open.open(between, &self.alarm) else {
                self.counters().add(Counter::ConnRefused, 1);
                return;
            };
            // An unwatched link would never be polled.
            if self.enter_link(link.clone()).is_err() {
                self.counters().add(Counter::ConnRefused, 1);
            } else if reservation.take(PendingConnection::Far(link.clone())) {
                self.counters().add(Counter::ConnEstablished, 1);
                self.wake();
            } else {
                link.hang_up();
            }
            return;
        }
    }

    /// Frees state of clients that did not complete.
    fn forget_old(&self) {
        let now_ns = clock::now_ns();
        let given_up: u64 = self.invitations().iter().map(|one| one.forget_old(now_ns)).sum();
        self.counters().add(Counter::ConnGivenUp, given_up);
        lock(&self.closed).retain(|one| lock(&one.half_open).len() > 0);
    }

    /// Wakes the rank's threads.
    fn wake(&self) {
        let node = self.context.node();
        let alarm = node.alarm(self.context.rank()).map(|alarm| &**alarm);
        self.context.block().park().wake_if_asleep(node.fence(), alarm);
    }
}
