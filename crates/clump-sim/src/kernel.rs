//! The kernel of all simulations: one queue of events, one clock, one vocabulary of faults.
//!
//! A [`World`] is what runs on it: ranks with stacks and endpoints ([`crate::messages`]), ranks
//! that use each other's memory ([`crate::onesided`]), ranks with proxies ([`crate::proxies`]), a
//! bench ([`crate::throughput`]). It has actors, which take turns, and sockets at the switch, one
//! for each actor that has a stack. The kernel applies faults of the network itself, between sites:
//! sets of sockets that are one machine. All other faults are the world's.

mod actor;
mod driver;
mod fault;
mod link;
mod node_faults;
mod plan;
mod random;
mod switch;

pub(crate) use actor::{BACKSTOP, BACKSTOP_IDLE, Mode};
pub(crate) use driver::SimDriver;
pub use fault::{Departure, PlannedFault};
pub(crate) use link::Time;
pub use link::{LinkFaults, Policer};
pub(crate) use node_faults::NodeFaults;
pub use plan::{BasePlan, MICROSECOND, MILLISECOND, SECOND};
pub(crate) use plan::{DATAGRAMS, channel, key_of, link_changes, port};
pub use random::{Random, mix};
pub use switch::{NetCounts, Port};
pub(crate) use switch::{OVERHEAD, SharedSwitch, address_of};

use switch::{Switch, SwitchEvent};

/// The part of a simulation that is the same in every world.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) switch: SharedSwitch,
    /// Next turn of each actor; `None`: it has left.
    turns: Vec<Option<Time>>,
    /// Sockets of each site.
    sites: Vec<Vec<u32>>,
    /// Faults that are scheduled, by the number that their events carry.
    faults: Vec<PlannedFault>,
    /// Delay and longest datagram of links without faults.
    clean: (Time, usize),
    healed_at: Option<Time>,
    events: u64,
    /// Number of events after which a run counts as endless.
    max_events: u64,
    digest: u64,
    trace: bool,
}

/// Parameters of a kernel.
pub(crate) struct KernelConfig<'a> {
    /// Start of virtual time.
    pub(crate) begin: Time,
    /// Port of each socket.
    pub(crate) ports: Vec<Port>,
    /// Initial properties of all links.
    pub(crate) link: &'a LinkFaults,
    /// Source of the network's random choices.
    pub(crate) random: Random,
    /// Number of actors; those with a socket have its number.
    pub(crate) actors: u32,
    /// Sockets of each site; a socket in none has only links that heal.
    pub(crate) sites: Vec<Vec<u32>>,
    /// Number of events after which a run counts as endless.
    pub(crate) max_events: u64,
    /// True if each step is printed on standard error.
    pub(crate) trace: bool,
}

/// Actors and rules of a simulation.
pub(crate) trait World {
    /// Result of a run that ends.
    type End;
    /// Reason for a run's failure.
    type Error;

    /// Returns the kernel that the world runs on.
    fn kernel(&mut self) -> &mut Kernel;

    /// Reacts to a datagram that has reached the queue of a socket.
    fn on_datagram(&mut self, now: Time, socket: u32);

    /// Runs an actor's turn.
    ///
    /// # Errors
    /// The run has failed.
    fn on_turn(&mut self, now: Time, actor: u32) -> Result<(), Self::Error>;

    /// Applies a fault of ranks or nodes, or the end of faults; the kernel has applied those of the
    /// network.
    ///
    /// # Errors
    /// The world has no such fault, or the run has failed.
    fn on_fault(&mut self, now: Time, fault: &PlannedFault) -> Result<(), Self::Error>;

    /// Checks after each event. Returns the result if the run is over.
    ///
    /// # Errors
    /// The run has failed.
    fn check_progress(&mut self, now: Time) -> Result<Option<Self::End>, Self::Error>;

    /// Returns the report of a failure.
    fn failure(&self, what: String) -> Self::Error;
}

/// Runs a world to its end.
///
/// # Errors
/// The run has failed, has no event left, or has no end in sight.
pub(crate) fn run<W: World>(world: &mut W) -> Result<W::End, W::Error> {
    loop {
        let Some((event, now)) = world.kernel().next() else {
            return Err(world.failure("nothing is left to happen".to_owned()));
        };
        match event {
            SwitchEvent::AtSocket(socket, _) => world.on_datagram(now, socket),
            SwitchEvent::Turn(actor) => {
                if world.kernel().take_turn(now, actor) {
                    world.on_turn(now, actor)?;
                }
            }
            SwitchEvent::Step(number) => {
                if let Some(fault) = world.kernel().begin_fault(now, number) {
                    world.on_fault(now, &fault)?;
                }
            }
            SwitchEvent::AtPort(..) => {}
        }
        if let Some(end) = world.check_progress(now)? {
            return Ok(end);
        }
        if world.kernel().is_endless() {
            let most = world.kernel().max_events;
            return Err(world.failure(format!("after {most} events there is no end in sight")));
        }
    }
}

impl Kernel {
    /// Creates a kernel in which nothing is scheduled.
    pub(crate) fn new(config: KernelConfig<'_>) -> Self {
        let KernelConfig { begin, ports, link, random, actors, sites, max_events, trace } = config;
        Self {
            switch: SharedSwitch::new(Switch::new(begin, ports, link, random)),
            turns: vec![Some(Time::MAX); actors as usize],
            sites,
            faults: Vec::new(),
            clean: (link.delay, link.mtu),
            healed_at: None,
            events: 0,
            max_events,
            digest: 0,
            trace,
        }
    }

    /// Returns the next event and its time, and counts it.
    fn next(&mut self) -> Option<(SwitchEvent, Time)> {
        let mut switch = self.switch.lock();
        let event = switch.next()?;
        let now = switch.now;
        drop(switch);
        self.events += 1;
        self.digest = mix(self.digest ^ now);
        Some((event, now))
    }

    /// Schedules an actor's turn at a time, unless an earlier one is planned.
    pub(crate) fn wake(&mut self, actor: u32, at: Time) {
        let Some(Some(planned)) = self.turns.get_mut(actor as usize) else { return };
        if at < *planned {
            *planned = at;
            self.switch.lock().schedule(at, SwitchEvent::Turn(actor));
        }
    }

    /// Ends an actor: it never acts again, and datagrams to its socket are dropped.
    pub(crate) fn retire(&mut self, actor: u32) {
        self.turns[actor as usize] = None;
        self.switch.lock().attach(actor, false);
    }

    /// Returns true if an actor acts now; false if it was woken earlier, or has left.
    fn take_turn(&mut self, now: Time, actor: u32) -> bool {
        let due = |planned: &&mut Option<Time>| **planned == Some(now);
        let planned = self.turns.get_mut(actor as usize).filter(due);
        planned.map(|planned| *planned = Some(Time::MAX)).is_some()
    }

    /// Schedules a fault.
    pub(crate) fn schedule(&mut self, at: Time, fault: PlannedFault) {
        self.faults.push(fault);
        self.switch.lock().schedule(at, SwitchEvent::Step(self.faults.len() as u32 - 1));
    }

    /// Applies a fault that is due, as far as it is the network's. Returns it if the rest of it is
    /// the world's.
    fn begin_fault(&mut self, now: Time, number: u32) -> Option<PlannedFault> {
        let fault = self.faults.get(number as usize)?.clone();
        if self.trace {
            self.say(now, &format!("{fault:?}"));
        }
        let faulty = self.healed_at.is_none();
        match &fault {
            PlannedFault::LinkChange { from, to, both, link } if faulty => {
                let change = |old: &mut LinkFaults| {
                    *old = LinkFaults { cut: old.cut, ..(**link).clone() };
                };
                self.between(*from, *to, change);
                if *both {
                    self.between(*to, *from, change);
                }
            }
            PlannedFault::Partition { sites, cut } if faulty => {
                let count = self.sites.len() as u32;
                let apart = |from: u32, to: u32| (sites >> from ^ sites >> to) & 1 != 0;
                for from in 0..count {
                    for to in (0..count).filter(|&to| apart(from, to)) {
                        self.between(from, to, |link| link.cut = *cut);
                    }
                }
            }
            PlannedFault::OneWay { from, to, cut } if faulty => {
                self.between(*from, *to, |link| link.cut = *cut);
            }
            PlannedFault::LinkChange { .. }
            | PlannedFault::Partition { .. }
            | PlannedFault::OneWay { .. } => {}
            PlannedFault::PortRate { socket, rate } => self.switch.lock().set_rate(*socket, *rate),
            PlannedFault::Narrow { most } => self.switch.lock().narrow(*most),
            PlannedFault::Heal => {
                self.heal(now);
                return Some(fault);
            }
            _ => return Some(fault),
        }
        None
    }

    /// Changes all links from one site to another.
    fn between(&self, from: u32, to: u32, change: impl Fn(&mut LinkFaults)) {
        let mut switch = self.switch.lock();
        for &a in self.sites.get(from as usize).into_iter().flatten() {
            for &b in self.sites.get(to as usize).into_iter().flatten() {
                if let Some(link) = switch.link_mut(a, b) {
                    change(link);
                }
            }
        }
    }

    /// Ends all faults of the network.
    fn heal(&mut self, now: Time) {
        self.healed_at = Some(now);
        let (delay, mtu) = self.clean;
        let mut switch = self.switch.lock();
        switch.links_mut().for_each(|link| *link = LinkFaults::clean(delay, mtu));
        switch.heal_ports();
    }

    fn is_endless(&self) -> bool {
        self.events > self.max_events
    }

    /// Returns the time at which faults ended; `None` while there may be some.
    pub(crate) fn healed_at(&self) -> Option<Time> {
        self.healed_at
    }

    /// Returns the number of events so far, and the digest of their times.
    pub(crate) fn history(&self) -> (u64, u64) {
        (self.events, self.digest)
    }

    /// Returns the time, and the network's counts.
    pub(crate) fn network(&self) -> (Time, NetCounts) {
        let switch = self.switch.lock();
        (switch.now, switch.counts)
    }

    /// Returns true if steps are printed.
    pub(crate) fn traces(&self) -> bool {
        self.trace
    }

    /// Prints a step, if steps are printed.
    pub(crate) fn say(&self, now: Time, line: &str) {
        use std::io::Write as _;
        if self.trace {
            let _ = writeln!(std::io::stderr(), "{:>12.6} s: {line}", now as f64 / 1e9);
        }
    }
}
