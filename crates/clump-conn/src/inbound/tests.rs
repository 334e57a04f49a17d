use super::*;
use crate::outbound::Outbound;
use proptest::prelude::*;

const WINDOW: u64 = 4096;
const MAX_COUNT: u64 = 100_000;

fn message(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + number * 7) as u8).collect()
}

fn fragment(number: u64, bytes: u64, offset: u64) -> FragmentHeader {
    FragmentHeader { number, bytes, offset }
}

proptest! {
    /// Connects two sides by a channel that reorders at will: every message arrives once, in order
    /// where ordered, within the window, and progress never stops.
    #[test]
    fn what_is_sent_is_received_once_and_memory_is_bounded(
        kept in any::<bool>(),
        lens in prop::collection::vec(prop_oneof![0usize..200, 1000usize..20_000], 1..20),
        most in 1usize..3000,
        choices in prop::collection::vec(any::<u16>(), 64..256),
    ) {
        let order = if kept { Order::Ordered } else { Order::Any };
        let mut inbound = Inbound::new(order, WINDOW, MAX_COUNT);
        let mut outbound = Outbound::new(WINDOW);
        let mut wire: Vec<(FragmentHeader, Vec<u8>)> = Vec::new();
        let mut credits: Vec<CreditReport> = Vec::new();
        let mut received: Vec<Vec<u8>> = Vec::new();
        // Other choices in each cycle: a fixed one may leave out for ever what has to come next.
        let mut chosen = 0;
        let mut choice = || {
            let (at, cycle) = (chosen % choices.len(), chosen / choices.len());
            chosen += 1;
            choices[at].wrapping_add(cycle as u16)
        };
        let mut queue = (0_u64..).zip(&lens);
        let mut now: Option<(Vec<u8>, crate::outbound::Sending)> = None;
        let mut said = false;
        let longest = lens.iter().max().copied().unwrap_or(0);
        // So few fragments that the steps below suffice for all of them.
        let most = most.max(lens.iter().sum::<usize>() / 4_000);
        for _ in 0..200_000 {
            if inbound.is_over() {
                break;
            }
            match choice() % 4 {
                0 => {
                    if now.is_none() && let Some((number, &len)) = queue.next() {
                        now = Some((message(number, len), outbound.begin(len)));
                    }
                    if let Some((bytes, sending)) = &mut now {
                        if let Some((fragment, len)) = outbound.poll_fragment(sending, most) {
                            let at = fragment.offset as usize;
                            wire.push((fragment, bytes[at..at + len].to_vec()));
                            outbound.on_sent(sending, len);
                        }
                        if sending.is_done() {
                            now = None;
                        }
                    } else if !said {
                        said = true;
                        prop_assert_eq!(outbound.finish(), lens.len() as u64);
                        inbound.handle_total(lens.len() as u64).unwrap();
                    }
                }
                1 if !wire.is_empty() => {
                    let at = usize::from(choice()) % wire.len();
                    let (fragment, payload) = wire.swap_remove(at);
                    inbound.handle_fragment(0, fragment, &payload[..]).unwrap();
                }
                2 => received.extend(inbound.poll_message()),
                _ => {
                    credits.extend(inbound.poll_credit(0));
                    if let Some(CreditReport { total, window }) = credits.pop() {
                        outbound.handle_credit(total, window);
                    }
                }
            }
            prop_assert!(inbound.memory_bytes() as u64 <= inbound.window.bytes() + longest as u64);
        }
        prop_assert!(inbound.is_over(), "it stopped: {inbound:?} {outbound:?}");
        let mut sent: Vec<Vec<u8>> = (0..).zip(&lens).map(|(n, &len)| message(n, len)).collect();
        if !kept {
            sent.sort();
            received.sort();
        }
        prop_assert!(received == sent);
    }

    /// Feeds arbitrary input of a peer: no panic, and no more memory than the window and a message.
    #[test]
    fn nonsense_is_refused(
        kept in any::<bool>(),
        lens in prop::array::uniform4(3000u64..6000),
        fragments in prop::collection::vec((0usize..4, 0u64..6000, 0usize..2000, any::<u8>()), 0..60),
        total in prop::option::of(0u64..4),
    ) {
        let order = if kept { Order::Ordered } else { Order::Any };
        let mut inbound = Inbound::new(order, WINDOW, 5000);
        for (at, &(number, offset, len, luck)) in fragments.iter().enumerate() {
            // Most fragments fit the message that they name; some messages are received in between.
            let bytes = lens[number] + u64::from(luck % 64 == 0);
            let fragment = fragment(number as u64, bytes, offset.min(bytes));
            if inbound.handle_fragment(0, fragment, &vec![1; len.min((bytes - fragment.offset) as usize)][..]).is_err() {
                return Ok(());
            }
            if at == 30 && let Some(total) = total && inbound.handle_total(total).is_err() {
                return Ok(());
            }
            if luck % 8 == 1 {
                inbound.poll_message();
            }
            prop_assert!(inbound.memory_bytes() as u64 <= 5000 + inbound.window.bytes());
        }
    }
}

/// Otherwise overlapping fragments would return credit for ever.
#[test]
fn fragments_that_overlap_are_refused_before_they_fill_the_memory() {
    let mut inbound = Inbound::new(Order::Any, WINDOW, MAX_COUNT);
    let sent = (1..MAX_COUNT).take_while(|&at| {
        inbound.handle_fragment(0, fragment(0, MAX_COUNT, at), &[0; 1000][..]).is_ok()
    });
    assert!(
        sent.count() <= 100,
        "100 fragments of 1000 bytes are what a message of {MAX_COUNT} bytes has"
    );
    assert!(inbound.memory_bytes() as u64 <= MAX_COUNT);
}

/// Of messages that are begun one after the other and never ended, only one gets its credit
/// returned.
#[test]
fn only_one_message_may_be_longer_than_the_window() {
    for order in [Order::Any, Order::Ordered] {
        let mut inbound = Inbound::new(order, WINDOW, MAX_COUNT);
        let begun = (0..1000).rev();
        let taken = begun.take_while(|&number| {
            inbound.handle_fragment(0, fragment(number, MAX_COUNT, 0), &[0; 1000][..]).is_ok()
        });
        assert!(taken.count() <= 5, "{order:?}");
        assert!(inbound.memory_bytes() as u64 <= WINDOW + 1000, "{order:?}");
    }
}

#[test]
fn rules_of_fragments() {
    let mut inbound = Inbound::new(Order::Ordered, WINDOW, MAX_COUNT);
    inbound.handle_fragment(0, fragment(0, 4, 0), &b"ab"[..]).unwrap();
    for (bad, payload) in [
        (fragment(0, 5, 2), &b"cd"[..]),
        (fragment(0, 4, 1), b"bc"),
        (fragment(0, 4, 3), b"cd"),
        (fragment(0, 4, 2), b""),
        (fragment(1, MAX_COUNT + 1, 0), b"x"),
        (fragment(1, u64::MAX, u64::MAX), b"x"),
    ] {
        assert_eq!(inbound.handle_fragment(0, bad, payload), Err(ProtocolViolation), "{bad:?}");
    }
    inbound.handle_fragment(0, fragment(0, 4, 2), &b"cd"[..]).unwrap();
    assert_eq!(inbound.poll_message().unwrap(), b"abcd");
    assert_eq!(
        inbound.handle_fragment(0, fragment(0, 4, 0), &b"abcd"[..]),
        Err(ProtocolViolation),
        "it was received"
    );
    inbound.handle_total(2).unwrap();
    assert_eq!(inbound.handle_total(3), Err(ProtocolViolation));
    assert_eq!(
        inbound.handle_fragment(0, fragment(2, 1, 0), &b"x"[..]),
        Err(ProtocolViolation),
        "beyond the end"
    );
    inbound.handle_fragment(0, fragment(1, 0, 0), &b""[..]).unwrap();
    assert!(!inbound.is_over() && inbound.is_ready());
    assert_eq!(inbound.poll_message().unwrap(), b"");
    assert!(inbound.is_over());
}

#[test]
fn a_peer_that_ignores_the_window_is_refused() {
    let mut inbound = Inbound::new(Order::Any, WINDOW, MAX_COUNT);
    let fits = WINDOW / (FRAGMENT_COST + 100);
    for number in 0..fits {
        inbound.handle_fragment(0, fragment(number, 100, 0), &[0; 100][..]).unwrap();
    }
    assert_eq!(
        inbound.handle_fragment(0, fragment(fits, 100, 0), &[0; 100][..]),
        Err(ProtocolViolation)
    );
}

#[test]
fn credit_that_did_not_get_out_is_due_again() {
    let mut inbound = Inbound::new(Order::Any, WINDOW, MAX_COUNT);
    inbound.handle_fragment(0, fragment(0, 1000, 0), &[0; 1000][..]).unwrap();
    assert_eq!(inbound.poll_credit(0), None);
    inbound.poll_message().unwrap();
    assert_eq!(inbound.poll_credit(0).map(|report| report.total), Some(1064));
    assert!(!inbound.wants_credit());
    inbound.on_credit_unsent();
    assert_eq!(inbound.poll_credit(0).map(|report| report.total), Some(1064));
}
