//! Locks of all ranks.

use crate::error::{FailureKind, failure, is_timeout, raised};
use crate::hook::{Limit, settle, waiting};
use crate::job::{LockSet, world};
use crate::owner::OwnerBound;
use clump::rma::{Guard, Lock, SegmentName};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::{OnceCell, RefCell};
use std::time::Duration;

/// Locks of a set at each rank.
const EACH: u64 = 256;

/// Lock that one rank at a time holds; ranks that wait form a queue at its home.
#[pyclass(frozen, module = "clump._native", name = "NativeLock")]
pub(crate) struct NativeLock {
    state: OwnerBound<State>,
}

struct State {
    /// Never freed: a lock is small, and others may be waiting for it.
    lock: &'static Lock,
    guard: RefCell<Option<Guard<'static>>>,
}

/// Exports one more set of locks at each rank: a collective. Returns how many there are now.
#[pyfunction]
#[pyo3(signature = (timeout=Limit::NONE))]
pub(crate) fn export_locks(py: Python<'_>, timeout: Limit) -> PyResult<u64> {
    let world = world()?;
    let owner = world.owner()?;
    let exported = waiting(py, timeout, || {
        let own = owner.pgas.rma().export_locks(EACH);
        let name = own.as_ref().map_or(0, |own| own.name().to_bits());
        let names = world.clump().all_gather(name)?;
        let own = own?;
        if let Some(rank) = names.iter().position(|&name| name == 0) {
            return Err(clump::Error::NoMemoryAt { rank });
        }
        let homes = names.into_iter().map(|name| (SegmentName::from_bits(name), OnceCell::new()));
        Ok(LockSet { _exported: own, homes: homes.collect() })
    })?;
    let mut sets = owner.locks.borrow_mut();
    sets.push(exported.map_err(raised)?);
    Ok(sets.len() as u64 * EACH * world.clump().nranks() as u64)
}

#[pymethods]
impl NativeLock {
    /// Opens a lock by its number; ranks are its homes in turn.
    #[new]
    fn open(number: u64) -> PyResult<Self> {
        let world = world()?;
        let owner = world.owner()?;
        let ranks = world.clump().nranks() as u64;
        let (set, within) = (number / (EACH * ranks), number % (EACH * ranks));
        let sets = owner.locks.borrow();
        let home = sets.get(set as usize).and_then(|set| set.homes.get((within % ranks) as usize));
        let (name, table) =
            home.ok_or_else(|| failure(FailureKind::Clump, "there is no such lock"))?;
        let table = match table.get() {
            Some(table) => table,
            None => {
                let opened = owner.pgas.rma().lock_table(*name).map_err(raised)?;
                table.get_or_init(|| opened)
            }
        };
        let lock = table.lock(within / ranks);
        let lock: &'static Lock = Box::leak(Box::new(lock));
        Ok(Self { state: OwnerBound::new(State { lock, guard: RefCell::new(None) }) })
    }

    /// Waits for the lock; returns false if `timeout` seconds have passed. 0: tries once.
    #[pyo3(signature = (timeout=Limit::NONE))]
    fn acquire(&self, py: Python<'_>, timeout: Limit) -> PyResult<bool> {
        let state = self.state.get()?;
        if state.guard.borrow().is_some() {
            return Err(PyRuntimeError::new_err("this rank holds the lock already"));
        }
        match settle(py, world()?, timeout) {
            Err(error) if is_timeout(py, &error) => return Ok(false),
            settled => settled?,
        }
        let guard = waiting(py, Limit::NONE, || match timeout.left() {
            None => state.lock.acquire().map(Some),
            Some(Duration::ZERO) => state.lock.try_acquire(),
            Some(left) => state.lock.acquire_within(left),
        })?;
        let guard = guard.map_err(raised)?;
        let taken = guard.is_some();
        *state.guard.borrow_mut() = guard;
        Ok(taken)
    }

    /// Gives the lock back, when everything that this rank began has happened.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.state.get()?;
        let Some(guard) = state.guard.borrow_mut().take() else {
            return Err(PyRuntimeError::new_err("this rank does not hold the lock"));
        };
        let settled = settle(py, world()?, Limit::NONE);
        waiting(py, Limit::NONE, || guard.release())?.map_err(raised)?;
        settled
    }

    /// True while this rank holds the lock.
    #[getter]
    fn held(&self) -> PyResult<bool> {
        Ok(self.state.get()?.guard.borrow().is_some())
    }
}
