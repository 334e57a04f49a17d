//! Mistakes of programs, and failures of their handlers: each is reported once, by the call that it
//! belongs to.

use clump_am::{
    Endpoint, ErrorKind, Handler, RankContext, Region, SendAttempt, Settings, Tag, Token,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

const TAG: Tag = Tag(3);
const FAIL: Handler = Handler(1);
const COUNT: Handler = Handler(2);
const ASK: Handler = Handler(3);
const ANSWER: Handler = Handler(4);

fn alone(settings: Settings) -> Arc<RankContext> {
    clump_test_bed::context(&clump_test_bed::node(1, false), 0, settings)
}

#[test]
fn a_send_succeeds_although_another_message_fails() {
    type Send = fn(&Endpoint, clump_am::Dest) -> clump_am::Result<()>;
    let sends: [Send; 4] = [
        |ep, to| ep.request(to, COUNT, 1),
        |ep, to| ep.request_copied(to, COUNT, &[1]),
        |ep, to| ep.request_bulk(to, COUNT, &[7; 100], 1),
        |ep, to| ep.request_long(to, COUNT, 8, &[7; 100], 1),
    ];
    for lanes in [true, false] {
        let context = alone(Settings { lanes, ..Settings::default() });
        let (here, there) =
            (Endpoint::open(&context, TAG).unwrap(), Endpoint::open(&context, TAG).unwrap());
        there.export_segment(4096).unwrap();
        here.set_handler(FAIL, |_, _, _| Err::<(), _>("as it should")).unwrap();
        let count = Rc::new(Cell::new(0));
        let counts = count.clone();
        there.handler_bulk(COUNT, move |_, one: u32, _| counts.set(counts.get() + one)).unwrap();
        let (to, back) =
            (here.map(&there.name(), TAG).unwrap(), there.map(&here.name(), TAG).unwrap());
        for (at, send) in (1..).zip(sends) {
            for _ in 0..2 {
                assert_eq!(there.try_request(back, FAIL, ()).unwrap(), SendAttempt::Sent);
            }
            send(&here, to).unwrap();
            there.poll().unwrap();
            assert_eq!(count.get(), at, "the message went out once");
            for _ in 0..2 {
                let failed = here.poll().unwrap_err();
                assert!(matches!(failed.kind(), ErrorKind::HandlerFailed { .. }), "{failed}");
            }
            here.poll().unwrap();
        }
    }
}

#[test]
fn a_refused_request_without_on_returned_fails_the_next_poll() {
    let context = alone(Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    let to = ep.map(&ep.name(), Tag(TAG.0 + 1)).unwrap();
    ep.request(to, COUNT, 1).unwrap();
    let told = ep.poll().unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::Unclaimed { .. }), "{told}");
    ep.poll().unwrap();
}

#[test]
fn a_handler_cannot_set_handlers_of_its_endpoint() {
    let context = alone(Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    let told = Rc::new(RefCell::new(Vec::new()));
    let (inner, log) = (ep.clone(), told.clone());
    ep.handler(COUNT, move |_, ()| {
        let set = inner.set_handler(FAIL, |_, _, _| ());
        let typed = inner.handler(FAIL, |_, ()| ());
        log.borrow_mut().extend([set, typed, inner.on_returned(|_| ())]);
    })
    .unwrap();
    let to = ep.map(&ep.name(), TAG).unwrap();
    ep.request(to, COUNT, ()).unwrap();
    ep.drain().unwrap();
    assert_eq!(told.borrow().len(), 3);
    for told in told.borrow_mut().drain(..) {
        assert!(matches!(told.unwrap_err().kind(), ErrorKind::InHandler));
    }
}

#[test]
fn handler_zero_is_reserved() {
    let context = alone(Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    let shared = Endpoint::open_shared(&context, TAG).unwrap();
    for set in [
        ep.set_handler(Handler(0), |_, _, _| ()),
        ep.handler(Handler(0), |_, ()| ()),
        ep.handler_bulk(Handler(0), |_, (), _| ()),
        shared.set_handler(Handler(0), |_, _, _| ()),
    ] {
        assert!(matches!(set.unwrap_err().kind(), ErrorKind::HandlerReserved));
    }
}

#[test]
fn a_shared_endpoint_used_by_its_own_handler_says_so() {
    let context = alone(Settings::default());
    let ep = Endpoint::open_shared(&context, TAG).unwrap();
    let to = ep.map(&ep.name(), TAG).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (inner, log) = (ep.clone(), told.clone());
    ep.handler(COUNT, move |_, ()| {
        let tried = [
            inner.request(to, COUNT, ()),
            inner.poll().map(drop),
            inner.poll_until(|| false),
            inner.wait().map(drop),
            inner.drain(),
            inner.handler(FAIL, |_, ()| ()),
        ];
        log.lock().unwrap().extend(tried);
    })
    .unwrap();
    ep.request(to, COUNT, ()).unwrap();
    ep.drain().unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!(told.len(), 6);
    for told in told {
        assert!(matches!(told.unwrap_err().kind(), ErrorKind::InHandler));
    }
}

#[test]
fn an_endpoint_of_one_thread_used_by_its_own_handler_says_so() {
    let context = alone(Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    let to = ep.map(&ep.name(), TAG).unwrap();
    let told = Rc::new(RefCell::new(Vec::new()));
    let (inner, log) = (ep.clone(), told.clone());
    ep.handler(COUNT, move |_, ()| {
        let tried = [
            inner.request(to, COUNT, ()),
            inner.poll().map(drop),
            inner.poll_until(|| false),
            inner.wait().map(drop),
            inner.drain(),
        ];
        log.borrow_mut().extend(tried);
    })
    .unwrap();
    ep.request(to, COUNT, ()).unwrap();
    ep.drain().unwrap();
    let told = told.take();
    assert_eq!(told.len(), 5);
    for told in told {
        assert!(matches!(told.unwrap_err().kind(), ErrorKind::InHandler));
    }
}

#[test]
fn a_reply_is_not_replied_to() {
    let context = alone(Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    ep.export_segment(4096).unwrap();
    let told = Rc::new(RefCell::new(Vec::new()));
    let log = told.clone();
    ep.handler(ASK, |token: Token<'_>, way: u64| token.reply(ANSWER, way)).unwrap();
    ep.handler(ANSWER, move |token: Token<'_>, way: u64| {
        assert!(!token.may_reply());
        log.borrow_mut().push(match way {
            0 => token.reply(ASK, ()),
            1 => token.reply_bulk(ASK, &[1], ()),
            _ => token.reply_long(ASK, 0, &[1], ()),
        });
    })
    .unwrap();
    let to = ep.map(&ep.name(), TAG).unwrap();
    for way in 0..3_u64 {
        ep.request(to, ASK, way).unwrap();
    }
    ep.poll_until(|| told.borrow().len() == 3).unwrap();
    for told in told.borrow_mut().drain(..) {
        assert!(matches!(told.unwrap_err().kind(), ErrorKind::NotRequested));
    }
}

#[test]
fn a_region_does_not_grow_once_another_process_overwrote_its_entry() {
    let context = alone(Settings::default());
    let region = Region::register(&context, 4096, 8192).unwrap();
    region.grow(4097).unwrap();
    // As a process with the descriptor could.
    context.block().exports().close(region.name().index());
    let error = region.grow(8192).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Overwritten), "{error}");
}
