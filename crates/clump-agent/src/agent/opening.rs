//! The agent until its job is known: connection, the node's memory, sockets.

use super::{Agent, Result, token};
use crate::access::DriverAccess;
use crate::frame::{Assembler, Frame, Key, read_key};
use crate::narrow::Narrow;
use crate::net::NodeNetwork;
use crate::outcome::{JobEnd, JobOutcome};
use crate::output::Outputs;
use crate::placement::Placement;
use crate::rank::Refusal;
use crate::receiving::Receiving;
use crate::silence::UnresponsivePeers;
use crate::spec::{JobSpec, NodePlan};
use crate::spin_policy::SpinPolicy;
use crate::wiring;
use clump_boot::{Config, NetDriver};
use clump_control::{OnDeath, RankSupervisor};
use clump_os::epoll::{Interest, Poller};
use clump_os::signal::{self, Signals};
use clump_os::{clock, process, socket, topology};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The agent before it knows its job.
pub(super) struct AgentSetup {
    launcher: UnixStream,
    poller: Poller,
    signals: Signals,
    assembler: Assembler,
}

impl AgentSetup {
    pub(super) fn open(control: RawFd) -> Result<Self> {
        signal::set_own()?;
        // Signals that the launcher was told to ignore do not end agents either.
        let mut ends = signal::ENDS.to_vec();
        ends.retain(|&signal| !signal::is_ignored(signal));
        ends.push(signal::CHILD);
        let signals = Signals::block(&ends)?;
        let Some(end) = socket::inherited(control) else {
            anyhow::bail!(
                "descriptor {control} is not open; `clump agent` is started by `clump run` only"
            );
        };
        process::adopt_orphans()?;
        let launcher = UnixStream::from(end);
        let poller = Poller::new()?;
        poller.add(&signals, token::SIGNALS, Interest::Read)?;
        Ok(Self { launcher, poller, signals, assembler: Assembler::default() })
    }

    /// Waits for the job and runs it.
    pub(super) fn serve(mut self) -> Result<()> {
        let started_ns = clock::now_ns();
        let Ok(key) = read_key(&mut self.launcher) else {
            return Ok(()); // the launcher ended before there was anything to end
        };
        let Some((spec, plan)) = self.await_start()? else { return Ok(()) };
        self.launcher.set_nonblocking(true)?;
        self.poller.add(&self.launcher, token::LAUNCHER, Interest::Read)?;
        let launcher = Arc::new(self.launcher);
        let outputs = Outputs::new(launcher.clone(), token::LAUNCHER);
        let decides = spec.nodes <= 1;
        let node = match OpenedNode::create(&spec, plan, key) {
            Ok(node) => node,
            Err(refusal) => return refuse(&launcher, decides, refusal),
        };
        let silence = UnresponsivePeers::new(node.plan.node_timeout_ms);
        Agent {
            launcher,
            poller: self.poller,
            signals: self.signals,
            assembler: self.assembler,
            outputs,
            watch: decides.then(|| RankSupervisor::new(spec.ranks, spec.on_death, spec.linger_ms)),
            node,
            heartbeats: None,
            silence,
            narrow: Narrow::default(),
            receiving: Receiving::default(),
            interfaces: Vec::new(),
            spec,
            ranks: Vec::new(),
            started_ns,
            ended_ns: 0,
            scene: None,
            refusal: None,
            leftovers: Vec::new(),
            sweep_until: None,
            killing: false,
            finished: false,
            launcher_lost: false,
        }
        .run()
    }

    fn await_start(&mut self) -> Result<Option<(JobSpec, NodePlan)>> {
        let mut piece = [0; 4096];
        loop {
            match self.assembler.poll_frame()? {
                Some(Frame::Start(start)) => return Ok(Some(*start)),
                Some(Frame::Wire(count, cables)) => {
                    wiring::make(&self.launcher, count, cables)?;
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
fn refuse(launcher: &UnixStream, decides: bool, refusal: Refusal) -> Result<()> {
    let Refusal { why, code } = refusal;
    let frame = if decides {
        let ending = JobEnd::Refused { why, code };
        Frame::Finished(Box::new(JobOutcome::without_ranks(code, ending)))
    } else {
        Frame::Refused(why, code)
    };
    launcher.set_nonblocking(false)?;
    let mut bytes = Vec::new();
    frame.append_to(&mut bytes);
    Ok((&*launcher).write_all(&bytes)?)
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
    /// The node's sockets on a job with several nodes, until ranks are started.
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
        let config = Config::load().map_err(|e| Refusal::new(e, 2))?;
        let placement = Placement::choose(spec, &plan);
        if let Some(namespaces) = &plan.namespaces {
            wiring::enter(namespaces).map_err(|e| {
                Refusal::new(format!("node {} cannot enter its namespace: {e}", plan.node), 126)
            })?;
        }
        let proxies = spec.proxies.unwrap_or(config.net_proxies as u32);
        let proxies = if spec.nodes > 1 { proxies } else { 0 };
        // Proxies are as busy as ranks.
        let sharing = plan.sharing.len() + (proxies * plan.sharing_nodes) as usize;
        let spin_policy = SpinPolicy::effective(&config, sharing, topology::usable_cores());
        let node_of = spec.node_of();
        let node = NodeConfig {
            ranks: spec.ranks as usize,
            node: plan.node,
            node_of: &node_of,
            proxies,
            job_id: plan.job_id,
            survive: spec.on_death == OnDeath::Continue,
            spin_ns: spin_policy.spin_ns,
            yield_ns: spin_policy.yield_ns,
        };
        let mut memory = NodeMemory::create(&node).map_err(|e| {
            // An impossible layout, or a machine that does not allow it.
            let code = if matches!(e, clump_shm::Error::Os(_)) { 126 } else { 2 };
            Refusal::new(e, code)
        })?;
        let descriptors = process::raise_descriptor_limit();
        let net = match key {
            Some(key) => {
                let how = (spec.security, spec.driver.unwrap_or(config.net_driver));
                Some(NodeNetwork::bind(&plan, &mut memory, key, how)?)
            }
            None => None,
        };
        let driver = net.as_ref().map_or(config.net_driver, |net| net.access.driver);
        Ok(Self {
            plan,
            memory,
            config,
            spin_policy,
            driver,
            access: None,
            net,
            descriptors,
            placement,
        })
    }
}
