//! The executor of a virtual node's one-sided operations, where time is virtual: a thread beside
//! the node's first rank, and an actor of its own (docs/virtual.md).

use clump_am::{
    Dest, Endpoint, ErrorKind, Handler, LayerPayload, Name, RankContext, ServeStep, Settings, Tag,
};
use clump_interface::DirectExecutor;
use clump_onesided::protocol::TAG;
use clump_os::thread;
use clump_wire::OwnedMessage;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// Starts the executor that runs beside this rank, if one does. It ends after all ranks have left.
pub(crate) fn start(context: &RankContext) -> crate::Result<Option<JoinHandle<()>>> {
    if context.actor().is_none() {
        return Ok(None);
    }
    let (node, rank) = (context.node(), context.rank());
    let own = RankContext::new(node, rank, Settings::default())?.traced_beside(context);
    let Some(own) = own.as_executor()? else { return Ok(None) };
    let own = Arc::new(own);
    let (opened, is_open) = mpsc::channel();
    let work = move || {
        own.enter_virtual_time();
        // Before any rank runs: no request comes too early.
        let (executor, failure) = match open(&own) {
            Ok(executor) => (Some(executor), None),
            Err(error) => (None, Some(error)),
        };
        let _ = opened.send(failure);
        if let Some((endpoint, executor)) = executor {
            own.begin_virtual_time();
            // If it fails, so do the ranks that wait for an answer, for the same reason.
            let _ = serve(&own, &endpoint, &executor);
            drop(endpoint);
            own.end_virtual_time();
        }
    };
    let thread = thread::spawn("clump-executor", work).map_err(clump_shm::Error::from)?;
    debug_assert!(thread.thread().name().is_some(), "debuggers show it");
    if let Ok(Some(error)) = is_open.recv() {
        return Err(error.into());
    }
    Ok(Some(thread))
}

/// The executor as handlers share it.
type SharedExecutor = Rc<RefCell<DirectExecutor>>;

/// Opens the endpoint that takes requests.
fn open(context: &Arc<RankContext>) -> clump_am::Result<(Endpoint, SharedExecutor)> {
    let missing = || ErrorKind::NotInVirtualTime("executors run");
    let actor = context.actor().ok_or_else(missing)?;
    let endpoint = Endpoint::open_restricted(context, Tag(TAG))?;
    let name = endpoint.name();
    debug_assert_eq!(actor.executor_name(actor.node()), Some(name), "requesters know its name");
    let executor = Rc::new(RefCell::new(DirectExecutor::new(context.node(), name)));
    for number in 1..=u8::MAX {
        let executor = executor.clone();
        endpoint.set_handler(Handler(number), move |token, words, payload| {
            let mut bytes = vec![0; payload.len()];
            payload.copy_to(&mut bytes);
            actor.work(actor.execute_ns());
            let from = token.from();
            let mut executor = executor.borrow_mut();
            executor.handle(from, number, words, &bytes);
            // The rest is sent behind it: other endpoints wait for those.
            if let Some(answer) = executor.take_answer_to(from) {
                let (handler, words) = (Handler(answer.handler), &answer.words[..]);
                let payload = match answer.payload.is_empty() {
                    true => LayerPayload::Short,
                    false => LayerPayload::Medium(&answer.payload),
                };
                // An error: the requester is gone.
                let _ = token.answer(handler, words, payload);
            }
        })?;
    }
    endpoint.on_returned(|_| {})?;
    Ok((endpoint, executor))
}

/// Executes operations until all ranks have left.
fn serve(
    context: &RankContext,
    endpoint: &Endpoint,
    executor: &SharedExecutor,
) -> clump_am::Result<()> {
    let Some(actor) = context.actor() else { return Ok(()) };
    debug_assert_eq!(actor.executor_name(actor.node()), Some(endpoint.name()), "requesters know");
    let mut dests = HashMap::new();
    clump_am::serve(endpoint, || {
        if actor.take_changed() {
            executor.borrow_mut().note_changes();
        }
        let answers = executor.borrow_mut().take_answers();
        if !answers.is_empty() {
            answers.iter().try_for_each(|answer| send(endpoint, &mut dests, answer))?;
            return Ok(ServeStep::Worked);
        }
        Ok(if actor.have_ranks_left() { ServeStep::Ended } else { ServeStep::Idle })
    })
}

/// Sends an answer to an endpoint that waits for it.
fn send(
    endpoint: &Endpoint,
    dests: &mut HashMap<u64, Dest>,
    answer: &OwnedMessage,
) -> clump_am::Result<()> {
    let to = Name::from_bits(answer.route.to);
    let dest = match dests.get(&answer.route.to) {
        Some(known) => *known,
        None => endpoint.map(&to, Tag(TAG))?,
    };
    dests.insert(answer.route.to, dest);
    debug_assert!(answer.handler != 0, "requesters have handlers from 1");
    match answer.payload.is_empty() {
        true => endpoint.request(dest, Handler(answer.handler), &answer.words[..]),
        false => {
            let payload = &answer.payload[..];
            endpoint.request_bulk(dest, Handler(answer.handler), payload, &answer.words[..])
        }
    }
}
