//! The agent until its job is known: connection, the node's memory, sockets.

use super::token;
use crate::access::DriverAccess;
use crate::adoption::Adoption;
use crate::control_streams::ControlStreams;
use crate::frame::{Assembler, Frame, Key, read_key};
use crate::hello::Hello;
use crate::launch::staged;
use crate::metrics_server::MetricsServer;
use crate::net::{AgentSockets, NodeNetwork, PortRange};
use crate::outcome::{JobEnd, JobOutcome};
use crate::output::Outputs;
use crate::placement::Placement;
use crate::program_file;
use crate::reach::{self, UsableAddresses};
use crate::refusal::Refusal;
use crate::silence::UnresponsivePeers;
use crate::spec::{JobSpec, NodePlan};
use crate::spin_policy::{SpinPolicy, suited_fence};
use crate::stream_watch::StreamWatch;
use crate::virtual_time::VirtualTime;
use crate::wiring;
use anyhow::Result;
use clump_boot::{Config, NetDriver};
use clump_control::{OnDeath, RankSupervisor};
use clump_os::epoll::{Interest, Poller};
use clump_os::signal::{self, Signals};
use clump_os::{clock, interface_address, process, topology};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::io::{Read, Write};
use std::os::fd::RawFd;

/// Node timeouts without a sign of a launcher on another machine, after which it counts as lost: a
/// user may stop it for a while.
const LAUNCHER_SILENCE: u64 = 15;

/// The agent before it knows its job.
pub(super) struct AgentSetup {
    launcher: ControlStreams,
    poller: Poller,
    signals: Signals,
    assembler: Assembler,
}

/// The agent's parts once its node is open.
pub(super) struct OpenedAgent {
    pub(super) poller: Poller,
    pub(super) signals: Signals,
    pub(super) assembler: Assembler,
    pub(super) outputs: Outputs,
    /// Signs of life on the stream to a launcher on another machine.
    pub(super) life: Option<StreamWatch>,
    /// Decides about the job, if this agent does.
    pub(super) watch: Option<RankSupervisor>,
    pub(super) node: OpenedNode,
    pub(super) silence: UnresponsivePeers,
    pub(super) spec: JobSpec,
    pub(super) started_ns: u64,
    pub(super) adoption: Option<Adoption>,
    pub(super) metrics: Option<MetricsServer>,
}

impl AgentSetup {
    pub(super) fn open(control: Option<RawFd>) -> Result<Self> {
        signal::set_own()?;
        // Signals that the launcher ignores do not end agents either.
        let mut ends = signal::ENDS.to_vec();
        ends.retain(|&signal| !signal::is_ignored(signal));
        ends.push(signal::CHILD);
        ends.extend(signal::OF_PROGRAMS);
        let signals = Signals::block(&ends)?;
        let launcher = ControlStreams::inherited(control)?;
        process::adopt_orphans()?;
        let poller = Poller::new()?;
        poller.add(&signals, token::SIGNALS, Interest::Read)?;
        Ok(Self { launcher, poller, signals, assembler: Assembler::default() })
    }

    /// Sends the hello, waits for the job and opens the node; `None` if there is nothing to run.
    pub(super) fn prepare(mut self) -> Result<Option<OpenedAgent>> {
        let started_ns = clock::now_ns();
        if self.launcher.write_all(&Hello::own().encode()).is_err() {
            return Ok(None); // as below
        }
        let Ok(key) = read_key(&mut self.launcher) else {
            return Ok(None); // the launcher ended before there was anything to end
        };
        let Some((mut spec, plan)) = self.await_start()? else { return Ok(None) };
        if spec.remote.stage && plan.elsewhere {
            let own = std::env::current_exe().ok();
            let program = own.and_then(|own| own.parent().map(|at| at.join(staged::PROGRAM)));
            spec.staged = program.map(Into::into);
        }
        let decides = spec.nodes <= 1;
        let node = match OpenedNode::create(&spec, plan, key) {
            Ok(node) => node,
            Err(refusal) => return refuse(&mut self.launcher, decides, refusal).map(|()| None),
        };
        let metrics = (&self.poller, token::METRICS);
        let metrics = match MetricsServer::of_node(metrics, &spec, &node.plan) {
            Ok(metrics) => metrics,
            Err(refusal) => return refuse(&mut self.launcher, decides, refusal).map(|()| None),
        };
        self.launcher.set_nonblocking(true)?;
        self.poller.add(self.launcher.input(), token::LAUNCHER, Interest::Read)?;
        let outputs = Outputs::new(self.launcher, token::LAUNCHER);
        let silence = UnresponsivePeers::new(node.plan.node_timeout_ms);
        let timeout_ms = node.plan.node_timeout_ms;
        let watch = || StreamWatch::new(timeout_ms, LAUNCHER_SILENCE, clock::now_ns());
        let life = node.plan.elsewhere.then(watch);
        let name = spec.engine.as_ref().map(|engine| engine.listener_of(node.plan.node));
        let open = |name| {
            Adoption::open((&self.poller, token::CALLER), name, node.config.start_timeout_ms)
        };
        let adoption = name.map(open).transpose()?;
        let watch = decides.then(|| RankSupervisor::new(spec.ranks, spec.on_death, spec.linger_ms));
        Ok(Some(OpenedAgent {
            poller: self.poller,
            signals: self.signals,
            assembler: self.assembler,
            outputs,
            life,
            watch,
            node,
            silence,
            spec,
            started_ns,
            adoption,
            metrics,
        }))
    }

    fn await_start(&mut self) -> Result<Option<(JobSpec, NodePlan)>> {
        let mut piece = [0; 4096];
        loop {
            match self.assembler.poll_frame()? {
                Some(Frame::Start(start)) => return Ok(Some(*start)),
                Some(Frame::Wire(count, cables)) => {
                    wiring::make(self.launcher.input(), count, cables)?;
                    return Ok(None);
                }
                Some(_) => anyhow::bail!("the launcher spoke before it said what to start"),
                None => {}
            }
            match self.launcher.read(&mut piece)? {
                0 => return Ok(None),
                bytes => self.assembler.handle_bytes(&piece[..bytes]),
            }
        }
    }
}

/// Tells the launcher why this node cannot start ranks.
fn refuse(launcher: &mut ControlStreams, decides: bool, refusal: Refusal) -> Result<()> {
    let Refusal { why, code } = refusal;
    let frame = if decides {
        let ending = JobEnd::Refused { why, code };
        Frame::Finished(Box::new(JobOutcome::without_ranks(code, ending)))
    } else {
        Frame::Refused(why, code)
    };
    let mut bytes = Vec::new();
    frame.append_to(&mut bytes);
    Ok(launcher.write_all(&bytes)?)
}

/// Makes the time of a job virtual.
fn begin_virtual_time(
    spec: &JobSpec,
    time: &VirtualTime,
    memory: &NodeMemory,
) -> std::result::Result<(), Refusal> {
    let plan = time.plan(spec.modelled_node_of()).map_err(|why| Refusal::new(why, 2))?;
    debug_assert_eq!(spec.nodes, 1, "one machine has all virtual nodes");
    clump_shm::virtual_time::begin(memory, &plan).map_err(|e| Refusal::new(e, 126))
}

/// The node's memory, and the choices made when it was created.
pub(super) struct OpenedNode {
    pub(super) plan: NodePlan,
    pub(super) memory: NodeMemory,
    pub(super) config: Config,
    pub(super) spin_policy: SpinPolicy,
    /// The driver that carries packets to other nodes, if there are any.
    pub(super) driver: NetDriver,
    /// The driver's descriptors, from starting the ranks until the job ends.
    pub(super) access: Option<DriverAccess>,
    /// The agent's sockets on a job with several nodes, until it is known how to reach them.
    pub(super) unbound: Option<AgentSockets>,
    /// The node's sockets, from then on until ranks are started.
    pub(super) net: Option<NodeNetwork>,
    /// Soft descriptor limit that ranks get back, if it was raised.
    pub(super) descriptors: Option<u64>,
    /// The CPUs that ranks start on.
    pub(super) placement: Placement,
}

impl OpenedNode {
    fn create(
        spec: &JobSpec,
        plan: NodePlan,
        key: Option<Key>,
    ) -> std::result::Result<Self, Refusal> {
        let config = Config::of_settings(&spec.settings).map_err(|e| Refusal::new(e, 2))?;
        let knobs = spec.knobs.map_or_else(|| config.knobs(), Ok);
        let knobs = knobs.map_err(|e| Refusal::new(e, 2))?;
        let placement = Placement::choose(spec, &plan);
        if let Some(namespaces) = &plan.namespaces {
            wiring::enter(namespaces).map_err(|e| {
                Refusal::new(format!("node {} cannot enter its namespace: {e}", plan.node), 126)
            })?;
        }
        let proxies = spec.proxies.unwrap_or(config.net_proxies as u32);
        let proxies = if spec.nodes > 1 { proxies } else { 0 };
        // Proxies are as busy as ranks.
        let sharing = (plan.sharing.ranks + proxies * plan.sharing.nodes) as usize;
        let cores = topology::usable_cores();
        let spin_policy = SpinPolicy::effective(&config, sharing, cores);
        let node_of = spec.node_of();
        let node = NodeConfig {
            ranks: spec.ranks as usize,
            node: plan.node,
            node_of: &node_of,
            proxies,
            virtual_nodes: spec.virtual_time.as_ref().map_or(0, |time| time.nodes),
            job_id: plan.job_id,
            survive: spec.on_death == OnDeath::Continue,
            spin_ns: spin_policy.spin_ns,
            yield_ns: spin_policy.yield_ns,
        };
        let fence = suited_fence(sharing, cores);
        let memory = NodeMemory::create_with_fence(&node, fence).map_err(|e| {
            // An impossible layout, or a machine that does not allow it.
            let code = if matches!(e, clump_shm::Error::Os(_)) { 126 } else { 2 };
            Refusal::new(e, code)
        })?;
        memory.note_other_clocks(plan.other_clocks.iter().copied());
        if let Some(time) = &spec.virtual_time {
            begin_virtual_time(spec, time, &memory)?;
        }
        if !knobs.is_off() {
            memory.set_knobs(&knobs.to_words()).map_err(|e| Refusal::new(e, 126))?;
        }
        let descriptors = process::raise_descriptor_limit();
        let unbound = match key {
            Some(key) => {
                let how = (spec.security, spec.driver.unwrap_or(config.net_driver));
                // Addresses that the launcher gives are paths of their own.
                let offered = plan.addresses.iter().copied().zip(0..).collect();
                let addresses = match plan.addresses.is_empty() {
                    true => reach::usable(&interface_address::all(), &spec.remote.interfaces)
                        .map_err(|why| Refusal::new(format!("node {}: {why}", plan.node), 125))?,
                    false => UsableAddresses { offered, left_out: 0 },
                };
                let of_ranks = memory.local_ranks().filter(|_| memory.proxies() == 0).count();
                let needed = 1 + of_ranks + memory.own_interfaces().count();
                let ports = spec.remote.ports;
                let ports = ports.map(|(first, last)| PortRange { first, last, needed });
                // Nodes of one machine have one program.
                let is_one = spec.machines.is_empty();
                let program = if is_one { String::new() } else { program_file::build_id(spec) };
                Some(AgentSockets::bind(&plan, addresses, ports, program, key, how)?)
            }
            None => None,
        };
        Ok(Self {
            plan,
            memory,
            driver: config.net_driver,
            config,
            spin_policy,
            access: None,
            unbound,
            net: None,
            descriptors,
            placement,
        })
    }
}
