//! Numbers other than 0 on the command line.

use clap::builder::RangedU64ValueParser;

/// Returns a parser of numbers other than 0: with no turns nothing is measured.
pub fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
