//! The endpoint of a thread's remote calls, with calls that wait to be sent or answered.

use crate::aggregator::counter_of;
use crate::call_answers::{Answer, CallAnswers};
use crate::call_outbox::{CallBatch, CallOutbox, OutboxBounds};
use crate::call_record::{CallRecord, CallRecords, HEAD};
use crate::collector::SendCause;
use crate::error::{ErrorKind, Result};
use crate::executed_batch::{ANSWER, CALL, execute};
use crate::pgas::{Collected, Pgas, took_part};
use crate::remote_context::CallTable;
use clump_am::{Dest, Endpoint, Handler, Payload, Tag, Token};
use clump_coll::Team;
use clump_os::clock;
use clump_rma::Update;
use clump_trace::{Counter, EventKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Tag of the endpoints of remote calls.
const TAG: u64 = 0x7ca1_1000;
/// Calls between two readings of the clock.
const CLOCK_EVERY: u32 = 16;

/// An endpoint of remote calls, with the calls that it collects.
pub(crate) struct CallSender {
    pub(crate) pgas: Pgas,
    pub(crate) table: Rc<CallTable>,
    pub(crate) answers: Rc<CallAnswers>,
    endpoint: Endpoint,
    outbox: RefCell<CallOutbox>,
    /// Calls that were collected since the clock was read.
    unclocked: Cell<u32>,
}

impl std::fmt::Debug for CallSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallSender").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}

/// Sets the handlers of an endpoint.
fn equip(endpoint: &Endpoint, table: &Rc<CallTable>, answers: &Rc<CallAnswers>) -> Result<()> {
    let called = table.clone();
    endpoint.handler_bulk(CALL, move |token: Token<'_>, (): (), payload: Payload<'_>| {
        execute(&called, token, &payload)
    })?;
    let given = answers.clone();
    endpoint.handler_bulk(ANSWER, move |_: Token<'_>, (): (), payload: Payload<'_>| {
        CallRecords::of(&payload.to_vec()).try_for_each(|record| -> Result<()> {
            let CallRecord { number, cookie, bytes } = record?;
            let answer = if number == 0 { Answer::Result } else { Answer::Failure };
            given.give(cookie, answer(bytes.to_vec()));
            Ok(())
        })
    })?;
    let (lost, uncalled) = (answers.clone(), table.clone());
    endpoint.on_returned(move |message| {
        if message.handler == CALL {
            fail(&uncalled, &lost, &message.payload, &message.reason.to_string());
        }
    })?;
    Ok(())
}

/// Gives calls up that no rank will execute.
fn fail(table: &CallTable, answers: &CallAnswers, records: &[u8], why: &str) {
    for call in CallRecords::of(records).flatten() {
        table.note_executed(1);
        answers.give(call.cookie, Answer::Failure(why.into()));
    }
}

impl Collected for CallSender {
    fn send_old(&self, now: u64) -> Result<()> {
        self.send_unsent()?;
        loop {
            let old = self.outbox.borrow_mut().expired(now);
            let Some(old) = old else { return Ok(()) };
            self.send(old)?;
        }
    }

    fn send_all(&self) -> Result<()> {
        let mut result = self.send_unsent();
        loop {
            let next = self.outbox.borrow_mut().oldest(SendCause::Flushed);
            let Some(next) = next else { return result };
            result = result.and(self.send(next));
        }
    }
}

impl CallSender {
    /// Opens an endpoint at each rank. A collective.
    ///
    /// # Errors
    /// Fails if endpoints have run out, or if a rank died or left.
    pub(crate) fn open(pgas: &Pgas) -> Result<Rc<Self>> {
        let endpoint = Endpoint::open(pgas.context(), Tag(TAG));
        // A rank without one reports it: the others do not wait for it.
        let name = endpoint.as_ref().map_or(0, |endpoint| endpoint.name().to_bits());
        let names = pgas.inner.together(|team| team.all_gather(name))?;
        let endpoint = took_part(endpoint)?;
        if let Some(rank) = names.iter().position(|&name| name == 0) {
            return Err(ErrorKind::RankFailed { rank }.into());
        }
        let map = |bits: u64| endpoint.map(&clump_am::Name::from_bits(bits), Tag(TAG));
        let ranks: clump_am::Result<Rc<[Dest]>> = names.into_iter().map(map).collect();
        let (table, answers) = (Rc::new(CallTable::new(ranks?)), Rc::new(CallAnswers::default()));
        equip(&endpoint, &table, &answers)?;
        // No rank calls before all can answer.
        pgas.inner.together(Team::meet_all)?;
        let options = &pgas.inner.options;
        let batch_bytes = options.batch_updates.saturating_mul(size_of::<Update>());
        let outbox = RefCell::new(CallOutbox::new(OutboxBounds {
            batch_bytes: batch_bytes.min(endpoint.max_medium()),
            memory_bytes: options.memory_bytes,
            delay_ns: u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX),
        }));
        let (pgas, unclocked) = (pgas.clone(), Cell::new(0));
        let sender = Rc::new(Self { pgas, table, answers, endpoint, outbox, unclocked });
        let collected: Rc<dyn Collected> = sender.clone();
        sender.pgas.inner.collect_with(Rc::downgrade(&collected));
        Ok(sender)
    }

    /// Runs functions that have been called here, by this rank too, and sends calls that are old.
    pub(crate) fn poll(&self) -> Result<()> {
        // Nothing is taken out inside a handler, which can send nothing.
        self.endpoint.tag()?;
        let own = self.outbox.borrow_mut().close(self.pgas.rank(), SendCause::Flushed);
        let sent = own.map_or(Ok(()), |own| self.send(own));
        let handled = self.endpoint.poll();
        sent?;
        handled?;
        self.pgas.poll()
    }

    /// Waits until the answer of a call at `rank` has arrived.
    pub(crate) fn wait_for(&self, rank: usize, cookie: u64) -> Result<()> {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        let answered = || !self.answers.is_awaited(cookie);
        self.pgas.inner.wait(|| Ok(self.endpoint.poll_until_answer(rank, answered)?))
    }

    /// Calls a function at a rank: with others if that is on another node, or this rank, which runs
    /// them at its next poll; else at once.
    pub(crate) fn begin(&self, rank: usize, call: &CallRecord<'_>) -> Result<()> {
        self.table.rank(rank)?;
        let (most, length) = (self.endpoint.max_medium() - HEAD, call.bytes.len());
        if length > most {
            return Err(ErrorKind::CallTooLong { bytes: length, most }.into());
        }
        let context = self.endpoint.context();
        let is_local = u32::try_from(rank).is_ok_and(|rank| context.is_near(rank));
        let near = is_local && rank != self.pgas.rank();
        if near || !self.pgas.inner.aggregates() {
            self.table.note_sent();
            return self.send_alone(rank, call);
        }
        // A send here may run handlers that call, too.
        loop {
            let obstacle = self.outbox.borrow_mut().obstacle(rank, length);
            let Some(obstacle) = obstacle else { break };
            self.send(obstacle)?;
        }
        self.table.note_sent();
        let opens = !self.outbox.borrow().is_open(rank);
        let looks = opens || self.unclocked.get() == 0;
        self.unclocked.set(if looks { CLOCK_EVERY } else { self.unclocked.get() - 1 });
        let now = if looks { clock::now_ns() } else { 0 };
        self.outbox.borrow_mut().push(rank, call, now);
        if looks { self.send_old(now) } else { Ok(()) }
    }

    /// Sends a call by itself.
    fn send_alone(&self, rank: usize, call: &CallRecord<'_>) -> Result<()> {
        let mut bytes = self.outbox.borrow_mut().buffer();
        call.append_to(&mut bytes);
        let sent = self.request(rank, CALL, &bytes);
        self.outbox.borrow_mut().keep(bytes);
        sent
    }

    /// Sends a batch.
    fn send(&self, batch: CallBatch) -> Result<()> {
        let CallBatch { rank, calls, bytes, cause } = batch;
        let context = self.endpoint.context();
        context.counters().add(Counter::PgasCollected, calls);
        context.counters().bump(counter_of(cause));
        let (to, most) = (u32::try_from(rank).unwrap_or(u32::MAX), u64::from(u32::MAX));
        context.note(EventKind::Batch, (to, 0, calls.min(most) as u32));
        let collected = context.actor().map(|actor| actor.send_collected());
        let sent = self.request(rank, CALL, &bytes);
        drop(collected);
        self.outbox.borrow_mut().keep(bytes);
        sent
    }

    /// Sends records of calls or of answers.
    fn request(&self, rank: usize, handler: Handler, records: &[u8]) -> Result<()> {
        let sent = self.endpoint.request_bulk(self.table.rank(rank)?, handler, records, ());
        if let Err(error) = &sent
            && handler == CALL
        {
            fail(&self.table, &self.answers, records, &error.to_string());
        }
        Ok(sent?)
    }

    /// Sends messages that handlers could not queue.
    ///
    /// # Errors
    /// Fails with the first error; all have been tried.
    fn send_unsent(&self) -> Result<()> {
        let mut result = Ok(());
        for (rank, handler, records) in self.table.take_unsent() {
            result = result.and(self.request(rank, handler, &records));
        }
        result
    }
}
