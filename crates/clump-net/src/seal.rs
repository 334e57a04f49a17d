//! Keys of a job, and how packets are sealed and opened with them.
