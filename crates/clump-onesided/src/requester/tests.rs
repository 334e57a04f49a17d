//! Tests of the requester's state once a node is lost.

use super::{Completion, Requester};
use crate::atomic::{AtomicOp, Width};
use crate::protocol::{ask, atomic_handler, tell};
use crate::refusal::Refusal;
use proptest::prelude::*;

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

#[test]
fn no_request_waits_for_one_that_came_back() {
    let mut books = Requester::new(2);
    let words = silent(&mut books);
    silent(&mut books);
    books.fence();
    let returned = atomic_handler(AtomicOp::Add, Width::Word, false);
    books.on_returned(FAR, returned, &words);
    let behind = books.word(FAR, returned, &words).unwrap();
    assert_eq!(behind.words(), [7, 8, 9, 1], "the node executes one before it");
    // A question that comes back ends what is in flight, and nothing that is sent afterwards.
    let (_, quiet) = books.quiet(FAR).unwrap();
    books.on_returned(FAR, quiet.handler, quiet.words());
    books.on_returned(FAR, returned, &words);
    silent(&mut books);
    assert!(books.quiet(FAR).is_some());
}

/// Steps of a requester and of the nodes that answer it.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin { node: u32, bytes: usize },
    Lock { node: u32 },
    Silent { node: u32, sent: bool },
    Quiet { node: u32 },
    Fence,
    Answer { handler: u8, which: usize, words: [u64; 3], copied: usize },
    Return { node: u32, handler: u8, which: usize },
    Take { which: usize },
    Release { which: usize, node: u32 },
    Lose { node: u32 },
    Report { node: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let (node, which) = (|| 0..2_u32, || 0..40_usize);
    let handlers =
        prop_oneof![Just(ask::QUIET), Just(ask::CANCEL), Just(ask::PUT), Just(ask::LOCK)];
    let answer = (1..9_u8, which(), [0..12_u64, 0..4_u64, 0..4_u64], 0..9_usize);
    prop_oneof![
        4 => (node(), 0..9_usize).prop_map(|(node, bytes)| Step::Begin { node, bytes }),
        2 => node().prop_map(|node| Step::Lock { node }),
        3 => (node(), any::<bool>()).prop_map(|(node, sent)| Step::Silent { node, sent }),
        2 => node().prop_map(|node| Step::Quiet { node }),
        1 => Just(Step::Fence),
        8 => answer.prop_map(|(handler, which, words, copied)| {
            Step::Answer { handler, which, words, copied }
        }),
        2 => (node(), handlers, which())
            .prop_map(|(node, handler, which)| Step::Return { node, handler, which }),
        4 => which().prop_map(|which| Step::Take { which }),
        2 => (which(), node()).prop_map(|(which, node)| Step::Release { which, node }),
        1 => node().prop_map(|node| Step::Lose { node }),
        2 => node().prop_map(|node| Step::Report { node }),
    ]
}

/// Takes a step; `cookies` are those of all operations so far.
fn walk(books: &mut Requester, cookies: &mut Vec<u64>, step: Step) {
    let known = cookies.clone();
    let at = |which: usize| known.get(which % known.len().max(1)).copied().unwrap_or(77);
    let mut begin = |books: &mut Requester, (node, cookie): (u32, u64), handler, words: &[u64]| {
        cookies.push(cookie);
        if books.word(node, handler, words).is_none() {
            assert_eq!(books.take(cookie), Some(Completion::Waiting));
        }
    };
    match step {
        Step::Begin { node, bytes } => {
            let cookie = books.begin_bytes(node, bytes);
            begin(books, (node, cookie), ask::GET, &[7, 8, cookie, bytes as u64]);
        }
        Step::Lock { node } => {
            let cookie = books.begin(node);
            begin(books, (node, cookie), ask::LOCK, &[7, 8, cookie, 2]);
        }
        Step::Silent { node, sent } => {
            if books.word(node, ask::SET, &[7, 8, 0, 0, 1]).is_some() && !sent {
                books.discount(node);
            }
        }
        Step::Quiet { node } => {
            if let Some((cookie, _)) = books.quiet(node) {
                cookies.push(cookie);
            }
        }
        Step::Fence => books.fence(),
        Step::Answer { handler, which, words: [a, b, c], copied } => {
            books.on_answer(handler, &[at(which), a, b, c], |to| copied.min(to.len()));
            books.on_answer(handler, &[at(which), a, b, 1, c, 8], |to| copied.min(to.len()));
        }
        Step::Return { node, handler, which } => {
            let place = usize::from(!matches!(handler, ask::QUIET | ask::CANCEL)) * 2;
            let mut words = [0; 3];
            words[place] = at(which);
            books.on_returned(node, handler, &words);
        }
        Step::Take { which } => drop(books.take_bytes(at(which))),
        Step::Release { which, node } => {
            let cookie = at(which);
            if books.completion(cookie).is_none() {
                books.take_successor(cookie, node, 1);
            }
        }
        Step::Lose { node } => books.lose(node),
        Step::Report { node } => {
            let (failure, lost) = (books.failure(node), books.loss(node));
            assert!(failure.is_none_or(|(count, ..)| count > 0));
            assert!(books.failure(node).is_none() && !books.loss(node), "reported once: {lost}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn entries_and_counts_match_whatever_nodes_answer(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let (mut books, mut cookies) = (Requester::new(2), Vec::new());
        for step in steps {
            walk(&mut books, &mut cookies, step);
            books.check_invariants();
        }
    }
}
