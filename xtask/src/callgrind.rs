//! Parses callgrind's output: instructions that ran inside a function, callees included, and the
//! functions that ran.
//!
//! Format: valgrind manual, "Callgrind Format Specification". A `fn=` line opens a function's
//! block; cost lines in it are its own, except the one after each `calls=` line, which is the
//! callee's whole cost.

use std::collections::BTreeMap;

/// Returns instructions by function, callees included. Names as callgrind wrote them.
pub fn inclusive(profile: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut costs: BTreeMap<String, u64> = BTreeMap::new();
    let (mut function, mut positions) = (String::new(), 1);
    for line in profile.lines() {
        if let Some(kinds) = line.strip_prefix("positions:") {
            positions = kinds.split_whitespace().count().max(1);
        } else if let Some(name) = line.strip_prefix("fn=") {
            resolve(&mut names, name).clone_into(&mut function);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            resolve(&mut names, name);
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            // The first event is the instruction count; a missing number is 0.
            let cost = line.split_whitespace().nth(positions).and_then(|n| n.parse::<u64>().ok());
            *costs.entry(function.clone()).or_default() += cost.unwrap_or(0);
        }
    }
    costs
}

/// A function that ran, and the file that it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// Name as callgrind wrote it.
    pub function: String,
    /// Path of the file, as the compiler was given it.
    pub file: String,
}

/// Returns the functions that ran while callgrind collected, with their files, in the order of the
/// profile. Calls outside of the collection have no cost.
pub fn visits(profile: &str) -> Vec<Visit> {
    let (mut names, mut files) = (BTreeMap::new(), BTreeMap::new());
    let costs = inclusive(profile);
    let (mut seen, mut file): (Vec<Visit>, &str) = (Vec::new(), "");
    for line in profile.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        match key {
            "fl" | "fi" | "fe" => file = resolve(&mut files, value),
            "cfi" | "cfl" => {
                resolve(&mut files, value);
            }
            "cfn" => {
                resolve(&mut names, value);
            }
            "fn" => {
                let function = resolve(&mut names, value).to_owned();
                let visit = Visit { function, file: file.to_owned() };
                if costs.get(&visit.function).is_some_and(|&cost| cost > 0)
                    && !seen.contains(&visit)
                {
                    seen.push(visit);
                }
            }
            _ => (),
        }
    }
    seen
}

/// Returns the name behind `(12) name`, which also defines 12, or behind `(12)`.
fn resolve<'a>(names: &mut BTreeMap<&'a str, &'a str>, written: &'a str) -> &'a str {
    let Some((id, name)) = written.split_once(')').filter(|_| written.starts_with('(')) else {
        return written;
    };
    let name = name.trim();
    if name.is_empty() {
        names.get(id).copied().unwrap_or("")
    } else {
        names.insert(id, name).map_or(name, |_| name)
    }
}

/// Returns true if callgrind's `name` is the function `short`: plain, demangled with its path and
/// hash, or mangled. Closures inside the function are other functions.
pub fn is_function(name: &str, short: &str) -> bool {
    let plain = without_hash(name);
    let mangled = plain.starts_with("_R") && plain.ends_with(&format!("{}{short}", short.len()));
    plain == short || plain.ends_with(&format!("::{short}")) || mangled
}

/// Returns a demangled name without the hash that the compiler adds.
pub fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            path
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile as valgrind 3.19 writes it, shortened: `icount_a` calls `push` twice; `push` has
    /// two blocks.
    const PROFILE: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
positions: line
events: Ir

ob=(1) /x/icount
fl=(1) icount.rs
fn=(1) icount::icount_a
10 7
+2 3
cfi=(2) lane.rs
cfn=(2) clump_shm::lane::push
calls=2 44
+1 40
* 2

fn=(2)
44 30
+1 10

fn=(3) main
1 5
cfn=(1)
calls=1 10
2 52

totals: 97
";

    #[test]
    fn a_function_costs_what_it_and_its_callees_cost() {
        let costs = inclusive(PROFILE);
        assert_eq!(costs["icount::icount_a"], 7 + 3 + 40 + 2);
        assert_eq!(costs["clump_shm::lane::push"], 40);
        assert_eq!(costs["main"], 57);
    }

    #[test]
    fn functions_are_listed_with_their_files_if_they_cost_something() {
        let profile = format!("{PROFILE}\nfn=(4) before\n1 0\n");
        let visit = |function: &str| Visit { function: function.into(), file: "icount.rs".into() };
        let expected = ["icount::icount_a", "clump_shm::lane::push", "main"].map(visit);
        assert_eq!(visits(&profile), expected);
    }

    #[test]
    fn instruction_positions_shift_the_cost_column() {
        let profile = "positions: instr line\nevents: Ir\nfn=(1) f\n0x10 3 9\n+4 * 1\n";
        assert_eq!(inclusive(profile)["f"], 10);
    }

    #[test]
    fn functions_are_found_by_their_short_name() {
        assert!(is_function("icount_a", "icount_a"));
        assert!(is_function("icount::icount_a", "icount_a"));
        assert!(is_function("icount::icount_a::h0123456789abcdef", "icount_a"));
        assert!(is_function("_RNvCsAbC_6icount8icount_a", "icount_a"));
        assert!(!is_function("icount::icount_a::{{closure}}", "icount_a"));
        assert!(!is_function("icount::icount_a2", "icount_a"));
        assert!(!is_function("icount::not_icount_a", "icount_a"));
    }
}
