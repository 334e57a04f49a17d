//! Calls of routines: arguments that fit.

use super::{ModelChecker, TypedOperand};
use crate::murphi::tree::{CallArgument, MurphiExpr, RoutineCall, RoutineParameter};
use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};

impl ModelChecker {
    /// Builds a call.
    ///
    /// # Errors
    /// Fails if the arguments do not fit.
    pub fn call(
        &mut self,
        routine: usize,
        given: Vec<(TypedOperand, SourcePosition)>,
        at: SourcePosition,
    ) -> Checked<RoutineCall> {
        let Some(called) = self.model.routines.get(routine).cloned() else {
            return Err(Diagnostic::new(at, "this routine does not exist"));
        };
        if called.parameters.len() != given.len() {
            let what = format!(
                "`{}` takes {} arguments, not {}",
                called.name,
                called.parameters.len(),
                given.len()
            );
            return Err(Diagnostic::new(at, what));
        }
        self.changes_state |= called.changes_state;
        self.has_set_loops |= called.has_set_loops;
        if self.pure && called.changes_state {
            let what =
                format!("`{}` changes the state, which guards and invariants may not", called.name);
            return Err(Diagnostic::new(at, what));
        }
        let mut arguments = Vec::new();
        for ((operand, at), parameter) in given.into_iter().zip(&called.parameters) {
            arguments.push(self.argument(operand, parameter, at)?);
        }
        Ok(RoutineCall { routine, arguments, at })
    }

    fn argument(
        &mut self,
        operand: TypedOperand,
        parameter: &RoutineParameter,
        at: SourcePosition,
    ) -> Checked<CallArgument> {
        let types = &self.model.types;
        let needed = parameter.type_id;
        let same = operand.type_id().is_some_and(|found| types.same(needed, found));
        let scalar = types.class(needed).is_some();
        Ok(match operand {
            TypedOperand::Place(it) if parameter.by_reference && same => {
                self.change(&it, at)?;
                CallArgument::Reference(it.place)
            }
            _ if parameter.by_reference => {
                let what = format!(
                    "the argument for `var {}` has to be a variable of type {}",
                    parameter.name,
                    self.name(needed)
                );
                return Err(Diagnostic::new(at, what));
            }
            TypedOperand::Place(it) if !scalar && same => CallArgument::Copy(it.place),
            TypedOperand::Undefined if scalar => CallArgument::Value(MurphiExpr::Undefined),
            operand => {
                let (value, found) = self.copied(operand, at)?;
                if !scalar {
                    let what =
                        format!("`{}` has to be of type {}", parameter.name, self.name(needed));
                    return Err(Diagnostic::new(at, what));
                }
                self.agree(needed, found, at)?;
                CallArgument::Value(value)
            }
        })
    }
}
