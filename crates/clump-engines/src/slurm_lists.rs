//! Lists in variables of Slurm: names of machines, and numbers of each. Pure.

/// Most machines of a list.
const MAX_NODES: usize = 65_536;

/// Reads a list of names with ranges: `a,n[1-3,07]-x`. `None`: it is none.
pub fn names(text: &str) -> Option<Vec<String>> {
    let (mut all, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, byte) in text.bytes().chain([b',']).enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                expand(text.get(start..at)?, &mut all)?;
                start = at + 1;
            }
            _ => {}
        }
    }
    (depth == 0 && !all.is_empty()).then_some(all)
}

/// Adds the names of one word, which may have ranges in brackets.
fn expand(word: &str, all: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = word.split_once('[') else {
        let fits = !word.is_empty() && !word.contains([']', ' ']) && all.len() < MAX_NODES;
        return fits.then(|| all.push(word.into()));
    };
    let (ranges, behind) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (low, high): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if !is_number(first) || low > high || high - low >= MAX_NODES - all.len() {
            return None;
        }
        for number in low..=high {
            expand(&format!("{before}{number:0width$}{behind}", width = first.len()), all)?;
        }
    }
    Some(())
}

/// Reads numbers with repetitions: `4(x2),3`. `None`: they are none.
pub fn counts(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for word in text.split(',') {
        let (count, times) = match word.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (word, 1),
        };
        if times > MAX_NODES.saturating_sub(all.len()) {
            return None;
        }
        let count: u32 = count.parse().ok()?;
        all.extend(std::iter::repeat_n(count, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded() {
        let list = |text| names(text).map(|all| all.join(" "));
        assert_eq!(list("a").unwrap(), "a");
        assert_eq!(list("n[1-3,7],b").unwrap(), "n1 n2 n3 n7 b");
        assert_eq!(list("r[08-10]").unwrap(), "r08 r09 r10");
        assert_eq!(list("r[1-2]n[1-2]-x").unwrap(), "r1n1-x r1n2-x r2n1-x r2n2-x");
        for wrong in ["", ",", "n[1-", "n[2-1]", "n]1[", "n[a]", "n[1-99999999]", "a b", "n[]"] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn counts_are_repeated() {
        assert_eq!(counts("4(x2),3"), Some(vec![4, 4, 3]));
        assert_eq!(counts("1"), Some(vec![1]));
        for wrong in ["", "x", "4(x", "4(2)", "4(x99999999999)", "4(x99999999)"] {
            assert_eq!(counts(wrong), None, "{wrong}");
        }
    }
}
