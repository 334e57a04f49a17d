//! Opening the heap: its properties, its keepers of consistency, and the steps of each rank,
//! between which all agree that they have succeeded.

use crate::access_engine::{AccessEngine, EngineLevel};
use crate::breakdown::Sums;
use crate::caller::Caller;
use crate::deposit_keeper::{DepositKeeper, OwnPort};
use crate::domain::Domain;
use crate::error::{Error, ErrorKind, Result};
use crate::heap_view::{mapped, own_region, region, view};
use crate::keeper::Keeper;
use crate::mailbox::{CONTROL_REGION, TWIN_REGION, op};
use crate::node_locks::{NodeLocks, table_bytes};
use crate::node_pages::PAGE;
use crate::own_fetch::OwnFetches;
use crate::page_leases::LeaseTable;
use crate::program_globals::ProgramGlobals;
use crate::putting_off::PuttingOff;
use crate::settings::ProtocolSettings;
use clump_am::RankContext;
use clump_boot::{SvmFaults, SvmProtocol};
use clump_coll::{Max, Min, Team};
use clump_os::clock;
use clump_os::map::Mapping;
use clump_shm::export::SegmentName;
use std::sync::Arc;

/// Properties of the heap; all ranks pass the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SvmOptions {
    /// Bytes of address space, rounded up to pages; at most 1 TiB. Memory is used as it is touched.
    pub heap_bytes: u64,
    /// Periods between barriers after which a page moves to its sole writer; 0: never.
    pub move_after: u8,
    /// Bytes of it, at its end, that single ranks allocate from
    /// ([`Svm::alloc_alone`](crate::Svm::alloc_alone)).
    pub dynamic_bytes: u64,
    /// Variables of the program that the heap begins with, in place of each rank's own.
    pub globals: Option<ProgramGlobals>,
}

impl Default for SvmOptions {
    /// A heap of 128 GiB whose pages stay where they are.
    fn default() -> Self {
        Self { heap_bytes: 128 << 30, move_after: 0, dynamic_bytes: 0, globals: None }
    }
}

/// Keeper of consistency.
#[derive(Debug)]
pub(crate) enum Coherence {
    /// The hardware, on one node.
    Hardware { locks: NodeLocks, view: Mapping, sums: Sums, opened_ns: u64 },
    /// The protocol of several nodes.
    Protocol(&'static Domain, #[expect(dead_code, reason = "ends with the heap")] OwnAccess),
}

/// Operations of the thread that opened the heap.
#[derive(Debug)]
pub(crate) enum OwnAccess {
    /// Beside the interface of its node.
    Fetches(OwnFetches),
    /// All that the protocol needs, which ends in this order.
    Port(#[expect(dead_code, reason = "ends with the heap")] PuttingOff, OwnPort),
}

/// Returns the keeper of consistency of one node. A collective.
pub(crate) fn by_hardware(
    context: &Arc<RankContext>,
    team: &Team,
    (heap, heap_bytes): (SegmentName, u64),
    options: &SvmOptions,
) -> Result<Coherence> {
    let table =
        agreed(team, mapped(context.node(), own_region(context, CONTROL_REGION), table_bytes()))?;
    let view = view(context, team, heap, (heap_bytes, options.globals))?;
    let (sums, opened_ns) = (Sums::of(context), clock::now_ns());
    Ok(Coherence::Hardware { locks: NodeLocks::new(context, table), view, sums, opened_ns })
}

/// Returns the keeper of consistency of several nodes, and true if pages move. A collective.
pub(crate) fn by_protocol(
    context: &Arc<RankContext>,
    team: &Team,
    (heap, heap_bytes): (SegmentName, u64),
    options: &SvmOptions,
) -> Result<(Coherence, bool)> {
    let caller = || -> Result<Option<Caller>> {
        region(context.node(), own_region(context, TWIN_REGION), heap_bytes)?;
        if context.actor().is_some() {
            return Ok(None);
        }
        let ranks = context.node().local_ranks().len() as u32;
        let leases = LeaseTable::of_node(ranks, heap_bytes / PAGE as u64);
        let control = mapped(context.node(), own_region(context, CONTROL_REGION), leases.end())?;
        let missing = clump_shm::Error::NotANode("it has no network interface");
        Ok(Some(Caller::open(context, (control, leases)).ok_or(missing)?))
    };
    let caller = agreed(team, caller())?;
    let view = view(context, team, heap, (heap_bytes, options.globals))?;
    let engine = || -> Result<_> {
        let mut config = clump_boot::Config::load()?;
        if context.actor().is_some() {
            // What costs the same whatever this machine's kernel can do.
            (config.svm, config.lab.svm_faults) = (SvmProtocol::Deposit, SvmFaults::Protect);
        }
        let engine = AccessEngine::open(&view, config.lab.svm_faults, EngineLevel::MAX)?;
        Ok((config, engine))
    };
    let (config, engine) = agreed(team, engine())?;
    let (choice, step) = (config.lab.svm_faults, config.svm);
    let level = team.all_reduce(engine.level(), Min)?;
    let engine = if engine.level() > level {
        // All ranks of a node find stores alike. What this one has opened ends first.
        drop(engine);
        AccessEngine::open(&view, SvmFaults::Auto, level)
    } else {
        Ok(engine)
    };
    let engine = agreed(team, engine)?;
    let settings =
        ProtocolSettings::chosen(&config, heap_bytes, options.move_after, engine.scans());
    let pages_move = settings.move_after != 0;
    let [pages, rest] = settings.pack();
    if team.all_reduce(rest, Min)? != team.all_reduce(rest, Max)? {
        return Err(ErrorKind::Different.into());
    }
    let by_ranks = step == SvmProtocol::Deposit;
    let keeper = || -> Result<Keeper> {
        match caller {
            Some(caller) if !by_ranks => Ok(Keeper::Interface(Box::new(caller))),
            caller => DepositKeeper::open(context, (&settings, config.lab.svm_ahead), caller)
                .map(Keeper::Rank),
        }
    };
    let keeper = agreed(team, keeper())?;
    let domain = || -> Result<&'static Domain> {
        let domain = Domain::activate(context, (heap, view), (engine, step), keeper)?;
        // Where the interface of the node finds this rank's stores.
        let scanned = if choice == SvmFaults::ScanOwn { 0 } else { domain.base().addr().get() };
        domain.call(op::OPEN, [pages, team.nranks() as u64, rest, scanned as u64])?;
        Ok(domain)
    };
    let domain = agreed(team, domain())?;
    let access = match domain.keeper() {
        Keeper::Interface(_) => OwnAccess::Fetches(OwnFetches::open(context, heap)),
        Keeper::Rank(keeper) => {
            let port = agreed(team, keeper.open_port())?;
            OwnAccess::Port(PuttingOff(domain), port)
        }
    };
    Ok((Coherence::Protocol(domain, access), pages_move && !by_ranks))
}

/// Returns the result of a step of this rank, if the step has succeeded at all ranks: one that
/// failed and went would leave the others waiting. A collective.
pub(crate) fn agreed<T>(team: &Team, step: Result<T>) -> Result<T> {
    let all = team.all_reduce(u64::from(step.is_ok()), Min)? == 1;
    let value = step.map_err(Error::having_taken_part)?;
    if all { Ok(value) } else { Err(ErrorKind::OtherRankFailed.into()) }
}
