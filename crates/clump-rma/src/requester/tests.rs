//! Tests of the requester's state once a node is lost.

use super::{Completion, Requester};
use crate::atomic::{AtomicOp, Width};
use crate::error::Refusal;
use crate::protocol::{ask, atomic_handler, tell};

const FAR: u32 = 1;

fn silent(books: &mut Requester) -> [u64; 3] {
    let words = [7, 8, 9];
    assert!(books.word(FAR, atomic_handler(AtomicOp::Add, Width::Word, false), &words).is_some());
    words
}

fn answered(books: &mut Requester) -> u64 {
    let cookie = books.begin(FAR);
    let words = [7, 8, cookie];
    assert!(books.word(FAR, atomic_handler(AtomicOp::Load, Width::Word, true), &words).is_some());
    cookie
}

#[test]
fn a_loss_is_told_once_and_nothing_is_asked_of_the_node_after_it() {
    let mut books = Requester::new(2);
    silent(&mut books);
    let (quiet, _) = books.quiet(FAR).unwrap();
    books.lose(FAR);
    assert_eq!(books.take(quiet), Some(Completion::Refused(Refusal::NodeLost, 0, 0)));
    assert!(books.loss(FAR) && !books.loss(FAR) && books.failure(FAR).is_none());
    assert!(books.quiet(FAR).is_none() && books.word(FAR, ask::PUT, &[7, 8, 0]).is_none());
    // A request returned after the loss was reported with the rest.
    books.on_returned(FAR, atomic_handler(AtomicOp::Add, Width::Word, false), &[7, 8, 9]);
    books.lose(FAR);
    assert!(!books.loss(FAR) && books.failure(FAR).is_none() && books.quiet(FAR).is_none());
    assert!(!books.loss(0));
}

#[test]
fn what_was_answered_or_is_told_otherwise_is_no_loss() {
    let mut books = Requester::new(2);
    silent(&mut books);
    let (quiet, _) = books.quiet(FAR).unwrap();
    books.on_answer(tell::QUIET, &[quiet, 1, 0, 0, 0, 0], |_| 0);
    assert_eq!(books.take(quiet), Some(Completion::Done(0)));
    let got = answered(&mut books);
    books.on_answer(tell::VALUE, &[got, 5], |_| 0);
    assert_eq!(books.take(got), Some(Completion::Done(5)));
    let waits = answered(&mut books);
    books.lose(FAR);
    assert!(!books.loss(FAR));
    assert_eq!(books.take(waits), Some(Completion::Refused(Refusal::NodeLost, 0, 0)));
}

#[test]
fn an_operation_that_nobody_waited_for_is_lost_with_the_rest() {
    let mut books = Requester::new(2);
    let dropped = answered(&mut books);
    assert_eq!(books.take(dropped), Some(Completion::Waiting));
    books.lose(FAR);
    assert!(books.loss(FAR));
}

#[test]
fn a_question_that_comes_back_ends_what_it_asked_about() {
    let mut books = Requester::new(2);
    silent(&mut books);
    let (quiet, encoded) = books.quiet(FAR).unwrap();
    books.on_returned(FAR, encoded.handler, encoded.words());
    assert!(matches!(books.take(quiet), Some(Completion::Refused(Refusal::NodeLost, ..))));
    assert!(books.loss(FAR) && books.quiet(FAR).is_none());
    // The loss has been reported already.
    books.lose(FAR);
    assert!(!books.loss(FAR));
}

#[test]
fn what_comes_back_is_named_and_not_told_again_as_a_loss() {
    let mut books = Requester::new(2);
    let words = silent(&mut books);
    silent(&mut books);
    books.on_returned(FAR, atomic_handler(AtomicOp::Add, Width::Word, false), &words);
    books.lose(FAR);
    assert_eq!(books.failure(FAR), Some((1, Refusal::NodeLost, 7, 8)));
    assert!(!books.loss(FAR));
}
