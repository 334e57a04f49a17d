//! Drivers that take no more: cards and socket buffers that are full. What they do not take was not
//! sent, so it is not lost.

use super::pair::{Card, MS, Pair, SEC, US};
use clump_proto::{Backlog, Channel, Config, Content};

/// 25 Gb/s, in bytes per millisecond.
const RATE: u64 = 3_125_000;

#[test]
fn a_card_that_is_full_costs_neither_losses_nor_windows() {
    let mut pair = Pair::new(&Config::default(), 1);
    pair.links.iter_mut().for_each(|link| link.delay = 50 * US);
    // Less than a window: each round trip meets a full card.
    pair.ends[0].card = Some(Card::new(32 << 10, RATE));
    pair.offer(0, 20_000);
    let begin = pair.now;
    assert!(pair.run(SEC, |pair| pair.ends[0].acked == 20_000), "all of it arrives");
    let stats = pair.ends[0].channel.stats();
    assert!(pair.ends[0].card.as_ref().unwrap().refusals > 100, "the card was full");
    assert_eq!((stats.losses, stats.loss_cuts, stats.retransmits), (0, 0, 0), "{stats:?}");
    let rate = 20_000 * 1400 * MS / (pair.now - begin);
    assert!(rate > RATE / 2, "{rate} bytes/ms through a card of {RATE}");
}

#[test]
fn a_card_that_takes_nothing_is_tried_rarely_and_no_window_shrinks() {
    let mut pair = Pair::new(&Config::default(), 2);
    pair.offer(0, 200);
    assert!(pair.run(SEC, |pair| pair.ends[0].acked == 200));
    let before = pair.ends[0].channel.stats();
    pair.ends[0].card = Some(Card::new(1 << 20, 0));
    pair.offer(0, 10);
    pair.pass(40 * MS);
    let end = &pair.ends[0];
    let tries = end.card.as_ref().unwrap().refusals;
    assert!((20..50).contains(&tries), "{tries} in 40 ms");
    let unanswered = end.channel.unanswered_for(pair.now);
    assert!(unanswered > Some(30 * MS), "it shows: {unanswered:?}");
    let stats = end.channel.stats();
    assert_eq!((stats.losses, stats.timeouts), (before.losses, before.timeouts), "nothing is lost");
    assert_eq!(stats.window, before.window);
    pair.ends[0].card.as_mut().unwrap().rate = RATE;
    assert!(pair.run(10 * MS, |pair| pair.ends[0].acked == 210), "once it takes some again");
    assert_eq!(pair.ends[0].channel.stats().retransmits, before.retransmits);
    assert_eq!(pair.ends[0].channel.unanswered_for(pair.now), None);
}

#[test]
fn a_unit_that_no_driver_ever_takes_counts_as_lost_in_the_end() {
    let mut pair = Pair::new(&Config::default(), 4);
    pair.ends[0].card = Some(Card::new(1 << 20, 0));
    pair.offer(0, 3);
    pair.pass(SEC);
    let stats = pair.ends[0].channel.stats();
    assert!(stats.timeouts > 0, "as on a path that swallows it: {stats:?}");
    pair.ends[0].card.as_mut().unwrap().rate = RATE;
    assert!(pair.run(10 * SEC, |pair| pair.ends[0].acked == 3), "and it arrives: {pair:?}");
}

#[test]
fn what_was_refused_goes_first_in_its_order_and_only_later() {
    let now = SEC;
    let mut channel = Channel::new(&Config::default(), now);
    let backlog = Backlog { data: Some(1400), ..Backlog::default() };
    for unit in 0..6 {
        assert_eq!(channel.next(now, &backlog).map(|next| next.content), Some(Content::Data));
        assert_eq!(channel.launch(now, 1400, unit), unit);
    }
    channel.handle_refused(now, true, 2..6);
    channel.check_invariants();
    assert_eq!(channel.stats().in_flight, 2800, "two were sent");
    assert_eq!(channel.next(now, &backlog), None, "the driver takes no more now");
    let later = channel.next_timeout().unwrap();
    assert!(later > now && later < now + MS, "{later}");
    for unit in 2..6 {
        let next = channel.next(later, &backlog).unwrap();
        assert_eq!((next.content, next.unit, next.bytes), (Content::Refused, unit, 1400));
    }
    channel.handle_taken();
    assert_eq!(channel.next(later, &backlog).map(|next| next.content), Some(Content::Data));
    assert_eq!(channel.launch(later, 1400, 6), 6);
    channel.check_invariants();
    assert_eq!(channel.stats().retransmits, 0);
}

#[test]
fn an_acknowledgement_that_was_refused_stays_due() {
    let mut pair = Pair::new(&Config::default(), 3);
    pair.ends[1].card = Some(Card::new(1 << 20, 0));
    pair.offer(0, 1);
    pair.pass(200 * US);
    assert!(pair.ends[1].card.as_ref().unwrap().refusals > 1, "it was tried again");
    pair.ends[1].card.as_mut().unwrap().rate = RATE;
    let acked = pair.run(2 * MS, |pair| pair.ends[0].acked == 1);
    assert!(acked, "by the receiver's own timer, or the sender's");
}
