//! Balance of communication (paper 001, figure 4): senders down, receivers across; white for no
//! message, black for as many as the busiest pair has.

use crate::figure::element_titles::with_titles;
use anyhow::{Result, anyhow};
use clump_trace::{PairTraffic, Profile};
use plotters::prelude::*;

/// Most cells of a side. A job of more ranks shows the mean of several pairs in a cell.
const MAX_SIDE: usize = 64;
/// Pixels of the matrix, at least.
const PIXELS: usize = 384;
const LEFT: i32 = 56;
const TOP: i32 = 44;

/// Messages by sender and receiver, in cells of `each` ranks a side.
#[derive(Debug, Clone, PartialEq)]
struct Cells {
    side: usize,
    each: usize,
    /// Mean of the messages of a pair, row by row.
    means: Vec<f64>,
}

impl Cells {
    fn of(profile: &Profile) -> Self {
        let ranks = profile.ranks();
        let each = ranks.div_ceil(MAX_SIDE).max(1);
        let side = ranks.div_ceil(each);
        let mut means = vec![0.0; side * side];
        let of_ranks = |pair: &&PairTraffic| (pair.from.max(pair.to) as usize) < ranks;
        for pair in profile.matrix.iter().flatten().filter(of_ranks) {
            let (row, column) = (pair.from as usize / each, pair.to as usize / each);
            let width = |at: usize| each.min(ranks - at * each) as f64;
            means[row * side + column] += pair.messages() as f64 / width(row) / width(column);
        }
        Self { side, each, means }
    }

    /// Returns the ranks of a row or column in words.
    fn ranks(&self, at: usize) -> String {
        let first = at * self.each;
        if self.each == 1 {
            first.to_string()
        } else {
            format!("{first}-{}", first + self.each - 1)
        }
    }
}

/// Draws the matrix of a profile; `None` where it has none.
///
/// # Errors
/// Fails if the library cannot draw it.
pub fn balance(title: &str, profile: &Profile) -> Result<Option<String>> {
    if profile.matrix.as_ref().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let cells = Cells::of(profile);
    let most = cells.means.iter().copied().fold(0.0, f64::max);
    let pixels = PIXELS.div_ceil(cells.side) as i32;
    let extent = pixels * cells.side as i32;
    let size = ((LEFT + extent + 24) as u32, (TOP + extent + 40) as u32);
    let (mut svg, mut titles) = (String::new(), Vec::new());
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        for (at, &mean) in cells.means.iter().enumerate() {
            let (row, column) = (at / cells.side, at % cells.side);
            let (left, top) = (LEFT + column as i32 * pixels, TOP + row as i32 * pixels);
            let grey = (255.0 - 254.0 * if most > 0.0 { mean / most } else { 0.0 }) as u8;
            let corners = [(left, top), (left + pixels, top + pixels)];
            let cell = Rectangle::new(corners, RGBColor(grey, grey, grey).filled());
            root.draw(&cell).map_err(drawing)?;
            let (from, to) = (cells.ranks(row), cells.ranks(column));
            titles.push(format!("{from} to {to}: {mean:.0} messages"));
        }
        let text = |text: String, at| Text::new(text, at, ("sans-serif", 16));
        let heading = Text::new(title.to_owned(), (LEFT, 4), ("sans-serif", 20));
        root.draw(&heading).map_err(drawing)?;
        for at in (0..cells.side).step_by(cells.side.div_ceil(8)) {
            let (name, along) = ((at * cells.each).to_string(), at as i32 * pixels);
            root.draw(&text(name.clone(), (LEFT + along, TOP - 16))).map_err(drawing)?;
            root.draw(&text(name, (LEFT - 34, TOP + along))).map_err(drawing)?;
        }
        let legend = format!("sender down, receiver across; black: {most:.0} messages");
        root.draw(&text(legend, (LEFT, TOP + extent + 12))).map_err(drawing)?;
        root.present().map_err(drawing)?;
    }
    Ok(Some(with_titles(&svg, "<rect ", &titles)))
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a figure: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::fake::profile;
    use clump_trace::Snapshot;

    fn sent(ranks: usize, pairs: &[(u32, u32, u64)]) -> Profile {
        let mut profile = profile(vec![Snapshot::ZERO; ranks]);
        let pair = |&(from, to, n): &(u32, u32, u64)| PairTraffic {
            from,
            to,
            short: [n, 8 * n],
            ..PairTraffic::default()
        };
        profile.matrix = Some(pairs.iter().map(pair).collect());
        profile
    }

    #[test]
    fn the_matrix_is_drawn_as_it_was() {
        let profile = sent(3, &[(0, 1, 10), (1, 2, 5), (2, 0, 1), (0, 3, 99)]);
        let svg = balance("radix", &profile).unwrap().unwrap();
        crate::golden::check("balance.svg", &svg);
        assert!(svg.contains("<title>0 to 1: 10 messages</title>"), "{svg}");
        assert!(svg.contains("#010101") && svg.contains("#FFFFFF"), "black and white: {svg}");
        assert_eq!(balance("none", &sent(2, &[])).unwrap(), None);
    }

    #[test]
    fn many_ranks_share_cells() {
        let pairs: Vec<_> = (0..1024).map(|rank| (rank, (rank + 1) % 1024, 16)).collect();
        let cells = Cells::of(&sent(1024, &pairs));
        assert_eq!((cells.side, cells.each), (64, 16));
        // In a cell on the diagonal 15 of 256 pairs exchange 16 messages.
        assert!((cells.means[0] - 15.0 / 16.0).abs() < 1e-12);
        assert_eq!(cells.ranks(1), "16-31");
    }
}
