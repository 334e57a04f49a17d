//! Drivers in network namespaces of their own, joined by virtual cables, and over loopback: what needs
//! privileges, so made by our own code or skipped with the reason.

use crate::rigs::Made;
use clump_driver::{
    Capabilities, Driver, DriverError, Frames, Inbound, Link, Outgoing, Packet, UdpOptions,
    packet_socket,
};
use clump_os::netns::{self, Networks};
use clump_os::udp;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A driver that lives in a namespace: whoever calls it enters first.
struct Inside<D> {
    inner: D,
    networks: Arc<Networks>,
    node: usize,
}

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

fn packet(address: Ipv4Addr) -> Result<Packet, DriverError> {
    let (socket, local) = bound(address)?;
    Packet::new(socket, packet_socket(local)?, UdpOptions::default())
}

/// Namespaces made by a thread of its own: whoever makes some leaves its own.
fn networks(count: usize) -> Result<Arc<Networks>, String> {
    let made = std::thread::spawn(move || netns::create(count as u32)).join().unwrap();
    made.map(Arc::new).map_err(|e| format!("{e} (run as root, or under `unshare -Ur`)"))
}

/// One driver in each of `count` namespaces.
fn apart<D: Driver>(
    count: usize,
    make: fn(Ipv4Addr) -> Result<D, DriverError>,
) -> Result<Vec<Inside<D>>, String> {
    let networks = networks(count)?;
    let in_place = |node: usize| {
        netns::enter(None, networks.nets[node].as_fd()).map_err(DriverError::from)?;
        let inner = make(netns::address(node as u32))?;
        Ok(Inside { inner, networks: networks.clone(), node })
    };
    (0..count).map(in_place).collect::<Result<_, DriverError>>().map_err(|e| e.to_string())
}

/// Lets all talk until frames reach everybody, and takes away what was said.
fn warm<D: Driver, L: Link>(drivers: &mut [D], frames: fn(&mut D) -> &mut Frames<L>) {
    let (others, mut inbound) = (drivers.len() as u64 - 1, Inbound::new(32));
    let locals: Vec<_> = drivers.iter().map(Driver::local).collect();
    let deadline = crate::bench::deadline();
    while drivers.iter_mut().any(|driver| frames(driver).counts().opened < others) {
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

/// Frames in use from the beginning.
pub fn packet_over_veth(count: usize) -> Made {
    let mut drivers = apart(count, packet)?;
    warm(&mut drivers, |driver| &mut driver.inner);
    boxed(drivers)
}

/// The same, which has to find out while it is used.
pub fn packet_from_cold(count: usize) -> Made {
    boxed(apart(count, packet)?)
}

/// All in one namespace; datagrams of up to 64 KiB.
pub fn packet_over_loopback(count: usize) -> Made {
    let made: Result<Vec<_>, _> = (0..count).map(|_| packet(Ipv4Addr::LOCALHOST)).collect();
    let mut drivers = made.map_err(|e| e.to_string())?;
    warm(&mut drivers, |driver| driver);
    boxed(drivers)
}
