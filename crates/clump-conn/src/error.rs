//! Errors of connections, and why a connection ended.

use crate::port::Port;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The other side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A rank of this job.
    Rank {
        /// Its number.
        rank: u32,
        /// The node that it is on.
        node: u32,
    },
    /// A process of another job, by its address.
    Far(SocketAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Rank { rank, node } => write!(f, "rank {rank} on node {node}"),
            Peer::Far(address) => write!(f, "the job at {address}"),
        }
    }
}

/// Reasons why a connection has ended, other than both sides having finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The other side closed it: it takes no more messages.
    Closed,
    /// The other side gave up in the middle of a message.
    Broken,
    /// The other side's rank died.
    PeerDied,
    /// The other side's rank finalized without closing it.
    PeerLeft,
    /// No packet of the other job arrived for the allowed silence.
    Silent,
    /// The other side sent what no correct peer sends.
    Nonsense,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Closed => "it closed the connection, and takes no more messages",
            End::Broken => "it gave up in the middle of a message, which found no room for too long",
            End::PeerDied => "its rank died",
            End::PeerLeft => "its rank finalized without closing the connection",
            End::Silent => {
                "nothing was heard of it for as long as CLUMP_CONN_SILENCE_MS allows: it ended, was \
                 stopped, or is cut off"
            }
            End::Nonsense => "it sent what no clump of this version sends; is it of the same build?",
        })
    }
}

/// Reasons why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No rank listens there.
    NoListener,
    /// The listener's queue of waiting connections is full.
    QueueFull,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoListener => "nobody listens there; bind it before others connect",
            Refusal::QueueFull => {
                "its queue of connections to accept is full; it must accept sooner, or bind with a longer one"
            }
        })
    }
}

/// An error of this crate.
#[derive(thiserror::Error)]
pub enum Error {
    /// An error of active messages, mostly because a rank died.
    #[error(transparent)]
    Messages(#[from] clump_am::Error),
    /// A rank has bound that port.
    #[error("{port} of this node is bound by rank {holder}; choose another, or Port::ANY")]
    PortTaken {
        /// The port.
        port: Port,
        /// The rank that has bound it.
        holder: u32,
    },
    /// All ports are bound.
    #[error("every port from 49152 on is bound on this node")]
    NoPortFree,
    /// Port 0 cannot be connected to.
    #[error("port 0 leads nowhere; connect to the port that the listener names")]
    NoSuchPort,
    /// The job has no such node.
    #[error("there is no node {node} in this job of {nodes}")]
    NoSuchNode {
        /// The node that was asked for.
        node: u32,
        /// Nodes of the job.
        nodes: u32,
    },
    /// The connection was refused.
    #[error("{port} of {place}: {why}")]
    Refused {
        /// The target, a node or another job.
        place: ConnectTarget,
        /// The port there.
        port: Port,
        /// The reason.
        why: Refusal,
    },
    /// No answer came in time.
    #[error(
        "{port} of {place}: no answer within {limit:?}; its process has to call its listener, and a token \
         is good only while the listener that gave it lives"
    )]
    NoAnswer {
        /// The target of the connection.
        place: ConnectTarget,
        /// The port there.
        port: Port,
        /// The time that was waited.
        limit: Duration,
    },
    /// The connection has ended.
    #[error("the connection to {peer} has ended: {why}")]
    Ended {
        /// The other side.
        peer: Peer,
        /// The reason.
        why: End,
    },
    /// This side cannot send after `finish`.
    #[error("this side has finished sending on the connection to {0}")]
    Finished(Peer),
    /// A message is too long.
    #[error("a message of a connection carries at most {most} bytes, not {given}; split it")]
    TooLong {
        /// Bytes asked for.
        given: usize,
        /// The limit.
        most: usize,
    },
    /// A token cannot be read.
    #[error("this is no token of a listener: {0}; pass on all of what the server printed")]
    BadToken(&'static str),
    /// Sockets or keys for connections between jobs could not be created.
    #[error("connections between jobs cannot be used: {0}")]
    Between(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The target of a connection attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectTarget {
    /// A node of this job.
    Node(u32),
    /// Another job.
    Job(SocketAddr),
}

impl fmt::Display for ConnectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectTarget::Node(node) => write!(f, "node {node}"),
            ConnectTarget::Job(address) => write!(f, "the job at {address}"),
        }
    }
}

/// The result of calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;
