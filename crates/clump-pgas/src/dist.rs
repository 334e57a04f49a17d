//! Objects of which every rank has its own.

use crate::error::{ErrorKind, Result};
use crate::remote_context::CallTable;
use crate::remote_fn::DistName;
use std::cell::RefCell;
use std::rc::Rc;

/// An object of which every rank has its own.
pub struct Dist<T> {
    name: DistName<T>,
    value: Rc<RefCell<T>>,
    table: Rc<CallTable>,
}

impl<T> std::fmt::Debug for Dist<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dist({:?})", self.name)
    }
}

impl<T> Dist<T> {
    pub(crate) fn of(name: DistName<T>, value: Rc<RefCell<T>>, table: Rc<CallTable>) -> Self {
        Self { name, value, table }
    }

    /// Returns its name, which functions find their rank's by.
    pub fn name(&self) -> DistName<T> {
        self.name
    }

    /// Uses this rank's. Functions that are called here meanwhile, because `run` polls, fail if
    /// they need it.
    ///
    /// # Errors
    /// Fails if it is in use already.
    pub fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> Result<R> {
        let mut value = self.value.try_borrow_mut().map_err(|_| ErrorKind::ObjectInUse)?;
        Ok(run(&mut value))
    }
}

impl<T> Drop for Dist<T> {
    fn drop(&mut self) {
        self.table.remove_object(self.name.id());
    }
}
