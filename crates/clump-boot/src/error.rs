//! Errors before a rank has joined.

use clump_os::OsError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{0}")]
    Os(#[from] OsError),
    /// A limit of this process is too low for a rank.
    #[error("{0}")]
    Limit(#[from] clump_os::limit::TooLow),
    /// A setting has a value that it cannot have.
    #[error("{origin} is `{value}`, but must be {expected}")]
    BadValue {
        /// The origin of the value: variable, file entry or option, as the user wrote it.
        origin: String,
        /// The value found there.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// The configuration file cannot be used.
    #[error("the configuration file {path} (from CLUMP_CONFIG): {why}")]
    BadFile {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// The knobs of the laboratory cannot be turned so.
    #[error("{origin}: {why}")]
    BadKnobs {
        /// The origin of the text.
        origin: String,
        /// The reason.
        #[source]
        why: clump_loggp::KnobError,
    },
    /// The file of the machine's parameters cannot be used.
    #[error("the machine file {path}: {why}; clump lab calibrate writes a new one")]
    BadMachine {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// Another process joined as this rank.
    #[error(
        "this process was started by a rank of a clump job, but another process has joined as that \
         rank already (CLUMP_BOOT_FD={number}); one process per rank may call init. To run a job of \
         its own, start it without the CLUMP_* variables (env -u CLUMP_BOOT_FD ...)"
    )]
    SeatTaken {
        /// The descriptor that the environment names.
        number: String,
    },
    /// The agent's message is not one that this build understands.
    #[error(
        "the launcher speaks another language than this program ({0}); build program and launcher \
         from one version of clump"
    )]
    OtherVersion(String),
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
