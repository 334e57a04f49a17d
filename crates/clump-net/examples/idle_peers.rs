//! Memory of peers: stacks in one process that all talk to all, then are idle.
//!
//! `cargo run --release -p clump-net --example idle_peers [STACKS] [BYTES]` prints the private
//! memory of a stack: after the start, after each has sent a message of so many bytes to each
//! other, and once all are idle. Two runs with different numbers of stacks tell what a peer costs,
//! apart from the stack itself and the wire of this process.

use clump_driver::Hub;
use clump_net::seal::JobKey;
use clump_net::{Batch, EndpointTable, PeerAddress, Stack, StackConfig};
use clump_wire::Security;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, Reason, SendResult};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

const MILLISECOND: u64 = 1_000_000;

/// One endpoint that takes everything.
struct Open;

impl EndpointTable for Open {
    fn admit(&self, _to: u64, _tag: Option<u64>) -> Result<u8, Reason> {
        Ok(0)
    }

    fn fits(&self, _to: u64, _offset: u64, _bytes: u64) -> Result<(), Reason> {
        Ok(())
    }

    fn deposit(&self, _to: u64, _offset: u64, _data: &[u8]) -> Result<(), Reason> {
        Ok(())
    }
}

fn name(id: u32) -> u64 {
    u64::from(id) << 40 | 1 << 8
}

fn stacks(count: u32) -> Result<Vec<Stack>, Box<dyn Error>> {
    let (hub, key) = (Hub::default(), JobKey::new(&mut [7; 32])?);
    let address = |id: u32| SocketAddr::from(([10, 0, 0, 1], 1000 + id as u16));
    let peer = |id| PeerAddress { id, address: address(id), epoch: 1 };
    let peers = Arc::new((0..count).map(peer).collect::<Vec<_>>());
    let stack = |me| -> Result<Stack, Box<dyn Error>> {
        let config = StackConfig {
            me,
            epoch: 1,
            security: Security::Aead,
            channel: clump_proto::Config::default(),
            credit_bytes: 64 << 20,
            peers: peers.clone(),
        };
        let driver = Box::new(hub.attach(address(me))?);
        Ok(Stack::new(config, &key, driver, Box::new(Open))?)
    };
    (0..count).map(stack).collect()
}

/// Lets everybody receive and send until nothing is in flight.
fn settle(stacks: &mut [Stack], now: &mut u64, batch: &mut Batch) {
    for _ in 0..40 {
        for stack in &mut *stacks {
            while stack.receive(|| *now, Some(0), batch) > 0 {}
            stack.service(*now, true);
            stack.acknowledge_all(*now);
        }
        *now += MILLISECOND;
    }
}

/// Returns the private memory of this process in KiB.
fn private_kib() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let private = text.lines().filter(|line| line.starts_with("Private_"));
    let kib = private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(kib.sum())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let count: u32 = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let bytes: usize = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let (mut now, mut batch) = (MILLISECOND, Batch::default());
    let before = private_kib()?;
    let mut all = stacks(count)?;
    let started = private_kib()?;
    println!("a stack that talks to nobody: {:.1} KiB", (started - before) / f64::from(count));
    let payload = vec![7; bytes];
    for me in 0..count {
        for other in (0..count).filter(|&other| other != me) {
            let flow = all[me as usize].open_flow(name(me), name(other), other, false);
            let route = Route { from: name(me), to: name(other), tag: 7 };
            let request = Message::request((FrameKind::Medium, 1), route, (&[], &payload));
            while all[me as usize].request(|| now, flow, &request) == SendResult::Full {
                settle(&mut all, &mut now, &mut batch);
            }
        }
        settle(&mut all, &mut now, &mut batch);
    }
    let grown =
        || -> Result<f64, Box<dyn Error>> { Ok((private_kib()? - started) / f64::from(count)) };
    println!("a stack with {} peers: {:.0} KiB more", count - 1, grown()?);
    for _ in 0..2 {
        now += 1500 * MILLISECOND;
        settle(&mut all, &mut now, &mut batch);
    }
    println!("once they are idle: {:.0} KiB more", grown()?);
    Ok(())
}
