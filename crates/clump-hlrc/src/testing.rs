//! Programs without races and their reference, for tests of this protocol over any network.

mod op;
mod oracle;
mod random_programs;

pub use op::Op;
pub use oracle::Oracle;
pub use random_programs::{ProgramShape, random_programs};
