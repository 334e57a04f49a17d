//! Shortest round tours by branch and bound in shared virtual memory (the application
//! TSP of paper 002).
//!
//! A program (`clump app tsp`) mounts [`command`]. [`distances`] are the cities, made or read by
//! [`tsplib`], which also reads the built-in [`instances`]. [`partial_tour`] has the first cities
//! of a tour, its lower bound, and the recursion that completes it; [`tour_queue`] the queue of
//! such tours in shared memory, under a lock; [`found_tours`] the shortest tour so far, whose
//! length is read without a lock. [`check`] are the serial search and the method of Held and Karp.
//!
//! Main types: [`command::TspArgs`], [`tour_queue::TourQueue`], [`found_tours::FoundTours`].
//!
//! # Invariants
//! 1. A length that is read without a lock is that of a tour that was found, or longer: a search
//!    that uses it leaves out no tour that is shorter than the shortest.
//! 2. Tours are taken from the queue and split under its lock: once it is empty, it stays so.
//! 3. No completion of a partial tour is shorter than its lower bound.

pub mod check;
pub mod command;
pub mod distances;
pub mod found_tours;
pub mod instances;
pub mod partial_tour;
pub mod tour_queue;
pub mod tsplib;
