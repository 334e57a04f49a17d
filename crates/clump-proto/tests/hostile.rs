//! Authenticated peers that say anything at all: nothing panics, nothing grows, no impossible
//! statement is accepted.

use clump_proto::{Backlog, Channel, Config, Nanos, SackBuf, SocketWait, UnitStatus};
use clump_wire::{Flags, Header, MAX_SACK_WORDS, PacketKind};
use proptest::prelude::*;

fn any_near() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..40, 0_u64..2200, any::<u64>(), Just(u64::MAX), Just(u64::MAX - 1)]
}

prop_compose! {
    fn any_header()(
        kind in 0_usize..7, flags in 0_u8..4, ce in any::<u8>(),
        number in any_near(), unit in any_near(), ack in any_near(),
        window in prop_oneof![Just(0_u32), any::<u32>(), 0_u32..5000],
        sent in any::<u32>(), echo in any::<u32>(), near in any::<bool>(),
        held in prop_oneof![Just(0_u32), any::<u32>(), 0_u32..1000],
    ) -> (Header, bool) {
        let kind = [PacketKind::Data, PacketKind::Data, PacketKind::Data, PacketKind::Ack, PacketKind::Probe, PacketKind::ProbeAck,
            PacketKind::Heartbeat][kind];
        let mut all = Flags::NONE;
        for (bit, flag) in [(1, Flags::ACK_NOW), (2, Flags::HAS_ECHO)] {
            if flags & bit != 0 {
                all = all.with(flag);
            }
        }
        let header = Header {
            kind, flags: all, ce, number, unit, ack, window, sent, echo, held, ..Header::default()
        };
        (header, near)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Resend(u64),
    Arrive(Box<(Header, bool)>, Vec<u64>, usize, bool, Nanos),
    Pass(Nanos),
    Window(u32),
    TooBig(usize),
    /// The driver does not take a new unit, and some that were sent before.
    Refuse(usize, u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_usize..70_000).prop_map(Step::Send),
        1 => any_near().prop_map(Step::Resend),
        6 => (any_header(), proptest::collection::vec(any::<u64>(), 0..17), 0_usize..70_000,
              any::<bool>(), prop_oneof![Just(0), any::<u64>()])
            .prop_map(|(h, sack, bytes, ce, waited)| Step::Arrive(Box::new(h), sack, bytes, ce, waited)),
        3 => prop_oneof![0_u64..100_000, 0_u64..20_000_000_000, Just(400_000_000_000)].prop_map(Step::Pass),
        1 => any::<u32>().prop_map(Step::Window),
        1 => (0_usize..70_000).prop_map(Step::TooBig),
        1 => (1_usize..2_000, 0_u64..9).prop_map(|(bytes, more)| Step::Refuse(bytes, more)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: clump_test_tier::pick(100, 400), failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks the promises that the channel keeps whatever arrives.
    #[test]
    fn nothing_that_a_peer_says_breaks_a_channel(steps in proptest::collection::vec(any_step(), 1..300)) {
        let mut now = 5_000_000_000;
        let mut channel = Channel::<u64>::new(&Config::default(), now);
        let (mut sack, mut sent, mut released) = (SackBuf::new(), 0_u64, 0_u64);
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    if channel.room(now) > 0 {
                        prop_assert_eq!(channel.launch(now, bytes, !sent), sent);
                        sent += 1;
                    }
                }
                Step::Resend(unit) => channel.resend_unit(now, unit),
                Step::Arrive(header, words, bytes, ce, waited) => {
                    let (mut header, near) = *header;
                    if near {
                        header.ack %= sent + 2;
                        header.echo = ((now >> 6) as u32).wrapping_sub(header.echo % 2000);
                    }
                    let replay = channel.is_replay(header.number);
                    let arrival = channel.handle_late(now, SocketWait::within(waited), &header, &words, bytes, ce);
                    prop_assert!(!replay || arrival.unit == UnitStatus::None);
                    prop_assert!(channel.is_replay(header.number));
                }
                Step::Pass(time) => {
                    now += time;
                    channel.handle_timeout(now);
                }
                Step::Window(bytes) => channel.set_receive_window(bytes),
                Step::TooBig(bytes) => channel.handle_too_big(now, bytes, None),
                Step::Refuse(bytes, more) => {
                    if channel.room(now) > 0 {
                        prop_assert_eq!(channel.launch(now, bytes, !sent), sent);
                        sent += 1;
                    }
                    channel.handle_refused(now, more > 0, sent.saturating_sub(more + 1)..sent);
                    prop_assert!(channel.next(now, &Backlog::default()).is_none(), "not at once");
                    prop_assert!(channel.next_timeout() > Some(now));
                }
            }
            while let Some((unit, body)) = channel.poll_acked() {
                prop_assert_eq!((unit, body), (released, !released), "each once, in order");
                released += 1;
            }
            prop_assert!(released <= sent && sent - released <= 262_144);
            prop_assert_eq!(channel.is_quiet(), sent == released);
            prop_assert!(channel.bodies().copied().eq((released..sent).map(|unit| !unit)));
            let mut resent = 0;
            while let Some(unit) = channel.poll_lost(now) {
                prop_assert!((released..sent).contains(&unit));
                channel.resend_unit(now, unit);
                resent += 1;
                prop_assert!(resent <= 262_144, "work is bounded");
            }
            let _ = (channel.poll_probe(now), channel.poll_probe_ack());
            if channel.wants_ack(now) {
                let mut header = Header { kind: PacketKind::Ack, ..Header::default() };
                channel.stamp(now, &mut header, &mut sack);
                prop_assert!(sack.words().len() <= MAX_SACK_WORDS && !channel.wants_ack(now));
            }
            let stats = channel.stats();
            prop_assert!(channel.is_quiet() || channel.next_timeout().is_some(), "never stuck: {:?}", stats);
            channel.check_invariants();
        }
    }
}

fn data(number: u64, unit: u64) -> Header {
    Header { kind: PacketKind::Data, number, unit, window: 1 << 20, ..Header::default() }
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_refused_whole() {
    let mut channel = Channel::new(&Config::default(), 0);
    channel.launch(1000, 100, 'a');
    channel.launch(1000, 100, 'b');
    let lie =
        Header { kind: PacketKind::Ack, number: 1, ack: 3, window: 1 << 20, ..Header::default() };
    channel.handle_packet(9000, &lie, &[u64::MAX; 16], 64, false);
    assert_eq!((channel.poll_acked(), channel.stats().refused), (None, 1));
    // Bits of units that were never sent are ignored, the others count.
    let half = Header { ack: 0, number: 2, ..lie };
    channel.handle_packet(9000, &half, &[u64::MAX; 16], 64, false);
    assert_eq!((channel.poll_acked(), channel.stats().in_flight), (None, 100));
    channel.handle_packet(9000, &Header { number: 6, ..half }, &[1], 64, false);
    assert_eq!(channel.stats().in_flight, 100, "told twice, it still arrived once");
    // A unit that has arrived does not go missing again.
    channel.handle_packet(9000, &Header { ack: 1, number: 3, ..lie }, &[], 64, false);
    assert_eq!((channel.poll_acked(), channel.stats().refused), (None, 2));
    channel.handle_packet(9000, &Header { ack: 2, number: 4, ..lie }, &[], 64, false);
    assert_eq!((channel.poll_acked(), channel.poll_acked()), (Some((0, 'a')), Some((1, 'b'))));
    // A stale acknowledgement moves nothing back.
    channel.handle_packet(9000, &Header { ack: 0, number: 5, ..lie }, &[], 64, false);
    assert!(channel.is_quiet());
}

#[test]
fn packets_count_once_and_units_too_far_ahead_not_at_all() {
    let mut channel = Channel::<()>::new(&Config::default(), 0);
    let unit = |channel: &mut Channel<()>, number, unit| {
        channel.handle_packet(1000, &data(number, unit), &[], 100, false).unit
    };
    assert_eq!(unit(&mut channel, 1, 0), UnitStatus::New);
    assert!(channel.is_replay(1) && !channel.is_replay(2));
    assert_eq!(unit(&mut channel, 1, 1), UnitStatus::None, "a replay, whatever is in it");
    let (mut answer, mut sack) =
        (Header { kind: PacketKind::Ack, ..Header::default() }, SackBuf::new());
    channel.stamp(1000, &mut answer, &mut sack);
    assert!(!channel.wants_ack(1_000_000), "all is told");
    assert_eq!(
        unit(&mut channel, 2, 0),
        UnitStatus::Duplicate,
        "another packet with the same unit"
    );
    assert!(channel.wants_ack(1000), "a peer that sends again has not heard: told at once");
    assert_eq!(unit(&mut channel, 3, 1 + 262_144), UnitStatus::Duplicate, "too far ahead");
    assert_eq!(unit(&mut channel, 4, 1 + 262_143), UnitStatus::New);
    assert_eq!(unit(&mut channel, 10_000, 1), UnitStatus::New);
    assert!(channel.is_replay(5), "too old to tell");
    let stats = channel.stats();
    assert_eq!((stats.units_received, stats.duplicates), (3, 1));
    assert_eq!((stats.replays, stats.refused), (1, 1));
}

#[test]
fn an_older_packet_does_not_bring_an_older_window_back() {
    let mut channel = Channel::<()>::new(&Config::default(), 0);
    let mut header = Header { kind: PacketKind::Ack, number: 9, window: 0, ..Header::default() };
    channel.handle_packet(1000, &header, &[], 64, false);
    assert_eq!(channel.room(1000), 0);
    (header.number, header.window) = (8, 1 << 20);
    channel.handle_packet(1000, &header, &[], 64, false);
    assert_eq!(channel.room(1000), 0, "it was sent before");
    header.number = 10;
    channel.handle_packet(1000, &header, &[], 64, false);
    assert!(channel.room(1000) > 0);
}
