//! Sort of 32-bit keys by their digits, in shared virtual memory (the kernel Radix
//! of paper 003, original and local).
//!
//! A program (`clump app radix-svm`) mounts [`command`]. Each pass counts digits, adds up the
//! counts of all ranks, and stores every key at its place in the other array: key by key, so that
//! ranks write scattered words of pages of all nodes (*original*), or in runs of equal digits that
//! were collected first (*local*).
//!
//! Main types: [`command::RadixSvmArgs`], [`passes::Passes`].
//!
//! # Invariants
//! 1. A pass keeps the order of keys with equal digits.

pub mod command;
pub mod passes;
