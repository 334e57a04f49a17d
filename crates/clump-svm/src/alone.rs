//! Allocation by single ranks, without others: from the dynamic part of the heap.

use crate::dynamic_heap::{
    CHUNK_PAGES, MAX_SMALL, PageUse, SharedWords, class_bytes, class_of, rule_number,
};
use crate::dynamic_part::DynamicPart;
use crate::error::{ErrorKind, Result};
use crate::node_pages::PAGE;
use crate::settings::Home;
use crate::svm::Svm;
use std::ptr::NonNull;
use std::sync::PoisonError;

impl Svm {
    /// Allocates `bytes` bytes, zeroed, for this rank alone, which hands their address to others
    /// through memory. They lie in the dynamic part of the heap
    /// ([`SvmOptions::dynamic_bytes`](crate::SvmOptions::dynamic_bytes)). More than 1 KiB take
    /// whole pages, with homes as `home` says; less lies on pages whose home is this node.
    ///
    /// # Errors
    /// Fails if that part is full, if there is no such node, if a rank died, or, on one node, if
    /// the machine has less memory than `bytes`.
    pub fn alloc_alone(&self, bytes: u64, home: Home) -> Result<NonNull<u8>> {
        self.check_home(home)?;
        let part = self.dynamic()?;
        if bytes > MAX_SMALL {
            let first = self.pages_alone(part, bytes, home)?;
            return Ok(self.page_address(first));
        }
        let class = class_of(bytes);
        let mut own = part.own.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = match own.take(class) {
            Some(offset) => offset,
            None => {
                let bytes = CHUNK_PAGES * PAGE as u64;
                let first = self.pages_alone(part, bytes, Home::Node(self.node()))?;
                self.mark_small(part, first, class)?;
                own.add_pages(class, first * PAGE as u64, bytes);
                own.take(class).unwrap_or(first * PAGE as u64)
            }
        };
        // SAFETY: inside the dynamic part, and so inside the heap.
        let place = unsafe { self.base().add(offset as usize) };
        // SAFETY: the object is this rank's, which took it from the free ones.
        unsafe { place.write_bytes(0, class_bytes(class) as usize) };
        Ok(place)
    }

    /// Allocates as [`Svm::alloc_alone`] does, at a multiple of `alignment`, a power of two. Above
    /// a page it takes pages of which those before and behind the allocation are free again.
    ///
    /// # Errors
    /// As [`Svm::alloc_alone`].
    pub fn alloc_aligned(&self, bytes: u64, alignment: u64, home: Home) -> Result<NonNull<u8>> {
        debug_assert!(alignment.is_power_of_two(), "alignments are");
        let page = PAGE as u64;
        if alignment <= page {
            // Small objects lie at multiples of their size, and others at pages.
            return self.alloc_alone(bytes.max(alignment), home);
        }
        self.check_home(home)?;
        let part = self.dynamic()?;
        let (pages, step) = (bytes.div_ceil(page).max(1), alignment / page);
        let all = pages.saturating_add(step - 1).saturating_mul(page);
        let first = self.pages_alone(part, all, home)?;
        let number = self.page_address(first).addr().get() as u64 / page;
        let before = number.next_multiple_of(step) - number;
        self.keep_middle(part, (first, before, pages, step - 1 - before), rule_number(home))?;
        Ok(self.page_address(first + before))
    }

    /// Frees pages of an allocation: the first `before` ones, and `behind` those that it keeps.
    fn keep_middle(
        &self,
        part: &DynamicPart,
        (first, before, pages, behind): (u64, u64, u64, u64),
        rule: u64,
    ) -> Result<()> {
        self.acquire(part.lock)?;
        let first = first - part.pages.0;
        part.uses.set(first as usize, PageUse::Free.pack());
        part.uses.set((first + before) as usize, PageUse::Pages(pages, rule).pack());
        for (first, pages) in [(first, before), (first + before + pages, behind)] {
            if pages > 0 {
                part.free_pages().give(first, pages, rule);
            }
        }
        self.release(part.lock)
    }

    /// Takes pages, and tells all nodes of their homes.
    fn pages_alone(&self, part: &DynamicPart, bytes: u64, home: Home) -> Result<u64> {
        let (pages, rule) = (bytes.div_ceil(PAGE as u64), rule_number(home));
        self.check_memory(bytes)?;
        self.acquire(part.lock)?;
        let taken = part.free_pages().take(pages, rule);
        if let Some((first, _)) = taken {
            part.uses.set(first as usize, PageUse::Pages(pages, rule).pack());
        }
        let left = part.pages.1 - part.state.get(0);
        self.release(part.lock)?;
        let Some((first, new)) = taken else {
            let (heap, left) = (part.pages.1 * PAGE as u64, left * PAGE as u64);
            return Err(ErrorKind::HeapFull { asked: bytes, heap, left }.into());
        };
        let first = part.pages.0 + first;
        if new {
            self.place_alone(first, pages, home)?;
        } else {
            // SAFETY: inside the dynamic part; the pages are this rank's, which took them from the
            // free ones.
            unsafe { self.page_address(first).write_bytes(0, pages as usize * PAGE) };
        }
        Ok(first)
    }

    /// Notes that pages hold small objects.
    fn mark_small(&self, part: &DynamicPart, first: u64, class: usize) -> Result<()> {
        let first = (first - part.pages.0) as usize;
        self.acquire(part.lock)?;
        for page in first..first + CHUNK_PAGES as usize {
            part.uses.set(page, PageUse::Small(class).pack());
        }
        self.release(part.lock)
    }

    /// Gives memory back that [`Svm::alloc_alone`] returned in any rank. Pages keep their homes,
    /// and are used for allocations with the same.
    ///
    /// # Errors
    /// Fails if `address` is none that it returned, or was given back before, as far as that can be
    /// told; or if a rank died.
    pub fn free(&self, address: NonNull<u8>) -> Result<()> {
        let part = self.dynamic()?;
        let wrong = || ErrorKind::NotAllocated(address.addr().get());
        let offset = (address.addr().get() as u64).checked_sub(self.base().addr().get() as u64);
        let page = offset.and_then(|offset| (offset / PAGE as u64).checked_sub(part.pages.0));
        let (offset, page) = match (offset, page) {
            (Some(offset), Some(page)) if page < part.pages.1 => (offset, page),
            _ => return Err(wrong().into()),
        };
        self.acquire(part.lock)?;
        let found = PageUse::unpack(part.uses.get(page as usize));
        let whole = offset.is_multiple_of(PAGE as u64);
        if let PageUse::Pages(pages, rule) = found
            && whole
        {
            part.uses.set(page as usize, PageUse::Free.pack());
            part.free_pages().give(page, pages, rule);
        }
        self.release(part.lock)?;
        match found {
            PageUse::Pages(..) if whole => Ok(()),
            PageUse::Small(class) if offset.is_multiple_of(class_bytes(class)) => {
                let mut own = part.own.lock().unwrap_or_else(PoisonError::into_inner);
                own.give(class, offset);
                Ok(())
            }
            _ => Err(wrong().into()),
        }
    }

    /// Returns the bytes that an allocation of [`Svm::alloc_alone`] has room for.
    ///
    /// # Errors
    /// Fails as [`Svm::free`] does.
    pub fn allocated_bytes(&self, address: NonNull<u8>) -> Result<usize> {
        let part = self.dynamic()?;
        let wrong = || ErrorKind::NotAllocated(address.addr().get());
        let offset = address.addr().get().checked_sub(self.base().addr().get());
        let page = offset.and_then(|offset| (offset / PAGE).checked_sub(part.pages.0 as usize));
        let page = page.filter(|&page| page < part.pages.1 as usize).ok_or_else(wrong)?;
        self.acquire(part.lock)?;
        let found = PageUse::unpack(part.uses.get(page));
        self.release(part.lock)?;
        match found {
            PageUse::Free => Err(wrong().into()),
            PageUse::Pages(pages, _) => Ok(pages as usize * PAGE),
            PageUse::Small(class) => Ok(class_bytes(class) as usize),
        }
    }

    /// Makes bytes of the heap ready for a system call that reads them, or, if `stores`, writes
    /// them: such a call fails with EFAULT on pages that the rank has no right on. They stay ready
    /// until the next call of shared virtual memory. Other memory is left alone.
    ///
    /// # Errors
    /// Fails, and fetches nothing, if bytes of the heap among them were not allocated.
    pub fn touch(&self, address: NonNull<u8>, bytes: usize, stores: bool) -> Result<()> {
        self.check_allocated((address.addr().get(), bytes))?;
        self.touch_all(address, bytes, stores);
        Ok(())
    }

    /// Checks that those of `bytes` bytes from an address on that lie in the heap were allocated,
    /// as far as this rank knows: what is handed to it by a lock, a flag or a barrier, it does.
    pub(crate) fn check_allocated(&self, (address, bytes): (usize, usize)) -> Result<()> {
        let (begin, end) = self.addresses();
        let behind = address.saturating_add(bytes);
        if bytes == 0 || address >= end || behind <= begin {
            return Ok(());
        }
        let (first, last) = (address.max(begin) - begin, behind - begin);
        let within =
            |from: usize, pages: u64| first >= from && last <= from + pages as usize * PAGE;
        let in_dynamic = |part: &DynamicPart| {
            let from = part.pages.0 as usize * PAGE;
            // That word may have to be fetched.
            within(from, part.pages.1) && within(from, part.state.get(0).min(part.pages.1))
        };
        if within(0, self.allocated_pages()) || self.dynamic().is_ok_and(in_dynamic) {
            return Ok(());
        }
        Err(ErrorKind::BeyondAllocated { address, bytes }.into())
    }

    /// Touches bytes of the heap, which were allocated.
    pub(crate) fn touch_all(&self, address: NonNull<u8>, bytes: usize, stores: bool) {
        let (begin, end) = self.addresses();
        let first = address.addr().get().max(begin);
        let last = address.addr().get().saturating_add(bytes).min(end);
        let mut at = first;
        while at < last {
            // SAFETY: inside the heap, which is mapped; a byte that the caller may use.
            unsafe {
                let place = std::ptr::with_exposed_provenance_mut::<u8>(at);
                let byte = place.read_volatile();
                if stores {
                    place.write_volatile(byte);
                }
            }
            at = (at / PAGE + 1) * PAGE;
        }
    }
}
