use super::*;
use std::os::fd::AsRawFd;

fn seat() -> Seat {
    let job_id = 0xdead_beef_0123_4567;
    Seat { rank: 3, nranks: 5, node: 1, nnodes: 2, job_id, stats: true, terminal: false }
}

fn memory() -> OwnedFd {
    clump_os::map::sealed_memory("x", 4096).unwrap()
}

#[test]
fn a_seat_survives_the_journey() {
    assert_eq!(Seat::decode(&seat().encode()).unwrap(), seat());
}

#[test]
fn a_program_started_by_hand_has_no_seat() {
    assert!(!started_as_rank());
    assert!(join().unwrap().is_none());
}

#[test]
fn the_first_process_takes_the_seat_and_the_second_hears_why_not() {
    let (theirs, ours) = offer(&seat(), memory().as_fd()).unwrap();
    let number = theirs.as_raw_fd().to_string();
    assert_eq!(taken(&ours), None);
    let boot = take(&number).unwrap();
    assert_eq!(taken(&ours), Some(true));
    assert_eq!((boot.rank, boot.nranks, boot.node, boot.nnodes), (3, 5, 1, 2));
    assert_eq!(boot.job_id, seat().job_id);
    assert!(boot.stats && !boot.terminal);
    assert_eq!(clump_os::map::sealed_size(boot.memory.as_fd()).unwrap(), Some(4096));
    let error = take(&number).unwrap_err();
    assert!(matches!(error, Error::SeatTaken { .. }), "{error}");
    assert!(error.to_string().contains("joined as that rank already"));
    drop((boot, theirs));
    assert_eq!(taken(&ours), Some(false));
}

#[test]
fn numbers_that_lead_elsewhere_are_refused() {
    let other = memory();
    for number in ["", "-1", "999999", "abc", &other.as_raw_fd().to_string()] {
        assert!(matches!(take(number).unwrap_err(), Error::SeatTaken { .. }), "{number}");
    }
}

#[test]
fn other_versions_and_nonsense_are_refused() {
    let good = seat().encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        Seat::decode(&bytes)
    };
    assert!(with(0, 0).is_err(), "magic");
    assert!(with(16, 9).unwrap_err().to_string().contains("version 9"));
    assert!(with(24, 5).is_err(), "rank beyond the last");
    assert!(with(32, 2).is_err(), "node beyond the last");
    assert!(Seat::decode(&good[..20]).is_err());
    let (theirs, ours) = socket::message_pair().unwrap();
    socket::send(&ours, &good, None).unwrap();
    let error = take(&theirs.as_raw_fd().to_string()).unwrap_err();
    assert!(error.to_string().contains("without memory"));
}
