//! Loops over the edges of an irregular mesh in shared virtual memory (the
//! application Unstructured of paper 002).
//!
//! A program (`clump app unstructured`) mounts [`command`]. [`delaunay`] makes the mesh of random
//! points, by exact [`predicates`]; [`partition`] divides it among ranks, [`mesh_input`] numbers
//! nodes and edges by that. [`flow`] is the arithmetic of an edge; [`shared_mesh`] has nodes and
//! edges in shared memory, and [`edge_loops`] runs over them. [`check`] are the serial version, and
//! the rules of meshes.
//!
//! Main types: [`command::UnstructuredArgs`], [`delaunay::DelaunayMesh`],
//! [`edge_loops::EdgeLoops`].
//!
//! # Invariants
//! 1. Quantities are whole numbers, and what an edge takes from one end it adds to the other: sums
//!    are equal bit by bit in any order, and over all nodes they never change.
//! 2. The sum of a node that several ranks add to changes under a lock; one that a single rank adds
//!    to is that rank's between barriers.
//! 3. No point lies inside the sphere through the corners of a tetrahedron of the mesh.

pub mod check;
pub mod command;
pub mod delaunay;
pub mod edge_loops;
pub mod flow;
pub mod mesh_input;
pub mod partition;
pub mod predicates;
pub mod shared_mesh;
