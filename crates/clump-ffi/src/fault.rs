//! Failures on their way to C: a status, and texts that the thread keeps until its next failure.

use crate::status::clump_status as S;
use clump::pgas::{GlobalError, GlobalErrorKind as Global};
use clump::svm::{SharedMemoryError, SharedMemoryErrorKind};
use clump_am::ErrorKind as Am;
use clump_os::thread_value;
use clump_rma::{ErrorKind as Rma, Refusal};
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, CString};

/// A failure: what happened, its cause, and so on. One word, so that results stay in registers.
#[derive(Debug)]
pub struct Fault(Box<FaultText>);

#[derive(Debug)]
struct FaultText {
    status: S,
    /// True if a collective returns it that this rank took part in.
    took_part: bool,
    chain: Vec<CString>,
    whole: CString,
}

/// Result inside this crate.
pub type Result<T> = std::result::Result<T, Fault>;

thread_value! {
    static LAST: RefCell<Option<Fault>> = RefCell::new(None);
}

impl Fault {
    /// A failure without a cause behind it.
    #[cold]
    pub fn new(status: S, what: impl Into<String>) -> Self {
        Self::of(status, &[what.into()])
    }

    #[cold]
    fn of(status: S, chain: &[String]) -> Self {
        let whole = text(&chain.join(": "));
        let chain = chain.iter().map(|link| text(link)).collect();
        Self(Box::new(FaultText { status, took_part: false, chain, whole }))
    }

    /// An error of the crates below, with its causes.
    #[cold]
    fn caused(status: S, error: &dyn Error) -> Self {
        let mut chain = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            let said = cause.to_string();
            // A wrapping error repeats the text of the error that it wraps.
            if chain.last().is_none_or(|last| !last.contains(&said)) {
                chain.push(said);
            }
            next = cause.source();
        }
        Self::of(status, &chain)
    }

    /// Returns its status.
    pub fn status(&self) -> S {
        self.0.status
    }

    /// Returns true if a collective returns it and this rank took part in that.
    pub fn took_part(&self) -> bool {
        self.0.took_part
    }

    /// Returns it as the failure of a collective that this rank took part in, if it did.
    #[must_use]
    pub fn having_taken_part(mut self, took_part: bool) -> Self {
        self.0.took_part |= took_part;
        self
    }

    /// Returns all links in one line.
    pub fn whole(&self) -> &CStr {
        &self.0.whole
    }

    /// Returns one link of the chain.
    pub fn link(&self, depth: usize) -> Option<&CStr> {
        self.0.chain.get(depth).map(CString::as_c_str)
    }

    /// Returns the number of links of the chain.
    pub fn links(&self) -> usize {
        self.0.chain.len()
    }

    /// Keeps it as the last failure of this thread; returns the number to return to C.
    #[cold]
    pub fn keep(self) -> i32 {
        let status = self.status() as i32;
        LAST.with(|last| {
            if let Ok(mut last) = last.get().try_borrow_mut() {
                *last = Some(self);
            }
        });
        status
    }
}

/// A null pointer.
#[cold]
pub fn null(what: &str) -> Fault {
    Fault::new(S::CLUMP_ERR_ARGUMENT, format!("the program gave a null pointer as {what}"))
}

/// A number outside of its range.
#[cold]
pub fn range(what: &str, given: impl std::fmt::Display, range: &str) -> Fault {
    Fault::new(
        S::CLUMP_ERR_ARGUMENT,
        format!("the program gave {given} as {what}; it must be {range}"),
    )
}

/// Runs `look` with the last failure of this thread.
pub fn last<T>(look: impl Fn(Option<&Fault>) -> T) -> T {
    let seen = LAST.with(|last| last.get().try_borrow().ok().map(|last| look(last.as_ref())));
    seen.unwrap_or_else(|| look(None))
}

/// Forgets the last failure of this thread.
pub fn forget() {
    let _ = LAST.with(|last| last.get().try_borrow_mut().map(|mut last| *last = None));
}

fn text(said: &str) -> CString {
    CString::new(said.replace('\0', " ")).unwrap_or_default()
}

impl From<clump_am::Error> for Fault {
    #[cold]
    fn from(error: clump_am::Error) -> Self {
        Self::caused(of_messages(&error), &error).having_taken_part(error.took_part())
    }
}

impl From<clump_rma::Error> for Fault {
    #[cold]
    fn from(error: clump_rma::Error) -> Self {
        Self::caused(of_one_sided(&error), &error)
    }
}

impl From<GlobalError> for Fault {
    #[cold]
    fn from(error: GlobalError) -> Self {
        Self::caused(of_global_memory(&error), &error).having_taken_part(error.took_part())
    }
}

impl From<clump::Error> for Fault {
    #[cold]
    fn from(error: clump::Error) -> Self {
        use clump::Error as E;
        let status = match error {
            E::Messages(error) => return error.into(),
            E::OneSided(error) => return error.into(),
            E::GlobalMemory(ref error) => of_global_memory(error),
            E::SharedMemory(ref error) => of_shared_memory(error),
            // C has no connections yet; an error of one below another operation is a network error.
            E::Connections(_) => S::CLUMP_ERR_NETWORK,
            E::Boot(ref boot) => of_boot(boot),
            E::Engine(ref engine) => of_engine(engine),
            E::Memory(ref memory) => of_memory(memory),
            E::NoMemoryAt { .. } => S::CLUMP_ERR_LIMIT,
            E::AlreadyJoined(_) | E::AlreadyRunning => S::CLUMP_ERR_ALREADY,
            E::Trace(_) | E::RankFailed { .. } => S::CLUMP_ERR_SYSTEM,
        };
        Self::caused(status, &error).having_taken_part(error.took_part())
    }
}

fn of_one_sided(error: &clump_rma::Error) -> S {
    match error.kind() {
        Rma::Messages(below) => of_messages(below),
        Rma::Memory(error) => of_memory(error),
        Rma::Refused { why, .. } | Rma::RefusedBefore { why, .. } => of_refusal(*why),
        Rma::NodeLost { .. } => S::CLUMP_ERR_NODE_LOST,
        Rma::NotAllNamed { .. } | Rma::ForeignTarget { .. } => S::CLUMP_ERR_ARGUMENT,
        Rma::TooManyNodes { .. } => S::CLUMP_ERR_LIMIT,
    }
}

fn of_shared_memory(error: &SharedMemoryError) -> S {
    use SharedMemoryErrorKind as Kind;
    match error.kind() {
        Kind::Messages(error) => of_messages(error),
        Kind::Memory(error) => of_memory(error),
        Kind::Settings(error) => of_boot(error),
        Kind::Operations(error) => of_one_sided(error),
        Kind::System(_) | Kind::NoMemory | Kind::OtherRankFailed => S::CLUMP_ERR_SYSTEM,
        Kind::NoAddress(_)
        | Kind::GlobalsEnclosed
        | Kind::HeapFull { .. }
        | Kind::NoThread
        | Kind::NoPort => S::CLUMP_ERR_LIMIT,
        Kind::RankDied(_) => S::CLUMP_ERR_RANK_DIED,
        Kind::AlreadyOpen => S::CLUMP_ERR_ALREADY,
        Kind::NoSuchNode(_)
        | Kind::Different
        | Kind::Misuse
        | Kind::NotAllocated(_)
        | Kind::BeyondAllocated { .. }
        | Kind::NotDynamic
        | Kind::OtherThread
        | Kind::NoObject(_) => S::CLUMP_ERR_ARGUMENT,
        Kind::BadMessage | Kind::Unreachable => S::CLUMP_ERR_NETWORK,
    }
}

fn of_global_memory(error: &GlobalError) -> S {
    match error.kind() {
        Global::OneSided(error) => of_one_sided(error),
        Global::Messages(error) => of_messages(error),
        Global::TookPart(error) => of_global_memory(error),
        Global::RankFailed { .. } => S::CLUMP_ERR_SYSTEM,
        Global::NoMemoryAt { .. } | Global::Livelock { .. } => S::CLUMP_ERR_LIMIT,
        Global::NoSuchElement { .. }
        | Global::BadPointer { .. }
        | Global::WrongLength { .. }
        | Global::BadArray { .. }
        | Global::DifferentArrays
        | Global::DifferentHalos { .. }
        | Global::NoSuchRank { .. }
        | Global::DifferentFunctions { .. }
        | Global::CallTooLong { .. }
        | Global::BadArguments
        | Global::NoSuchFunction { .. }
        | Global::NoSuchObject
        | Global::ObjectInUse
        | Global::FunctionFailed { .. }
        | Global::CallFailed { .. } => S::CLUMP_ERR_ARGUMENT,
    }
}

fn of_messages(error: &clump_am::Error) -> S {
    match error.kind() {
        Am::Memory(error) => of_memory(error),
        Am::TookPart(error) => of_messages(error),
        Am::RankDied(_) => S::CLUMP_ERR_RANK_DIED,
        Am::RankLeft(_) => S::CLUMP_ERR_RANK_LEFT,
        Am::NoMemory(_) => S::CLUMP_ERR_SYSTEM,
        Am::Forked => S::CLUMP_ERR_FORKED,
        Am::Interrupted(_) | Am::Deadlock(_) => S::CLUMP_ERR_TIMED_OUT,
        Am::InHandler | Am::CollectiveInHandler => S::CLUMP_ERR_IN_HANDLER,
        Am::OtherThread => S::CLUMP_ERR_THREAD,
        Am::NoEndpoint => S::CLUMP_ERR_HANDLE,
        Am::Occupied => S::CLUMP_ERR_BUSY,
        Am::TooManyWords(_) | Am::PayloadTooLong { .. } | Am::TooMuch { .. } => {
            S::CLUMP_ERR_TOO_LONG
        }
        Am::NoSuchDestination(_) => S::CLUMP_ERR_DESTINATION,
        Am::HandlerReserved
        | Am::ForeignRegion(_)
        | Am::EmptySegment
        | Am::NoSuchRank { .. }
        | Am::NotOneEach { .. }
        | Am::NotInVirtualTime(_)
        | Am::Disagreement(_) => S::CLUMP_ERR_ARGUMENT,
        Am::NotRequested => S::CLUMP_ERR_TOKEN,
        Am::HasSegment(_) => S::CLUMP_ERR_BUSY,
        Am::TooManyDeferred(_) | Am::TooManyRegions(_) | Am::CannotGrow { .. } => {
            S::CLUMP_ERR_LIMIT
        }
        Am::Unclaimed { .. } | Am::CollectiveReturned { .. } => S::CLUMP_ERR_RETURNED,
        Am::Corrupt(_) | Am::CorruptPacket(_) | Am::Overwritten => S::CLUMP_ERR_DAMAGED,
        Am::Network(_) => S::CLUMP_ERR_NETWORK,
        Am::HandlerFailed { .. } => S::CLUMP_ERR_HANDLER_FAILED,
    }
}

fn of_boot(error: &clump_boot::Error) -> S {
    use clump_boot::Error as E;
    match error {
        E::Os(_) | E::Limit(_) => S::CLUMP_ERR_SYSTEM,
        E::BadValue { .. } | E::BadFile { .. } | E::BadKnobs { .. } | E::BadMachine { .. } => {
            S::CLUMP_ERR_SETTING
        }
        E::SeatTaken { .. } => S::CLUMP_ERR_ALREADY,
        E::OtherVersion(_) => S::CLUMP_ERR_VERSION,
    }
}

fn of_engine(error: &clump_engines::Error) -> S {
    use clump_engines::Error as E;
    match error {
        E::Boot(boot) => of_boot(boot),
        E::OtherCard { .. } => S::CLUMP_ERR_VERSION,
        E::Os(_) | E::Engine { .. } | E::NoClump { .. } | E::NoAgent { .. } => S::CLUMP_ERR_SYSTEM,
    }
}

fn of_memory(error: &clump_shm::Error) -> S {
    use clump_shm::Error as E;
    match error {
        E::OtherVersion { .. } => S::CLUMP_ERR_VERSION,
        E::NoFreeEndpoint { .. }
        | E::SegmentSpace { .. }
        | E::NoMemory { .. }
        | E::Region { .. }
        | E::RankCount { .. }
        | E::LocalRankCount { .. }
        | E::InterfaceCount { .. } => S::CLUMP_ERR_LIMIT,
        E::Os(_) | E::NotANode(_) | E::NodeMap => S::CLUMP_ERR_SYSTEM,
    }
}

fn of_refusal(why: Refusal) -> S {
    match why {
        Refusal::NoSuchSegment => S::CLUMP_ERR_SEGMENT,
        Refusal::OutOfBounds => S::CLUMP_ERR_BOUNDS,
        Refusal::Misaligned => S::CLUMP_ERR_ALIGNMENT,
        Refusal::OwnerDead => S::CLUMP_ERR_OWNER_DIED,
        Refusal::NodeLost => S::CLUMP_ERR_NODE_LOST,
        Refusal::Unknown => S::CLUMP_ERR_VERSION,
        Refusal::HolderDied => S::CLUMP_ERR_HOLDER_DIED,
        Refusal::TimedOut => S::CLUMP_ERR_TIMED_OUT,
        Refusal::LockBusy => S::CLUMP_ERR_LOCK_BUSY,
        Refusal::NotHeld => S::CLUMP_ERR_NOT_HELD,
        Refusal::NoMemory | Refusal::Overloaded => S::CLUMP_ERR_LIMIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump::rma::SegmentName;

    #[test]
    fn what_no_program_in_c_can_bring_about_has_its_status_too() {
        let refused = |why| {
            let segment = SegmentName::from_bits(0);
            Fault::from(clump_rma::Error::from(Rma::Refused { why, segment, offset: 8 }))
        };
        for (fault, status) in [
            (refused(Refusal::TimedOut), S::CLUMP_ERR_TIMED_OUT),
            (refused(Refusal::LockBusy), S::CLUMP_ERR_LOCK_BUSY),
            (refused(Refusal::Unknown), S::CLUMP_ERR_VERSION),
            (clump_am::Error::from(Am::Network("no key".into())).into(), S::CLUMP_ERR_NETWORK),
        ] {
            assert_eq!(fault.status(), status);
            assert!(!fault.whole().is_empty() && fault.links() >= 1);
        }
    }
}
