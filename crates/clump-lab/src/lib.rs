//! The LogGP performance laboratory.
pub mod baseline;
pub mod compare;
pub mod contrast;
pub mod logp;
pub mod measure;
pub mod pair;
pub mod plan;
pub mod plot;
pub mod report;
pub mod steps;
pub mod svg;
pub mod text;
