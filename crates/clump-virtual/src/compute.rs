//! Cost of the computation between two calls of the runtime.

use std::str::FromStr;

/// Cost of the computation between two calls of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// The processor time that it takes here, times the factor of the machine.
    Measured,
    /// So many ns for each part of the program between two calls; handlers cost none.
    Fixed(u64),
}

impl Compute {
    /// Returns it as two words.
    pub fn to_words(self) -> [u64; 2] {
        match self {
            Compute::Measured => [0, 0],
            Compute::Fixed(ns) => [1, ns],
        }
    }

    /// Reads [`Compute::to_words`].
    pub fn from_words([kind, ns]: [u64; 2]) -> Self {
        if kind == 0 { Compute::Measured } else { Compute::Fixed(ns) }
    }
}

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Compute::Measured => f.write_str("measured"),
            Compute::Fixed(ns) => write!(f, "fixed:{ns}"),
        }
    }
}

impl FromStr for Compute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fixed = |ns: &str| ns.parse().ok().map(Compute::Fixed);
        let known = match text.split_once(':') {
            None if text == "measured" => Some(Compute::Measured),
            Some(("fixed", ns)) => fixed(ns),
            _ => None,
        };
        known
            .ok_or_else(|| format!("`{text}` is not `measured`, or `fixed:NS` with a number of ns"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for compute in [Compute::Measured, Compute::Fixed(0), Compute::Fixed(250)] {
            assert_eq!(compute.to_string().parse(), Ok(compute));
            assert_eq!(Compute::from_words(compute.to_words()), compute);
        }
        assert!("fixed".parse::<Compute>().is_err() && "fixed:-1".parse::<Compute>().is_err());
        assert!("record:file".parse::<Compute>().unwrap_err().contains("measured"));
    }
}
