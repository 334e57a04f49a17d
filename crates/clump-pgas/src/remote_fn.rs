//! Names of registered functions and of objects that every rank has: plain data.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// Arguments or a result that the program encodes itself, as bytes.
#[derive(Debug, Clone, Copy)]
pub enum RawBytes {}

/// A function that all ranks have registered, from `A` to `R`. Plain data; functions capture it to
/// call others.
pub struct RemoteFn<A, R> {
    number: u64,
    of: PhantomData<fn(A) -> R>,
}

impl<A, R> RemoteFn<A, R> {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, of: PhantomData }
    }

    /// Returns its place in the order of registered functions.
    pub fn number(self) -> u64 {
        self.number
    }
}

/// The name of an object that every rank has its own of. Travels in arguments.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct DistName<T> {
    id: u64,
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

impl<T> DistName<T> {
    /// Returns the name of the object with this number, for other languages.
    pub fn new(id: u64) -> Self {
        Self { id, of: PhantomData }
    }

    /// Returns the object's number, which is the same on all ranks.
    pub fn id(self) -> u64 {
        self.id
    }
}

impl<A, R> Clone for RemoteFn<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for RemoteFn<A, R> {}

impl<A, R> std::fmt::Debug for RemoteFn<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteFn({})", self.number)
    }
}

impl<T> Clone for DistName<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DistName<T> {}

impl<T> std::fmt::Debug for DistName<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DistName({})", self.id)
    }
}
