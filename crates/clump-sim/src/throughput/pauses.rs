//! Random times in which stations do nothing, as processes that the system does not run.

use crate::kernel::{Random, Time};
use crate::network::Pauses;

/// The next pause of each station.
#[derive(Debug)]
pub(super) struct PauseSchedule {
    pauses: Pauses,
    random: Random,
    /// Beginning and end of each station's next pause.
    next: Vec<(Time, Time)>,
    /// Time of all pauses that began since they are counted.
    paused: Time,
}

impl PauseSchedule {
    pub(super) fn new(pauses: Pauses, stations: u32, seed: u64) -> Self {
        let next = vec![(0, 0); stations as usize];
        let mut schedule =
            Self { pauses, random: Random::new(seed ^ 0x7061_7573), next, paused: 0 };
        for station in 0..stations as usize {
            schedule.next[station] = schedule.draw(0);
        }
        schedule
    }

    fn draw(&mut self, after: Time) -> (Time, Time) {
        let begin = after + self.random.wait(self.pauses.every);
        (begin, begin + self.random.between(self.pauses.least, self.pauses.most))
    }

    /// Counts pauses that begin from now on.
    pub(super) fn count_from(&mut self, now: Time) {
        let begun = |(begin, end): &&(Time, Time)| *begin <= now && now < *end;
        self.paused = self.next.iter().filter(begun).map(|(_, end)| end - now).sum();
    }

    /// Returns the time of all pauses that are counted.
    pub(super) fn paused(&self) -> Time {
        self.paused
    }

    /// Returns the end of the pause in which a station is; `None`: it may act.
    pub(super) fn until(&mut self, now: Time, station: u32) -> Option<Time> {
        let at = station as usize;
        let (begin, end) = *self.next.get(at)?;
        if now < begin {
            return None;
        }
        if now < end {
            return Some(end);
        }
        self.paused += end - begin;
        self.next[at] = self.draw(end);
        self.until(now, station)
    }
}
