use super::*;

#[test]
fn every_step_is_timed_and_the_sum_is_the_last() {
    let cost = measure().unwrap();
    assert_eq!(cost.packet_bytes[0], [120, 108]);
    for (side, parts) in [(&cost.send, SEND.len()), (&cost.receive, RECEIVE.len())] {
        assert_eq!(side.len(), parts + 1);
        for (payload, security) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let of = |step: &NetStep| step.ns[payload][security];
            assert!(side.iter().all(|step| of(step).is_finite() && of(step) >= 0.0));
            let sum: f64 = side[..parts].iter().map(of).sum();
            assert!((sum - of(&side[parts])).abs() < 1e-6 && sum > 0.0);
        }
    }
    // A row for each driver that is available here.
    let packet = usize::from(clump_os::probe::packet_socket().is_ok());
    assert_eq!(cost.calls.len(), 6 + packet);
}
