//! The driver that carries a node's packets, and the descriptors that ranks and network interfaces
//! need for it besides their sockets. The agent opens them: it is inside the node's namespaces and
//! has the privileges; ranks may have none.

use crate::refusal::Refusal;
use clump_boot::NetDriver;
use clump_driver::{Attached, Direct, DriverError, Opened};
use clump_os::{OsError, thread};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::thread::{ScopedJoinHandle, scope};

/// Packet sockets that may listen on a loopback interface before `auto` stays with UDP there: the
/// kernel shows each of them every frame. A round trip through packet sockets is as long as one by
/// UDP with some 48 of them, and still shorter by a quarter with 16 (ADR 16). The ranks and
/// interfaces of a job of 16 ranks are more, and gain nothing by packet sockets.
pub const MAX_LISTENERS: usize = 16;
/// Sockets opened and closed concurrently. The kernel waits 10 to 30 ms at each until no reader
/// uses it any more.
const AT_ONCE: usize = 16;

/// The driver of a node and its open descriptors.
#[derive(Debug)]
pub(crate) struct DriverAccess {
    /// The driver; never `Auto`.
    pub(crate) driver: NetDriver,
    /// Descriptors that each process needs besides its sockets, in order. Kept until the job ends,
    /// so that no rank waits for the kernel to close its own.
    direct: Vec<Vec<OwnedFd>>,
    /// Kept until the job ends; undoes itself when dropped.
    _kept: Vec<Attached>,
}

impl DriverAccess {
    /// Opens `wanted` for processes with sockets that are bound to `places`; all nodes of the job
    /// have `of_job` sockets.
    ///
    /// # Errors
    /// Fails if a named driver cannot be used here. `Auto` falls back to UDP instead.
    pub(crate) fn open(
        wanted: NetDriver,
        places: &[Vec<SocketAddr>],
        of_job: usize,
    ) -> Result<Self, Refusal> {
        match wanted {
            NetDriver::Udp => Ok(Self::udp()),
            NetDriver::Auto => {
                let listeners = || places.iter().flatten().find_map(|p| listeners_beside(*p));
                Ok(Self::automatic(places, of_job, listeners))
            }
            NetDriver::Packet | NetDriver::Xdp => {
                Self::direct(wanted, places).map_err(|e| refused(wanted, &e))
            }
        }
    }

    fn udp() -> Self {
        Self::with_nothing(NetDriver::Udp)
    }

    fn with_nothing(driver: NetDriver) -> Self {
        Self { driver, direct: Vec::new(), _kept: Vec::new() }
    }

    /// Chooses packet sockets where they are available. Over loopback only while few sockets
    /// listen, those of other jobs included. The count is checked again once this node's sockets
    /// are open, so that of jobs that start together the last sees all.
    fn automatic(
        places: &[Vec<SocketAddr>],
        of_job: usize,
        listeners: impl Fn() -> Option<usize>,
    ) -> Self {
        let by_frames = || Self::direct(NetDriver::Packet, places).ok();
        if !places.iter().flatten().any(|place| place.ip().is_loopback()) {
            return by_frames().unwrap_or_else(Self::udp);
        }
        let own = places.iter().map(Vec::len).sum();
        let leaves_room = |more| listeners().is_some_and(|open| open + more <= MAX_LISTENERS);
        if of_job > MAX_LISTENERS || !leaves_room(own) {
            return Self::udp();
        }
        by_frames().filter(|_| leaves_room(0)).unwrap_or_else(Self::udp)
    }

    fn direct(driver: NetDriver, places: &[Vec<SocketAddr>]) -> Result<Self, DriverError> {
        let mut access = Self::with_nothing(driver);
        let mut take = |opened: Vec<Opened>| {
            let mut descriptors = Vec::new();
            for one in opened {
                descriptors.extend(one.descriptors);
                access._kept.extend(one.kept);
            }
            access.direct.push(descriptors);
        };
        let mut rest = places;
        // An interface has one AF_XDP socket; the frame format is the same.
        if let (NetDriver::Xdp, Some((first, others))) = (driver, places.split_first()) {
            take(open_all(Direct::Xdp, first)?);
            rest = others;
        }
        for some in rest.chunks(AT_ONCE) {
            for opened in open_at_once(some) {
                take(opened?);
            }
        }
        Ok(access)
    }

    /// Returns the descriptors of the process at index `at`.
    pub(crate) fn of(&self, at: usize) -> &[OwnedFd] {
        self.direct.get(at).map_or(&[], Vec::as_slice)
    }
}

impl Drop for DriverAccess {
    fn drop(&mut self) {
        while !self.direct.is_empty() {
            let some = self.direct.split_off(self.direct.len().saturating_sub(AT_ONCE));
            scope(|scope| {
                for one in some {
                    // If no thread can be started, they are closed here, one by one.
                    let _ = thread::spawn_scoped(scope, "closer", move || drop(one));
                }
            });
        }
    }
}

fn open_all(mechanism: Direct, place: &[SocketAddr]) -> Result<Vec<Opened>, DriverError> {
    place.iter().map(|address| clump_driver::open(mechanism, *address)).collect()
}

/// Opens packet sockets for each of these places, each in a thread of its own, which mostly waits.
fn open_at_once(places: &[Vec<SocketAddr>]) -> Vec<Result<Vec<Opened>, DriverError>> {
    let open = |place: &[SocketAddr]| open_all(Direct::Packet, place);
    scope(|scope| {
        let start = |place: &'_ Vec<SocketAddr>| {
            let place = place.clone();
            thread::spawn_scoped(scope, "opener", move || open(&place))
        };
        let started: Vec<_> = places.iter().map(start).collect();
        let failed = || Err(DriverError::Socket("the thread that opened it failed"));
        let finish =
            |(thread, place): (Result<ScopedJoinHandle<'_, _>, OsError>, &Vec<_>)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| failed()),
                Err(_) => open(place),
            };
        started.into_iter().zip(places).map(finish).collect()
    })
}

/// Returns the number of packet sockets that listen on loopback in this network namespace; `None`
/// if it cannot be determined.
pub fn loopback_listeners() -> Option<usize> {
    listeners_beside(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// Returns the number of packet sockets that receive frames to this loopback address.
fn listeners_beside(place: SocketAddr) -> Option<usize> {
    place.ip().is_loopback().then(|| clump_driver::listeners(place))?
}

fn refused(driver: NetDriver, why: &DriverError) -> Refusal {
    let takes = match driver {
        NetDriver::Xdp => {
            "root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and an interface that nobody else has"
        }
        _ => "root or CAP_NET_RAW, or nodes in namespaces of their own (--netns)",
    };
    let why = format!(
        "the driver `{driver}` cannot be used: {why}; it takes {takes}; `--driver auto` takes what there is"
    );
    Refusal::new(why, 126)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn places(count: u16) -> Vec<Vec<SocketAddr>> {
        (0..count).map(|at| vec![SocketAddr::from(([127, 0, 0, 1], 9 + at))]).collect()
    }

    /// Returns the driver that `auto` chooses over loopback for a node with `own` sockets in a job
    /// with `of_job`, when so many listen before and after the node has opened its own.
    fn taken(own: u16, of_job: usize, before: Option<usize>, after: Option<usize>) -> NetDriver {
        let next = Cell::new(before);
        let listeners = || next.replace(after);
        let access = DriverAccess::automatic(&places(own), of_job, listeners);
        assert_eq!(access.of(0).len(), usize::from(access.driver == NetDriver::Packet));
        assert!(access.of(usize::from(own)).is_empty());
        access.driver
    }

    /// Returns `Packet` if this user may open packet sockets.
    fn frames() -> NetDriver {
        let access = DriverAccess::direct(NetDriver::Packet, &places(1));
        access.map_or(NetDriver::Udp, |access| access.driver)
    }

    #[test]
    fn auto_takes_frames_over_loopback_while_few_hear_them() {
        let (most, frames) = (MAX_LISTENERS, frames());
        if frames == NetDriver::Udp {
            println!("SKIPPED in part: packet sockets need CAP_NET_RAW (run as root)");
        }
        assert_eq!(taken(2, 4, Some(0), Some(2)), frames);
        assert_eq!(taken(2, 4, Some(most - 2), Some(most)), frames, "room for just these");
        assert_eq!(taken(2, 4, Some(most - 1), Some(most)), NetDriver::Udp, "too many listen");
        assert_eq!(taken(2, 4, Some(0), Some(most + 1)), NetDriver::Udp, "others came at once");
        assert_eq!(taken(2, most, Some(0), Some(2)), frames);
        assert_eq!(taken(2, most + 1, Some(0), Some(2)), NetDriver::Udp, "the job has too many");
        assert_eq!(taken(2, 4, None, None), NetDriver::Udp, "nobody knows");
        assert_eq!(taken(2, 4, Some(0), None), NetDriver::Udp);
    }

    #[test]
    fn auto_never_fails() {
        let of_ip6 = vec![vec!["[::1]:9".parse().unwrap()]];
        for (wanted, at) in [(NetDriver::Auto, &of_ip6), (NetDriver::Udp, &places(1))] {
            let access = DriverAccess::open(wanted, at, 2).unwrap();
            assert_eq!((access.driver, access.of(0).len()), (NetDriver::Udp, 0));
        }
        let there = [vec!["203.0.113.7:9".parse().unwrap()]];
        let access = DriverAccess::open(NetDriver::Auto, &there, 1000).unwrap();
        assert_eq!(access.driver, frames(), "a cable has no such bound");
        assert_eq!(access.of(0).len(), usize::from(access.driver == NetDriver::Packet));
    }

    #[test]
    fn many_places_are_opened_in_order() {
        let many = places(2 * AT_ONCE as u16 + 3);
        let Ok(access) = DriverAccess::direct(NetDriver::Packet, &many) else {
            println!("SKIPPED: packet sockets need CAP_NET_RAW (run as root)");
            return;
        };
        assert!((0..many.len()).all(|at| access.of(at).len() == 1));
        assert!(access.of(many.len()).is_empty());
    }

    #[test]
    fn a_driver_that_was_named_is_used_or_refused_with_the_remedy() {
        match DriverAccess::open(NetDriver::Packet, &places(1), 1000) {
            Ok(access) => assert_eq!(access.driver, NetDriver::Packet),
            Err(refusal) => assert!(refusal.why.contains("CAP_NET_RAW"), "{}", refusal.why),
        }
        let refusal = DriverAccess::open(NetDriver::Packet, &[vec!["[::1]:9".parse().unwrap()]], 1)
            .unwrap_err();
        assert!(refusal.why.contains("IPv4") && refusal.code == 126);
    }
}
