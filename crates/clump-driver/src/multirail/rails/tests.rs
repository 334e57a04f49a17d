use super::*;

const MS: u64 = 1_000_000;

fn two(preferred: usize) -> Rails {
    let to = [7, 8].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
    Rails::new(to.to_vec(), 2, preferred)
}

/// Sends once a millisecond from `from` to `to`; the peer answers at once by the paths in `live`.
/// Returns the number of datagrams that went by each path.
fn talk(
    paths: &mut Rails,
    counts: &mut PathCounts,
    ms: std::ops::Range<u64>,
    live: &[usize],
) -> [u64; 2] {
    let mut sent = [0; 2];
    for now in ms.map(|ms| ms * MS) {
        let at = paths.choose(now);
        paths.on_sent(at, 1, now);
        sent[at] += 1;
        let copy = paths.wants_copy(now);
        // The peer answers by the path of the datagram received.
        for heard in [Some(at), copy].into_iter().flatten().filter(|at| live.contains(at)) {
            paths.on_heard(heard, now + MS / 10, counts);
        }
    }
    sent
}

#[test]
fn a_path_that_answers_is_kept() {
    for preferred in [0, 1] {
        let (mut paths, mut counts) = (two(preferred), PathCounts::default());
        let sent = talk(&mut paths, &mut counts, 0..1000, &[0, 1]);
        assert_eq!((sent[preferred], counts), (1000, PathCounts::default()));
    }
}

#[test]
fn a_path_that_dies_is_left_in_time_and_comes_back_with_an_answer() {
    let (mut paths, mut counts) = (two(1), PathCounts::default());
    talk(&mut paths, &mut counts, 0..50, &[0, 1]);
    let sent = talk(&mut paths, &mut counts, 50..1000, &[0]);
    assert!(sent[1] <= SILENCE_NS / MS + 1, "{sent:?}");
    assert_eq!((counts.taken_out, counts.came_back), (1, 0));
    let sent = talk(&mut paths, &mut counts, 1000..2000, &[0, 1]);
    assert!(sent[0] <= TRY_NS / MS + 1, "{sent:?}");
    assert_eq!((counts.taken_out, counts.came_back), (1, 1));
}

#[test]
fn a_peer_that_is_busy_is_tried_by_all_paths_and_none_is_out() {
    let (mut paths, mut counts) = (two(0), PathCounts::default());
    talk(&mut paths, &mut counts, 0..50, &[0, 1]);
    let sent = talk(&mut paths, &mut counts, 50..550, &[]);
    assert!(sent[0] > 100 && sent[1] > 100, "{sent:?}");
    assert_eq!(counts, PathCounts::default());
    let sent = talk(&mut paths, &mut counts, 550..1550, &[0, 1]);
    assert!(sent[0] > 900, "{sent:?}");
    assert_eq!(counts.taken_out, 0);
}

#[test]
fn the_last_words_of_a_talk_do_not_move_the_next() {
    let (mut paths, mut counts) = (two(0), PathCounts::default());
    for round in 0..20_u64 {
        let now = round * 3_000 * MS;
        assert_eq!(paths.choose(now), 0);
        paths.on_sent(0, 1, now);
        paths.on_heard(0, now + MS, &mut counts);
        // Acknowledgements, which are not answered.
        paths.on_sent(0, 2, now + 2 * MS);
    }
}

#[test]
fn what_this_machine_refuses_goes_by_another_path_at_once() {
    let (mut paths, mut counts) = (two(0), PathCounts::default());
    assert_eq!(paths.choose(MS), 0);
    assert!(paths.on_refused(0, MS, &mut counts));
    assert_eq!((paths.choose(MS), counts.taken_out), (1, 1));
    assert!(!paths.on_refused(1, MS, &mut counts), "nothing is left");
    assert_eq!(counts.taken_out, 2);
    // Both are tried nevertheless, at intervals.
    paths.choose(2 * MS);
    assert!(paths.wants_copy(2 * MS).is_none() && paths.wants_copy(MS + TRY_NS).is_some());
}

#[test]
fn a_path_of_one_direction_is_used_less_and_less() {
    // The peer's copies arrive by path 0, datagrams to the peer do not.
    let (mut paths, mut counts) = (two(0), PathCounts::default());
    let mut lost = 0;
    for now in (0..60_000).map(|ms| ms * MS) {
        let at = paths.choose(now);
        paths.on_sent(at, 1, now);
        lost += u64::from(at == 0);
        if at == 1 {
            paths.on_heard(1, now, &mut counts);
            if now % TRY_NS == 0 {
                paths.on_heard(0, now, &mut counts);
            }
        }
    }
    assert!(lost < 1000, "{lost} of 60000, out {} times", counts.taken_out);
    assert!(counts.taken_out > 5, "{}", counts.taken_out);
}

#[test]
fn paths_that_only_one_side_has_are_not_used() {
    let to: Vec<_> = [7, 8, 9].map(|port| SocketAddr::from(([10, 0, 0, 1], port))).to_vec();
    let mut few = Rails::new(to.clone(), 1, 2);
    assert_eq!((few.choose(0), few.to.len()), (0, 1));
    few.on_sent(0, 9, 0);
    assert_eq!(few.choose(1000 * MS), 0, "there is no other");
    few.on_heard(3, 0, &mut PathCounts::default());
    assert_eq!(Rails::new(to, 4, 5).choose(0), 2);
}

#[test]
fn answers_are_not_answered_for_ever() {
    let (mut paths, mut counts) = ([two(0), two(0)], PathCounts::default());
    let mut copies = 0;
    paths[0].on_heard(1, 0, &mut counts);
    for now in (0..2000).map(|ms| ms * MS) {
        for side in [0, 1] {
            let at = paths[side].choose(now);
            paths[side].on_sent(at, 1, now);
            paths[1 - side].on_heard(at, now, &mut counts);
            if let Some(copy) = paths[side].wants_copy(now) {
                paths[1 - side].on_heard(copy, now, &mut counts);
                copies += 1;
            }
        }
    }
    assert!((1..4).contains(&copies), "{copies}");
}
