//! Endpoints in berths: whose they are, who may send, messages as interfaces on top send them.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

mod cluster;

use clump_am::{
    Access, Attempt, Berth, Dest, Endpoint, ErrorKind, Failure, Handler, Inside, MOST_CARRIED,
    Parcel, RankContext, Reason, Settings, Tag,
};
use clump_os::clock;
use clump_os::sync::Ordering::Relaxed;
use clump_os::sync::{AtomicBool, AtomicU64};
use clump_wire::Security;
use cluster::net::Between;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TAG: Tag = Tag(0xbe47);
const ASK: Handler = Handler(1);
const ANSWER: Handler = Handler(2);

/// A berth with an open endpoint, and what came back to it.
fn berth(context: &Arc<RankContext>, access: Access) -> (Arc<Berth>, Arc<Mutex<Vec<Reason>>>) {
    let berth = Arc::new(Berth::new());
    berth.open(context).unwrap();
    let back = Arc::new(Mutex::new(Vec::new()));
    let note = back.clone();
    let mut inside = berth.enter().unwrap();
    inside.on_returned(move |m| note.lock().unwrap().push(m.reason));
    inside.set_access(access).unwrap();
    drop(inside);
    (berth, back)
}

fn alone() -> Arc<RankContext> {
    cluster::context(&cluster::node(1, false), 0, Settings::default())
}

/// Maps `to` at `from`.
fn map(from: &Berth, to: &Berth, tag: Tag) -> Dest {
    let name = to.enter().unwrap().name();
    from.enter().unwrap().map(name, tag).unwrap()
}

fn poll(berth: &Berth) -> usize {
    berth.enter().unwrap().poll().unwrap()
}

/// What `enter` says instead of letting this thread in.
fn refusal(entered: clump_am::Result<Inside<'_>>) -> String {
    entered.map(drop).unwrap_err().to_string()
}

#[test]
fn tags_let_in_one_everybody_or_nobody() {
    let context = alone();
    let (from, back) = berth(&context, Access::Nobody);
    let (to, _) = berth(&context, Access::Nobody);
    let heard = Arc::new(AtomicU64::new(0));
    let count = heard.clone();
    to.enter().unwrap().set_handler(ASK, move |_, _, _| {
        count.fetch_add(1, Relaxed);
    });
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
        from.enter().unwrap().send(&*from, (dest, ASK), &[], Parcel::Short).unwrap();
        poll(&to);
        poll(&from);
        assert_eq!(heard.load(Relaxed) - before, u64::from(arrives), "{access:?} {tag:?}");
        let refused = back.lock().unwrap().get(missed..).unwrap().to_vec();
        assert_eq!(refused.is_empty(), arrives, "{access:?} {tag:?}");
        assert!(refused.iter().all(|why| *why == Reason::BadTag));
    }
}

#[test]
fn a_berth_is_its_threads_until_that_lets_go() {
    let context = alone();
    let (berth, _) = berth(&context, Access::Nobody);
    berth.take().unwrap();
    assert!(berth.is_mine() && !berth.is_inside());
    let other = berth.clone();
    let said = std::thread::spawn(move || (refusal(other.enter()), other.take().is_err()));
    let (said, refused) = said.join().unwrap();
    assert!(said.contains("another's") && refused, "{said}");
    assert_eq!(poll(&berth), 0);
    berth.let_go().unwrap();
    let other = berth.clone();
    std::thread::spawn(move || {
        other.take().unwrap();
        assert_eq!(poll(&other), 0);
        other.let_go().unwrap();
    })
    .join()
    .unwrap();
    berth.take().unwrap();
    berth.close().unwrap();
    assert!(matches!(berth.close().unwrap_err().kind(), ErrorKind::NoEndpoint));
    assert!(refusal(berth.enter()).contains("closed"));
    berth.open(&context).unwrap();
    assert!(matches!(berth.open(&context).unwrap_err().kind(), ErrorKind::Occupied));
}

#[test]
fn what_lay_there_before_a_sleep_that_another_thread_prepared_is_found() {
    let context = alone();
    let ((from, _), (to, _)) = (berth(&context, Access::Nobody), berth(&context, Access::Everyone));
    let heard = Arc::new(AtomicU64::new(0));
    let count = heard.clone();
    to.enter().unwrap().set_handler(ASK, move |_, _, _| {
        count.fetch_add(1, Relaxed);
    });
    let dest = map(&from, &to, Tag(0));
    let send = || from.enter().unwrap().send(&*from, (dest, ASK), &[], Parcel::Short).unwrap();
    // The first rings, the others do not: the lane is hot then.
    for sent in 1..=3 {
        send();
        if sent > 1 {
            // Whoever wants to sleep asks it to ring from now on, and never comes to look again, because the
            // berth has become another thread's meanwhile.
            clump_am::Pollable::cool(&*to);
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
        let (berth, _) = berth(&context, Access::Tag(TAG));
        if mine {
            berth.take().unwrap();
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (note, same) = (seen.clone(), Arc::downgrade(&berth));
        berth.enter().unwrap().set_handler(ASK, move |_, _, _| {
            let same = same.upgrade().unwrap();
            assert!(same.is_inside());
            let kinds = [same.enter().map(drop), same.try_enter().map(drop), same.close()];
            note.lock().unwrap().extend(kinds.map(|kind| kind.unwrap_err().to_string()));
        });
        let dest = map(&berth, &berth, TAG);
        berth.enter().unwrap().send(&*berth, (dest, ASK), &[], Parcel::Short).unwrap();
        poll(&berth);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|said| said.contains("inside one of its handlers")), "{seen:?}");
    }
}

#[test]
fn threads_share_a_berth_that_is_nobodys() {
    const EACH: u64 = 2000;
    let context = alone();
    let (berth, _) = berth(&context, Access::Tag(TAG));
    let heard = Arc::new(AtomicU64::new(0));
    let (count, busy) = (heard.clone(), AtomicBool::new(false));
    berth.enter().unwrap().set_handler(ASK, move |_, words, _| {
        assert!(!busy.swap(true, Relaxed), "two handlers of one endpoint at once");
        count.fetch_add(words[0], Relaxed);
        busy.store(false, Relaxed);
    });
    let dest = map(&berth, &berth, TAG);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (berth, heard) = (berth.clone(), heard.clone());
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    let inside = berth.enter().unwrap();
                    inside.send(&*berth, (dest, ASK), &[1], Parcel::Short).unwrap();
                }
                let started = clock::instant();
                while heard.load(Relaxed) < 4 * EACH {
                    poll(&berth);
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
    for between in [None, Some(Between::nodes(2, Security::Aead))] {
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
                    odd.then(|| Box::new(Failure::Refused(Reason::Congestion)))
                });
                ep.set_handler(ANSWER, move |_, _, _| end.set(1));
                ep.poll_until(|| done.get() == 1).unwrap();
                return Vec::new();
            }
            let back = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let note = back.clone();
            ep.on_returned(move |m| {
                note.borrow_mut().push((m.reason, m.words.clone(), m.payload.clone()));
            });
            let answered = done.clone();
            ep.set_handler(ANSWER, move |_, _, _| answered.set(1));
            let name = clump_am::Name::new(1, 0, 1);
            let to = loop {
                // Until the other endpoint is there, what is sent comes back.
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
        let all = match between {
            None => cluster::run(2, Settings::default(), body),
            Some(between) => cluster::net::run(2, Settings::default(), &between, body),
        };
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

/// Answers with the same words and payload, until told to end.
fn answer(berth: &Berth) {
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    let mut inside = berth.enter().unwrap();
    inside.set_handler(ASK, |token, words, payload| {
        let bytes = payload.to_vec();
        let parcel = match (payload.offset(), bytes.len()) {
            (Some(offset), _) => Parcel::Long(offset, &bytes),
            (None, 0) => Parcel::Short,
            _ => Parcel::Medium(&bytes),
        };
        token.answer(ANSWER, words, parcel)
    });
    inside.set_handler(Handler(9), move |_, _, _| end.store(true, Relaxed));
    drop(inside);
    while !ended.load(Relaxed) {
        poll(berth);
    }
}

/// Where rank 1's endpoint is, once it is there: until then, what is sent comes back.
fn find(berth: &Berth, answers: &Answers, back: &Mutex<Vec<Reason>>) -> Dest {
    loop {
        let to = berth.enter().unwrap().map(clump_am::Name::new(1, 0, 1), TAG).unwrap();
        berth.enter().unwrap().send(berth, (to, ASK), &[], Parcel::Short).unwrap();
        while answers.lock().unwrap().is_empty() && back.lock().unwrap().is_empty() {
            poll(berth);
        }
        if back.lock().unwrap().drain(..).count() == 0 {
            answers.lock().unwrap().clear();
            return to;
        }
        berth.enter().unwrap().unmap(to).unwrap();
    }
}

/// A rank that asks, and one that answers.
fn echo(context: &Arc<RankContext>) {
    let (berth, back) = berth(context, Access::Tag(TAG));
    let berth = &*berth;
    berth.enter().unwrap().export_growing(1 << 20, 100).unwrap();
    let grown = berth.enter().unwrap().export_growing(0, 300_000).unwrap();
    assert_eq!(grown.len(), 300_000);
    assert!(berth.enter().unwrap().export_growing(0, 2 << 20).is_err());
    if context.rank() == 1 {
        return answer(berth);
    }
    let answers = Answers::default();
    let note = answers.clone();
    berth.enter().unwrap().set_handler(ANSWER, move |token, words, payload| {
        assert!(!token.may_reply());
        note.lock().unwrap().push((words.to_vec(), payload.offset(), payload.to_vec()));
    });
    let to = find(berth, &answers, &back);
    let long: Vec<u8> = (0..250_000_u32).map(|i| (i * 7) as u8).collect();
    for count in 0..=MOST_CARRIED {
        let words: Vec<u64> = (0..count as u64).map(|i| i << 33 | 5).collect();
        for parcel in [Parcel::Short, Parcel::Medium(&long[..999]), Parcel::Long(77, &long)] {
            if count % 2 == 0 {
                berth.enter().unwrap().send(berth, (to, ASK), &words, parcel).unwrap();
            } else {
                // One that does not wait: what it began it ends, by polls.
                let again = || berth.enter().unwrap().try_send((to, ASK), &words, parcel).unwrap();
                while again() == Attempt::Full {
                    poll(berth);
                }
            }
            let got = loop {
                poll(berth);
                if let Some(got) = answers.lock().unwrap().pop() {
                    break got;
                }
            };
            assert_eq!(got.0, words);
            match parcel {
                Parcel::Short => assert!(got.1.is_none() && got.2.is_empty()),
                Parcel::Medium(bytes) => assert!(got.1.is_none() && got.2 == bytes),
                Parcel::Long(offset, bytes) => assert!(got.1 == Some(offset) && got.2 == bytes),
            }
        }
    }
    let many = [0; MOST_CARRIED + 1];
    let refused = berth.enter().unwrap().send(berth, (to, ASK), &many, Parcel::Short).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::TooManyWords(11)));
    berth.enter().unwrap().send(berth, (to, Handler(9)), &[], Parcel::Short).unwrap();
    assert!(back.lock().unwrap().is_empty());
}

#[test]
fn messages_carry_two_words_more_for_an_interface_on_top() {
    for lanes in [true, false] {
        cluster::run(2, Settings { lanes, ..Settings::default() }, |context| echo(&context));
    }
    let between = Between::nodes(2, Security::Aead);
    cluster::net::run(2, Settings::default(), &between, |context| echo(&context));
}
