//! Cost of the computation between two calls of the runtime.

use std::str::FromStr;

/// Cost of the computation between two calls of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// The processor time that it takes here, times the factor of the machine.
    Measured,
    /// So many ns for each part of the program between two calls; handlers cost none.
    Fixed(u64),
    /// As measured, and recorded.
    Record,
    /// As recorded before.
    Replay,
    /// As measured; the least of it and of what was recorded before is recorded.
    Learn,
}

/// Cost of computation as a user names it, with the folder of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputePlan {
    /// The cost.
    pub compute: Compute,
    /// The folder that has a file for each rank; empty where nothing is recorded.
    pub folder: String,
}

impl Compute {
    /// Returns it as two words.
    pub fn to_words(self) -> [u64; 2] {
        match self {
            Compute::Measured => [0, 0],
            Compute::Fixed(ns) => [1, ns],
            Compute::Record => [2, 0],
            Compute::Replay => [3, 0],
            Compute::Learn => [4, 0],
        }
    }

    /// Reads [`Compute::to_words`].
    pub fn from_words([kind, ns]: [u64; 2]) -> Self {
        match kind {
            1 => Compute::Fixed(ns),
            2 => Compute::Record,
            3 => Compute::Replay,
            4 => Compute::Learn,
            _ => Compute::Measured,
        }
    }

    /// Returns true if what is measured is written down.
    pub fn is_recorded(self) -> bool {
        matches!(self, Compute::Record | Compute::Learn)
    }

    /// Returns true if it is the processor time.
    pub fn is_measured(self) -> bool {
        matches!(self, Compute::Measured | Compute::Record | Compute::Learn)
    }
}

impl std::fmt::Display for ComputePlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.compute {
            Compute::Measured => f.write_str("measured"),
            Compute::Fixed(ns) => write!(f, "fixed:{ns}"),
            Compute::Record => write!(f, "record:{}", self.folder),
            Compute::Replay => write!(f, "replay:{}", self.folder),
            Compute::Learn => write!(f, "learn:{}", self.folder),
        }
    }
}

impl FromStr for ComputePlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of = |compute, folder: &str| Some(Self { compute, folder: folder.to_owned() });
        let known = match text.split_once(':') {
            None if text == "measured" => of(Compute::Measured, ""),
            Some(("fixed", ns)) => ns.parse().ok().and_then(|ns| of(Compute::Fixed(ns), "")),
            Some(("record", folder)) if !folder.is_empty() => of(Compute::Record, folder),
            Some(("replay", folder)) if !folder.is_empty() => of(Compute::Replay, folder),
            Some(("learn", folder)) if !folder.is_empty() => of(Compute::Learn, folder),
            _ => None,
        };
        known.ok_or_else(|| {
            format!(
                "`{text}` is not `measured`, `fixed:NS` with a number of ns, `record:FOLDER`, \
                 `learn:FOLDER` or `replay:FOLDER`"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["measured", "fixed:0", "fixed:250", "record:/a:b", "replay:c", "learn:d"] {
            let plan: ComputePlan = text.parse().unwrap();
            assert_eq!(plan.to_string(), text);
            assert_eq!(Compute::from_words(plan.compute.to_words()), plan.compute);
        }
        assert!(
            "fixed".parse::<ComputePlan>().is_err() && "fixed:-1".parse::<ComputePlan>().is_err()
        );
        assert!("record:".parse::<ComputePlan>().unwrap_err().contains("measured"));
    }
}
