//! The translation table: the endpoints that an endpoint may send to.

use crate::endpoint_name::en_t;
use crate::endpoint_slot::{Own, ep_t};
use crate::named_endpoint::NamedEndpoint;
use crate::status::{AmFailure, Code, Result, bad, call, give};
use crate::translation_entry::TranslationEntry;
use clump_am::{BorrowedEndpoint, Dest, Tag};
use std::ffi::c_int;

/// Maximum number of entries of a table.
pub(crate) const MAX_ENTRIES: usize = 1 << 16;

impl Own {
    /// The destination and the tag of an entry; `None` if nothing is bound to it.
    #[inline(always)]
    pub(crate) fn destination(
        &mut self,
        index: c_int,
        inside: &mut BorrowedEndpoint<'_>,
    ) -> Result<Option<(Dest, u64)>> {
        match usize::try_from(index).ok().and_then(|index| self.table.get_mut(index)) {
            Some(Some(TranslationEntry { tag, dest: Some(dest), .. })) => Ok(Some((*dest, *tag))),
            Some(Some(entry)) => {
                let dest = inside.map(entry.name.name(), Tag(entry.tag))?;
                entry.dest = Some(dest);
                let tag = entry.tag;
                self.retired.retain(|&old| {
                    // The rest of a deposit that was begun is still sent there.
                    let named = inside.has_deferred(old);
                    // Otherwise it is unmapped; unmapping an absent entry fails harmlessly.
                    let _ = named || inside.unmap(old).is_ok();
                    named
                });
                Ok(Some((dest, tag)))
            }
            Some(None) => Ok(None),
            None => Err(out_of_table(index, self.table.len())),
        }
    }

    fn entry(&mut self, index: c_int) -> Result<&mut Option<TranslationEntry>> {
        let entries = self.table.len();
        let place = usize::try_from(index).ok().and_then(|index| self.table.get_mut(index));
        place.ok_or_else(|| out_of_table(index, entries))
    }

    fn used(&mut self, index: c_int) -> Result<TranslationEntry> {
        self.entry(index)?.ok_or_else(|| {
            AmFailure::new(Code::Resource, format!("nothing is mapped at index {index}"))
        })
    }

    fn resize(&mut self, entries: usize) -> Result<()> {
        if entries == 0 || entries > MAX_ENTRIES {
            let what = format!("a translation table has 1 to {MAX_ENTRIES} entries, not {entries}");
            return Err(AmFailure::new(Code::Resource, what));
        }
        if self.table.iter().skip(entries).any(Option::is_some) {
            let what = format!("entries from index {entries} on are in use; AM_UnMap them first");
            return Err(AmFailure::new(Code::InUse, what));
        }
        self.table.resize(entries, None);
        Ok(())
    }
}

#[cold]
fn out_of_table(index: c_int, entries: usize) -> AmFailure {
    bad(format!(
        "the translation table has indices 0 to {}, not {index}",
        entries.saturating_sub(1)
    ))
}

/// Implements `AM_Map` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_Map(endpoint: ep_t, index: c_int, name: en_t, tag: u64) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?.with_own(|own| {
            let place = own.entry(index)?;
            if place.is_some() {
                let what = format!("index {index} is mapped already; AM_UnMap it first");
                return Err(AmFailure::new(Code::InUse, what));
            }
            *place = Some(TranslationEntry { name, tag, dest: None });
            Ok(())
        })
    })
}

/// Implements `AM_MapAny` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MapAny(endpoint: ep_t, index: *mut c_int, name: en_t, tag: u64) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?.with_own(|own| {
            let Some(free) = own.table.iter().position(Option::is_none) else {
                let what = format!(
                    "all {} entries are in use; see AM_SetNumTranslations",
                    own.table.len()
                );
                return Err(AmFailure::new(Code::Resource, what));
            };
            give(index, "the place for an index", free as c_int)?;
            own.table[free] = Some(TranslationEntry { name, tag, dest: None });
            Ok(())
        })
    })
}

/// Implements `AM_UnMap` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_UnMap(endpoint: ep_t, index: c_int) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?.with_own(|own| {
            let entry = own.used(index)?;
            *own.entry(index)? = None;
            own.retired.extend(entry.dest);
            Ok(())
        })
    })
}

/// Implements `AM_GetTranslationInuse` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetTranslationInuse(endpoint: ep_t, index: c_int) -> c_int {
    call(|| NamedEndpoint::read(endpoint)?.with_own(|own| own.used(index).map(drop)))
}

/// Implements `AM_GetTranslationTag` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetTranslationTag(endpoint: ep_t, index: c_int, tag: *mut u64) -> c_int {
    call(|| NamedEndpoint::read(endpoint)?.with_own(|own| give(tag, "a tag", own.used(index)?.tag)))
}

/// Implements `AM_GetTranslationName` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetTranslationName(endpoint: ep_t, index: c_int, name: *mut en_t) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?
            .with_own(|own| give(name, "an endpoint's name", own.used(index)?.name))
    })
}

/// Implements `AM_MaxNumTranslations` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxNumTranslations(most: *mut c_int) -> c_int {
    call(|| give(most, "a number of entries", MAX_ENTRIES as c_int))
}

/// Implements `AM_GetNumTranslations` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetNumTranslations(endpoint: ep_t, entries: *mut c_int) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?
            .with_own(|own| give(entries, "a number of entries", own.table.len() as c_int))
    })
}

/// Implements `AM_SetNumTranslations` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetNumTranslations(endpoint: ep_t, entries: c_int) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?
            .with_own(|own| own.resize(usize::try_from(entries).unwrap_or(0)))
    })
}

/// Implements `AM_SetExpectedResources` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetExpectedResources(
    endpoint: ep_t,
    endpoints: c_int,
    outstanding: c_int,
) -> c_int {
    call(|| {
        let named = NamedEndpoint::read(endpoint)?;
        if endpoints < 0 || outstanding < 0 {
            return Err(bad("a program expects no negative number of endpoints or requests"));
        }
        named.with_own(|own| {
            let wanted = usize::try_from(endpoints).unwrap_or(0);
            if wanted > own.table.len() { own.resize(wanted) } else { Ok(()) }
        })
    })
}
