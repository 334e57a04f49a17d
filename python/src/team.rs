//! Collectives, as the package uses them.

use crate::bytes::{Chunk, buffer, chunks, joined, writable};
use crate::error::raised;
use crate::hook::{Limit, waiting};
use crate::job::world;
use clump::Team;
use clump::op::{And, Max, Min, Number, Op, Or, Product, Sum, Xor};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Ranks that execute collectives together: all of the job, or a part of them.
#[pyclass(frozen, module = "clump._native", name = "NativeTeam")]
pub(crate) struct NativeTeam {
    /// `None`: all ranks.
    part: Option<Team>,
}

impl NativeTeam {
    /// Executes a collective; what this thread has collected is sent before.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        timeout: Limit,
        collective: impl FnOnce(&Team) -> clump_am::Result<R>,
    ) -> PyResult<R> {
        let world = world()?;
        let team = self.part.as_ref().unwrap_or_else(|| world.clump().team());
        let owner = world.owner().ok();
        let done = waiting(py, timeout, || {
            if let Some(owner) = owner {
                owner.pgas.flush()?;
            }
            Ok::<_, clump::Error>(collective(team)?)
        })?;
        done.map_err(raised)
    }
}

type Parts<'py> = Vec<Bound<'py, PyAny>>;

/// Joins the bytes of each rank's parts.
fn all_joined(parts: &[Parts<'_>]) -> PyResult<Vec<Vec<u8>>> {
    let taken: Vec<Vec<Chunk>> =
        parts.iter().map(|parts| chunks(parts)).collect::<PyResult<_>>()?;
    // SAFETY: the caller's objects live, and the interpreter's lock is held.
    Ok(taken.iter().map(|chunks| unsafe { joined(chunks) }).collect())
}

fn one_joined(parts: &[Bound<'_, PyAny>]) -> PyResult<Vec<u8>> {
    let taken = chunks(parts)?;
    // SAFETY: the caller's objects live, and the interpreter's lock is held.
    Ok(unsafe { joined(&taken) })
}

fn buffers(py: Python<'_>, all: Vec<Vec<u8>>) -> PyResult<Py<PyList>> {
    let all: Vec<_> = all.into_iter().map(|one| buffer(py, one)).collect::<PyResult<_>>()?;
    Ok(PyList::new(py, all)?.unbind())
}

#[pymethods]
impl NativeTeam {
    /// The team of all ranks.
    #[new]
    fn all() -> Self {
        Self { part: None }
    }

    /// This rank's number in the team.
    #[getter]
    fn rank(&self) -> PyResult<usize> {
        Ok(self.part.as_ref().unwrap_or(world()?.clump().team()).rank())
    }

    /// Number of ranks.
    #[getter]
    fn nranks(&self) -> PyResult<usize> {
        Ok(self.part.as_ref().unwrap_or(world()?.clump().team()).nranks())
    }

    /// Ranks of the job that form it.
    #[getter]
    fn members(&self) -> PyResult<Vec<u32>> {
        Ok(self.part.as_ref().unwrap_or(world()?.clump().team()).members().collect())
    }

    /// Returns once all have called it.
    #[pyo3(signature = (timeout=Limit::NONE))]
    fn barrier(&self, py: Python<'_>, timeout: Limit) -> PyResult<()> {
        self.run(py, timeout, Team::barrier)
    }

    /// Takes part in a collective that this rank cannot execute; the others fail with the reason.
    fn decline(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        self.run(py, Limit::NONE, |team| team.decline(&why))
    }

    /// Returns all ranks' words.
    #[pyo3(signature = (word, timeout=Limit::NONE))]
    fn all_gather_word(&self, py: Python<'_>, word: u64, timeout: Limit) -> PyResult<Vec<u64>> {
        self.run(py, timeout, |team| team.all_gather(word))
    }

    /// Returns all ranks' bytes.
    #[pyo3(signature = (parts, timeout=Limit::NONE))]
    fn all_gather(&self, py: Python<'_>, parts: Parts<'_>, timeout: Limit) -> PyResult<Py<PyList>> {
        let mine = one_joined(&parts)?;
        buffers(py, self.run(py, timeout, |team| team.all_gather_bytes(&mine))?)
    }

    /// Returns all ranks' bytes at `root`; `None` elsewhere.
    #[pyo3(signature = (root, parts, timeout=Limit::NONE))]
    fn gather(
        &self,
        py: Python<'_>,
        root: usize,
        parts: Parts<'_>,
        timeout: Limit,
    ) -> PyResult<Option<Py<PyList>>> {
        let mine = one_joined(&parts)?;
        let all = self.run(py, timeout, |team| team.gather_bytes(root, &mine))?;
        all.map(|all| buffers(py, all)).transpose()
    }

    /// Returns the bytes that `root` gives.
    #[pyo3(signature = (root, parts, timeout=Limit::NONE))]
    fn broadcast(
        &self,
        py: Python<'_>,
        root: usize,
        parts: Parts<'_>,
        timeout: Limit,
    ) -> PyResult<Py<PyAny>> {
        let mut bytes = one_joined(&parts)?;
        let bytes = self.run(py, timeout, |team| {
            let mut len = [bytes.len() as u64];
            team.broadcast(root, &mut len)?;
            let len = len[0] as usize;
            if team.rank() != root {
                bytes = Vec::new();
                if bytes.try_reserve_exact(len).is_err() {
                    team.decline(&format!("there is no memory for {len} bytes"))?;
                    return Err(clump_am::ErrorKind::NoMemory(len).into());
                }
                bytes.resize(len, 0);
            }
            if len > 0 {
                team.broadcast(root, &mut bytes)?;
            }
            Ok(bytes)
        })?;
        Ok(buffer(py, bytes)?.unbind())
    }

    /// Returns this rank's bytes of those that `root` gives.
    #[pyo3(signature = (root, parts, timeout=Limit::NONE))]
    fn scatter(
        &self,
        py: Python<'_>,
        root: usize,
        parts: Vec<Parts<'_>>,
        timeout: Limit,
    ) -> PyResult<Py<PyAny>> {
        let all = all_joined(&parts)?;
        Ok(buffer(py, self.run(py, timeout, |team| team.scatter_bytes(root, &all))?)?.unbind())
    }

    /// Gives bytes to each rank, and returns what they give to this one.
    #[pyo3(signature = (parts, timeout=Limit::NONE))]
    fn all_to_all(
        &self,
        py: Python<'_>,
        parts: Vec<Parts<'_>>,
        timeout: Limit,
    ) -> PyResult<Py<PyList>> {
        let all = all_joined(&parts)?;
        buffers(py, self.run(py, timeout, |team| team.all_to_all_bytes(&all))?)
    }

    /// Combines all ranks' arrays, element by element, in place.
    #[pyo3(signature = (array, op, timeout=Limit::NONE))]
    fn all_reduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyUntypedArray>,
        op: &str,
        timeout: Limit,
    ) -> PyResult<()> {
        let dtype = array.dtype();
        let (at, bytes) = writable(array)?;
        let at = crate::owner::SameThread(at);
        macro_rules! reduced {
            ($t:ty, $($name:literal $op:ident),+) => {{
                let at = at.into_inner();
                match op {
                    $($name => self.run(py, timeout, |team| reduce::<$t, _>(team, (at, bytes), $op)),)+
                    _ => Err(no_such_op(op, &dtype)),
                }
            }};
        }
        macro_rules! integers {
            ($t:ty) => {
                reduced!($t, "sum" Sum, "prod" Product, "min" Min, "max" Max, "and" And, "or" Or, "xor" Xor)
            };
        }
        macro_rules! floats {
            ($t:ty) => { reduced!($t, "sum" Sum, "prod" Product, "min" Min, "max" Max) };
        }
        match (dtype.kind(), dtype.itemsize()) {
            (b'i', 4) => integers!(i32),
            (b'i', 8) => integers!(i64),
            (b'u', 1) => integers!(u8),
            (b'u', 4) => integers!(u32),
            (b'u', 8) => integers!(u64),
            (b'f', 4) => floats!(f32),
            (b'f', 8) => floats!(f64),
            _ => Err(PyTypeError::new_err(format!("arrays of {dtype} are not combined natively"))),
        }
    }

    /// Divides the team; returns this rank's part, `None` if it is in none.
    #[pyo3(signature = (color, key, timeout=Limit::NONE))]
    fn split(
        &self,
        py: Python<'_>,
        color: Option<u64>,
        key: u64,
        timeout: Limit,
    ) -> PyResult<Option<Self>> {
        let part = self.run(py, timeout, |team| team.split(color, key))?;
        Ok(part.map(|part| Self { part: Some(part) }))
    }
}

fn no_such_op(op: &str, dtype: &Bound<'_, PyAny>) -> PyErr {
    PyValueError::new_err(format!(
        "there is no operation {op:?} for {dtype}: use sum, prod, min, max, or and, or, xor of integers"
    ))
}

/// Combines arrays of one type.
fn reduce<T: Number, O: Op<T>>(
    team: &Team,
    (at, bytes): (*mut u8, usize),
    op: O,
) -> clump_am::Result<()> {
    if bytes == 0 {
        return team.barrier();
    }
    // SAFETY: a contiguous writable array of that type, which the call keeps alive.
    let values = unsafe { std::slice::from_raw_parts_mut(at.cast::<T>(), bytes / size_of::<T>()) };
    team.all_reduce_slice(values, op)
}
