//! Encoding of plain values: numbers, strings and bytes, and lists, tuples and dictionaries of
//! them. Pickle takes all others: it knows classes, and objects that occur twice. Python's
//! `marshal` would make `bytes` of bytearrays and arrays.
//!
//! An encoding begins with [`HEAD`], which no encoding by pickle does.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

/// First bytes: a number of buffers that no pickle has.
const HEAD: [u8; 8] = [0xff; 8];
/// Most bytes of an encoding: larger values gain nothing.
const MAX_BYTES: usize = 1 << 12;
/// Most containers of a value, and its deepest nesting.
const MAX_CONTAINERS: usize = 32;

const NONE: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const STRING: u8 = 5;
const BYTES: u8 = 6;
const LIST: u8 = 7;
const TUPLE: u8 = 8;
const DICT: u8 = 9;

/// Encoding that is being written.
struct Writer {
    out: Vec<u8>,
    /// Containers in it. One that occurs twice is a thing for pickle, which gives one object then.
    seen: Vec<usize>,
}

impl Writer {
    fn sized(&mut self, kind: u8, len: usize) {
        self.out.push(kind);
        self.out.extend_from_slice(&(len as u32).to_le_bytes());
    }

    fn bytes(&mut self, kind: u8, bytes: &[u8]) -> Option<()> {
        if self.out.len() + bytes.len() > MAX_BYTES {
            return None;
        }
        self.sized(kind, bytes.len());
        self.out.extend_from_slice(bytes);
        Some(())
    }

    fn container(&mut self, kind: u8, value: &Bound<'_, PyAny>, len: usize) -> Option<()> {
        let address = value.as_ptr().addr();
        let fits = self.out.len() + len <= MAX_BYTES && self.seen.len() < MAX_CONTAINERS;
        if !fits || self.seen.contains(&address) {
            return None;
        }
        self.seen.push(address);
        self.sized(kind, len);
        Some(())
    }

    /// Appends a value; `None` if it is not plain. Runs no code of the program.
    fn value(&mut self, value: &Bound<'_, PyAny>) -> Option<()> {
        if let Ok(text) = value.cast_exact::<PyString>() {
            return self.bytes(STRING, text.to_str().ok()?.as_bytes());
        }
        if value.is_exact_instance_of::<PyInt>() {
            let number: i64 = value.extract().ok()?;
            self.out.push(INT);
            self.out.extend_from_slice(&number.to_le_bytes());
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.out.push(FLOAT);
            self.out.extend_from_slice(&number.value().to_le_bytes());
        } else if value.is_none() {
            self.out.push(NONE);
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            self.out.push(if truth.is_true() { TRUE } else { FALSE });
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.container(DICT, value, dict.len())?;
            for (key, item) in dict {
                self.value(&key)?;
                self.value(&item)?;
            }
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            if tuple.is_empty() {
                self.sized(TUPLE, 0);
                return Some(());
            }
            self.container(TUPLE, value, tuple.len())?;
            for item in tuple {
                self.value(&item)?;
            }
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.container(LIST, value, list.len())?;
            for item in list {
                self.value(&item)?;
            }
        } else {
            return self.bytes(BYTES, value.cast_exact::<PyBytes>().ok()?.as_bytes());
        }
        (self.out.len() <= MAX_BYTES).then_some(())
    }
}

/// Encoding that is being read.
struct Reader<'a> {
    left: &'a [u8],
    containers: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> PyResult<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(bytes).ok_or_else(wrong)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> PyResult<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| wrong())
    }

    fn len(&mut self) -> PyResult<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// Returns the number of a container's items, each of which has a byte at least.
    fn container(&mut self) -> PyResult<usize> {
        let len = self.len()?;
        self.containers += 1;
        if len > self.left.len() || self.containers > MAX_CONTAINERS {
            return Err(wrong());
        }
        Ok(len)
    }

    fn value<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let [kind] = self.array()?;
        Ok(match kind {
            NONE => py.None().into_bound(py),
            FALSE | TRUE => PyBool::new(py, kind == TRUE).to_owned().into_any(),
            INT => i64::from_le_bytes(self.array()?).into_pyobject(py)?.into_any(),
            FLOAT => PyFloat::new(py, f64::from_le_bytes(self.array()?)).into_any(),
            STRING => {
                let len = self.len()?;
                let text = std::str::from_utf8(self.take(len)?).map_err(|_| wrong())?;
                PyString::new(py, text).into_any()
            }
            BYTES => {
                let len = self.len()?;
                PyBytes::new(py, self.take(len)?).into_any()
            }
            LIST => {
                let list = PyList::empty(py);
                for _ in 0..self.container()? {
                    list.append(self.value(py)?)?;
                }
                list.into_any()
            }
            TUPLE => {
                // An empty one does not count, as when it was written.
                let len = self.container()?;
                self.containers -= usize::from(len == 0);
                let items: PyResult<Vec<_>> = (0..len).map(|_| self.value(py)).collect();
                PyTuple::new(py, items?)?.into_any()
            }
            DICT => {
                let dict = PyDict::new(py);
                for _ in 0..self.container()? {
                    let key = self.value(py)?;
                    dict.set_item(key, self.value(py)?)?;
                }
                dict.into_any()
            }
            _ => return Err(wrong()),
        })
    }
}

fn wrong() -> PyErr {
    PyValueError::new_err("a rank sent an object that no rank of this version sends")
}

/// Returns the encoding of a value; `None` if pickle is to encode it.
pub(crate) fn encode(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let mut writer = Writer { out: Vec::with_capacity(256), seen: Vec::new() };
    writer.out.extend_from_slice(&HEAD);
    writer.value(value)?;
    Some(writer.out)
}

/// Returns the value of an encoding; `None` if pickle has encoded it.
///
/// # Errors
/// Fails if it is none that [`encode`] returns, or memory has run out.
pub(crate) fn decode<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(left) = bytes.strip_prefix(&HEAD) else { return Ok(None) };
    let mut reader = Reader { left, containers: 0 };
    let value = reader.value(py)?;
    if reader.left.is_empty() { Ok(Some(value)) } else { Err(wrong()) }
}

/// Returns the encoding of a value; `None` if pickle is to encode it.
#[pyfunction]
pub(crate) fn plain_bytes<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    encode(value).map(|bytes| PyBytes::new(value.py(), &bytes))
}

/// Returns the value of an encoding that begins as plain ones do.
#[pyfunction]
pub(crate) fn plain_value<'py>(bytes: &Bound<'py, PyByteArray>) -> PyResult<Bound<'py, PyAny>> {
    decode(bytes.py(), &bytes.to_vec())?.ok_or_else(wrong)
}
