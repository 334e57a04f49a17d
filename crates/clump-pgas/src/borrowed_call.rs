//! Calls whose arguments the caller borrows.

use crate::error::Result;
use crate::pending_call::PendingCall;
use crate::remote_calls::RemoteCalls;
use crate::remote_fn::RemoteFn;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Borrowed form of the arguments `A`: it has the same encoding, so the caller need not own them.
pub trait BorrowedForm<A>: Serialize {}

impl BorrowedForm<String> for str {}
impl<T: Serialize> BorrowedForm<Vec<T>> for [T] {}

/// A borrowed argument of any size, as a value that can be written.
#[derive(Serialize)]
#[serde(transparent)]
struct Lent<'a, B: ?Sized>(&'a B);

impl RemoteCalls {
    /// Begins to call a function of a `String` with a `&str`, or of a `Vec` with a slice, as
    /// [`RemoteCalls::call`] does.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::call`] does.
    pub fn call_borrowed<A, R: DeserializeOwned>(
        &self,
        function: RemoteFn<A, R>,
        rank: usize,
        arguments: &(impl BorrowedForm<A> + ?Sized),
    ) -> Result<PendingCall<R>> {
        self.call_of(function, rank, &Lent(arguments))
    }

    /// Calls a function one-way with borrowed arguments, as [`RemoteCalls::send`] does.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::call`] does.
    pub fn send_borrowed<A, R>(
        &self,
        function: RemoteFn<A, R>,
        rank: usize,
        arguments: &(impl BorrowedForm<A> + ?Sized),
    ) -> Result<()> {
        self.send_of(function, rank, &Lent(arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::Lent;

    #[test]
    fn borrowed_arguments_travel_as_owned_ones_do() {
        let text = "some text".to_owned();
        let of = |bytes: postcard::Result<Vec<u8>>| bytes.unwrap();
        assert_eq!(of(postcard::to_stdvec(&text)), of(postcard::to_stdvec(&Lent(text.as_str()))));
        let values = vec![1_u32, 70_000];
        let lent = Lent(values.as_slice());
        assert_eq!(of(postcard::to_stdvec(&values)), of(postcard::to_stdvec(&lent)));
    }
}
