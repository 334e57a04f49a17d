//! Figures as SVG, drawn by a plotting library.

pub mod balance;
mod element_titles;
pub mod slowdown;

pub use balance::balance;
pub use slowdown::{Curve, SlowdownChart};

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFigure {
    /// Name of its file.
    pub name: String,
    /// The drawing.
    pub svg: String,
}
