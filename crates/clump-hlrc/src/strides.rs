//! Faults that follow a pattern: pages one behind the other, or runs of pages at equal distances,
//! as rows of a matrix have them that is read by columns.

use crate::sequence::Sequence;
use std::collections::VecDeque;

/// Most pages that come ahead of a fault: 1 MiB.
const MAX_AHEAD: u32 = 256;
/// Longest distance between runs.
const MAX_DISTANCE: u32 = 1 << 14;
/// Runs of faults that are remembered.
const MAX_RUNS: usize = 8;
/// Patterns that are followed at a time.
const MAX_STREAMS: usize = 4;

/// Faults on consecutive pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u32,
    pages: u32,
}

/// Runs of pages at equal distances, of which some have been asked for.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The run of the last fault.
    run: Run,
    /// From one run to the next; never 0.
    distance: i64,
    /// Runs that were asked for behind that of the last fault.
    asked: u32,
    /// Runs that are asked for ahead.
    window: u32,
}

impl Stream {
    /// Returns the number of the run that a page lies in, or right behind, counted from that of the
    /// last fault; none if that is not one that was asked for, or the next one.
    fn run_of(&self, page: u32) -> Option<u32> {
        debug_assert_ne!(self.distance, 0, "runs differ");
        let offset = i64::from(page) - i64::from(self.run.first);
        let step = self.distance.abs();
        let number = match self.distance {
            1.. => offset.div_euclid(step),
            // Rounded up: pages of a run ascend although runs descend.
            _ => (step - 1 - offset).div_euclid(step),
        };
        let within = offset - number * self.distance;
        debug_assert!((0..step).contains(&within), "a page lies in one run");
        let number = u32::try_from(number).ok()?;
        (number <= self.asked + 1 && within <= i64::from(self.run.pages)).then_some(number)
    }

    /// Takes in a fault of this stream. Returns the pages to ask for.
    fn on_fault(&mut self, page: u32, number: u32) -> Vec<u32> {
        let at = |number: u32| i64::from(self.run.first) + i64::from(number) * self.distance;
        let first = at(number);
        let within = i64::from(page) - first;
        if within == i64::from(self.run.pages) {
            // Runs are longer than the faults so far have shown.
            self.run.pages += 1;
        }
        let most = (MAX_AHEAD / self.run.pages).max(1);
        let grows = number > self.asked || number == 0 && self.asked == 0;
        self.window = if grows { (self.window * 2).min(most) } else { self.window.min(most) };
        // Those that are here already are not fetched again.
        let rest = i64::from(page) + 1..first + i64::from(self.run.pages);
        let due = (self.asked + 1).max(number + 1)..=number + self.window;
        let runs = due.map(|next| at(next)..at(next) + i64::from(self.run.pages));
        let pages = rest.chain(runs.flatten()).filter_map(page_number).collect();
        self.run.first = page_number(first).unwrap_or(page);
        self.asked = self.window.max(self.asked.saturating_sub(number));
        pages
    }
}

fn page_number(page: i64) -> Option<u32> {
    u32::try_from(page).ok()
}

/// Patterns in the faults of one thread.
#[derive(Debug, Default)]
pub struct Strides {
    sequence: Sequence,
    /// Runs of faults that belong to no stream, the last one first.
    runs: VecDeque<Run>,
    /// The stream of the last fault first.
    streams: VecDeque<Stream>,
}

impl Strides {
    /// Takes in a fault of a read. Returns the pages to ask for: those behind a page that follows
    /// the one before, or lies in what was asked for then, and those at the distance at which
    /// faults have come; ever more while that goes on.
    pub fn on_fault(&mut self, page: u32) -> Vec<u32> {
        let stream = self.streams.iter().enumerate();
        let found = stream.filter_map(|(at, stream)| Some((at, stream.run_of(page)?))).next();
        if let Some((at, number)) = found
            && let Some(mut stream) = self.streams.remove(at)
        {
            let pages = stream.on_fault(page, number);
            self.streams.push_front(stream);
            debug_assert!(self.streams.len() <= MAX_STREAMS, "bounded");
            return pages;
        }
        let sequence = self.in_sequence(page);
        if !sequence.is_empty() {
            return sequence.collect();
        }
        let Some(mut stream) = self.stream_at(page) else { return Vec::new() };
        let pages = stream.on_fault(page, 0);
        self.streams.truncate(MAX_STREAMS - 1);
        self.streams.push_front(stream);
        pages
    }

    /// Takes in a fault that belongs to no stream. Returns the pages behind it, if it follows.
    fn in_sequence(&mut self, page: u32) -> std::ops::Range<u32> {
        let pages = self.sequence.on_fault(page);
        match self.runs.front_mut() {
            Some(run) if !pages.is_empty() && run.first < page => run.pages = page - run.first + 1,
            _ => {
                self.runs.truncate(MAX_RUNS - 1);
                self.runs.push_front(Run { first: page, pages: 1 });
            }
        }
        pages
    }

    /// Returns the stream that a new run shows together with those before: two equal distances
    /// between runs behind each other, three between others.
    fn stream_at(&self, page: u32) -> Option<Stream> {
        let run_at = |first: i64| {
            let behind = self.runs.iter().skip(1);
            behind.enumerate().find(|(_, run)| i64::from(run.first) == first)
        };
        let page = i64::from(page);
        self.runs.iter().skip(1).enumerate().find_map(|(number, last)| {
            let distance = page - i64::from(last.first);
            let pages = i64::from(last.pages);
            if distance.unsigned_abs() > u64::from(MAX_DISTANCE) || distance.abs() <= pages {
                return None;
            }
            let (before, run) = run_at(page - 2 * distance)?;
            let behind_each_other = (number, before) == (0, 1);
            let same = behind_each_other || run_at(page - 3 * distance).is_some();
            let run = (same && run.pages == last.pages)
                .then_some(Run { first: u32::try_from(page).ok()?, pages: last.pages })?;
            Some(Stream { run, distance, asked: 0, window: 1 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Reads pages in an order. Returns faults, and pages asked for that were not read.
    fn read(strides: &mut Strides, order: impl IntoIterator<Item = u32>) -> (usize, usize) {
        let (mut here, mut read) = (HashSet::new(), HashSet::new());
        let mut faults = 0;
        for page in order {
            read.insert(page);
            if here.insert(page) {
                faults += 1;
                let asked = strides.on_fault(page);
                assert!(asked.len() <= MAX_AHEAD as usize + 64, "{}", asked.len());
                assert!(!asked.contains(&page), "it is being fetched");
                here.extend(asked);
            }
        }
        (faults, here.difference(&read).count())
    }

    #[test]
    fn pages_in_sequence_come_ahead() {
        let (faults, wasted) = read(&mut Strides::default(), 1000..3000);
        assert!(faults < 2000 / 16 && wasted <= 64, "{faults}, {wasted}");
    }

    #[test]
    fn rows_of_a_matrix_that_is_read_by_columns_come_ahead() {
        for (pages, distance) in [(1, 8), (2, 8), (3, 16), (8, 64), (1, 2)] {
            let rows = |column: u32| {
                let row = move |row: u32| 5000 + row * distance + column;
                (0..1024).flat_map(move |number| row(number)..row(number) + pages)
            };
            let (faults, wasted) = read(&mut Strides::default(), rows(0));
            assert!(faults <= 64, "{pages}, {distance}: {faults}");
            assert!(wasted <= 300, "{pages}, {distance}: {wasted}");
        }
    }

    #[test]
    fn descending_rows_and_two_matrices_in_turn_come_ahead() {
        let down = (0..500).map(|row| 100_000 - 12 * row);
        let (faults, _) = read(&mut Strides::default(), down);
        assert!(faults <= 20, "{faults}");
        let turns = (0..500).flat_map(|row| [1000 + 16 * row, 50_000 + 8 * row]);
        let (faults, _) = read(&mut Strides::default(), turns);
        assert!(faults <= 40, "{faults}");
    }

    #[test]
    fn faults_without_a_pattern_ask_for_little() {
        let mut seed = 1_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as u32 % 20_000
        };
        let order: Vec<u32> = (0..4000).map(|_| random()).collect();
        let (faults, wasted) = read(&mut Strides::default(), order);
        assert!(wasted <= faults / 20, "{wasted} of {faults}");
    }
}
