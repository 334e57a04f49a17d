//! Balance of communication (paper 001, figure 4): senders down, receivers across; the page's own
//! colour for no message, that of its text for as many as the busiest pair has.

use crate::figure::labels::escaped;
use clump_trace::{PairTraffic, Profile};
use std::fmt::Write;

/// Most cells of a side. A job of more ranks shows the mean of several pairs in a cell.
const MAX_SIDE: usize = 64;
/// Pixels of the matrix, about; of a cell, at most; and of the whole, at least, for what is below.
const PIXELS: usize = 384;
const MAX_PIXELS: usize = 64;
const MIN_EXTENT: usize = 250;
/// Most ranks whose cells have numbers, and pixels of a cell with one, at least.
const NUMBERED: usize = 16;
const NUMBER_PIXELS: usize = 28;
const LEFT: usize = 48;
const TOP: usize = 52;

/// Messages by sender and receiver, in cells of `each` ranks a side.
#[derive(Debug, Clone, PartialEq)]
struct Cells {
    side: usize,
    each: usize,
    ranks: usize,
    /// Mean of the messages of a pair, row by row.
    means: Vec<f64>,
}

impl Cells {
    fn of(profile: &Profile) -> Self {
        let ranks = profile.ranks();
        let pairs = || profile.matrix.iter().flatten();
        // Interfaces of nodes have numbers beyond those of the ranks.
        let most = pairs().map(|pair| pair.from.max(pair.to) as usize + 1).max().unwrap_or(0);
        let all = most.clamp(ranks, 2 * ranks.max(1));
        let each = all.div_ceil(MAX_SIDE).max(1);
        let side = all.div_ceil(each);
        let mut means = vec![0.0; side * side];
        let known = |pair: &&PairTraffic| (pair.from.max(pair.to) as usize) < all;
        for pair in pairs().filter(known) {
            let (row, column) = (pair.from as usize / each, pair.to as usize / each);
            let width = |at: usize| each.min(all - at * each) as f64;
            means[row * side + column] += pair.messages() as f64 / width(row) / width(column);
        }
        Self { side, each, ranks, means }
    }

    /// Returns the ranks of a row or column in words, or the interface of a node.
    fn ranks(&self, at: usize) -> String {
        let first = at * self.each;
        if self.each == 1 { self.name(at) } else { format!("{first}-{}", first + self.each - 1) }
    }

    /// Returns the name of the first rank or interface of a row or column.
    fn name(&self, at: usize) -> String {
        let first = at * self.each;
        match first.checked_sub(self.ranks) {
            Some(node) => format!("if {node}"),
            None => first.to_string(),
        }
    }
}

/// Draws the matrix of a profile; `None` where it has none.
///
/// Cells have the colour of the page's text, as strong as they have messages, so that they can be
/// read on light and on dark; up to 16 ranks have numbers.
pub fn balance(title: &str, profile: &Profile) -> Option<String> {
    if profile.matrix.as_ref().is_none_or(Vec::is_empty) {
        return None;
    }
    let cells = Cells::of(profile);
    let most = cells.means.iter().copied().fold(0.0, f64::max);
    // The interfaces of nodes have rows and columns, too.
    let numbered = cells.ranks <= NUMBERED;
    let pixels = PIXELS.div_ceil(cells.side).min(MAX_PIXELS);
    let pixels = if numbered { pixels.max(NUMBER_PIXELS) } else { pixels };
    let extent = (pixels * cells.side).max(MIN_EXTENT);
    let (width, height) = (LEFT + extent + 24, TOP + extent + 76);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r##"<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13" fill="#000000">
<text x="8" y="20" font-size="17">{}</text>
"##,
        escaped(title)
    );
    for (at, &mean) in cells.means.iter().enumerate() {
        let (row, column) = (at / cells.side, at % cells.side);
        let (left, top) = (LEFT + column * pixels, TOP + row * pixels);
        let share = if most > 0.0 { mean / most } else { 0.0 };
        let (from, to) = (cells.ranks(row), cells.ranks(column));
        let _ = writeln!(
            out,
            r##"<rect x="{left}" y="{top}" width="{pixels}" height="{pixels}" fill-opacity="{share:.3}" stroke="#888888" stroke-width="0.5"><title>{from} to {to}: {mean:.0} messages</title></rect>"##
        );
        if numbered && mean >= 0.5 {
            // On a strong cell the number has the colour of the page.
            let fill = if share > 0.55 { r##" class="on-strong" fill="#ffffff""## } else { "" };
            let _ = writeln!(
                out,
                r#"<text x="{}" y="{}" text-anchor="middle" font-size="{}"{fill}>{}</text>"#,
                left + pixels / 2,
                top + pixels / 2 + 4,
                if pixels < 40 { 9 } else { 12 },
                short(mean)
            );
        }
    }
    for at in (0..cells.side).step_by(cells.side.div_ceil(8)) {
        let (name, middle) = (cells.name(at), at * pixels + pixels / 2);
        let _ = writeln!(
            out,
            r#"<text x="{}" y="{}" text-anchor="middle">{name}</text><text x="{}" y="{}" text-anchor="end">{name}</text>"#,
            LEFT + middle,
            TOP - 6,
            LEFT - 8,
            TOP + middle + 4
        );
    }
    scale(&mut out, TOP + extent, most);
    out += "</svg>\n";
    Some(out)
}

/// Draws the scale of the colours below the matrix.
fn scale(out: &mut String, below: usize, most: f64) {
    const STEPS: usize = 5;
    let _ = writeln!(
        out,
        r#"<text x="{LEFT}" y="{}">sender down, receiver across; messages:</text>"#,
        below + 24
    );
    for step in 0..STEPS {
        #[expect(clippy::cast_precision_loss, reason = "steps are few")]
        let share = step as f64 / (STEPS - 1) as f64;
        let left = LEFT + step * 50;
        let _ = writeln!(
            out,
            r##"<rect x="{left}" y="{}" width="50" height="14" fill-opacity="{share:.3}" stroke="#888888" stroke-width="0.5"/><text x="{}" y="{}" text-anchor="middle" font-size="12">{}</text>"##,
            below + 32,
            left + 25,
            below + 62,
            short(share * most)
        );
    }
}

/// Returns a count with a suffix and at most three figures.
fn short(count: f64) -> String {
    let (scaled, suffix) = match count {
        c if c < 999.5 => (c, ""),
        c if c < 999_500.0 => (c / 1e3, "k"),
        c if c < 999_500_000.0 => (c / 1e6, "M"),
        c => (c / 1e9, "G"),
    };
    let digits = if suffix.is_empty() || scaled >= 99.95 { 0 } else { 1 };
    format!("{scaled:.digits$}{suffix}")
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
        let profile = sent(3, &[(0, 1, 10), (1, 2, 5), (2, 0, 1), (0, 6, 99)]);
        let svg = balance("radix", &profile).unwrap();
        crate::golden::check("balance.svg", &svg);
        assert!(svg.contains("<title>0 to 1: 10 messages</title>"), "{svg}");
        assert!(!svg.contains("99"), "a number of no rank and no interface: {svg}");
        let reads = sent(2, &[(0, 3, 7), (3, 0, 7)]);
        let answers = balance("reads", &reads).unwrap();
        assert!(answers.contains("<title>if 1 to 0: 7 messages</title>"), "answers of gets: {svg}");
        assert!(svg.contains("fill-opacity=\"1.000\"") && svg.contains("fill-opacity=\"0.500\""));
        assert!(svg.contains("class=\"on-strong\" fill=\"#ffffff\">10</text>"), "{svg}");
        assert_eq!(balance("none", &sent(2, &[])), None);
        let counts = [0.0, 999.0, 1234.0, 514_330.0, 2.5e6].map(short);
        assert_eq!(counts, ["0", "999", "1.2k", "514k", "2.5M"]);
    }

    #[test]
    fn sixteen_ranks_have_numbers_beside_those_of_their_interfaces() {
        // Each rank reads from the next node, whose interface answers.
        let pairs = (0..16).flat_map(|rank| [(rank, 16 + (rank + 1) % 16, 7), (16, rank, 8)]);
        let svg = balance("reads", &sent(16, &pairs.collect::<Vec<_>>())).unwrap();
        assert!(svg.matches(">7</text>").count() >= 16, "{svg}");
        let pairs: Vec<_> = (0..17).map(|rank| (rank, (rank + 1) % 17, 7)).collect();
        // The largest number of the scale, and the name of a rank perhaps.
        assert!(balance("ring", &sent(17, &pairs)).unwrap().matches(">7</text>").count() < 3);
    }

    #[test]
    fn many_ranks_share_cells() {
        let pairs: Vec<_> = (0..1024).map(|rank| (rank, (rank + 1) % 1024, 16)).collect();
        let cells = Cells::of(&sent(1024, &pairs));
        assert_eq!((cells.side, cells.each), (64, 16));
        // In a cell on the diagonal 15 of 256 pairs exchange 16 messages.
        assert!((cells.means[0] - 15.0 / 16.0).abs() < 1e-12);
        assert_eq!(cells.ranks(1), "16-31");
        let svg = balance("ring", &sent(1024, &pairs)).unwrap();
        assert!(!svg.contains("on-strong"), "no numbers in 4096 cells");
    }
}
