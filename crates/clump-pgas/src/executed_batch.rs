//! Execution of the calls of one message, in its handler.
//!
//! Calls that functions send meanwhile, and results, are collected, too: for each rank in one
//! message, which is sent when the handler returns.

use crate::call_record::{CallRecord, CallRecords, HEAD};
use crate::error::{ErrorKind, Result};
use crate::remote_context::{CallTable, ExecutedCall};
use clump_am::{Handler, Payload, Token};
use std::cell::{Cell, RefCell};

/// Handler of calls.
pub(crate) const CALL: Handler = Handler(1);
/// Handler of their answers.
pub(crate) const ANSWER: Handler = Handler(2);
/// Cookie of calls that are not answered.
pub(crate) const ONE_WAY: u64 = 0;
/// Messages of calls that are collected at a time.
const COLLECTED: usize = 16;

/// Records for a rank.
#[derive(Debug)]
struct OutgoingRecords {
    rank: usize,
    bytes: Vec<u8>,
}

impl OutgoingRecords {
    fn new(rank: usize) -> Self {
        Self { rank, bytes: Vec::new() }
    }
}

/// The calls that a handler executes.
struct ExecutedBatch<'a> {
    table: &'a CallTable,
    from: usize,
    most: usize,
    /// Number of the function that runs.
    number: Cell<u64>,
    token: RefCell<Token<'a>>,
    /// Calls that functions have sent.
    calls: RefCell<Vec<OutgoingRecords>>,
}

/// Executes the calls of a message, and sends the answers of those that are waited for.
///
/// # Errors
/// Fails with the first error of a call that is not waited for; all have been executed, up to a
/// damaged record, if there is one.
pub(crate) fn execute(
    table: &CallTable,
    token: Token<'_>,
    payload: &Payload<'_>,
) -> std::result::Result<(), String> {
    let (from, most) = (token.from().rank() as usize, token.max_medium());
    let (number, token, calls) = (Cell::new(0), RefCell::new(token), RefCell::default());
    let batch = ExecutedBatch { table, from, most, number, token, calls };
    let (mut answers, mut failure) = (OutgoingRecords::new(from), None);
    let bytes = payload.to_vec();
    for record in CallRecords::of(&bytes) {
        let record = match record {
            Ok(record) => record,
            // Messages of the records before it are sent all the same.
            Err(error) => {
                failure.get_or_insert(error.to_string());
                break;
            }
        };
        let (failed, result) = batch.run(&record);
        if record.cookie != ONE_WAY {
            let answer = CallRecord { number: failed, cookie: record.cookie, bytes: &result };
            if answers.bytes.len() + CallRecord::length(result.len()) > most {
                batch.defer(ANSWER, std::mem::replace(&mut answers, OutgoingRecords::new(from)));
            }
            answer.append_to(&mut answers.bytes);
        } else if failed != 0 && failure.is_none() {
            failure = Some(String::from_utf8_lossy(&result).into_owned());
        }
    }
    for calls in batch.calls.take() {
        batch.defer(CALL, calls);
    }
    if !answers.bytes.is_empty() {
        let token = batch.token.into_inner();
        let sent = token.reply_bulk(ANSWER, &answers.bytes, ());
        sent.map_err(|error| error.to_string())?;
    }
    failure.map_or(Ok(()), Err)
}

impl ExecutedBatch<'_> {
    /// Runs a function. Returns 0 and its result, or 1 and the text of its error.
    fn run(&self, record: &CallRecord<'_>) -> (u32, Vec<u8>) {
        let number = u64::from(record.number);
        self.number.set(number);
        let given = match self.table.function(number) {
            Some(body) => body(self, record.bytes),
            None => Err(ErrorKind::NoSuchFunction { number }.into()),
        };
        // Counted after what it has sent, so that a count of calls under way is never too low.
        self.table.note_executed(1);
        let most = self.most - HEAD;
        let failed = |text: String| (1, text.into_bytes());
        let (failed, mut result) = match given {
            Ok(result) if result.len() <= most => (0, result),
            Ok(result) => failed(ErrorKind::CallTooLong { bytes: result.len(), most }.to_string()),
            Err(error) => failed(error.to_string()),
        };
        result.truncate(most);
        (failed, result)
    }

    /// Queues a message, to be sent after the handler has returned.
    ///
    /// # Errors
    /// Fails if too many are queued.
    fn try_defer(&self, handler: Handler, of: &OutgoingRecords) -> Result<()> {
        debug_assert!(!of.bytes.is_empty() && of.bytes.len() <= self.most, "a message has records");
        let dest = self.table.rank(of.rank)?;
        Ok(self.token.borrow_mut().defer_bulk(dest, handler, Some(&of.bytes), ())?)
    }

    /// Queues a message as [`ExecutedBatch::try_defer`] does, or leaves it to the next poll.
    fn defer(&self, handler: Handler, of: OutgoingRecords) {
        if self.try_defer(handler, &of).is_err() {
            self.table.keep_unsent((of.rank, handler, of.bytes));
        }
    }
}

impl ExecutedCall for ExecutedBatch<'_> {
    fn origin(&self) -> (usize, u64) {
        (self.from, self.number.get())
    }

    fn table(&self) -> &CallTable {
        self.table
    }

    fn send(&self, rank: usize, number: u64, bytes: &[u8]) -> Result<()> {
        self.table.rank(rank)?;
        let (most, length) = (self.most - HEAD, bytes.len());
        if length > most {
            return Err(ErrorKind::CallTooLong { bytes: length, most }.into());
        }
        let number = u32::try_from(number).map_err(|_| ErrorKind::NoSuchFunction { number })?;
        let mut calls = self.calls.borrow_mut();
        let full =
            |open: &OutgoingRecords| open.bytes.len() + CallRecord::length(length) > self.most;
        let known = calls.iter().position(|open| open.rank == rank);
        // The room of a full message is needed, or that of any one for a rank that has none.
        let in_the_way = match known {
            Some(at) => calls.get(at).is_some_and(full).then_some(at),
            None => (calls.len() == COLLECTED).then_some(0),
        };
        if let Some(open) = in_the_way.and_then(|at| calls.get(at)) {
            self.try_defer(CALL, open)?;
        }
        if let Some(at) = in_the_way {
            calls.swap_remove(at);
        }
        let found = calls.iter().position(|open| open.rank == rank);
        let at = found.unwrap_or_else(|| {
            calls.push(OutgoingRecords::new(rank));
            calls.len() - 1
        });
        if let Some(open) = calls.get_mut(at) {
            CallRecord { number, cookie: ONE_WAY, bytes }.append_to(&mut open.bytes);
        }
        self.table.note_sent();
        debug_assert!(calls.len() <= COLLECTED, "few messages are collected at a time");
        Ok(())
    }
}
