//! LogGP parameters, and their estimation from measured bursts.
//!
//! Bottom layer and pure: no clock, no socket, no thread. The laboratory measures tables of samples
//! and passes them in; the results are parameters with confidence intervals and the LogP signature.
//!
//! Main types: [`Parameters`] (the machine in seven numbers), [`Measurement`] (the samples),
//! [`Estimate`] (their result, see [`Measurement::estimate`]), [`Signature`] (paper 001, figure 3),
//! [`Exchanges`] and [`Prtt`] (two further methods), [`MethodRow`] (all three side by side);
//! [`Model`] (how long a program takes on a slower network); [`KnobTable`] (how much slower a
//! network is to seem), [`Injector`] and [`delay`] (when its messages leave and are due).
//!
//! # Invariants
//! 1. Times are nanoseconds, sizes bytes; units end the name where they are not in the type's text.
//! 2. Every estimate is a median, or worked out of medians; its interval covers 95 % (order
//!    statistics, no assumption on the distribution).
//! 3. Missing or contradicting input is an [`EstimateError`] that names it, never a number.
//!
//! The method is that of Culler, Liu, Martin and Yoshikawa as papers 000 (section 4.1) and 001
//! (section 3.3) use it: bursts of requests, each answered, with a fixed delay between them. It
//! takes o_r from bursts, whose messages may share packets and system calls, and o_s from a lone
//! message. Here o_r is that of lone exchanges, so that the parameters of one table are of one way
//! of sending; the cost of a burst's message is a row of its own.
#![forbid(unsafe_code)]

pub mod burst;
pub mod delay;
pub mod estimate;
pub mod exchange;
pub mod fit;
pub mod flight_window;
pub mod injector;
pub mod knobs;
pub mod median;
pub mod methods;
pub mod models;
pub mod parameters;
pub mod prtt;
pub mod replay;

pub use burst::{Burst, Signature};
pub use estimate::{Bulk, Estimate, EstimateError, Measurement};
pub use exchange::{ExchangeEstimate, Exchanges};
pub use flight_window::FlightWindow;
pub use injector::{AnswerQueue, Injection, Injector};
pub use knobs::{BaseParameters, KnobClass, KnobError, KnobScope, KnobTable, Knobs};
pub use median::Median;
pub use methods::MethodRow;
pub use models::{AddedTimes, Model, Workload};
pub use parameters::Parameters;
pub use prtt::Prtt;
pub use replay::{Moment, PathCounts, Replay, Step, replay};
