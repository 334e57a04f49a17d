//! The instrument of shared virtual memory: the costs of faults, locks and barriers, each beside
//! its baseline of the same run.

use super::instrument::{FigureSource, Instrument};
use super::results::Goal;
use std::borrow::Cow;

const TABLE: &str = "shared-memory";

const fn figure(
    row: &'static str,
    path: &'static str,
    unit: (f64, &'static str, usize),
    goal: Option<Goal>,
) -> FigureSource {
    FigureSource::new((TABLE, row, 1), path, unit, goal)
}

const US: (f64, &str, usize) = (1.0, "us", 1);

/// Two virtual nodes with a rank each.
pub const SHARED_MEMORY: &[Instrument] = &[Instrument {
    name: Cow::Borrowed("svm-cost"),
    words: Cow::Borrowed(&["run", "-n", "2", "--nodes", "2", "example:svm_cost", "--json"]),
    settings: Cow::Borrowed(&[]),
    figures: Cow::Borrowed(&[
        figure("get-of-4-kib-r", "/data/get_4096_us", US, None),
        figure("get-of-8-bytes", "/data/get_8_us", US, None),
        figure("read-fault-beyond-r", "/data/read_fault_beyond_r_us", US, Some(Goal::AtMost(6.0))),
        figure(
            "write-fault-on-a-page-that-is-here",
            "/data/write_upgrade_us",
            US,
            Some(Goal::AtMost(2.0)),
        ),
        figure("write-fault-beyond-r", "/data/write_miss_beyond_r_us", US, Some(Goal::AtMost(7.0))),
        figure(
            "barrier-beyond-round-trips",
            "/data/clean_barrier_beyond_1.5_get_8_us",
            US,
            Some(Goal::AtMost(3.0)),
        ),
        figure(
            "lock-and-page-beyond-3-r",
            "/data/lock_and_page_beyond_3_r_us",
            US,
            Some(Goal::AtMost(10.0)),
        ),
        figure(
            "lock-that-this-node-had-last",
            "/data/local_reacquire_us",
            US,
            Some(Goal::AtMost(0.2)),
        ),
        figure(
            "pages-in-sequence-long-get-s",
            "/data/stream_of_long_get",
            (1.0, "", 2),
            Some(Goal::AtLeast(0.5)),
        ),
    ]),
}];
