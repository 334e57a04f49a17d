//! Properties that only the driver over XDP sockets guarantees: one socket for each interface, and
//! nothing left when it closes. In network namespaces of their own, which takes root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_driver::{Driver, Inbound, Outgoing, UdpOptions, Xdp, xdp_socket};
use clump_os::netns::{self, Networks};
use clump_os::xdp::{self, Mode, Opened};
use clump_os::{clock, udp};
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

const TIME_LIMIT_NS: u64 = 20_000_000_000;

/// Creates two namespaces for this thread, which is in the first, or prints why there are none.
fn networks() -> Option<Networks> {
    if let Err(e) = xdp::probe() {
        eprintln!("SKIPPED: {e} (run as root)");
        return None;
    }
    let made = std::thread::spawn(|| netns::create(2)).join().unwrap();
    let Ok(networks) = made else {
        eprintln!("SKIPPED: {made:?} (run as root)");
        return None;
    };
    enter(&networks, 0);
    Some(networks)
}

fn enter(networks: &Networks, node: usize) {
    netns::enter(None, networks.nets[node].as_fd()).unwrap();
}

fn bound(node: u32) -> (OwnedFd, SocketAddrV4) {
    let socket = udp::bind((netns::address(node), 0).into()).unwrap();
    let Some(SocketAddr::V4(local)) = udp::bound(&socket) else { panic!("no IPv4") };
    (socket, local)
}

/// Creates a driver in the namespace of this thread, once its interface is free, and the object
/// that keeps it going.
fn driver(node: u32, mode: Mode) -> (Xdp, xdp::Attached) {
    let (socket, local) = bound(node);
    let deadline = clock::now_ns() + TIME_LIMIT_NS;
    // The kernel frees an interface a moment after its socket was closed.
    let opened = loop {
        match xdp_socket(local, &[mode]) {
            Err(error) if error.to_string().contains("busy") && clock::now_ns() < deadline => {}
            opened => break opened.unwrap(),
        }
    };
    let Opened { socket: frames, memory, attached, .. } = opened;
    (Xdp::new(socket, frames, &memory, UdpOptions::default()).unwrap(), attached)
}

/// Lets both send and receive until `done`.
fn talk(a: &mut Xdp, b: &mut Xdp, mut done: impl FnMut(&mut Xdp, &mut Xdp) -> bool) {
    let (deadline, mut inbound) = (clock::now_ns() + TIME_LIMIT_NS, Inbound::new(32));
    let locals = [a.local(), b.local()];
    while !done(a, b) {
        for (driver, to) in [(&mut *a, locals[1]), (&mut *b, locals[0])] {
            driver.send(&[Outgoing { to, head: b"word", body: b"", tail: b"" }]).unwrap();
        }
        for driver in [&mut *a, &mut *b] {
            inbound.clear();
            driver.receive(&mut inbound).unwrap();
        }
        assert!(clock::now_ns() < deadline, "{:?} {:?}", a.counts(), b.counts());
    }
}

#[test]
fn an_interface_has_one_socket_and_is_free_when_that_closes() {
    let Some(_networks) = networks() else { return };
    for mode in [Mode::Native, Mode::Generic, Mode::Native] {
        let (first, attached) = driver(0, mode);
        let refused = xdp_socket(bound(0).1, &[mode]).unwrap_err();
        assert!(refused.to_string().contains("busy"), "{refused}");
        drop((first, attached));
    }
}

#[test]
fn frames_that_nobody_takes_out_pass_on_and_peers_go_back_to_udp() {
    let Some(networks) = networks() else { return };
    let (mut a, a_kept) = driver(0, Mode::Native);
    enter(&networks, 1);
    let (mut b, b_kept) = driver(1, Mode::Native);
    talk(&mut a, &mut b, |a, b| a.counts().received > 100 && b.counts().received > 100);
    // Without its program nothing reaches b by frame; datagrams of a do, by UDP.
    drop(b_kept);
    let (frames, datagrams) = (b.counts().received, b.udp().counts().received);
    talk(&mut a, &mut b, |_, b| b.udp().counts().received > datagrams + 200);
    assert!(b.counts().received - frames < 32 + 64, "no frames after that");
    drop(a_kept);
}

#[test]
fn what_is_not_the_memory_of_frames_is_refused() {
    let Some(_networks) = networks() else { return };
    let (socket, local) = bound(0);
    let Opened { socket: frames, attached, .. } = xdp_socket(local, &[Mode::Generic]).unwrap();
    let other = clump_os::map::sealed_memory("other", 4096).unwrap();
    assert!(Xdp::new(socket, frames, &other, UdpOptions::default()).is_err());
    drop(attached);
}
