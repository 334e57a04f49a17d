//! One suite over every driver: the guarantees of `Driver`, tested once against the trait and run
//! over each mechanism and wrapper. A case that a driver's capabilities exclude prints so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod answered;
mod bench;
mod cases;
mod rigs;
mod wired;

/// Generates every case over one rig.
macro_rules! suite {
    ($($rig:ident),* $(,)?) => { $(
        mod $rig {
            suite!(@cases $rig:
                sizes_from_nothing_to_the_largest_arrive_whole,
                a_batch_keeps_its_order_and_boundaries,
                runs_of_equal_datagrams_are_cut_where_they_were,
                one_batch_reaches_several_destinations,
                what_does_not_fit_is_named_and_stops_the_batch,
                nothing_to_receive_is_no_error,
                without_room_nothing_is_lost,
                a_flood_is_refused_or_lost_but_never_spoilt,
                marks_are_reported,
                arrival_times_are_reported,
                readiness_follows_the_queue,
                crowds_and_lone_datagrams_alternate,
                an_unreachable_destination_disturbs_nobody,
                contents_may_be_changed_in_place,
            );
        }
    )* };
    (@cases $rig:ident: $($case:ident),* $(,)?) => { $(
        #[test]
        fn $case() {
            crate::bench::with(crate::rigs::$rig, crate::cases::$case);
        }
    )* };
}

suite!(
    udp_v4,
    udp_v6,
    udp_without_runs,
    udp_never_adaptive,
    udp_with_timestamps,
    udp_of_several_sockets,
    udp_of_connections,
    several_over_udp,
    loopback,
    fault_over_udp,
    fault_over_loopback,
    trace_over_udp,
    trace_over_loopback,
    trace_over_fault_over_udp,
    packet_over_veth,
    packet_from_cold,
    packet_over_loopback,
    xdp_native,
    xdp_generic,
);
