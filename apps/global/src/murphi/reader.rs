//! The reader of a model: words in, checked model out. It reads and checks at once, since Murphi
//! declares before it uses.
//!
//! [`words`] has the words, [`type_definition`], [`expression`] and [`statement`] what their names
//! say, [`declaration`] the rest of a model, [`rules`] rules, start states and invariants.

pub mod declaration;
pub mod expression;
pub mod rules;
pub mod statement;
pub mod type_definition;
pub mod words;

use crate::murphi::tree::CheckedModel;
use clump_app_frame::diagnostic::{Checked, Diagnostic};
use words::ModelReader;

/// Reads a model, and checks all of it; `constants` have other values than in its text.
///
/// # Errors
/// Fails with the first error in the text.
pub fn read(text: &str, constants: &[(String, i64)]) -> Checked<CheckedModel> {
    debug_assert!(constants.iter().all(|(name, _)| !name.is_empty()), "names of constants");
    let mut reader = ModelReader::new(text, constants.to_vec())?;
    declaration::model(&mut reader)?;
    let (end, model) = (reader.at(), reader.checker.model);
    if let Some((name, _)) = reader.constants.first() {
        return Err(Diagnostic::new(end, format!("the model has no constant `{name}`")));
    }
    // Without one nothing would be searched, and no error found.
    if model.starts.is_empty() {
        return Err(Diagnostic::new(end, "the model has no start state"));
    }
    debug_assert!(
        model.variables.iter().all(|it| it.offset < model.cells),
        "variables of the state"
    );
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn constants_get_other_values_if_there_are_any() {
        let text = "const N: 2; var x: 0..N; startstate x := N end;";
        let with = |name: &str, value| read(text, &[(name.to_owned(), value)]);
        assert_eq!(with("N", 5).unwrap().types.values(2), 6);
        assert!(with("M", 5).unwrap_err().what.contains("no constant `M`"));
    }
}
