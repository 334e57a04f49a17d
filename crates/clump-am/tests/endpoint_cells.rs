//! Endpoints in cells: their owners, their access, and messages as interfaces on top send them.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_am::{
    Access, BorrowedEndpoint, Dest, Endpoint, EndpointCell, ErrorKind, Handler, HandlerFailure,
    LayerPayload, MAX_CARRIED, RankContext, Reason, SendAttempt, Settings, Tag,
};
use clump_os::clock;
use clump_os::sync::Ordering::Relaxed;
use clump_os::sync::{AtomicBool, AtomicU64};
use clump_test_bed::{Shape, each_rank};
use clump_wire::Security;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TAG: Tag = Tag(0xbe47);
const ASK: Handler = Handler(1);
const ANSWER: Handler = Handler(2);

/// Returns a cell with an open endpoint, and the reasons of messages returned to it.
fn cell(
    context: &Arc<RankContext>,
    access: Access,
) -> (Arc<EndpointCell>, Arc<Mutex<Vec<Reason>>>) {
    let cell = Arc::new(EndpointCell::new());
    cell.open(context).unwrap();
    let back = Arc::new(Mutex::new(Vec::new()));
    let note = back.clone();
    let mut inside = cell.enter().unwrap();
    inside.on_returned(move |m| note.lock().unwrap().push(m.reason));
    inside.set_access(access).unwrap();
    drop(inside);
    (cell, back)
}

fn alone() -> Arc<RankContext> {
    clump_test_bed::context(&clump_test_bed::node(1, false), 0, Settings::default())
}

/// Maps `to` at `from`.
fn map(from: &EndpointCell, to: &EndpointCell, tag: Tag) -> Dest {
    let name = to.enter().unwrap().name();
    from.enter().unwrap().map(name, tag).unwrap()
}

fn poll(cell: &EndpointCell) -> usize {
    cell.enter().unwrap().poll().unwrap()
}

/// Returns the error of an `enter` that did not let this thread in.
fn refusal(entered: clump_am::Result<BorrowedEndpoint<'_>>) -> String {
    entered.map(drop).unwrap_err().to_string()
}

#[test]
fn tags_let_in_one_everybody_or_nobody() {
    let context = alone();
    let (from, back) = cell(&context, Access::Nobody);
    let (to, _) = cell(&context, Access::Nobody);
    let heard = Arc::new(AtomicU64::new(0));
    let count = heard.clone();
    to.enter()
        .unwrap()
        .set_handler(ASK, move |_, _, _| {
            count.fetch_add(1, Relaxed);
        })
        .unwrap();
    for (access, tag, arrives) in [
        (Access::Nobody, Tag(0), false),
        (Access::Everyone, Tag(0), true),
        (Access::Everyone, TAG, true),
        (Access::Tag(TAG), TAG, true),
        (Access::Tag(TAG), Tag(1), false),
        (Access::Nobody, TAG, false),
        (Access::Tag(Tag(0)), Tag(0), true),
    ] {
        to.enter().unwrap().set_access(access).unwrap();
        let dest = map(&from, &to, tag);
        let (before, missed) = (heard.load(Relaxed), back.lock().unwrap().len());
        from.enter().unwrap().send(&*from, (dest, ASK), &[], LayerPayload::Short).unwrap();
        poll(&to);
        poll(&from);
        assert_eq!(heard.load(Relaxed) - before, u64::from(arrives), "{access:?} {tag:?}");
        let refused = back.lock().unwrap().get(missed..).unwrap().to_vec();
        assert_eq!(refused.is_empty(), arrives, "{access:?} {tag:?}");
        assert!(refused.iter().all(|why| *why == Reason::BadTag));
    }
}

#[test]
fn a_cell_is_its_threads_until_that_lets_go() {
    let context = alone();
    let (cell, _) = cell(&context, Access::Nobody);
    cell.take().unwrap();
    assert!(cell.is_mine() && !cell.is_inside());
    let other = cell.clone();
    let said = std::thread::spawn(move || (refusal(other.enter()), other.take().is_err()));
    let (said, refused) = said.join().unwrap();
    assert!(said.contains("another's") && refused, "{said}");
    assert_eq!(poll(&cell), 0);
    cell.let_go().unwrap();
    let other = cell.clone();
    std::thread::spawn(move || {
        other.take().unwrap();
        assert_eq!(poll(&other), 0);
        other.let_go().unwrap();
    })
    .join()
    .unwrap();
    cell.take().unwrap();
    cell.close().unwrap();
    assert!(matches!(cell.close().unwrap_err().kind(), ErrorKind::NoEndpoint));
    assert!(refusal(cell.enter()).contains("closed"));
    cell.open(&context).unwrap();
    assert!(matches!(cell.open(&context).unwrap_err().kind(), ErrorKind::Occupied));
}

#[test]
fn what_lay_there_before_a_sleep_that_another_thread_prepared_is_found() {
    let context = alone();
    let ((from, _), (to, _)) = (cell(&context, Access::Nobody), cell(&context, Access::Everyone));
    let heard = Arc::new(AtomicU64::new(0));
    let count = heard.clone();
    to.enter()
        .unwrap()
        .set_handler(ASK, move |_, _, _| {
            count.fetch_add(1, Relaxed);
        })
        .unwrap();
    let dest = map(&from, &to, Tag(0));
    let send =
        || from.enter().unwrap().send(&*from, (dest, ASK), &[], LayerPayload::Short).unwrap();
    // The first message rings, the others do not: the lane is hot then.
    for sent in 1..=3 {
        send();
        if sent > 1 {
            // A thread that is about to sleep arms notification, and never polls again, because the
            // cell has another owner meanwhile.
            clump_am::Pollable::arm_notifications(&*to);
            let owner = to.clone();
            std::thread::spawn(move || owner.take().and_then(|()| owner.let_go()))
                .join()
                .unwrap()
                .unwrap();
        }
        poll(&to);
        poll(&to);
        assert_eq!(heard.load(Relaxed), sent);
    }
}

#[test]
fn handlers_are_inside_and_come_in_no_second_time() {
    for mine in [true, false] {
        let context = alone();
        let (cell, _) = cell(&context, Access::Tag(TAG));
        if mine {
            cell.take().unwrap();
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (note, same) = (seen.clone(), Arc::downgrade(&cell));
        cell.enter()
            .unwrap()
            .set_handler(ASK, move |_, _, _| {
                let same = same.upgrade().unwrap();
                assert!(same.is_inside());
                let kinds = [same.enter().map(drop), same.try_enter().map(drop), same.close()];
                note.lock().unwrap().extend(kinds.map(|kind| kind.unwrap_err().to_string()));
            })
            .unwrap();
        let dest = map(&cell, &cell, TAG);
        cell.enter().unwrap().send(&*cell, (dest, ASK), &[], LayerPayload::Short).unwrap();
        poll(&cell);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|said| said.contains("inside one of its handlers")), "{seen:?}");
    }
}

#[test]
fn threads_share_a_cell_that_is_nobodys() {
    const EACH: u64 = 2000;
    let context = alone();
    let (cell, _) = cell(&context, Access::Tag(TAG));
    let heard = Arc::new(AtomicU64::new(0));
    let (count, busy) = (heard.clone(), AtomicBool::new(false));
    cell.enter()
        .unwrap()
        .set_handler(ASK, move |_, words, _| {
            assert!(!busy.swap(true, Relaxed), "two handlers of one endpoint at once");
            count.fetch_add(words[0], Relaxed);
            busy.store(false, Relaxed);
        })
        .unwrap();
    let dest = map(&cell, &cell, TAG);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (cell, heard) = (cell.clone(), heard.clone());
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    let inside = cell.enter().unwrap();
                    inside.send(&*cell, (dest, ASK), &[1], LayerPayload::Short).unwrap();
                }
                let started = clock::instant();
                while heard.load(Relaxed) < 4 * EACH {
                    poll(&cell);
                    assert!(started.elapsed() < Duration::from_secs(20));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(heard.load(Relaxed), 4 * EACH);
}

#[test]
fn a_handler_may_refuse_what_it_was_sent() {
    for shape in [Shape::of(2, 1), Shape::of_messages(2, 2, Security::Aead)] {
        let body = |context: Arc<RankContext>| {
            let ep = Endpoint::open(&context, TAG).unwrap();
            let done = std::rc::Rc::new(std::cell::Cell::new(0));
            if context.rank() == 1 {
                let end = done.clone();
                ep.set_handler(ASK, |token, words, payload| {
                    if words[0] == 100 {
                        token.reply(ANSWER, &[]).unwrap();
                    }
                    let odd = words[0] % 2 == 1 || payload.len() == 3;
                    odd.then(|| Box::new(HandlerFailure::Refused(Reason::Congestion)))
                })
                .unwrap();
                ep.set_handler(ANSWER, move |_, _, _| end.set(1)).unwrap();
                ep.poll_until(|| done.get() == 1).unwrap();
                return Vec::new();
            }
            let back = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let note = back.clone();
            ep.on_returned(move |m| {
                note.borrow_mut().push((m.reason, m.words.clone(), m.payload.clone()));
            })
            .unwrap();
            let answered = done.clone();
            ep.set_handler(ANSWER, move |_, _, _| answered.set(1)).unwrap();
            let name = clump_am::Name::new(1, 0, 1);
            let to = loop {
                // Until the other endpoint is there, messages to it are returned.
                let to = ep.map_ordered(&name, TAG).unwrap();
                ep.request(to, ASK, &[100]).unwrap();
                ep.poll_until(|| done.get() == 1 || !back.borrow().is_empty()).unwrap();
                if back.borrow_mut().drain(..).count() == 0 {
                    break to;
                }
                ep.unmap(to).unwrap();
            };
            for id in 0..8 {
                ep.request(to, ASK, &[id]).unwrap();
                ep.request_bulk(to, ASK, &[7; 3], &[id, 1, 2, 3, 4, 5, 6, 7]).unwrap();
            }
            ep.request(to, ANSWER, &[]).unwrap();
            ep.poll_until(|| back.borrow().len() >= 12).unwrap();
            ep.drain().unwrap();
            back.take()
        };
        let all = each_rank(&shape, body);
        let back: Vec<_> = all.into_iter().flatten().collect();
        assert_eq!(back.len(), 12, "{back:?}");
        assert!(back.iter().all(|(why, _, _)| *why == Reason::Congestion));
        let whole = |(_, words, bytes): &(Reason, Vec<u64>, Vec<u8>)| match words.len() {
            1 => words[0] % 2 == 1 && bytes.is_empty(),
            count => count == 8 && bytes == &[7; 3],
        };
        assert!(back.iter().all(whole), "{back:?}");
    }
}

type Answers = Arc<Mutex<Vec<(Vec<u64>, Option<u64>, Vec<u8>)>>>;

/// Replies with the same words and payload, until an end message.
fn answer(cell: &EndpointCell) {
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    let mut inside = cell.enter().unwrap();
    inside
        .set_handler(ASK, |token, words, payload| {
            let bytes = payload.to_vec();
            let parcel = match (payload.offset(), bytes.len()) {
                (Some(offset), _) => LayerPayload::Long(offset, &bytes),
                (None, 0) => LayerPayload::Short,
                _ => LayerPayload::Medium(&bytes),
            };
            token.answer(ANSWER, words, parcel)
        })
        .unwrap();
    inside.set_handler(Handler(9), move |_, _, _| end.store(true, Relaxed)).unwrap();
    drop(inside);
    while !ended.load(Relaxed) {
        poll(cell);
    }
}

/// Finds rank 1's endpoint; until it is there, messages to it are returned.
fn find(cell: &EndpointCell, answers: &Answers, back: &Mutex<Vec<Reason>>) -> Dest {
    loop {
        let to = cell.enter().unwrap().map(clump_am::Name::new(1, 0, 1), TAG).unwrap();
        cell.enter().unwrap().send(cell, (to, ASK), &[], LayerPayload::Short).unwrap();
        while answers.lock().unwrap().is_empty() && back.lock().unwrap().is_empty() {
            poll(cell);
        }
        if back.lock().unwrap().drain(..).count() == 0 {
            answers.lock().unwrap().clear();
            return to;
        }
        cell.enter().unwrap().unmap(to).unwrap();
    }
}

/// Runs a rank that sends requests, or one that replies.
fn echo(context: &Arc<RankContext>) {
    let (cell, back) = cell(context, Access::Tag(TAG));
    let cell = &*cell;
    cell.enter().unwrap().export_growing(1 << 20, 100).unwrap();
    let grown = cell.enter().unwrap().export_growing(0, 300_000).unwrap();
    assert_eq!(grown.len(), 300_000);
    assert!(cell.enter().unwrap().export_growing(0, 2 << 20).is_err());
    if context.rank() == 1 {
        return answer(cell);
    }
    let answers = Answers::default();
    let note = answers.clone();
    cell.enter()
        .unwrap()
        .set_handler(ANSWER, move |token, words, payload| {
            assert!(!token.may_reply());
            note.lock().unwrap().push((words.to_vec(), payload.offset(), payload.to_vec()));
        })
        .unwrap();
    let to = find(cell, &answers, &back);
    let long: Vec<u8> = (0..250_000_u32).map(|i| (i * 7) as u8).collect();
    for count in 0..=MAX_CARRIED {
        let words: Vec<u64> = (0..count as u64).map(|i| i << 33 | 5).collect();
        for parcel in
            [LayerPayload::Short, LayerPayload::Medium(&long[..999]), LayerPayload::Long(77, &long)]
        {
            if count % 2 == 0 {
                cell.enter().unwrap().send(cell, (to, ASK), &words, parcel).unwrap();
            } else {
                // One that does not wait: it begins to send, and polls complete that.
                let again = || cell.enter().unwrap().try_send((to, ASK), &words, parcel).unwrap();
                while again() == SendAttempt::Full {
                    poll(cell);
                }
            }
            let got = loop {
                poll(cell);
                if let Some(got) = answers.lock().unwrap().pop() {
                    break got;
                }
            };
            assert_eq!(got.0, words);
            match parcel {
                LayerPayload::Short => assert!(got.1.is_none() && got.2.is_empty()),
                LayerPayload::Medium(bytes) => assert!(got.1.is_none() && got.2 == bytes),
                LayerPayload::Long(offset, bytes) => {
                    assert!(got.1 == Some(offset) && got.2 == bytes);
                }
            }
        }
    }
    let many = [0; MAX_CARRIED + 1];
    let refused =
        cell.enter().unwrap().send(cell, (to, ASK), &many, LayerPayload::Short).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::TooManyWords(11)));
    cell.enter().unwrap().send(cell, (to, Handler(9)), &[], LayerPayload::Short).unwrap();
    assert!(back.lock().unwrap().is_empty());
}

#[test]
fn messages_carry_two_words_more_for_an_interface_on_top() {
    for lanes in [true, false] {
        let settings = Settings { lanes, ..Settings::default() };
        each_rank(&Shape::of(2, 1).with(settings), |context| echo(&context));
    }
    each_rank(&Shape::of_messages(2, 2, Security::Aead), |context| echo(&context));
}
