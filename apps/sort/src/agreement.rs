//! Results on which all ranks agree: either all go on or all give up.

use crate::exchange::{Exchange, agree};
use crate::room;
use anyhow::{Result, anyhow};

/// Returns `mine` if every rank has one, an error on every rank otherwise. Collective.
///
/// # Errors
/// Fails on every rank if any rank has an error.
pub fn together<T>(exchange: &mut dyn Exchange, mine: Result<T>) -> Result<T> {
    match mine {
        Ok(value) => agree(exchange, Ok(Vec::new())).map(|_| value),
        Err(error) => given_up(exchange, error),
    }
}

/// Reports to the others why this rank cannot continue.
pub(crate) fn given_up<T>(exchange: &mut dyn Exchange, error: anyhow::Error) -> Result<T> {
    let error = room::explain(error);
    agree(exchange, Err(error))?;
    Err(anyhow!("the ranks disagree about whether this one has failed"))
}
