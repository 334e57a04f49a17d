//! Global arrays, as the package uses them.

use crate::bytes::{check_values, memory, writable};
use crate::error::{FailureKind, failure, raised};
use crate::exporters::{Exporters, NativeView};
use crate::hook::{Limit, settle, waiting};
use crate::indexes::{Indexes, single, slice, with_indexes};
use crate::job::{OwnerState, world};
use crate::owner::OwnerBound;
use crate::runs::Run;
use crate::typed;
use crate::typed::{Typed, Update, as_places, as_values, begin_update, with_numbers};
use crate::view::over;
use clump::pgas::{ElementPlace, Layout, SpreadLayout};
use clump::rma::Target;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Memory of a global array, until it is freed.
struct Memory {
    typed: Typed,
    /// Memories of this node's ranks that were shown.
    shown: RefCell<HashMap<usize, Target>>,
}

/// Elements dealt out over the memories of all ranks.
#[pyclass(frozen, module = "clump._native", name = "NativeArray")]
pub(crate) struct NativeArray {
    memory: OwnerBound<RefCell<Option<Memory>>>,
    layout: SpreadLayout,
    dtype: Py<PyAny>,
    size: usize,
    exporters: Exporters,
}

impl NativeArray {
    fn with<R>(&self, run: impl FnOnce(&Memory) -> PyResult<R>) -> PyResult<R> {
        let memory = self.memory.get()?.try_borrow();
        let memory =
            memory.map_err(|_| failure(FailureKind::Clump, "this global array is being freed"))?;
        match &*memory {
            Some(memory) => run(memory),
            None => Err(failure(FailureKind::Clump, "this global array was freed")),
        }
    }

    /// Prepares an access: updates of another kind that this rank began have happened.
    #[inline]
    fn begin<'a>(
        &self,
        py: Python<'_>,
        update: Option<Update>,
        timeout: Limit,
    ) -> PyResult<&'a OwnerState> {
        let world = world()?;
        let owner = world.owner()?;
        let begun = owner.begun.get();
        let kind = update.map_or(0, |update| update as u32 + 1);
        if begun != 0 && begun != kind {
            settle(py, world, timeout)?;
        }
        owner.begun.set(kind);
        Ok(owner)
    }

    /// Begins to update an element.
    fn one(
        &self,
        py: Python<'_>,
        update: Update,
        index: isize,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let index = single(index, self.layout.len())?;
        self.begin(py, Some(update), Limit::NONE)?;
        self.with(|memory| {
            macro_rules! begun {
                ($spread:expr, $run:path) => {
                    $run($spread.at(index), update, value.extract()?).map_err(raised)
                };
            }
            if !memory.typed.has(update) {
                return Err(typed::no_such_update(update, self.dtype.bind(py)));
            }
            begin_update!(&memory.typed, update, begun, (one, one_of_bits))
        })
    }

    fn run<'a>(
        &self,
        memory: &'a Memory,
        owner: &'a OwnerState,
        start: usize,
        bytes: usize,
    ) -> PyResult<Run<'a>> {
        let end = start + bytes / self.size.max(1);
        if end > self.layout.len() {
            return Err(pyo3::exceptions::PyIndexError::new_err(format!(
                "elements {start} to {end} are out of bounds for a global array of {} elements",
                self.layout.len()
            )));
        }
        Ok(Run {
            typed: &memory.typed,
            pgas: &owner.pgas,
            layout: self.layout,
            size: self.size,
            range: start..end,
        })
    }

    /// Waits until what was begun has happened, at the end of a write.
    fn complete(py: Python<'_>, timeout: Limit) -> PyResult<()> {
        let world = world()?;
        world.owner()?.begun.set(u32::MAX);
        settle(py, world, timeout)
    }
}

#[pymethods]
impl NativeArray {
    /// Allocates an array: a collective. `element`: kind and bytes of one. `block`: elements
    /// of a block; 0: one block for each rank.
    #[new]
    #[pyo3(signature = (len, dtype, element, block, timeout=Limit::NONE))]
    fn new(
        py: Python<'_>,
        len: usize,
        dtype: Bound<'_, PyAny>,
        element: (u8, usize),
        block: usize,
        timeout: Limit,
    ) -> PyResult<Self> {
        let (_, size) = element;
        let world = world()?;
        let owner = world.owner()?;
        let layout = if block == 0 { Layout::Block } else { Layout::BlockCyclic(block) };
        let layout = SpreadLayout::new(len, layout, world.clump().nranks())
            .ok_or_else(|| PyValueError::new_err("blocks have at least one element"))?;
        settle(py, world, timeout)?;
        let typed = waiting(py, timeout, || Typed::spread(&owner.pgas, element, &layout))?;
        let typed = typed.map_err(raised)?;
        let memory = Memory { typed, shown: RefCell::default() };
        Ok(Self {
            memory: OwnerBound::new(RefCell::new(Some(memory))),
            layout,
            dtype: dtype.unbind(),
            size,
            exporters: Exporters::new(),
        })
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.layout.len()
    }

    /// Type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// Elements of a block.
    #[getter]
    fn block(&self) -> usize {
        self.layout.block()
    }

    /// True once the array was freed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.memory.get()?.try_borrow().is_ok_and(|memory| memory.is_none()))
    }

    /// Returns rank and place there of an element.
    fn place(&self, index: isize) -> PyResult<(usize, usize)> {
        let index = single(index, self.layout.len())?;
        let place = self.layout.place(index).unwrap_or(ElementPlace { rank: 0, local: 0 });
        Ok((place.rank, place.local))
    }

    /// Returns the index of the element at a place of a rank.
    fn index_of(&self, rank: usize, local: usize) -> Option<usize> {
        self.layout.index(ElementPlace { rank, local })
    }

    /// Returns the number of elements at a rank.
    fn count(&self, rank: usize) -> PyResult<usize> {
        if rank >= world()?.clump().nranks() {
            return Err(PyValueError::new_err(format!("there is no rank {rank}")));
        }
        Ok(self.layout.count(rank))
    }

    /// Returns a view of the elements at a rank of this node; `None` if it is of another.
    fn view<'py>(slf: &Bound<'py, Self>, rank: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, array) = (slf.py(), slf.get());
        let count = array.count(rank)?;
        let owner = array.begin(py, None, Limit::NONE)?;
        array.with(|memory| {
            let mut shown = memory.shown.borrow_mut();
            let target = match shown.entry(rank) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let Some(part) = memory.typed.part(rank) else { return Ok(None) };
                    new.insert(owner.pgas.rma().target(part.segment()).map_err(raised)?)
                }
            };
            let Some(at) = target.near_base() else { return Ok(None) };
            let base =
                Bound::new(py, NativeView::of(&array.exporters, slf.clone().into_any().unbind()))?
                    .into_any();
            let dtype = array.dtype.bind(py);
            // SAFETY: mapped while the array has its memory, which it keeps while views live.
            unsafe { over(py, at.as_ptr(), dtype, &[count], Some(base)).map(Some) }
        })
    }

    /// Reads an element.
    #[pyo3(signature = (index, /))]
    fn get_one(&self, py: Python<'_>, index: isize) -> PyResult<Py<PyAny>> {
        let index = single(index, self.layout.len())?;
        self.begin(py, None, Limit::NONE)?;
        self.with(|memory| {
            with_numbers!(&memory.typed, spread => {
                let at = spread.at(index);
                let value = if at.is_near() { at.read() } else { waiting(py, Limit::NONE, || at.read())? };
                Ok(value.map_err(raised)?.into_pyobject(py)?.into_any().unbind())
            }, raw _bytes => Err(PyTypeError::new_err("elements of this type are read in vectors")))
        })
    }

    /// Writes an element, and waits until it is written.
    #[pyo3(signature = (index, value, /))]
    fn put_one(&self, py: Python<'_>, index: isize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let index = single(index, self.layout.len())?;
        self.begin(py, None, Limit::NONE)?;
        self.with(|memory| {
            with_numbers!(&memory.typed, spread => {
                let (at, value) = (spread.at(index), value.extract()?);
                let written =
                    if at.is_near() { at.put(value) } else { waiting(py, Limit::NONE, || at.write(value))? };
                written.map_err(raised)
            }, raw _bytes => Err(PyTypeError::new_err("elements of this type are written in vectors")))
        })
    }

    /// Begins to update an element.
    #[pyo3(signature = (update, index, value, /))]
    fn update_one(
        &self,
        py: Python<'_>,
        update: &str,
        index: isize,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.one(py, Update::of(update)?, index, value)
    }

    /// Begins to add to an element.
    #[pyo3(signature = (index, value, /))]
    fn add_one(&self, py: Python<'_>, index: isize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.one(py, Update::Add, index, value)
    }

    /// Reads elements by their indexes.
    #[pyo3(signature = (indexes, to, timeout=Limit::NONE))]
    fn gather(
        &self,
        py: Python<'_>,
        indexes: &Bound<'_, PyUntypedArray>,
        to: &Bound<'_, PyUntypedArray>,
        timeout: Limit,
    ) -> PyResult<()> {
        let indexes = Indexes::of(indexes)?;
        indexes.check(self.layout.len())?;
        check_values(self.dtype.bind(py), to, indexes.len())?;
        let (at, len) = (writable(to)?.0, to.len());
        if len != indexes.len() {
            return Err(PyValueError::new_err("one place for each index"));
        }
        self.begin(py, None, timeout)?;
        let (layout, size) = (self.layout, self.size);
        self.with(|memory| {
            let read = waiting(py, timeout, || {
                with_indexes!(indexes, indexes => with_numbers!(&memory.typed,
                    spread => typed::gather(spread, indexes, as_places!(spread, at, len)),
                    raw bytes => {
                        let to = as_places!(bytes, at, len * size);
                        typed::gather_raw(bytes, indexes, (&layout, size), to)
                    }
                ))
            })?;
            read.map_err(raised)
        })
    }

    /// Writes elements by their indexes, and waits until they are written.
    #[pyo3(signature = (indexes, values, timeout=Limit::NONE))]
    fn scatter(
        &self,
        py: Python<'_>,
        indexes: &Bound<'_, PyUntypedArray>,
        values: &Bound<'_, PyUntypedArray>,
        timeout: Limit,
    ) -> PyResult<()> {
        let indexes = Indexes::of(indexes)?;
        indexes.check(self.layout.len())?;
        check_values(self.dtype.bind(py), values, indexes.len())?;
        let (at, len) = (memory(values).0, values.len());
        self.begin(py, None, timeout)?;
        let (layout, size) = (self.layout, self.size);
        self.with(|memory| {
            let written = waiting(py, timeout, || {
                with_indexes!(indexes, indexes => with_numbers!(&memory.typed,
                    spread => typed::put(spread, indexes, as_values!(spread, at, len)),
                    raw bytes => {
                        let from = as_values!(bytes, at, len * size);
                        typed::put_raw(bytes, indexes, (&layout, size), from)
                    }
                ))
            })?;
            written.map_err(raised)
        })?;
        Self::complete(py, timeout)
    }

    /// Begins to update elements by their indexes.
    #[pyo3(signature = (update, indexes, values, timeout=Limit::NONE))]
    fn update(
        &self,
        py: Python<'_>,
        update: &str,
        indexes: &Bound<'_, PyUntypedArray>,
        values: &Bound<'_, PyUntypedArray>,
        timeout: Limit,
    ) -> PyResult<()> {
        let update = Update::of(update)?;
        let indexes = Indexes::of(indexes)?;
        indexes.check(self.layout.len())?;
        check_values(self.dtype.bind(py), values, indexes.len())?;
        let (at, len) = (memory(values).0, values.len());
        self.begin(py, Some(update), timeout)?;
        self.with(|memory| {
            if !memory.typed.has(update) {
                return Err(typed::no_such_update(update, self.dtype.bind(py)));
            }
            macro_rules! begun {
                ($spread:expr, $run:path) => {
                    with_indexes!(indexes, all => $run($spread, update, all, as_values!($spread, at, len)))
                };
            }
            let begun = waiting(py, timeout, || begin_update!(&memory.typed, update, begun, (all, all_of_bits)))?;
            begun.map_err(raised)
        })
    }

    /// Updates an element; returns its former value.
    #[pyo3(signature = (update, index, value, timeout=Limit::NONE))]
    fn fetch(
        &self,
        py: Python<'_>,
        update: &str,
        index: isize,
        value: &Bound<'_, PyAny>,
        timeout: Limit,
    ) -> PyResult<Py<PyAny>> {
        let index = single(index, self.layout.len())?;
        let swaps = update == "swap";
        let update = if swaps { Update::Max } else { Update::of(update)? };
        if update.is_of_bits() {
            return Err(PyValueError::new_err("former values are given by add, min, max and swap"));
        }
        self.begin(py, None, timeout)?;
        self.with(|memory| {
            with_numbers!(&memory.typed, spread => {
                let value = value.extract()?;
                let before = waiting(py, timeout, || {
                    let begun = if swaps { spread.at(index).swap(value) } else {
                        typed::fetch(spread, update, index, value)
                    };
                    begun?.wait()
                })?;
                Ok(before.map_err(raised)?.into_pyobject(py)?.into_any().unbind())
            }, raw _bytes => Err(typed::no_such_update(update, self.dtype.bind(py))))
        })
    }

    /// Writes `new` where the element is `old`; returns its former value.
    #[pyo3(signature = (index, old, new, timeout=Limit::NONE))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        index: isize,
        old: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
        timeout: Limit,
    ) -> PyResult<Py<PyAny>> {
        let index = single(index, self.layout.len())?;
        self.begin(py, None, timeout)?;
        self.with(|memory| {
            with_numbers!(&memory.typed, spread => {
                let (old, new) = (old.extract()?, new.extract()?);
                let before = waiting(py, timeout, || spread.at(index).compare_swap(old, new))?;
                Ok(before.map_err(raised)?.into_pyobject(py)?.into_any().unbind())
            }, raw _bytes => Err(PyTypeError::new_err("elements of this type have no atomics")))
        })
    }

    /// Reads the elements from `start` on into an array.
    #[pyo3(signature = (start, to, timeout=Limit::NONE))]
    fn get_run(
        &self,
        py: Python<'_>,
        start: usize,
        to: &Bound<'_, PyUntypedArray>,
        timeout: Limit,
    ) -> PyResult<()> {
        check_values(self.dtype.bind(py), to, to.len())?;
        let (at, bytes) = writable(to)?;
        let owner = self.begin(py, None, timeout)?;
        self.with(|memory| {
            let run = self.run(memory, owner, start, bytes)?;
            if bytes == 0 {
                return Ok(());
            }
            // SAFETY: a contiguous writable array, which the call keeps alive.
            let to = unsafe { std::slice::from_raw_parts_mut(at, bytes) };
            waiting(py, timeout, || run.get(to))?.map_err(raised)
        })
    }

    /// Writes the elements from `start` on, and waits until they are written.
    #[pyo3(signature = (start, values, timeout=Limit::NONE))]
    fn put_run(
        &self,
        py: Python<'_>,
        start: usize,
        values: &Bound<'_, PyUntypedArray>,
        timeout: Limit,
    ) -> PyResult<()> {
        check_values(self.dtype.bind(py), values, values.len())?;
        let (at, bytes) = memory(values);
        let owner = self.begin(py, None, timeout)?;
        self.with(|memory| {
            let run = self.run(memory, owner, start, bytes)?;
            // SAFETY: a contiguous array, which the call keeps alive.
            let from = unsafe { slice(at.cast_const(), bytes) };
            waiting(py, timeout, || run.put(from))?.map_err(raised)
        })?;
        Self::complete(py, timeout)
    }

    /// Frees the memory: a collective.
    #[pyo3(signature = (timeout=Limit::NONE))]
    fn free(&self, py: Python<'_>, timeout: Limit) -> PyResult<()> {
        self.with(|_| Ok(()))?;
        let world = world()?;
        settle(py, world, timeout)?;
        let views = self.exporters.count() as u64;
        let all = waiting(py, timeout, || world.clump().all_gather(views))?.map_err(raised)?;
        if let Some(rank) = all.iter().position(|&views| views > 0) {
            return Err(PyBufferError::new_err(format!(
                "rank {rank} has {} views of this array; delete them first",
                all[rank]
            )));
        }
        drop(self.memory.get()?.borrow_mut().take());
        Ok(())
    }
}

impl Drop for NativeArray {
    fn drop(&mut self) {
        let mine = self.memory.get().ok().and_then(|memory| memory.borrow_mut().take());
        if let Some(memory) = mine {
            // Other ranks may use it: it stays until the job ends.
            std::mem::forget(memory);
        }
    }
}
