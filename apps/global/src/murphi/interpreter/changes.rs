//! What the interpreter prints, and how it changes multisets.

use crate::murphi::interpreter::{TreeInterpreter, Walked};
use crate::murphi::tree::{ItemSource, MurphiStatement};

impl TreeInterpreter<'_> {
    pub(super) fn put(&mut self, item: &ItemSource) -> Walked<()> {
        let types = &self.model.types;
        match item {
            ItemSource::Text(text) => self.printed.push_str(text),
            ItemSource::Value(value, of) => {
                let value = self.eval(value)?;
                self.printed.push_str(&types.show(*of, value));
            }
            ItemSource::Place(place, of) => {
                let at = self.address(place)? as u32;
                self.printed.push_str(&types.show_all(*of, at, &self.cells.0));
            }
        }
        Ok(())
    }

    pub(super) fn set_change(&mut self, statement: &MurphiStatement) -> Walked<()> {
        match statement {
            MurphiStatement::SetAdd(place, set, item, at) => {
                let address = self.address(place)?;
                let (value, from) = match item {
                    ItemSource::Value(value, of) => {
                        let value = self.eval(value)?;
                        self.at = *at;
                        (self.typed(*of, value)?, None)
                    }
                    ItemSource::Place(from, _) => (0, Some(self.address(from)?)),
                    ItemSource::Text(_) => return Ok(()),
                };
                self.at = *at;
                let Some(to) = self.cells.free_slot(address, *set) else {
                    return self
                        .failure(format!("the multiset is full: it has {} slots", set.capacity));
                };
                self.cells.set(to, 1);
                match from {
                    None => self.cells.set(to + 1, value),
                    Some(from) => self.cells.move_cells(from, to + 1, set.stride as usize - 1),
                }
            }
            MurphiStatement::SetRemove(place, set, slot, at) => {
                let address = self.address(place)?;
                let slot = self.eval(slot)?;
                self.at = *at;
                let at = self.slot(*set, slot, address)?;
                self.cells.empty(at, *set);
            }
            MurphiStatement::SetRemoveWhere(place, set, local, test) => {
                for slot in 0..i64::from(set.capacity) {
                    if self.choose((place, *set), (*local, slot), test)? {
                        let address = self.address(place)?;
                        let at = self.slot(*set, slot, address)?;
                        self.cells.empty(at, *set);
                    }
                }
            }
            _ => clump_bug::bug!("no change of a multiset"),
        }
        Ok(())
    }
}
