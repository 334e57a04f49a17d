//! A bug planted by hand.

use serde::Deserialize;

/// One planted bug.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Its name on the command line.
    pub name: String,
    /// File to change, from the root.
    pub file: String,
    /// Text that occurs exactly once in it.
    pub find: String,
    /// Its replacement.
    pub replace: String,
    /// Command that must fail: words, run in the root of the copy.
    pub test: String,
    /// The effect of the bug on a user.
    pub why: String,
    /// Time limit of the command; a test that hangs has caught the bug too.
    #[serde(default = "default_limit_s")]
    pub limit_s: u64,
}

impl Mutant {
    /// Returns `original` with the bug in it.
    ///
    /// # Errors
    /// Fails if the text to change does not occur exactly once.
    pub fn planted_in(&self, original: &str) -> Result<String, String> {
        match original.matches(&self.find).count() {
            1 => Ok(original.replacen(&self.find, &self.replace, 1)),
            n => Err(format!("`{}` occurs {n} times in {}, not once", self.find, self.file)),
        }
    }
}

fn default_limit_s() -> u64 {
    300
}

/// Splits a command into words; text in single quotes is one word.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in line.split('\'').enumerate() {
        if n % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_into_words() {
        assert_eq!(words("cargo test 'a b' c"), ["cargo", "test", "a b", "c"]);
        assert_eq!(words("'RUSTFLAGS=--cfg loom' cargo"), ["RUSTFLAGS=--cfg loom", "cargo"]);
    }
}
