//! A running network interface: the thread that runs the turns of a [`Server`].
//!
//! When nothing arrives for a while it sleeps on its socket and its alarm. It yields before, but
//! not where others compute ([`IdleYields`]): ranks that wait for a proxy are likely to have the
//! processor, and a page fault or a lock passes two interfaces several times, each of which would
//! cost a wake-up.

use crate::idle_yields::IdleYields;
use crate::server::Server;
use crate::service::Services;
use clump_net::Batch;
use clump_os::alarm::Alarm;
use clump_os::sync::{AtomicBool, Ordering};
use clump_os::{clock, thread};
use clump_shm::node::NodeMemory;
use clump_shm::waiter::CROWDED_SPIN_NS;
use clump_transport::{MachineClock, NetworkResources, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Longest time in ns for which an idle interface that is no proxy yields: a request to another
/// interface is mostly answered within it.
const LINGER_NS: u64 = 100_000;
/// Time in ns without yields of one that is no proxy, after a rank has computed during one:
/// arrivals would wait for that rank's time slice, while a sleeper gets the processor.
const FORGONE_NS: u64 = 100_000_000;

/// A running network interface; ends when dropped.
#[derive(Debug)]
pub struct NetworkInterface {
    ending: Arc<AtomicBool>,
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

impl NetworkInterface {
    /// Starts interface number `which` of the node of `memory`, in which its place and alarm are
    /// registered, with these services. It spins for `spin_ns` before it sleeps: 0 unless a core is
    /// left for it.
    ///
    /// # Errors
    /// Fails if the resources cannot be used, or if no thread can be started.
    pub fn start(
        memory: &NodeMemory,
        which: u32,
        services: Services,
        resources: NetworkResources,
        spin_ns: u64,
    ) -> Result<Self> {
        let refused = |why: &str| clump_transport::Error::Unusable(why.into());
        let id = memory.interface_id(memory.node()) + which;
        let alarm = memory
            .alarm(id)
            .cloned()
            .ok_or_else(|| refused("this node's interface has no alarm"))?;
        let server = Server::new(memory, which, services, MachineClock, |wiring| {
            resources.into_stack(memory, wiring.me, wiring.peers, wiring.endpoints)
        })?;
        let yields = suited_yields(memory.proxies() != 0, memory.spin_policy_ns());
        let spin_policy = (spin_ns, yields);
        let ending = Arc::new(AtomicBool::new(false));
        let (over, bell) = (ending.clone(), alarm.clone());
        let thread = thread::spawn(&format!("clump-ni-{which}"), move || {
            let _whole = OnPanic(|| std::process::abort());
            serve(server, spin_policy, &bell, &over);
        })
        .map_err(|e| refused(&format!("no thread for it: {e}")))?;
        Ok(Self { ending, alarm, thread: Some(thread) })
    }
}

/// Returns the yields of an interface where ranks spin and yield for so long, in ns. With more
/// ranks than cores, one that is no proxy sleeps at once: its yields would take part in the ranks'
/// turns.
fn suited_yields(is_proxy: bool, (rank_spin_ns, rank_yields_ns): (u64, u64)) -> IdleYields {
    match (is_proxy, rank_spin_ns <= CROWDED_SPIN_NS) {
        (true, _) => IdleYields::new(rank_yields_ns, 0),
        (false, true) => IdleYields::new(0, 0),
        (false, false) => IdleYields::new(LINGER_NS, FORGONE_NS),
    }
}

/// Reaction to a panic of an interface. Messages would stay undelivered while its agent, which
/// lives, reports that all is well: so the agent dies with it, and the node is lost as with any
/// other agent that dies.
struct OnPanic(fn());

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

impl Drop for NetworkInterface {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.alarm.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    mut server: Server<MachineClock>,
    (spin_ns, mut yields): (u64, IdleYields),
    alarm: &Alarm,
    ending: &AtomicBool,
) {
    let readiness = server.stack().readiness();
    let readiness = readiness.and_then(|fd| fd.try_clone_to_owned().ok());
    let mut batch = Batch::default();
    let mut idle_since = None;
    while !ending.load(Ordering::Acquire) {
        if server.turn(&mut batch) {
            idle_since = None;
            continue;
        }
        let now = clock::ticked_ns();
        let idle_ns = now - *idle_since.get_or_insert(now);
        if idle_ns >= spin_ns && !yields.step(idle_ns - spin_ns, now) {
            server.housekeeping();
            let nap = server.before_sleep();
            if let Some(bed) = server.announce() {
                bed.sleep(alarm, readiness.as_ref().map(AsFd::as_fd), nap);
                server.note_watched();
            }
            idle_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ENDED: AtomicBool = AtomicBool::new(false);

    fn run(work: fn()) -> bool {
        ENDED.store(false, Ordering::Relaxed);
        let thread = std::thread::spawn(move || {
            let _whole = OnPanic(|| ENDED.store(true, Ordering::Relaxed));
            work();
        });
        let _ = thread.join();
        ENDED.load(Ordering::Relaxed)
    }

    #[test]
    fn an_interface_lingers_where_cores_are_left() {
        let lasts = |is_proxy, policy, idle_ns| suited_yields(is_proxy, policy).step(idle_ns, 0);
        let (roomy, crowded) = ((20_000, 5_000), (CROWDED_SPIN_NS, 40_000));
        assert!(lasts(false, roomy, LINGER_NS - 1) && !lasts(false, roomy, LINGER_NS));
        assert!(!lasts(false, crowded, 0));
        assert!(lasts(true, roomy, 4_999) && !lasts(true, roomy, 5_000));
        assert!(lasts(true, crowded, 39_999));
    }

    #[test]
    #[allow(clippy::panic, reason = "that is what is tested")]
    fn only_an_interface_that_panics_ends_its_agent() {
        assert!(!run(|| {}));
        assert!(run(|| panic!("on purpose")));
    }
}
