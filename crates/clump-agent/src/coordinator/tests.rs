//! Jobs over several nodes, by hand-made frames and times.
