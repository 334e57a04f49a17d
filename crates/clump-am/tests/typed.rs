//! Handlers whose words have types: they get what was sent, and never a message of another form.

use clump_am::{Endpoint, Handler, Name, RankContext, Reason, Settings, Tag, Token};
use clump_test_bed::{Shape, each_rank};
use clump_wire::Security;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const TAG: Tag = Tag(5);
const MANY: Handler = Handler(1);
const TOTAL: Handler = Handler(2);
const BYTES: Handler = Handler(3);
const END: Handler = Handler(4);

/// Serves typed requests to itself; sends every one of them in every form.
fn ask(context: &Arc<RankContext>) {
    let ep = Endpoint::open(context, TAG).unwrap();
    let (total, bytes) = (Rc::new(Cell::new(0.0)), Rc::new(RefCell::new(Vec::new())));
    ep.handler(MANY, |token: Token<'_>, (a, b, c, yes): (u8, i32, f64, bool)| {
        assert!(yes);
        token.reply(TOTAL, f64::from(a) + f64::from(b) + c)
    })
    .unwrap();
    let sum = total.clone();
    ep.handler(TOTAL, move |_, value: f64| sum.set(value)).unwrap();
    let log = bytes.clone();
    ep.handler_bulk(BYTES, move |_, [first, second]: [u64; 2], payload| {
        log.borrow_mut().push((first, second, payload.to_vec()));
    })
    .unwrap();
    let back = Rc::new(RefCell::new(Vec::new()));
    let returned = back.clone();
    ep.on_returned(move |m| returned.borrow_mut().push((m.handler, m.reason, m.words.len())))
        .unwrap();
    let to = ep.map(&ep.name(), TAG).unwrap();

    ep.request(to, MANY, (1_u8, -2_i32, 0.5_f64, true)).unwrap();
    ep.poll_until(|| total.get() != 0.0).unwrap();
    assert_eq!(total.get(), -0.5);
    ep.request(to, BYTES, &[1, 2]).unwrap();
    ep.request_bulk(to, BYTES, b"payload", (3_u32, 4_u32)).unwrap();
    ep.drain().unwrap();
    assert_eq!(*bytes.borrow(), [(1, 2, Vec::new()), (3, 4, b"payload".to_vec())]);

    ep.request(to, MANY, ()).unwrap();
    ep.request(to, MANY, &[0; 5]).unwrap();
    ep.request(to, MANY, &vec![0; 8]).unwrap();
    ep.request_bulk(to, MANY, &[1], (1_u8, 2_i32, 0.5_f64, true)).unwrap();
    ep.request(to, BYTES, 1).unwrap();
    ep.poll_until(|| back.borrow().len() == 5).unwrap();
    let bad = |handler, words| (handler, Reason::BadArguments, words);
    let expected = [bad(MANY, 0), bad(MANY, 5), bad(MANY, 8), bad(MANY, 4), bad(BYTES, 1)];
    assert_eq!(*back.borrow(), expected);
    assert_eq!((total.get(), bytes.borrow().len()), (-0.5, 2), "no handler ran for them");
}

#[test]
fn typed_handlers_get_what_was_sent_and_return_all_else() {
    for lanes in [true, false] {
        let settings = Settings { lanes, ..Settings::default() };
        each_rank(&Shape::of(1, 1).with(settings), |context| ask(&context));
    }
}

/// Takes messages of one word until the last, which is marked.
fn serve(context: &Arc<RankContext>) -> u64 {
    let ep = Endpoint::open(context, TAG).unwrap();
    let (sum, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (add, end) = (sum.clone(), ended.clone());
    ep.handler(MANY, move |_, one: u64| add.set(add.get() + one)).unwrap();
    ep.handler(END, move |_, ()| end.set(true)).unwrap();
    ep.poll_until(|| ended.get()).unwrap();
    sum.get()
}

/// Sends messages of one word and of others to rank 1; returns the reasons of those returned.
fn send(context: &Arc<RankContext>) -> Vec<Reason> {
    let ep = Endpoint::open(context, TAG).unwrap();
    let back = Rc::new(RefCell::new(Vec::new()));
    let returned = back.clone();
    ep.on_returned(move |m| returned.borrow_mut().push(m.reason)).unwrap();
    // Until the other rank is there, requests to it are returned.
    let to = loop {
        let to = ep.map(&Name::new(1, 0, 1), TAG).unwrap();
        ep.request(to, MANY, 0).unwrap();
        ep.drain().unwrap();
        if std::mem::take(&mut *back.borrow_mut()).is_empty() {
            break to;
        }
        ep.unmap(to).unwrap();
    };
    ep.request(to, MANY, 5).unwrap();
    ep.request(to, MANY, (5, 6)).unwrap();
    ep.request_bulk(to, MANY, &[1; 300], 5).unwrap();
    ep.request(to, MANY, ()).unwrap();
    ep.poll_until(|| back.borrow().len() == 3).unwrap();
    ep.request(to, END, ()).unwrap();
    ep.drain().unwrap();
    back.take()
}

#[test]
fn a_message_of_another_form_is_returned_between_nodes() {
    let body = |context: Arc<RankContext>| match context.rank() {
        0 => assert_eq!(send(&context), [Reason::BadArguments; 3]),
        _ => assert_eq!(serve(&context), 5),
    };
    for security in [Security::Crc, Security::Aead] {
        each_rank(&Shape::of_messages(2, 2, security), body);
    }
}
