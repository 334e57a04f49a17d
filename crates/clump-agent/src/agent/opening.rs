//! The agent until its job is known: connection, node's memory.

use super::{Agent, Result, token};
use crate::frame::{Assembler, Frame};
use crate::outcome::{Ending, JobOutcome};
use crate::output::Outputs;
use crate::patience::Patience;
use crate::rank::Refusal;
use crate::spec::{JobSpec, OnDeath};
use crate::watch::Watch;
use clump_boot::Config;
use clump_os::epoll::{Interest, Poller};
use clump_os::signal::{self, Signals};
use clump_os::{clock, process, socket, topology};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The agent before it knows its job.
pub(super) struct Connection {
    launcher: UnixStream,
    poller: Poller,
    signals: Signals,
    assembler: Assembler,
}

impl Connection {
    pub(super) fn open(control: RawFd) -> Result<Self> {
        let ends = [signal::CHILD, signal::TERMINATE, signal::INTERRUPT, signal::HANGUP];
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
        let mut piece = [0; 4096];
        let spec = loop {
            match self.assembler.poll_frame()? {
                Some(Frame::Start(spec)) => break spec,
                Some(_) => anyhow::bail!("the launcher spoke before it said what to start"),
                None => {}
            }
            match self.launcher.read(&mut piece)? {
                0 => return Ok(()), // the launcher ended before there was anything to end
                bytes => self.assembler.handle_bytes(&piece[..bytes]),
            }
        };
        self.launcher.set_nonblocking(true)?;
        self.poller.add(&self.launcher, token::LAUNCHER, Interest::Read)?;
        let launcher = Arc::new(self.launcher);
        let outputs = Outputs::new(launcher.clone(), token::LAUNCHER);
        let watch = Watch::new(spec.ranks, spec.on_death, spec.linger_ms);
        match Node::create(&spec) {
            Ok(node) => Agent {
                launcher,
                poller: self.poller,
                signals: self.signals,
                assembler: self.assembler,
                outputs,
                watch,
                node,
                spec: *spec,
                ranks: Vec::new(),
                started_ns,
                ended_ns: 0,
                scene: None,
                refusal: None,
                leftovers: Vec::new(),
                sweep_until: None,
                launcher_lost: false,
            }
            .run(),
            Err(refusal) => {
                let ending = Ending::Refused { why: refusal.why, code: refusal.code };
                let outcome = JobOutcome::without_ranks(refusal.code, ending);
                launcher.set_nonblocking(false)?;
                let mut bytes = Vec::new();
                Frame::Finished(Box::new(outcome)).append_to(&mut bytes);
                (&*launcher).write_all(&bytes)?;
                Ok(())
            }
        }
    }
}

/// The node's memory, and what was decided when it was made.
pub(super) struct Node {
    pub(super) memory: NodeMemory,
    pub(super) job_id: u64,
    pub(super) config: Config,
    pub(super) patience: Patience,
}

impl Node {
    fn create(spec: &JobSpec) -> std::result::Result<Self, Refusal> {
        let config = Config::load().map_err(|e| Refusal::new(e, 2))?;
        let job_id = process::random().map_err(|e| Refusal::new(e, 126))?;
        let patience = Patience::effective(&config, spec.ranks as usize, topology::usable_cores());
        let node = NodeConfig {
            ranks: spec.ranks as usize,
            node: 0,
            node_of: &[],
            job_id,
            survive: spec.on_death == OnDeath::Continue,
            spin_ns: patience.spin_ns,
            yield_ns: patience.yield_ns,
        };
        let memory = NodeMemory::create(&node).map_err(|e| Refusal::new(e, 2))?;
        Ok(Self { memory, job_id, config, patience })
    }
}
