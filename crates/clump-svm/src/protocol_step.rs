//! Steps of the protocol ladder (paper 003, section 2): which requests of other nodes the network
//! interface of a node executes by itself, and which wake its protocol thread.
//!
//! Each step is the one below it with one kind of request changed. Answers to a rank's own requests
//! wake nobody at any step: the rank waits for them.

use clump_boot::SvmProtocol;
use clump_hlrc::{FetchRule, NodeMessage, NoticeTransfer};

/// Requests of other nodes, by what the ladder changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Protocol data: notices, arrivals at barriers, homes of allocations.
    Notice,
    /// Pages and their homes.
    Fetch,
    /// Bytes for a home page.
    Diff,
    /// Locks and flags.
    Lock,
}

/// All kinds, by number.
pub(crate) const REQUEST_KINDS: [RequestKind; 4] =
    [RequestKind::Notice, RequestKind::Fetch, RequestKind::Diff, RequestKind::Lock];

impl RequestKind {
    /// Returns the kind of a message; none of one that answers a request of this node.
    pub(crate) fn of<P>(message: &NodeMessage<P>) -> Option<Self> {
        match message {
            NodeMessage::PullNotices { .. }
            | NodeMessage::Arrive { .. }
            | NodeMessage::Place { .. } => Some(Self::Notice),
            NodeMessage::Fetch { .. } | NodeMessage::AskHome { .. } => Some(Self::Fetch),
            NodeMessage::Diffs(..) => Some(Self::Diff),
            NodeMessage::RequestLock { .. }
            | NodeMessage::RecallLock { .. }
            | NodeMessage::ReturnLock { .. }
            | NodeMessage::SetFlag { .. }
            | NodeMessage::AwaitFlag { .. } => Some(Self::Lock),
            NodeMessage::Notices(_)
            | NodeMessage::Page { .. }
            | NodeMessage::HomeIs { .. }
            | NodeMessage::GrantLock { .. }
            | NodeMessage::Depart { .. }
            | NodeMessage::FlagReached { .. }
            | NodeMessage::Placed { .. } => None,
        }
    }
}

/// Executor of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestExecutor {
    /// The network interface, as the request arrives.
    Interface,
    /// The protocol thread of the node, which is woken.
    ProtocolThread,
}

/// One step of the ladder.
pub(crate) trait ProtocolStep: std::fmt::Debug + Sync {
    /// Returns the executor of a kind of request.
    fn executor(&self, kind: RequestKind) -> RequestExecutor;

    /// Returns the way of write notices.
    fn notices(&self) -> NoticeTransfer;

    /// Returns the answer of a home that is behind.
    fn fetch(&self) -> FetchRule;
}

/// A thread is woken for every request. Acquires ask for notices.
#[derive(Debug)]
struct Base;

/// Releases deposit notices at all nodes, and barriers their arrivals.
#[derive(Debug)]
struct RemoteDeposit;

/// Pages are fetched with their versions, as they are: one that is behind is fetched again.
#[derive(Debug)]
struct RemoteFetch;

/// Diffs are stored as they arrive.
#[derive(Debug)]
struct DirectDiffs;

/// Interfaces hand locks over. They know the versions of pages, too, so a fetch waits at the home
/// for the one that it needs.
#[derive(Debug)]
struct InterfaceLocks;

impl ProtocolStep for Base {
    fn executor(&self, _: RequestKind) -> RequestExecutor {
        RequestExecutor::ProtocolThread
    }

    fn notices(&self) -> NoticeTransfer {
        NoticeTransfer::Pull
    }

    fn fetch(&self) -> FetchRule {
        FetchRule::WaitAtHome
    }
}

impl ProtocolStep for RemoteDeposit {
    fn executor(&self, kind: RequestKind) -> RequestExecutor {
        match kind {
            RequestKind::Notice => RequestExecutor::Interface,
            _ => Base.executor(kind),
        }
    }

    fn notices(&self) -> NoticeTransfer {
        NoticeTransfer::Push
    }

    fn fetch(&self) -> FetchRule {
        Base.fetch()
    }
}

impl ProtocolStep for RemoteFetch {
    fn executor(&self, kind: RequestKind) -> RequestExecutor {
        match kind {
            RequestKind::Fetch => RequestExecutor::Interface,
            _ => RemoteDeposit.executor(kind),
        }
    }

    fn notices(&self) -> NoticeTransfer {
        RemoteDeposit.notices()
    }

    fn fetch(&self) -> FetchRule {
        FetchRule::Retry
    }
}

impl ProtocolStep for DirectDiffs {
    fn executor(&self, kind: RequestKind) -> RequestExecutor {
        match kind {
            RequestKind::Diff => RequestExecutor::Interface,
            _ => RemoteFetch.executor(kind),
        }
    }

    fn notices(&self) -> NoticeTransfer {
        RemoteFetch.notices()
    }

    fn fetch(&self) -> FetchRule {
        RemoteFetch.fetch()
    }
}

impl ProtocolStep for InterfaceLocks {
    fn executor(&self, kind: RequestKind) -> RequestExecutor {
        match kind {
            RequestKind::Lock => RequestExecutor::Interface,
            _ => DirectDiffs.executor(kind),
        }
    }

    fn notices(&self) -> NoticeTransfer {
        DirectDiffs.notices()
    }

    fn fetch(&self) -> FetchRule {
        FetchRule::WaitAtHome
    }
}

/// Returns the step that was chosen.
pub(crate) fn step(chosen: SvmProtocol) -> &'static dyn ProtocolStep {
    match chosen {
        SvmProtocol::Base => &Base,
        SvmProtocol::Dw => &RemoteDeposit,
        SvmProtocol::Rf => &RemoteFetch,
        SvmProtocol::Dd => &DirectDiffs,
        // With the last, the interface has nothing to do.
        SvmProtocol::Nil | SvmProtocol::Deposit => &InterfaceLocks,
    }
}

/// Returns true if a step wakes a protocol thread for some request.
pub(crate) fn wakes(chosen: SvmProtocol) -> bool {
    let thread = |&kind: &RequestKind| step(chosen).executor(kind) != RequestExecutor::Interface;
    REQUEST_KINDS.iter().any(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_interface(chosen: SvmProtocol) -> Vec<RequestKind> {
        let all = REQUEST_KINDS.into_iter();
        all.filter(|&kind| step(chosen).executor(kind) == RequestExecutor::Interface).collect()
    }

    #[test]
    fn each_step_gives_the_interface_one_kind_of_request_more() {
        for (count, chosen) in SvmProtocol::ALL.into_iter().take(5).enumerate() {
            assert_eq!(by_interface(chosen), REQUEST_KINDS[..count], "{}", chosen.name());
            assert_eq!(wakes(chosen), chosen != SvmProtocol::Nil);
        }
    }

    #[test]
    fn what_a_rank_waits_for_wakes_nobody() {
        let time = clump_hlrc::VectorTime::zero(2);
        let grant = NodeMessage::<()>::GrantLock { lock: 1, grant: 1, time: time.clone() };
        assert_eq!(RequestKind::of(&grant), None);
        let recall = NodeMessage::<()>::RecallLock { lock: 1, grant: 1 };
        assert_eq!(RequestKind::of(&recall), Some(RequestKind::Lock));
        let arrival =
            NodeMessage::<()>::Arrive { barrier: 0, count: 1, members: 2, time, moves: Vec::new() };
        assert_eq!(RequestKind::of(&arrival), Some(RequestKind::Notice));
    }
}
