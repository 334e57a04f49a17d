//! Instruments of the laboratory.

use super::instrument::{FigureSource, Instrument};
use super::results::Goal;
use std::borrow::Cow;

const NODE: &str = "within-a-node";
const NODES: &str = "between-nodes";
const PEERS: &str = "beside-others";

/// Instruments of the laboratory that measure communication.
pub const LABORATORY: &[Instrument] = &[
    Instrument {
        name: Cow::Borrowed("logp"),
        words: Cow::Borrowed(&["lab", "logp", "--json"]),
        settings: Cow::Borrowed(&[]),
        figures: Cow::Borrowed(&[
            FigureSource {
                only: Some(("/data/placement", "separate_cores")),
                ..FigureSource::new(
                    (NODE, "short-round-trip-two-line-ping-pong-cpus-apart", 1),
                    "/data/round_trip_ns/ratio",
                    (1.0, "", 2),
                    Some(Goal::AtMost(1.20)),
                )
            },
            FigureSource {
                only: Some(("/data/placement", "near_cores")),
                ..FigureSource::new(
                    (NODE, "the-same-cpus-that-share-a-cache", 1),
                    "/data/round_trip_ns/ratio",
                    (1.0, "", 2),
                    Some(Goal::AtMost(1.30)),
                )
            },
            FigureSource::new(
                (NODE, "one-way-short-rate-one-pair", 1),
                "/data/rate_per_s/ours",
                (1e-6, "M/s", 0),
                Some(Goal::AtLeast(60.0)),
            ),
        ]),
    },
    Instrument {
        name: Cow::Borrowed("idle-net"),
        words: Cow::Borrowed(&["lab", "logp", "--scope", "all", "--json"]),
        settings: Cow::Borrowed(&[]),
        figures: Cow::Borrowed(&[FigureSource::new(
            (NODE, "round-trip-with-the-network-enabled-but-idle-without", 1),
            "/data/idle_network/ratio",
            (1.0, "", 2),
            Some(Goal::AtMost(1.15)),
        )]),
    },
    Instrument {
        name: Cow::Borrowed("compare"),
        words: Cow::Borrowed(&["lab", "compare", "--json"]),
        settings: Cow::Borrowed(&[]),
        figures: Cow::Borrowed(&[
            FigureSource::new(
                (PEERS, "one-node-round-trip-of-8-bytes", 1),
                "/tables/0/rows/0/figures/0",
                (1.0, "us", 2),
                None,
            ),
            FigureSource::new(
                (PEERS, "one-node-round-trip-of-8-bytes", 3),
                "/tables/0/rows/0/figures/-",
                (1.0, "", 1),
                None,
            ),
            FigureSource::new(
                (PEERS, "one-way-rate-of-8-bytes", 1),
                "/tables/0/rows/1/figures/0",
                (1.0, "M/s", 0),
                None,
            ),
            FigureSource::new(
                (PEERS, "one-way-rate-of-8-bytes", 3),
                "/tables/0/rows/1/figures/-",
                (1.0, "", 1),
                None,
            ),
        ]),
    },
    Instrument {
        name: Cow::Borrowed("loss"),
        words: Cow::Borrowed(&["lab", "loss", "--json"]),
        settings: Cow::Borrowed(&[]),
        figures: Cow::Borrowed(&[
            FigureSource::new(
                (NODES, "goodput-at-1-loss-lossless", 1),
                "/data/goodput/0/bytes_per_s/ratio",
                (1.0, "(AEAD)", 2),
                Some(Goal::AtLeast(0.9)),
            ),
            FigureSource::new(
                (NODES, "goodput-at-5-loss-lossless", 1),
                "/data/goodput/1/bytes_per_s/ratio",
                (1.0, "(AEAD)", 2),
                Some(Goal::AtLeast(0.7)),
            ),
        ]),
    },
    Instrument {
        name: Cow::Borrowed("flood"),
        words: Cow::Borrowed(&["lab", "flood", "--json"]),
        settings: Cow::Borrowed(&[]),
        figures: Cow::Borrowed(&[FigureSource::new(
            (NODES, "flood-of-50-000-foreign-packets-s-of-a-processor", 1),
            "/data/processor",
            (100.0, "% (AEAD)", 1),
            Some(Goal::AtMost(10.0)),
        )]),
    },
    Instrument {
        name: Cow::Borrowed("urgent"),
        words: Cow::Borrowed(&["lab", "urgent", "--json"]),
        settings: Cow::Borrowed(&[]),
        figures: Cow::Borrowed(&[FigureSource::new(
            (NODES, "round-trip-under-bulk-control-ahead-of-data-in-line", 1),
            "/data/rows/0/loaded_ns/ratio",
            (1.0, "(AEAD)", 2),
            None,
        )]),
    },
];
