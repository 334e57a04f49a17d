//! Goodput of gets over a path: a rank reads memory of another node without end, in the fragments
//! of one long get. Requester, window of gets, interfaces and stacks are the real ones.

use super::layout::Layout;
use super::line::{CallerLine, OperationPayload};
use crate::interface::{InterfaceEnvironment, SimInterface, memory_of};
use crate::kernel::{
    self, Kernel, KernelConfig, PlannedFault, Random, SECOND, Time, World, key_of,
};
use crate::network::Network;
use anyhow::Context as _;
use clump_interface::Services;
use clump_net::Batch;
use clump_onesided::protocol::{MAX_PIECE, ask};
use clump_onesided::{Completion, GetWindow, Requester};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::collections::VecDeque;

/// Node of each rank: the reader's, and that of the memory it reads.
const NODE_OF: [u32; 2] = [0, 1];
/// Cost of a turn, and of each message in it.
const TURN: Time = 500;
const PER_MESSAGE: Time = 100;
/// Time for which an interface that finds nothing polls on.
const SPIN: Time = 20_000;

/// A reader and two interfaces, that of the reader's node among them.
struct GetBench {
    kernel: Kernel,
    layout: Layout,
    line: CallerLine,
    requester: Requester,
    window: GetWindow,
    /// Cookies of fragments in flight, with the time of each request.
    under_way: VecDeque<(u64, Time)>,
    interfaces: Vec<SimInterface>,
    batch: Batch,
    /// Bytes that have arrived, and those before the time from which they count.
    bytes: u64,
    before: Option<u64>,
    count_from: Time,
    over: bool,
}

/// Returns the bytes per second that a rank reads over a network for `span`, after `warm`.
///
/// # Errors
/// Memory of a node cannot be made, or a get is refused.
pub fn goodput_of_gets(network: &Network, warm: Time, span: Time) -> anyhow::Result<f64> {
    let mut bench = GetBench::new(network)?;
    bench.count_from = warm;
    bench.kernel.schedule(warm + span + 1, PlannedFault::Finish);
    kernel::run(&mut bench)?;
    let counted = bench.bytes - bench.before.unwrap_or(bench.bytes);
    Ok(counted as f64 * SECOND as f64 / span as f64)
}

impl GetBench {
    fn new(network: &Network) -> anyhow::Result<Self> {
        let memory = |node| {
            memory_of(&NodeConfig {
                node,
                node_of: &NODE_OF,
                survive: true,
                spin_ns: 0,
                yield_ns: 0,
                ..NodeConfig::new(NODE_OF.len())
            })
        };
        let memories: Vec<NodeMemory> =
            (0..2).map(memory).collect::<anyhow::Result<Vec<_>>>().context("no memory")?;
        let actors = memories[0].all_interfaces().end;
        let site = |memory: &NodeMemory| memory.local_ranks().chain(memory.own_interfaces());
        let kernel = Kernel::new(KernelConfig {
            begin: 0,
            ports: vec![network.port.clone(); actors as usize],
            link: &network.link,
            random: Random::new(1),
            actors,
            sites: memories.iter().map(|memory| site(memory).collect()).collect(),
            max_events: u64::MAX,
            trace: false,
        });
        let layout = Layout::export(&NODE_OF, &memories).context("nothing can be exported")?;
        let key = key_of(1).context("no key")?;
        let trade = InterfaceEnvironment {
            switch: &kernel.switch,
            key: &key,
            security: clump_wire::Security::Crc,
            channel: clump_proto::Config::default(),
            costs: None,
            spin: SPIN,
        };
        let interface = |memory| SimInterface::new(memory, 0, (0, 0), &trade, Services::default());
        let interfaces = memories.iter().map(interface).collect::<anyhow::Result<Vec<_>>>()?;
        let line = CallerLine::new(0, &memories[0], &trade)?;
        let mut kernel = kernel;
        for actor in 0..actors {
            kernel.wake(actor, 0);
        }
        Ok(Self {
            kernel,
            layout,
            line,
            requester: Requester::new(2),
            window: GetWindow::default(),
            under_way: VecDeque::new(),
            interfaces,
            batch: Batch::default(),
            bytes: 0,
            before: None,
            count_from: 0,
            over: false,
        })
    }

    /// Takes in fragments that have ended, in their order, and requests as many as may be in
    /// flight. Returns the time of the reader's next turn.
    fn read(&mut self, now: Time) -> anyhow::Result<Time> {
        let Self { line, requester, batch, .. } = self;
        let mut busy = line.receive(now, batch, requester).map_err(anyhow::Error::msg)?;
        line.service(now, busy > 0);
        while let Some(&(first, begun)) = self.under_way.front() {
            match self.requester.completion(first) {
                Some(Completion::Waiting) => break,
                Some(Completion::Done(_)) => {}
                end => anyhow::bail!("a get ended as {end:?}"),
            }
            let (_, bytes) = self.requester.take_bytes(first).context("it has ended")?;
            self.under_way.pop_front();
            let is_first = self.bytes == 0;
            self.bytes += bytes.len() as u64;
            self.window.on_end(now - begun, is_first, self.under_way.len());
        }
        while self.under_way.len() < self.window.ahead() {
            let cookie = self.requester.begin_bytes(1, MAX_PIECE);
            let words = [self.layout.bits(1), 0, cookie, MAX_PIECE as u64];
            let encoded = self.requester.word(1, ask::GET, &words).context("it is not lost")?;
            self.line.post(1, encoded, OperationPayload::Nothing);
            self.under_way.push_back((cookie, now));
        }
        busy += self.line.send(now, &mut self.requester);
        if busy > 0 {
            return Ok(now + TURN + PER_MESSAGE * busy as Time);
        }
        Ok(self.line.before_sleep(now).unwrap_or(Time::MAX).max(now + TURN))
    }
}

impl World for GetBench {
    type End = ();
    type Error = anyhow::Error;

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn on_datagram(&mut self, now: Time, actor: u32) {
        let looks = match actor.checked_sub(NODE_OF.len() as u32) {
            Some(number) => self.interfaces[number as usize].sleeps(),
            None => true,
        };
        if looks {
            self.kernel.wake(actor, now + TURN);
        }
    }

    fn on_turn(&mut self, now: Time, actor: u32) -> anyhow::Result<()> {
        let next = match actor.checked_sub(NODE_OF.len() as u32) {
            Some(number) => self.interfaces[number as usize].turn(now, TURN, &mut self.batch),
            None if actor == 0 => self.read(now)?,
            None => Time::MAX,
        };
        self.kernel.wake(actor, next.max(now + 1));
        Ok(())
    }

    fn on_fault(&mut self, _now: Time, fault: &PlannedFault) -> anyhow::Result<()> {
        anyhow::ensure!(*fault == PlannedFault::Finish, "a reader does not support {fault:?}");
        self.over = true;
        Ok(())
    }

    fn check_progress(&mut self, now: Time) -> anyhow::Result<Option<()>> {
        if self.before.is_none() && now >= self.count_from {
            self.before = Some(self.bytes);
        }
        Ok(self.over.then_some(()))
    }

    fn failure(&self, what: String) -> anyhow::Error {
        let stacks = self.interfaces.iter().map(|one| one.server.stack().describe());
        let stacks = stacks.collect::<Vec<_>>().join("; ");
        anyhow::anyhow!("a reader, {}, interfaces {stacks}: {what}", self.line.describe())
    }
}
