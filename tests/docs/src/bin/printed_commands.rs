//! Runs printed commands.
fn main() {}
