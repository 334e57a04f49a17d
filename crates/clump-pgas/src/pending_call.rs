//! Calls under way, whose results are waited for.

use crate::call_answers::Answer;
use crate::call_sender::CallSender;
use crate::error::{ErrorKind, Result};
use crate::remote_fn::RawBytes;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::rc::Rc;

/// A call under way. One that is dropped is executed all the same.
#[derive(Debug)]
#[must_use = "what it gives is had by `wait`"]
pub struct PendingCall<R> {
    sender: Rc<CallSender>,
    cookie: u64,
    rank: usize,
    of: PhantomData<fn() -> R>,
}

impl PendingCall<RawBytes> {
    /// Waits for the result, as [`PendingCall::wait`] does.
    ///
    /// # Errors
    /// Fails as [`PendingCall::wait`] does.
    pub fn wait_raw(self) -> Result<Vec<u8>> {
        self.wait_bytes()
    }
}

impl<R: DeserializeOwned> PendingCall<R> {
    /// Waits for the result.
    ///
    /// # Errors
    /// Fails if the function did, if the rank has left, or if a rank died.
    pub fn wait(self) -> Result<R> {
        let bytes = self.wait_bytes()?;
        Ok(postcard::from_bytes(&bytes).map_err(|_| ErrorKind::BadArguments)?)
    }
}

impl<R> PendingCall<R> {
    /// Expects the answer of a call at a rank.
    pub(crate) fn of(sender: &Rc<CallSender>, rank: usize) -> Self {
        let cookie = sender.answers.expect();
        Self { sender: sender.clone(), cookie, rank, of: PhantomData }
    }

    /// Returns the number of the call.
    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Returns true if the answer is there. Sends what was collected, and polls.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::poll`] does.
    pub fn is_done(&self) -> Result<bool> {
        self.sender.pgas.flush()?;
        self.sender.poll()?;
        Ok(!self.sender.answers.is_awaited(self.cookie))
    }

    fn wait_bytes(self) -> Result<Vec<u8>> {
        self.sender.wait_for(self.rank, self.cookie)?;
        let failed = |text: String| ErrorKind::CallFailed { rank: self.rank, text };
        match self.sender.answers.take(self.cookie) {
            Some(Answer::Result(bytes)) => Ok(bytes),
            Some(Answer::Failure(text)) => {
                Err(failed(String::from_utf8_lossy(&text).into_owned()).into())
            }
            Some(Answer::Awaited) | None => Err(failed("it has no answer".into()).into()),
        }
    }
}

impl<R> Drop for PendingCall<R> {
    fn drop(&mut self) {
        self.sender.answers.take(self.cookie);
    }
}
