//! One datagram back and forth.

use super::{Call, Silence, Wire, first_word};
use anyhow::Result;
use clump_os::clock;

impl Wire {
    /// Runs the measuring side. Returns the nanoseconds of `rounds` rounds.
    pub(super) fn ping(&mut self, call: Call, bytes: usize, rounds: u32) -> Result<u64> {
        let mut out = vec![7; bytes];
        let give_up_ns = self.give_up_ns;
        let mut into = std::mem::take(&mut self.buffer);
        into.resize(into.len().max(bytes), 0);
        let start = clock::now_ns();
        for round in 1..=rounds {
            let word = self.word(round);
            out[..8].copy_from_slice(&word.to_le_bytes());
            self.send(call, &out, bytes)?;
            let mut silence = None;
            loop {
                match self.receive(call, &mut into, bytes)? {
                    Some(_) if first_word(&into) == Some(word) => break,
                    Some(_) => {}
                    None => {
                        if silence
                            .get_or_insert_with(|| Silence::begin(give_up_ns))
                            .goes_on(call)?
                        {
                            self.send(call, &out, bytes)?;
                        }
                    }
                }
            }
        }
        let ns = clock::now_ns() - start;
        self.buffer = into;
        Ok(ns)
    }

    /// Runs the other side: returns every datagram of this workload, up to the last round.
    pub(super) fn pong(&mut self, call: Call, bytes: usize, rounds: u32) -> Result<()> {
        let give_up_ns = self.give_up_ns;
        let mut into = std::mem::take(&mut self.buffer);
        into.resize(into.len().max(bytes), 0);
        let (first, last) = (self.word(1), self.word(rounds));
        let mut silence = None;
        let mut ended = rounds == 0;
        while !ended {
            match self.receive(call, &mut into, bytes)? {
                Some(_) => {
                    silence = None;
                    let word = first_word(&into).unwrap_or(0);
                    if (first..=last).contains(&word) {
                        self.send(call, &into[..bytes], bytes)?;
                        ended = word == last;
                    }
                }
                None => {
                    silence.get_or_insert_with(|| Silence::begin(give_up_ns)).goes_on(call)?;
                }
            }
        }
        self.buffer = into;
        Ok(())
    }
}
