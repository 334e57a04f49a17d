//! Traces of a job (`clump run --trace`): one axis of time for all ranks, sends matched with their
//! handlers, the summary, the export to Perfetto, and the run played again on a slower network.

pub mod clock_offsets;
pub mod graph;
pub mod line_file;
pub mod made;
pub mod matcher;
pub mod perfetto;
pub mod protobuf;
pub mod serial_phases;
pub mod summary;
pub mod summary_tables;
pub mod timeline;
pub mod traced_machine;
pub mod track_times;
pub mod virtual_nics;

pub use clock_offsets::{ClockOffset, LeastTimes};
pub use graph::RunGraph;
pub use matcher::{Matcher, MessageName};
pub use serial_phases::SerialPhases;
pub use summary::TraceSummary;
pub use timeline::{Timeline, TimelineEvent};
pub use traced_machine::TracedMachine;
