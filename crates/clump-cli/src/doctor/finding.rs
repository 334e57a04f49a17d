//! The result of one check of this machine.

use schemars::JsonSchema;
use serde::Serialize;

/// The state of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Sufficient for clump.
    Ok,
    /// Present, but slower or smaller than clump needs it.
    Degraded,
    /// Missing.
    Missing,
}

impl Verdict {
    /// Returns the word of reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Finding {
    /// Heading in the report.
    pub area: &'static str,
    /// The feature that was checked.
    pub name: &'static str,
    /// The state of the feature.
    pub verdict: Verdict,
    /// True if clump cannot run without it.
    pub essential: bool,
    /// The state that was found.
    pub found: String,
    /// Effect on clump.
    pub meaning: &'static str,
    /// The remedy; empty when all is well.
    pub remedy: String,
}

/// Returns a finding with nothing to remedy.
pub fn ok(name: &'static str, found: impl Into<String>, meaning: &'static str) -> Finding {
    Finding {
        area: "",
        name,
        verdict: Verdict::Ok,
        essential: false,
        found: found.into(),
        meaning,
        remedy: String::new(),
    }
}

impl Finding {
    /// Degrades the finding to `verdict`, with another effect and a remedy.
    pub fn but(self, verdict: Verdict, meaning: &'static str, remedy: impl Into<String>) -> Self {
        Self { verdict, meaning, remedy: remedy.into(), ..self }
    }

    /// Marks it as something that clump cannot run without.
    pub fn essential(self) -> Self {
        Self { essential: true, ..self }
    }
}
