//! Functions of an element, executed at its home: Split-C's `atomic(f, pointer, args)`.

use crate::element::Element;
use crate::error::{ErrorKind, Result};
use crate::global_ptr::GlobalPtr;
use crate::pending_call::PendingCall;
use crate::remote_calls::RemoteCalls;
use crate::remote_context::RemoteContext;
use crate::remote_fn::RemoteFn;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// A function that all ranks have registered, of an element `T` with arguments `A` and a result
/// `R`. Plain data.
pub struct ElementFn<T, A, R> {
    function: RemoteFn<([u64; 3], A), R>,
    of: PhantomData<fn(&mut T)>,
}

impl<T, A, R> Clone for ElementFn<T, A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, A, R> Copy for ElementFn<T, A, R> {}

impl<T, A, R> std::fmt::Debug for ElementFn<T, A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ElementFn({})", self.function.number())
    }
}

impl RemoteCalls {
    /// Registers a function of an element, as [`RemoteCalls::register`] does. It is executed at the
    /// rank whose memory holds the element, one at a time; one-sided operations of others may come
    /// between its read and its write. The element stays as it was if it fails.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::register`] does.
    pub fn register_atomic<T, A, R>(
        &self,
        name: &str,
        function: impl Fn(&mut T, A) -> Result<R> + 'static,
    ) -> Result<ElementFn<T, A, R>>
    where
        T: Element + 'static,
        A: Serialize + DeserializeOwned + 'static,
        R: Serialize + DeserializeOwned + 'static,
    {
        let pgas = self.pgas().clone();
        let name = format!("{name}, of {}", std::any::type_name::<T>());
        let body = move |_: &RemoteContext<'_, _>, (pointer, arguments): ([u64; 3], A)| {
            let pointer = GlobalPtr::<T>::from_words(pointer);
            if pointer.rank() != pgas.rank() {
                return Err(ErrorKind::BadArguments.into());
            }
            let element = pgas.at(pointer)?;
            let mut value = element.read()?;
            let result = function(&mut value, arguments)?;
            element.put(value)?;
            Ok(result)
        };
        let function = self.register(&name, body)?;
        Ok(ElementFn { function, of: PhantomData })
    }

    /// Begins to apply a function to the element that a pointer points to.
    ///
    /// # Errors
    /// Fails if the pointer points outside of its memory or to memory that no rank owns, or as
    /// [`RemoteCalls::call`] does.
    pub fn atomic<T: Element, A: Serialize, R: DeserializeOwned>(
        &self,
        function: ElementFn<T, A, R>,
        pointer: GlobalPtr<T>,
        arguments: &A,
    ) -> Result<PendingCall<R>> {
        pointer.check(1)?;
        self.call_of(function.function, pointer.rank(), &(pointer.to_words(), arguments))
    }

    /// Applies a function to the element that a pointer points to, and does not wait for it:
    /// [`RemoteCalls::detect_termination`] does.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::atomic`] does.
    pub fn send_atomic<T: Element, A: Serialize, R>(
        &self,
        function: ElementFn<T, A, R>,
        pointer: GlobalPtr<T>,
        arguments: &A,
    ) -> Result<()> {
        pointer.check(1)?;
        self.send_of(function.function, pointer.rank(), &(pointer.to_words(), arguments))
    }
}
