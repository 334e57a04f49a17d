//! Figures as SVG.

pub mod balance;
pub mod bars;
mod element_titles;
pub mod signature;
pub mod slowdown;

pub use balance::balance;
pub use slowdown::{Curve, MeasuredPoint, SlowdownChart};

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFigure {
    /// Name of its file.
    pub name: String,
    /// The drawing.
    pub svg: String,
}
