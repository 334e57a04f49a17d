//! A reply for which its requester has no handler: reported once, and later messages are handled.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_am::{Endpoint, ErrorKind, Handler, Name, RankContext, Settings, Tag};
use clump_test_bed::{Shape, each_rank};
use clump_wire::Security;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const TAG: Tag = Tag(0x0dd);
/// The handler that its word names receives the reply.
const ASK: Handler = Handler(1);
const ANSWER: Handler = Handler(2);
const END: Handler = Handler(3);

fn serve(context: &Arc<RankContext>) {
    let ep = Endpoint::open(context, TAG).unwrap();
    let ended = Rc::new(Cell::new(false));
    let end = ended.clone();
    ep.set_handler(ASK, |token, words, _| token.reply(Handler(words[0] as u8), words)).unwrap();
    ep.set_handler(END, move |_, _, _| end.set(true)).unwrap();
    ep.poll_until(|| ended.get()).unwrap();
}

fn ask(context: &Arc<RankContext>) {
    let ep = Endpoint::open(context, TAG).unwrap();
    let answers = Rc::new(Cell::new(0));
    let count = answers.clone();
    ep.set_handler(ANSWER, move |_, _, _| count.set(count.get() + 1)).unwrap();
    // Until the other rank is there, requests to it are returned.
    let early = Rc::new(Cell::new(false));
    let note = early.clone();
    ep.on_returned(move |_| note.set(true)).unwrap();
    let to = loop {
        let to = ep.map(&Name::new(1, 0, 1), TAG).unwrap();
        ep.request(to, ASK, &[u64::from(ANSWER.0)]).unwrap();
        ep.poll_until(|| early.get() || answers.get() > 0).unwrap();
        if !early.take() {
            break to;
        }
        ep.unmap(to).unwrap();
    };
    for round in 1..=3 {
        let mut told = ep.request(to, ASK, &[200]);
        while told.is_ok() {
            told = ep.poll().map(drop);
        }
        let told = told.unwrap_err();
        assert!(matches!(told.kind(), ErrorKind::Unclaimed { .. }), "{told}");
        ep.request(to, ASK, &[u64::from(ANSWER.0)]).unwrap();
        ep.poll_until(|| answers.get() > round).unwrap();
    }
    ep.request(to, END, &[]).unwrap();
    ep.drain().unwrap();
}

#[test]
fn a_reply_without_a_handler_is_told_once() {
    let body = |context: Arc<RankContext>| match context.rank() {
        0 => ask(&context),
        _ => serve(&context),
    };
    for lanes in [true, false] {
        each_rank(&Shape::of(2, 1).with(Settings { lanes, ..Settings::default() }), body);
    }
    each_rank(&Shape::of_messages(2, 2, Security::Aead), body);
}
