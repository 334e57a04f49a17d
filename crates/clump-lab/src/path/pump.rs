//! The process that is the path: it holds the namespaces and their TUN devices, and moves packets
//! between them as [`super::relay`] decides.
//!
//! On its output stands first how jobs enter the namespaces, then a line of counts for each line of
//! its input. It ends with its input, so that nothing of it outlives the command.

use super::relay::{PathCounts, PathRelay, PathShape};
use anyhow::{Context, Result, bail};
use clump_os::bound_child::BoundChild;
use clump_os::epoll::{Interest, Poller};
use clump_os::netns;
use clump_os::promptness::{self, Promptness};
use clump_os::tun::Tun;
use clump_os::{clock, console, topology};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Packets that are taken from one device before those that are due are delivered.
const BATCH: usize = 64;
/// Token of standard input; devices have the numbers of their nodes.
const INPUT: u64 = u64::MAX;
/// Bytes of the header of IP up to the end of the address of the receiver.
const HEAD: usize = 20;

/// Everything that the process is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayPlan {
    /// The path.
    pub shape: PathShape,
    /// Nodes that it joins.
    pub nodes: u32,
    /// Seed of losses and delays.
    pub seed: u64,
}

impl std::str::FromStr for RelayPlan {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

/// Runs the process.
///
/// # Errors
/// Fails if the kernel allows no namespaces or TUN devices, or if one of these fails.
pub fn run(plan: &RelayPlan) -> Result<()> {
    let (networks, tuns) = netns::create_tunnels(plan.nodes, plan.shape.mtu).context(
        "no path can be made between nodes on this machine: it takes root, or user namespaces and \
         a /dev/net/tun that this user may open (`clump doctor` looks for both)",
    )?;
    let relay = PathRelay::new(plan.shape, tuns.len(), plan.seed);
    let processor = own_processor();
    let real_time = promptness::raise() == Promptness::RealTime;
    let entry = PathEntry { namespaces: networks.handed_over(), real_time, processor };
    console::out(&format!("{}\n", serde_json::to_string(&entry)?))?;
    Pump { relay, tuns, started_ns: clock::now_ns() }.run()
}

/// The first line of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEntry {
    /// Value of `CLUMP_NETNS` for commands on this path.
    pub namespaces: String,
    /// True if the process runs before all others. Else ranks that poll keep it from running for
    /// up to some milliseconds where they have all processors, which the path then shows.
    pub real_time: bool,
    /// Processor of the process, which commands on the path leave to it: a rank that the kernel
    /// wakes there would wait until the relay sleeps. None on a machine of one processor.
    pub processor: Option<usize>,
}

/// Confines this process to the last of its processors, if it has several.
fn own_processor() -> Option<usize> {
    let [.., _, last] = topology::affinity().ok()?[..] else { return None };
    topology::set_affinity(&[last]).ok().map(|()| last)
}

struct Pump {
    relay: PathRelay,
    tuns: Vec<Tun>,
    started_ns: u64,
}

impl Pump {
    fn run(&mut self) -> Result<()> {
        let poller = Poller::new()?;
        let mut input = std::io::stdin();
        poller.add(&input, INPUT, Interest::Read)?;
        for (token, tun) in (0..).zip(&self.tuns) {
            poller.add(tun, token, Interest::Read)?;
        }
        let mut packet = vec![0; 1 << 16];
        loop {
            let now = self.now_ns();
            let wait = self.relay.next_due_ns().map(|at| at.saturating_sub(now));
            let ready = match wait {
                Some(ns) => poller.wait_exactly(Duration::from_nanos(ns))?,
                None => poller.wait(None)?,
            };
            for ready in ready {
                if ready.token != INPUT {
                    self.take(usize::try_from(ready.token)?, &mut packet)?;
                } else if input.read(&mut [0; 64])? == 0 {
                    return Ok(());
                } else {
                    let counts = serde_json::to_string(&self.relay.counts())?;
                    console::out(&format!("{counts}\n"))?;
                }
            }
            let now = self.now_ns();
            while let Some((to, packet)) = self.relay.take_due(now) {
                self.tuns.get(to).context("a node of the path")?.send(&packet)?;
            }
        }
    }

    /// Takes what a node has sent.
    fn take(&mut self, from: usize, packet: &mut [u8]) -> Result<()> {
        for _ in 0..BATCH {
            let tun = self.tuns.get(from).context("a device of the path")?;
            let Some(bytes) = tun.receive(packet)? else { break };
            let packet = packet.get(..bytes).unwrap_or_default();
            if let Some(to) = receiver_of(packet) {
                let now = self.now_ns();
                self.relay.accept(now, to, packet);
            }
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        clock::now_ns() - self.started_ns
    }
}

/// Returns the node that a packet of IP version 4 is for; the kernel looks for routers by others.
fn receiver_of(packet: &[u8]) -> Option<usize> {
    let head: &[u8; HEAD] = packet.first_chunk()?;
    let [.., a, b, c, d] = *head;
    let node = netns::node_at(Ipv4Addr::new(a, b, c, d)).filter(|_| head[0] >> 4 == 4)?;
    usize::try_from(node).ok()
}

/// A running path, as the command that uses it holds it. It ends with this value.
#[derive(Debug)]
pub struct RunningPath {
    process: BoundChild,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    entry: PathEntry,
}

impl RunningPath {
    /// Starts `command`, whose words have the [`RelayPlan`], and waits until the path is there.
    ///
    /// # Errors
    /// Fails if it cannot be; the process has then written the reason to the error stream.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = BoundChild::start(command).context("starting the relay of the path")?;
        let (input, output) = (process.child().stdin.take(), process.child().stdout.take());
        let (input, output) = input.zip(output).context("the relay has pipes")?;
        let mut path =
            Self { process, input, output: BufReader::new(output), entry: PathEntry::default() };
        path.entry = serde_json::from_str(&path.line()?)?;
        Ok(path)
    }

    /// Confines this thread, and commands that it starts from now on, to processors that the relay
    /// does not have.
    ///
    /// # Errors
    /// Fails if a filter refuses the call.
    pub fn leave_processor(&self) -> Result<()> {
        let Some(own) = self.entry.processor else { return Ok(()) };
        let mut others = topology::affinity()?;
        others.retain(|&one| one != own);
        if others.is_empty() { Ok(()) } else { Ok(topology::set_affinity(&others)?) }
    }

    /// Returns how commands use the path.
    pub fn entry(&self) -> &PathEntry {
        &self.entry
    }

    /// Returns the counts since the path is there.
    ///
    /// # Errors
    /// Fails if the relay has ended.
    pub fn counts(&mut self) -> Result<PathCounts> {
        self.input.write_all(b"\n").context("the relay of the path has ended")?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    /// Returns true while the relay runs.
    pub fn is_there(&mut self) -> bool {
        matches!(self.process.child().try_wait(), Ok(None))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the relay of the path has ended");
        }
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_where_their_head_says() {
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&netns::address(3).octets());
        assert_eq!(receiver_of(&packet), Some(3));
        packet[0] = 0x60;
        assert_eq!(receiver_of(&packet), None, "version 6");
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 77, 0, 0]);
        assert_eq!(receiver_of(&packet), None, "no node has number 0");
        packet[16..20].copy_from_slice(&[224, 0, 0, 1]);
        assert_eq!((receiver_of(&packet), receiver_of(&packet[..19])), (None, None));
    }

    #[test]
    fn a_plan_survives_the_command_line() {
        let shape = PathShape {
            rtt_ns: 1,
            rate: Some(2),
            queue_bytes: 3,
            jitter_ns: 4,
            loss_ppm: 5,
            reorder_ppm: 6,
            pause: Some((7, 8)),
            mtu: 1500,
        };
        let plan = RelayPlan { shape, nodes: 2, seed: u64::MAX };
        assert_eq!(serde_json::to_string(&plan).unwrap().parse::<RelayPlan>().unwrap(), plan);
    }
}
