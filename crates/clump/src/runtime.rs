//! The runtime object of a process.

use crate::leave::Leave;
use crate::rank_clock::RankClock;
use crate::{Error, Result};
use clump_am::{AsContext, ErrorKind, RankContext, Settings, own_actor};
use clump_boot::boot::Control;
use clump_boot::{Boot, Config};
use clump_coll::{Number, Op, Plain, Team};
use clump_os::alarm::Alarm;
use clump_os::sync::{AtomicBool, Ordering};
use clump_pgas::{Pgas, PgasOptions};
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::virtual_time::Actor;
use clump_svm::{Svm, SvmOptions};
use clump_trace::Recorder;
use clump_transport::{NetworkResources, NetworkTuning};
use std::sync::Arc;
use std::time::Duration;

static RUNNING: AtomicBool = AtomicBool::new(false);

/// The runtime of this process: its rank, and the collectives. Clones are the same object; it may
/// be used from any thread (collectives one at a time).
#[derive(Debug, Clone)]
pub struct Clump {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    team: Arc<Team>,
    context: Arc<RankContext>,
    pgas: PgasOptions,
    clock: RankClock,
    leave: Leave,
    /// The connection to the agent, which sees it close.
    _control: Option<Control>,
}

/// Joins the job that this process was started in, and waits until all ranks have. A program that
/// was started neither by `clump run` nor by an engine (MPICH's `mpiexec`, Slurm's `srun`) is a job
/// of one rank.
///
/// # Errors
/// Fails if another process of this rank has joined, or this process has; if it is a child by
/// `fork` of one that has; on bad settings; or if a rank died meanwhile.
pub fn init() -> Result<Clump> {
    clump_os::clock::begin();
    if clump_os::forked::is_child() {
        return Err(clump_am::Error::from(clump_am::ErrorKind::Forked).into());
    }
    if RUNNING.swap(true, Ordering::AcqRel) {
        return Err(Error::AlreadyRunning);
    }
    let boot = match clump_boot::join()? {
        None => clump_engines::join()?,
        started => started,
    };
    let (context, control, pgas) = match boot {
        Some(boot) => seated(boot)?,
        None => {
            let config = clump_boot::Config::load()?;
            let node = alone()?;
            let context = RankContext::new(&node, 0, settings(&config))?;
            let context = context.traced(recorder(&config, &node, 0)?);
            (context, None, pgas_options(&config))
        }
    };
    let context = Arc::new(context.in_virtual_time()?);
    context.node().join(context.rank(), std::process::id()).map_err(Error::AlreadyJoined)?;
    crate::recording::begin(&context)?;
    let executor = crate::executor::start(&context)?;
    context.begin_virtual_time();
    let team = Arc::new(Team::form(&context)?);
    if let Some(actor) = context.actor() {
        // What the program does from now on counts.
        actor.begin_part();
    }
    let leave = Leave::new(context.clone(), executor);
    let clock = RankClock::new(context.clone());
    Ok(Clump { inner: Arc::new(Inner { team, context, pgas, clock, leave, _control: control }) })
}

/// Creates the memory of a job of one rank.
fn alone() -> Result<NodeMemory> {
    let config = NodeConfig { spin_ns: 20_000, yield_ns: 50_000, ..NodeConfig::new(1) };
    let node = NodeMemory::create(&config)?;
    let knobs = Config::load()?.knobs()?;
    if !knobs.is_off() {
        node.set_knobs(&knobs.to_words())?;
    }
    Ok(node)
}

/// Creates the context of a rank that `clump run` started.
fn seated(boot: Boot) -> Result<(RankContext, Option<Control>, PgasOptions)> {
    let Boot { rank, memory, config, control, net, alarms, services, .. } = boot;
    let mut node = NodeMemory::attach(memory)?;
    clump_svm::services(&node).check(services).map_err(clump_boot::Error::OtherVersion)?;
    let (settings, pgas) = (settings(&config), pgas_options(&config));
    let alarms = alarms.into_iter().map(|(rank, fd)| (rank, Alarm::from_fd(fd)));
    node.set_alarms(alarms.collect());
    let trace = recorder(&config, &node, rank)?;
    let Some(net) = net else {
        let context = if node.proxies() == 0 {
            RankContext::new(&node, rank, settings)?
        } else {
            RankContext::with_proxies(&node, rank, settings, config.lab.net_dispatch)?
        };
        return Ok((context.traced(trace), Some(control), pgas));
    };
    let resources = NetworkResources {
        sockets: net.sockets,
        direct: net.direct,
        key: net.key,
        security: net.security,
        polling: (small(config.lab.net_poll_min), small(config.lab.net_poll_max)),
        tuning: NetworkTuning::configured(&config),
    };
    let context = RankContext::with_network(&node, rank, settings, resources)?;
    Ok((context.traced(trace), Some(control), pgas))
}

/// Creates the trace of a rank, if the job is traced.
fn recorder(config: &Config, node: &NodeMemory, rank: u32) -> Result<Option<Recorder>> {
    let Some(folder) = config.trace() else { return Ok(None) };
    let ranks = u32::try_from(node.ranks()).unwrap_or(u32::MAX);
    let of = (rank, ranks, node.node());
    Recorder::create(&folder, of, config.trace_events).map(Some).map_err(Error::Trace)
}

fn settings(config: &Config) -> Settings {
    let send_timeout =
        (config.send_timeout_ms != 0).then(|| Duration::from_millis(config.send_timeout_ms));
    Settings { lanes: config.lanes != 0, send_timeout }
}

fn pgas_options(config: &Config) -> PgasOptions {
    let usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    PgasOptions {
        aggregates: config.pgas_aggregate,
        batch_updates: usize(config.lab.pgas_batch),
        memory_bytes: usize(config.pgas_memory),
        delay: Duration::from_nanos(config.lab.pgas_delay_ns),
        grid_nodes: usize(config.lab.pgas_grid),
        combines: config.lab.pgas_combine,
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Refuses what virtual time does not carry out.
fn refuse_in_virtual_time(context: &RankContext, why: &'static str) -> Result<()> {
    match context.actor() {
        Some(_) => Err(clump_am::Error::from(ErrorKind::NotInVirtualTime(why)).into()),
        None => Ok(()),
    }
}

impl Clump {
    /// Returns this rank, from 0.
    pub fn rank(&self) -> usize {
        self.inner.team.rank()
    }

    /// Returns the number of ranks of the job.
    pub fn nranks(&self) -> usize {
        self.inner.team.nranks()
    }

    /// Returns the team of all ranks: it has the collectives in two phases, too.
    pub fn team(&self) -> &Team {
        &self.inner.team
    }

    /// Returns once all ranks have called it.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        Ok(self.inner.team.barrier()?)
    }

    /// Returns all ranks' values, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn all_gather<T: Plain>(&self, value: T) -> Result<Vec<T>> {
        Ok(self.inner.team.all_gather(value)?)
    }

    /// Returns all ranks' byte strings, of any lengths, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(self.inner.team.all_gather_bytes(mine)?)
    }

    /// Writes all ranks' values, equally many of each, into `all`, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; `all` has not room for as
    /// many of each rank.
    pub fn all_gather_slice<T: Plain>(&self, mine: &[T], all: &mut [T]) -> Result<()> {
        Ok(self.inner.team.all_gather_slice(mine, all)?)
    }

    /// Makes `values` of `root` the values of all ranks, which must pass equally many.
    ///
    /// # Errors
    /// Fails if a rank died or left; there is no such root; no memory.
    pub fn broadcast<T: Plain>(&self, root: usize, values: &mut [T]) -> Result<()> {
        Ok(self.inner.team.broadcast(root, values)?)
    }

    /// Combines all ranks' values; all ranks get the same bits.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn all_reduce<T: Number, O: Op<T>>(&self, value: T, op: O) -> Result<T> {
        Ok(self.inner.team.all_reduce(value, op)?)
    }

    /// Combines all ranks' slices element by element.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn all_reduce_slice<T: Number, O: Op<T>>(&self, values: &mut [T], op: O) -> Result<()> {
        Ok(self.inner.team.all_reduce_slice(values, op)?)
    }

    /// Combines all ranks' values at `root`; `None` elsewhere.
    ///
    /// # Errors
    /// Fails if a rank died or left; there is no such root.
    pub fn reduce<T: Number, O: Op<T>>(&self, root: usize, value: T, op: O) -> Result<Option<T>> {
        Ok(self.inner.team.reduce(root, value, op)?)
    }

    /// Combines all ranks' slices element by element at `root`; slices of other ranks stay as they
    /// are.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; there is no such root.
    pub fn reduce_slice<T: Number, O: Op<T>>(
        &self,
        root: usize,
        values: &mut [T],
        op: O,
    ) -> Result<()> {
        Ok(self.inner.team.reduce_slice(root, values, op)?)
    }

    /// Combines the values of all ranks up to this one, this one's included, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn scan<T: Number, O: Op<T>>(&self, value: T, op: O) -> Result<T> {
        Ok(self.inner.team.scan(value, op)?)
    }

    /// Combines the slices of all ranks up to this one, element by element.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values.
    pub fn scan_slice<T: Number, O: Op<T>>(&self, values: &mut [T], op: O) -> Result<()> {
        Ok(self.inner.team.scan_slice(values, op)?)
    }

    /// Combines the values of all ranks before this one, in rank order; `None` at rank 0.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn exclusive_scan<T: Number, O: Op<T>>(&self, value: T, op: O) -> Result<Option<T>> {
        Ok(self.inner.team.exclusive_scan(value, op)?)
    }

    /// Combines the slices of all ranks before this one, element by element; that of rank 0 stays
    /// as it is.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values.
    pub fn exclusive_scan_slice<T: Number, O: Op<T>>(&self, values: &mut [T], op: O) -> Result<()> {
        Ok(self.inner.team.exclusive_scan_slice(values, op)?)
    }

    /// Returns all ranks' values, in rank order, at `root`; `None` elsewhere.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave a value of another size; there is no such root.
    pub fn gather<T: Plain>(&self, root: usize, value: T) -> Result<Option<Vec<T>>> {
        Ok(self.inner.team.gather(root, value)?)
    }

    /// Returns all ranks' byte strings, of any lengths, in rank order, at `root`; `None` elsewhere.
    ///
    /// # Errors
    /// Fails if a rank died or left; there is no such root; no memory.
    pub fn gather_bytes(&self, root: usize, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(self.inner.team.gather_bytes(root, mine)?)
    }

    /// Writes all ranks' values, equally many of each, into `all`, in rank order, at `root`; `all`
    /// of other ranks is not used.
    ///
    /// # Errors
    /// As for [`Clump::all_gather_slice`]; there is no such root.
    pub fn gather_slice<T: Plain>(&self, root: usize, mine: &[T], all: &mut [T]) -> Result<()> {
        Ok(self.inner.team.gather_slice(root, mine, all)?)
    }

    /// Returns this rank's value of those that `root` gives, one for each rank. `values` of other
    /// ranks are not read.
    ///
    /// # Errors
    /// Fails if a rank died or left; `root` did not give one value for each rank, or of another
    /// size; there is no such root.
    pub fn scatter<T: Plain>(&self, root: usize, values: &[T]) -> Result<T> {
        Ok(self.inner.team.scatter(root, values)?)
    }

    /// Returns this rank's byte string of those that `root` gives, one for each rank, of any
    /// lengths. `parts` of other ranks are not read.
    ///
    /// # Errors
    /// As for [`Clump::scatter`]; no memory.
    pub fn scatter_bytes<B: AsRef<[u8]>>(&self, root: usize, parts: &[B]) -> Result<Vec<u8>> {
        Ok(self.inner.team.scatter_bytes(root, parts)?)
    }

    /// Writes this rank's values of those that `root` gives, equally many for each rank, in rank
    /// order, into `mine`. `all` of other ranks is not read.
    ///
    /// # Errors
    /// Fails if a rank died or left; `root` did not give as many values for each rank as `mine`
    /// has room for; there is no such root.
    pub fn scatter_slice<T: Plain>(&self, root: usize, all: &[T], mine: &mut [T]) -> Result<()> {
        Ok(self.inner.team.scatter_slice(root, all, mine)?)
    }

    /// Gives `values[i]` to rank `i`, and returns the values that the ranks give to this one, in
    /// rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave values of another size; not one value was given for
    /// each rank.
    pub fn all_to_all<T: Plain>(&self, values: &[T]) -> Result<Vec<T>> {
        Ok(self.inner.team.all_to_all(values)?)
    }

    /// Gives the values of `given` that are for each rank, equally many, in rank order, and writes
    /// those that the ranks give to this one into `got`.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; `given` and `got` do not
    /// have equally many for each rank.
    pub fn all_to_all_slice<T: Plain>(&self, given: &[T], got: &mut [T]) -> Result<()> {
        Ok(self.inner.team.all_to_all_slice(given, got)?)
    }

    /// Gives `parts[i]`, of any length, to rank `i`, and returns the byte strings that the ranks
    /// give to this one, in rank order.
    ///
    /// # Errors
    /// As for [`Clump::all_to_all`]; no memory.
    pub fn all_to_all_bytes<B: AsRef<[u8]>>(&self, parts: &[B]) -> Result<Vec<Vec<u8>>> {
        Ok(self.inner.team.all_to_all_bytes(parts)?)
    }

    /// Divides the ranks in teams: those that give the same `color` form a team, in the order of
    /// their `key`s, and of their ranks where keys are equal. `None`: this rank is in none. All
    /// ranks call it. A team has the collectives that all ranks have, and can be divided again.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Team>> {
        Ok(self.inner.team.split(color, key)?)
    }

    /// Opens the global address space for this thread. A collective: all ranks call it. Takes one
    /// of the rank's endpoints.
    ///
    /// # Errors
    /// Fails if endpoints or memory have run out, or if a rank died or left.
    pub fn pgas(&self) -> Result<Pgas> {
        self.pgas_with(&self.inner.pgas)
    }

    /// Returns the bounds of aggregation that the settings `CLUMP_PGAS_*` give.
    pub fn pgas_options(&self) -> PgasOptions {
        self.inner.pgas
    }

    /// Opens the global address space with other bounds of aggregation than the settings give.
    ///
    /// # Errors
    /// Fails as [`Clump::pgas`] does.
    pub fn pgas_with(&self, options: &PgasOptions) -> Result<Pgas> {
        Ok(Pgas::with(self, &self.inner.team, options)?)
    }

    /// Opens the shared heap, at the same address in all ranks. A collective: all ranks call it,
    /// once.
    ///
    /// # Errors
    /// Fails if it was opened before, if address space or memory has run out, or if a rank died or
    /// left.
    pub fn svm(&self) -> Result<Svm> {
        self.svm_with(&SvmOptions::default())
    }

    /// Opens the shared heap with other properties; all ranks pass the same.
    ///
    /// # Errors
    /// Fails as [`Clump::svm`] does.
    pub fn svm_with(&self, options: &SvmOptions) -> Result<Svm> {
        // One call, whatever the nodes: a recording made on one node is charged on several.
        let _call = own_actor(&self.inner.context).map(Actor::call);
        Ok(Svm::open(self, &self.inner.team, options)?)
    }

    /// Lets the network seem slower than it is from now on, as the variable CLUMP_EMU does from
    /// the start: `o=+5us,g=10us,L=+20us,G=+1ns/B,scope=net`; an empty text ends that. A
    /// collective: all ranks give the same text. Messages that are on their way keep what they
    /// were sent with.
    ///
    /// # Errors
    /// Fails if the text names no knobs, or if a rank died or left.
    pub fn emulate(&self, text: &str) -> Result<()> {
        refuse_in_virtual_time(
            &self.inner.context,
            "the machine file says how slow the network is",
        )?;
        let knobs = clump_boot::machine::knobs(&Config::load()?, "emulate", text)?;
        let team = &self.inner.team;
        team.meet_all()?;
        // One rank of each node writes into its memory. The others wait for it in any case.
        let set = match self.node().local_ranks().start as usize == self.rank() {
            true => self.node().set_knobs(&knobs.to_words()),
            false => Ok(()),
        };
        team.meet_all()?;
        clump_am::refresh_knobs();
        team.meet_all()?;
        set?;
        Ok(())
    }

    /// Returns the number of nodes of the job.
    pub fn nnodes(&self) -> usize {
        self.inner.context.nnodes() as usize
    }

    /// Returns the node that a rank is on; `None` if the job has no such rank.
    pub fn node_of(&self, rank: usize) -> Option<usize> {
        let known = u32::try_from(rank).ok().filter(|_| rank < self.nranks())?;
        Some(self.inner.context.node_of(known) as usize)
    }

    /// Returns the clock of this rank: of virtual time, where a machine is simulated.
    pub fn clock(&self) -> &RankClock {
        &self.inner.clock
    }

    /// Returns the memory of this rank's node, for tools that come with clump.
    #[doc(hidden)]
    pub fn node(&self) -> &NodeMemory {
        self.inner.context.node()
    }
}

impl Clump {
    /// Ends this rank's part in the job, as the end of its runtime does, although other threads may
    /// be inside a call: for a process that ends at once.
    #[doc(hidden)]
    pub fn leave_at_exit(&self) {
        self.inner.leave.leave();
    }
}

impl AsContext for Clump {
    fn context(&self) -> &Arc<RankContext> {
        &self.inner.context
    }
}
