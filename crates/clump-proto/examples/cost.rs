//! CPU cost of a channel: `cargo run --release -p clump-proto --example cost`.
//!
//! One thread sends units over one channel and receives them on another; the header is passed as it
//! is, without encoding, encryption or a system call. Printed: ns per unit for both sides together,
//! the least of 300 runs (or as many as the argument says), since others use the machine too.

use clump_proto::{Channel, Config, Nanos, SackBuf, UnitStatus};
use clump_wire::{Header, PacketKind};
use std::hint::black_box;

const UNITS: u64 = 5000;
const BYTES: usize = 1400;

struct Ends {
    here: Channel<()>,
    there: Channel<()>,
    now: Nanos,
    sack: SackBuf,
}

impl Ends {
    fn new() -> Self {
        let config = Config::default();
        let (here, there) = (Channel::new(&config, 1), Channel::new(&config, 1));
        Self { here, there, now: 1, sack: SackBuf::new() }
    }

    /// Sends one unit from here to there.
    fn send(&mut self) {
        self.now += 300;
        let unit = self.here.launch(self.now, BYTES, ());
        let mut header = Header { kind: PacketKind::Data, unit, ..Header::default() };
        self.here.stamp(self.now, &mut header, &mut self.sack);
        let header = black_box(header);
        assert!(!self.there.is_replay(header.number));
        let (sack, now) = (self.sack.words(), self.now + 5000);
        let arrival = self.there.handle_packet(now, &header, sack, BYTES, false);
        assert_eq!(arrival.unit, UnitStatus::New);
    }

    /// Sends any packet from there to here, with or without a unit.
    fn answer(&mut self, kind: PacketKind) {
        let now = self.now + 5000;
        let mut header = Header { kind, ..Header::default() };
        if kind == PacketKind::Data {
            header.unit = self.there.launch(now, BYTES, ());
        }
        self.there.stamp(now, &mut header, &mut self.sack);
        let header = black_box(header);
        self.now += 10_000;
        let sack = self.sack.words();
        assert!(!self.here.is_replay(header.number));
        self.here.handle_packet(self.now, &header, sack, BYTES, false);
        while let Some(unit) = self.here.poll_acked() {
            black_box(unit);
        }
        while let Some(unit) = self.there.poll_acked() {
            black_box(unit);
        }
    }

    /// Sends a stream of units, acknowledged as the channel wants it.
    fn stream(&mut self) {
        for _ in 0..UNITS {
            assert!(self.here.room(self.now) > 0);
            self.send();
            if self.there.wants_ack(self.now + 5000) {
                self.answer(PacketKind::Ack);
            }
        }
    }

    /// Sends requests, each answered by a unit, as a request and its reply are.
    fn requests(&mut self) {
        for _ in 0..UNITS / 2 {
            assert!(self.here.room(self.now) > 0 && self.there.room(self.now + 5000) > 0);
            self.send();
            self.answer(PacketKind::Data);
            assert!(!self.here.wants_ack(self.now) && self.here.poll_lost(self.now).is_none());
        }
    }
}

fn measure(name: &str, runs: u32, run: fn(&mut Ends)) {
    let least = (0..runs)
        .map(|_| {
            let mut ends = Ends::new();
            run(&mut ends);
            let from = std::time::SystemTime::now();
            run(&mut ends);
            from.elapsed().map_or(f64::NAN, |time| time.as_nanos() as f64 / UNITS as f64)
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:24} {least:6.1} ns per unit, both sides together");
}

fn main() {
    let runs =
        std::env::args_os().nth(1).and_then(|runs| runs.to_str()?.parse().ok()).unwrap_or(300);
    measure("stream, own acks", runs, Ends::stream);
    measure("requests and replies", runs, Ends::requests);
}
