//! The name that a misspelt one is meant to be.

/// Returns the known name that is like `word`, if one is: few letters apart, swapped neighbours
/// being one, or continued by another word.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    let apart = |name: &'a str| {
        let goes_on = letters > 2 && (name.starts_with(word) || word.starts_with(name));
        let most = if goes_on { usize::MAX } else { (letters / 4).clamp(1, 3) };
        let changes = changes(word, name);
        (changes <= most).then_some((changes, name))
    };
    let all = known.into_iter().filter(|name| !name.is_empty());
    all.filter_map(apart).min_by_key(|&(changes, _)| changes).map(|(_, name)| name)
}

/// Returns the number of letters that are inserted, left out, replaced, or swapped with the next
/// (optimal string alignment).
fn changes(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Rows of the table: of two letters before, of the letter before, of this letter.
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != other);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i - 1] == *other && *letter == to[j - 1] {
                let swapped: usize = before[j - 1];
                least = least.min(swapped + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{changes, nearest};

    #[test]
    fn changes_are_counted() {
        for (from, to, count) in [
            ("", "", 0),
            ("", "ab", 2),
            ("node", "nodes", 1),
            ("ab", "ba", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((changes(from, to), changes(to, from)), (count, count), "{from} {to}");
        }
    }

    #[test]
    fn the_nearest_of_similar_names_is_found() {
        let known = ["ranks", "nodes", "net_loss_rate", "label", "linger"];
        for (word, name) in [
            ("rank", Some("ranks")),
            ("ndoes", Some("nodes")),
            ("net_loss", Some("net_loss_rate")),
            ("nte_los_rate", Some("net_loss_rate")),
            ("labels", Some("label")),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, known), name, "{word}");
        }
    }
}
