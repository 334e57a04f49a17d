//! Drivers in network namespaces of their own, joined by virtual cables, and over loopback: tests
//! that need privileges, so made by this code or skipped with the reason.

use crate::rigs::Made;
use clump_driver::{
    Attached, Capabilities, Driver, DriverError, FrameSocket, Frames, Inbound, Outgoing, Packet,
    UdpOptions, Xdp, packet_socket, xdp_socket,
};
use clump_os::netns::{self, Networks};
use clump_os::udp;
use clump_os::xdp::Mode;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A driver that lives in a namespace: each call enters it first.
struct Inside<D> {
    inner: D,
    networks: Arc<Networks>,
    node: usize,
    _kept: Option<Attached>,
}

/// A driver, and the object that must be kept for it.
type Opened<D> = Result<(D, Option<Attached>), DriverError>;

impl<D> Inside<D> {
    fn enter(&self) {
        netns::enter(None, self.networks.nets[self.node].as_fd()).unwrap();
    }
}

impl<D: Driver> Driver for Inside<D> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn local(&self) -> SocketAddr {
        self.inner.local()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.enter();
        self.inner.send(batch)
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        self.inner.receive(into)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        self.enter();
        self.inner.path_hint(to)
    }
}

fn bound(address: Ipv4Addr) -> Result<(OwnedFd, std::net::SocketAddrV4), DriverError> {
    let socket = udp::bind((address, 0).into())?;
    match udp::bound(&socket) {
        Some(SocketAddr::V4(local)) => Ok((socket, local)),
        _ => Err(DriverError::Socket("no address of IPv4")),
    }
}

fn packet(address: Ipv4Addr) -> Opened<Packet> {
    let (socket, local) = bound(address)?;
    Ok((Packet::new(socket, packet_socket(local)?, UdpOptions::default())?, None))
}

fn xdp(address: Ipv4Addr, mode: Mode) -> Opened<Xdp> {
    let (socket, local) = bound(address)?;
    let opened = xdp_socket(local, &[mode])?;
    let driver = Xdp::new(socket, opened.socket, &opened.memory, UdpOptions::default())?;
    Ok((driver, Some(opened.attached)))
}

/// Creates namespaces in a thread of its own: a thread that creates some leaves its own.
fn networks(count: usize) -> Result<Arc<Networks>, String> {
    let made = std::thread::spawn(move || netns::create(count as u32)).join().unwrap();
    made.map(Arc::new).map_err(|e| format!("{e} (run as root, or under `unshare -Ur`)"))
}

/// Creates one driver in each of `count` namespaces.
fn apart<D: Driver>(
    count: usize,
    make: impl Fn(Ipv4Addr) -> Opened<D>,
) -> Result<Vec<Inside<D>>, String> {
    let networks = networks(count)?;
    let in_place = |node: usize| {
        netns::enter(None, networks.nets[node].as_fd()).map_err(DriverError::from)?;
        let (inner, kept) = make(netns::address(node as u32))?;
        Ok(Inside { inner, networks: networks.clone(), node, _kept: kept })
    };
    (0..count).map(in_place).collect::<Result<_, DriverError>>().map_err(|e| e.to_string())
}

/// Sends among all until frames reach all drivers, or for each of the first two `one` other, and
/// drains the datagrams.
fn warm<D: Driver, L: FrameSocket>(
    drivers: &mut [D],
    one: bool,
    frames: fn(&mut D) -> &mut Frames<L>,
) {
    let mut inbound = Inbound::new(32);
    let (others, who) = if one { (1, 2) } else { (drivers.len() as u64 - 1, drivers.len()) };
    let locals: Vec<_> = drivers.iter().map(Driver::local).collect();
    let deadline = crate::bench::deadline();
    while drivers.iter_mut().take(who).any(|driver| frames(driver).counts().opened < others) {
        for (i, driver) in drivers.iter_mut().enumerate() {
            for &to in locals.iter().filter(|&&to| to != locals[i]) {
                driver.send(&[Outgoing { to, head: b"warm", body: b"", tail: b"" }]).unwrap();
            }
        }
        for driver in &mut *drivers {
            inbound.clear();
            driver.receive(&mut inbound).unwrap();
        }
        let counts: Vec<_> = drivers.iter_mut().map(|driver| frames(driver).counts()).collect();
        assert!(clump_os::clock::now_ns() < deadline, "frames do not arrive: {counts:?}");
    }
    let mut empty = 0;
    while empty < 200 {
        for driver in &mut *drivers {
            inbound.clear();
            let found = driver.receive(&mut inbound).unwrap();
            empty = if found > 0 { 0 } else { empty + 1 };
        }
    }
}

fn boxed<D: Driver + 'static>(drivers: Vec<D>) -> Made {
    Ok(drivers.into_iter().map(|driver| Box::new(driver) as Box<dyn Driver>).collect())
}

/// Creates drivers that use frames from the beginning.
pub fn packet_over_veth(count: usize) -> Made {
    let mut drivers = apart(count, packet)?;
    warm(&mut drivers, false, |driver| &mut driver.inner);
    boxed(drivers)
}

/// Creates drivers that detect during use that frames arrive.
pub fn packet_from_cold(count: usize) -> Made {
    boxed(apart(count, packet)?)
}

/// Creates all drivers in one namespace; datagrams of up to 64 KiB.
pub fn packet_over_loopback(count: usize) -> Made {
    let made = (0..count).map(|_| Ok(packet(Ipv4Addr::LOCALHOST)?.0));
    let made: Result<Vec<_>, DriverError> = made.collect();
    let mut drivers = made.map_err(|e| e.to_string())?;
    warm(&mut drivers, false, |driver| driver);
    boxed(drivers)
}

/// Creates drivers with XDP on one of each node's interfaces: frames between the first two, UDP to
/// the others.
pub fn xdp_native(count: usize) -> Made {
    let mut drivers = apart(count, |address| xdp(address, Mode::Native))?;
    warm(&mut drivers, true, |driver| &mut driver.inner);
    boxed(drivers)
}

/// Creates drivers as [`xdp_native`] does, with XDP behind the device.
pub fn xdp_generic(count: usize) -> Made {
    let mut drivers = apart(count, |address| xdp(address, Mode::Generic))?;
    warm(&mut drivers, true, |driver| &mut driver.inner);
    boxed(drivers)
}
