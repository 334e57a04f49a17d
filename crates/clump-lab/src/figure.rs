//! Figures as SVG.

pub mod balance;
pub mod bars;
mod labels;
pub mod signature;
pub mod slowdown;

pub use balance::balance;
pub use slowdown::{Curve, LostTime, MeasuredPoint, SlowdownChart};

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFigure {
    /// Name of its file, and of its place in the page.
    pub name: String,
    /// Title in a list of contents.
    pub title: String,
    /// Explanation below it.
    pub caption: String,
    /// The drawing.
    pub svg: String,
}
