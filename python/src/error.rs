//! Errors, as Python has them: one class for each kind, made by `clump._errors`.

use clump_am::ErrorKind as Am;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::RefCell;

/// Kind of a failure: the name of a class of `clump._errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Clump,
    Thread,
    Timeout,
    RankDied,
    RankLeft,
    NodeLost,
    Refused,
    Memory,
    Handler,
    Forked,
    Disagreement,
    Start,
}

impl FailureKind {
    fn class(self) -> &'static str {
        match self {
            Self::Clump => "ClumpError",
            Self::Thread => "ThreadError",
            Self::Timeout => "ClumpTimeout",
            Self::RankDied => "RankDied",
            Self::RankLeft => "RankLeft",
            Self::NodeLost => "NodeLost",
            Self::Refused => "Refused",
            Self::Memory => "OutOfMemory",
            Self::Handler => "HandlerError",
            Self::Forked => "ForkedError",
            Self::Disagreement => "DisagreementError",
            Self::Start => "StartError",
        }
    }
}

thread_local! {
    /// Reason why a wait of this thread was given up, until its call raises it.
    static GIVEN_UP: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Notes why the wait of this thread is given up.
pub(crate) fn give_up(why: PyErr) {
    GIVEN_UP.with(|given_up| *given_up.borrow_mut() = Some(why));
}

/// Returns an exception of a kind.
pub(crate) fn failure(kind: FailureKind, text: impl std::fmt::Display) -> PyErr {
    failure_of(kind, &text.to_string(), None)
}

/// Returns true for the exception of a time limit that has passed.
pub(crate) fn is_timeout(py: Python<'_>, error: &PyErr) -> bool {
    let class = py.import("clump._errors").and_then(|errors| errors.getattr("ClumpTimeout"));
    class.is_ok_and(|class| error.is_instance(py, &class))
}

/// Returns the name of the function of the package that a call comes from.
fn caller(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("sys")?.call_method1("_getframe", (0,))?.getattr("f_code")?.getattr("co_name")
}

/// Returns an exception of a kind that is about a rank, with the operation that has failed.
pub(crate) fn failure_of(kind: FailureKind, text: &str, peer: Option<u32>) -> PyErr {
    Python::attach(|py| {
        let make = || -> PyResult<PyErr> {
            let class = py.import("clump._errors")?.getattr(kind.class())?;
            let words = PyDict::new(py);
            if let Some(peer) = peer {
                words.set_item("rank", peer)?;
            }
            // Without a frame, no operation of the package runs.
            if let Ok(name) = caller(py) {
                words.set_item("op", name)?;
            }
            Ok(PyErr::from_value(class.call((text,), Some(&words))?))
        };
        make().unwrap_or_else(|error| error)
    })
}

/// Returns what a signal handler raises for a signal that has come: an interrupt goes to all ranks,
/// and the end of another one is no failure then.
pub(crate) fn interrupt() -> Option<PyErr> {
    if !crate::interpreter::is_main_thread() {
        return None;
    }
    Python::try_attach(|py| py.check_signals())?.err()
}

/// Returns the exception for an error of clump; the reason why a wait was given up, if it was.
pub(crate) fn raised(error: impl Into<clump::Error>) -> PyErr {
    if let Some(given_up) = GIVEN_UP.with(|given_up| given_up.borrow_mut().take()) {
        return given_up;
    }
    if let Some(interrupt) = interrupt() {
        return interrupt;
    }
    let error = error.into();
    let (kind, peer) = kind_of(&error);
    failure_of(kind, &error.to_string(), peer)
}

fn kind_of(error: &clump::Error) -> (FailureKind, Option<u32>) {
    use clump::Error as E;
    match error {
        E::Messages(error) => of_messages(error),
        E::OneSided(error) => of_one_sided(error),
        E::GlobalMemory(error) => of_global(error),
        E::SharedMemory(error) => match error.kind() {
            clump::svm::SharedMemoryErrorKind::Messages(error) => of_messages(error),
            _ => (FailureKind::Clump, None),
        },
        E::NoMemoryAt { rank } => (FailureKind::Memory, u32::try_from(*rank).ok()),
        E::RankFailed { rank } => (FailureKind::Clump, u32::try_from(*rank).ok()),
        E::Boot(_) | E::Engine(_) | E::AlreadyJoined(_) | E::AlreadyRunning => {
            (FailureKind::Start, None)
        }
        _ => (FailureKind::Clump, None),
    }
}

fn of_global(error: &clump::pgas::GlobalError) -> (FailureKind, Option<u32>) {
    use clump::pgas::GlobalErrorKind as E;
    match error.kind() {
        E::OneSided(error) => of_one_sided(error),
        E::Messages(error) => of_messages(error),
        E::TookPart(error) => of_global(error),
        E::NoMemoryAt { rank, .. } => (FailureKind::Memory, u32::try_from(*rank).ok()),
        E::RankFailed { rank } => (FailureKind::Clump, u32::try_from(*rank).ok()),
        E::DifferentArrays => (FailureKind::Disagreement, None),
        _ => (FailureKind::Clump, None),
    }
}

fn of_one_sided(error: &clump::rma::OneSidedError) -> (FailureKind, Option<u32>) {
    use clump::rma::OneSidedErrorKind as E;
    match error.kind() {
        E::Messages(error) => of_messages(error),
        E::NodeLost { .. } => (FailureKind::NodeLost, None),
        E::Refused { segment, .. } | E::RefusedBefore { segment, .. } => {
            (FailureKind::Refused, Some(segment.rank()))
        }
        E::Memory(_) => (FailureKind::Memory, None),
        _ => (FailureKind::Clump, None),
    }
}

fn of_messages(error: &clump_am::Error) -> (FailureKind, Option<u32>) {
    match error.kind() {
        Am::TookPart(error) => of_messages(error),
        Am::RankDied(death) => (FailureKind::RankDied, Some(death.rank)),
        Am::RankLeft(rank) => (FailureKind::RankLeft, Some(*rank)),
        Am::CollectiveReturned { rank, .. } => (FailureKind::Clump, Some(*rank)),
        Am::InHandler | Am::CollectiveInHandler | Am::HandlerFailed { .. } => {
            (FailureKind::Handler, None)
        }
        Am::OtherThread => (FailureKind::Thread, None),
        Am::NoMemory(_) | Am::Memory(_) => (FailureKind::Memory, None),
        Am::Forked => (FailureKind::Forked, None),
        Am::Disagreement(_) => (FailureKind::Disagreement, None),
        Am::Interrupted(_) => (FailureKind::Timeout, None),
        _ => (FailureKind::Clump, None),
    }
}
