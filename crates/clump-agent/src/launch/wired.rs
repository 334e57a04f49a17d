//! The launcher's side of network namespaces for virtual nodes.

use super::fork_starter::start_self;
use crate::frame::{Frame, write_key};
use crate::hello::Hello;
use crate::spec::Namespaces;
use crate::wiring::MADE;
use anyhow::{Context, bail};
use clump_boot::boot::VARIABLES;
use clump_os::epoll::{Interest, Poller};
use clump_os::netns::Networks;
use clump_os::process::{self, Input};
use clump_os::scm_message;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest time for creating namespaces: it is a matter of milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Has a process of its own create network namespaces, joined by so many cables each.
pub(super) fn networks(count: u32, cables: u32) -> anyhow::Result<Networks> {
    const WHAT: &str = "nodes cannot have network namespaces of their own (--netns)";
    let (_maker, ours) =
        start_self(Input::Empty, &VARIABLES.map(OsString::from), true).context(WHAT)?;
    let mut stream = UnixStream::from(ours);
    let mut request = Vec::new();
    Frame::Wire(count, cables).append_to(&mut request);
    write_key(&mut stream, None).and_then(|()| stream.write_all(&request)).context(WHAT)?;
    Hello::read(&mut stream).context(WHAT)?;
    let poller = Poller::new()?;
    poller.add(&stream, 0, Interest::Read)?;
    poller.wait(Some(TIME_LIMIT))?;
    let (mut head, mut why) = ([0; 2], [0; 400]);
    let parcel = scm_message::receive(&stream, &mut [&mut head, &mut why]).context(WHAT)?;
    let Some(parcel) = parcel else { bail!("{WHAT}: their maker ended without a word") };
    let mut made = parcel.descriptors.into_iter();
    if head[0] != MADE || made.len() != count as usize + usize::from(head[1]) {
        let why = String::from_utf8_lossy(&why[..parcel.bytes.saturating_sub(2)]);
        bail!("{WHAT}: {why}; it takes root, or user namespaces (`clump doctor` looks for them)");
    }
    let user = if head[1] == 1 { made.next() } else { None };
    Ok(Networks { user, nets: made.collect() })
}

/// Returns the namespaces of `node`.
pub(super) fn of(networks: &Networks, node: u32) -> Option<Namespaces> {
    let net = networks.nets.get(node as usize)?.as_raw_fd();
    let user = networks.user.as_ref().map(AsRawFd::as_raw_fd);
    Some(Namespaces { holder: process::own_pid(), user, net })
}
