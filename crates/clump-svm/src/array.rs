//! Arrays and matrices in the shared heap.

use crate::error::{ErrorKind, Result};
use crate::settings::Home;
use crate::svm::Svm;
use clump_coll::Plain;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// Array in the shared heap: one address in all ranks, zeroed at first. Clones are the same array.
///
/// Elements are read and written as in private memory. As with threads, two accesses of one element
/// of which one is a write need a lock, a barrier or a flag between them; without that, a read
/// returns some value, and nothing else is damaged.
#[derive(Debug, Clone)]
pub struct SharedArray<T> {
    svm: Svm,
    first: NonNull<T>,
    len: usize,
    element: PhantomData<T>,
}

// SAFETY: the address of shared memory, of elements that are copied in and out.
unsafe impl<T: Plain> Send for SharedArray<T> {}
// SAFETY: as above: through a shared array, too, elements are accessed by raw copies alone
// (invariant 4).
unsafe impl<T: Plain> Sync for SharedArray<T> {}

impl Svm {
    /// Allocates an array of `len` elements. A collective: all ranks pass the same.
    ///
    /// # Errors
    /// Fails as [`Svm::alloc`] does.
    pub fn array<T: Plain>(&self, len: usize, home: Home) -> Result<SharedArray<T>> {
        let first = self.alloc(bytes_of::<T>(len), home)?;
        Ok(SharedArray::over(self, first, len))
    }

    /// Allocates an array of `len` elements as [`Svm::array`] does, also one that is larger than
    /// the machine's memory: for arrays of which only a part is touched. On one node the kernel
    /// ends a rank that touches more than there is. A collective: all ranks pass the same.
    ///
    /// # Errors
    /// Fails as [`Svm::alloc_sparse`] does.
    pub fn sparse_array<T: Plain>(&self, len: usize, home: Home) -> Result<SharedArray<T>> {
        let first = self.alloc_sparse(bytes_of::<T>(len), home)?;
        Ok(SharedArray::over(self, first, len))
    }

    /// Allocates a matrix of `rows` rows of `columns` elements, one row behind the other. A
    /// collective: all ranks pass the same.
    ///
    /// # Errors
    /// Fails as [`Svm::alloc`] does.
    pub fn matrix<T: Plain>(
        &self,
        rows: usize,
        columns: usize,
        home: Home,
    ) -> Result<SharedMatrix<T>> {
        let elements = self.array(rows.saturating_mul(columns), home)?;
        Ok(SharedMatrix { elements, rows, columns })
    }
}

/// Returns the bytes of `len` elements.
fn bytes_of<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}

impl Svm {
    /// Returns the words at an address of the heap: what [`Svm::alloc_alone`] returned in any rank.
    ///
    /// # Errors
    /// Fails if they do not lie in the heap.
    pub fn words_at(&self, address: usize, len: usize) -> Result<SharedArray<u64>> {
        let (begin, end) = self.addresses();
        let bytes = len.saturating_mul(size_of::<u64>());
        let offset = address.checked_sub(begin).filter(|&offset| offset.is_multiple_of(8));
        let offset = offset.filter(|&offset| offset < end - begin && bytes <= end - begin - offset);
        let offset = offset.ok_or(ErrorKind::NotAllocated(address))?;
        // SAFETY: inside the heap (just checked).
        let first = unsafe { self.base().add(offset) }.cast::<u64>();
        Ok(SharedArray { svm: self.clone(), first, len, element: PhantomData })
    }
}

impl<T: Plain> SharedArray<T> {
    /// Returns the array of `len` elements that was allocated at `first`.
    fn over(svm: &Svm, first: NonNull<u8>, len: usize) -> Self {
        let first = first.cast::<T>();
        debug_assert!(first.is_aligned(), "pages are aligned for any type");
        Self { svm: svm.clone(), first, len, element: PhantomData }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the heap.
    pub fn svm(&self) -> &Svm {
        &self.svm
    }

    /// Returns the address of the first element, the same in all ranks.
    pub fn address(&self) -> NonNull<T> {
        self.first
    }

    #[inline(always)]
    fn place(&self, at: usize) -> *mut T {
        assert!(at < self.len, "element {at} of an array that has {}", self.len);
        // SAFETY: inside the allocation (just checked).
        unsafe { self.first.as_ptr().add(at) }
    }

    /// Returns an element.
    ///
    /// # Panics
    /// Panics if there is no such element.
    #[inline(always)]
    pub fn get(&self, at: usize) -> T {
        // SAFETY: an aligned element of the heap, which stays mapped as long as the process; all
        // bits are a value of the type. Other processes write by raw copies, too (invariant 4).
        unsafe { self.place(at).read() }
    }

    /// Sets an element.
    ///
    /// # Panics
    /// Panics if there is no such element.
    #[inline(always)]
    pub fn set(&self, at: usize, value: T) {
        // SAFETY: as for `get`.
        unsafe { self.place(at).write(value) }
    }

    #[inline]
    fn range(&self, from: usize, count: usize) -> *mut T {
        let end = from.checked_add(count).filter(|&end| end <= self.len);
        assert!(
            end.is_some(),
            "{count} elements from {from} on, of an array that has {}",
            self.len
        );
        // SAFETY: inside the allocation, or at its end (just checked).
        unsafe { self.first.as_ptr().add(from) }
    }

    /// Copies elements out, from `from` on.
    ///
    /// # Panics
    /// Panics if there are not so many.
    #[inline]
    pub fn read(&self, from: usize, into: &mut [T]) {
        let first = self.range(from, into.len());
        // SAFETY: as for `get`; private memory does not overlap the heap.
        unsafe { first.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) }
    }

    /// Copies elements in, from `from` on.
    ///
    /// # Panics
    /// Panics if there are not so many.
    #[inline]
    pub fn write(&self, from: usize, values: &[T]) {
        let first = self.range(from, values.len());
        // SAFETY: as for `get`; private memory does not overlap the heap.
        unsafe { first.copy_from_nonoverlapping(values.as_ptr(), values.len()) }
    }

    /// Returns the elements that this rank owns if all ranks share them evenly, in order.
    pub fn own_block(&self) -> Range<usize> {
        let (rank, ranks) = (self.svm.rank() as u128, self.svm.nranks() as u128);
        let at = |rank: u128| (self.len as u128 * rank / ranks) as usize;
        at(rank)..at(rank + 1)
    }
}

/// Matrix in the shared heap, row by row. Clones are the same matrix.
#[derive(Debug, Clone)]
pub struct SharedMatrix<T> {
    elements: SharedArray<T>,
    rows: usize,
    columns: usize,
}

impl<T: Plain> SharedMatrix<T> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the elements, row by row.
    pub fn elements(&self) -> &SharedArray<T> {
        &self.elements
    }

    /// Returns an element.
    ///
    /// # Panics
    /// Panics if there is no such element.
    #[inline(always)]
    pub fn get(&self, row: usize, column: usize) -> T {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.elements.get(row * self.columns + column)
    }

    /// Sets an element.
    ///
    /// # Panics
    /// Panics if there is no such element.
    #[inline(always)]
    pub fn set(&self, row: usize, column: usize, value: T) {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.elements.set(row * self.columns + column, value);
    }

    /// Copies a row out.
    ///
    /// # Panics
    /// Panics if there is no such row, or `into` is not as long as one.
    pub fn read_row(&self, row: usize, into: &mut [T]) {
        assert_eq!(into.len(), self.columns, "a row has so many elements");
        self.elements.read(row * self.columns, into);
    }

    /// Copies a row in.
    ///
    /// # Panics
    /// Panics if there is no such row, or `values` is not as long as one.
    pub fn write_row(&self, row: usize, values: &[T]) {
        assert_eq!(values.len(), self.columns, "a row has so many elements");
        self.elements.write(row * self.columns, values);
    }
}
