//! Functions and types of the C library that clump has others in place of, in programs that are
//! linked so: for memory and objects that are not shared.

pub use libc::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, EAGAIN, EBUSY, EDEADLK, EFAULT, EINTR, EINVAL, ENOMEM, ENOSYS,
    ENOTSUP, EPERM, ESRCH, ETIMEDOUT, FILE, MADV_DONTNEED, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED,
    MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_PRIVATE, MAP_SHARED, MAP_STACK, MAP_TYPE, MREMAP_FIXED,
    MREMAP_MAYMOVE, PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE, RTLD_DEFAULT, SIGKILL,
    aligned_alloc, brk, calloc, clock_gettime, cpu_set_t, dlsym, exit, fflush, fileno, fopen,
    fopen64, fputs, fread, free, fstat, fwrite, iovec, madvise, malloc, malloc_usable_size,
    memalign, mlock, mmap, mode_t, mprotect, mremap, msghdr, msync, munlock, munmap, off_t, open,
    open64, posix_memalign, pread, pread64, pthread_attr_destroy, pthread_attr_getstack,
    pthread_attr_getstacksize, pthread_attr_init, pthread_attr_setstacksize, pthread_attr_t,
    pthread_barrier_destroy, pthread_barrier_init, pthread_barrier_t, pthread_barrier_wait,
    pthread_barrierattr_t, pthread_cancel, pthread_cond_broadcast, pthread_cond_signal,
    pthread_cond_t, pthread_cond_timedwait, pthread_cond_wait, pthread_getaffinity_np,
    pthread_getattr_np, pthread_getschedparam, pthread_getspecific, pthread_join,
    pthread_key_create, pthread_key_delete, pthread_key_t, pthread_kill, pthread_mutex_lock,
    pthread_mutex_t, pthread_mutex_timedlock, pthread_mutex_trylock, pthread_mutex_unlock,
    pthread_once, pthread_once_t, pthread_rwlock_init, pthread_rwlock_rdlock, pthread_rwlock_t,
    pthread_rwlock_tryrdlock, pthread_rwlock_trywrlock, pthread_rwlock_unlock,
    pthread_rwlock_wrlock, pthread_rwlockattr_t, pthread_self, pthread_setaffinity_np,
    pthread_setname_np, pthread_setschedparam, pthread_setspecific, pthread_spin_lock,
    pthread_spin_trylock, pthread_spin_unlock, pthread_spinlock_t, pthread_t, pwrite, pwrite64,
    read, realloc, recv, sbrk, sched_param, sem_getvalue, sem_init, sem_post, sem_t, sem_timedwait,
    sem_trywait, sem_wait, send, setvbuf, shmat, sigaltstack, stack_t, stat, strlen, strnlen,
    timespec, wchar_t, wcslen, write,
};
use std::ffi::{c_char, c_int, c_void};

/// Function that a thread runs. It may end by `pthread_exit`, which unwinds.
pub type ThreadFunction = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Functions of a stream, as [`fopencookie`] takes them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct StreamFunctions {
    /// Reads; `None`: there is nothing to read.
    pub read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
    /// Writes, and returns how many bytes.
    pub write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    /// Moves in the stream.
    pub seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    /// Closes it.
    pub close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    /// Has a function called at the end of the process, with its exit code (on_exit(3)).
    pub fn on_exit(
        function: unsafe extern "C" fn(c_int, *mut c_void),
        argument: *mut c_void,
    ) -> c_int;

    /// Creates a thread (pthread_create(3)).
    pub fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        function: ThreadFunction,
        argument: *mut c_void,
    ) -> c_int;

    /// Reads up to a character, into memory that it allocates (getdelim(3)).
    pub fn getdelim(
        line: *mut *mut c_char,
        room: *mut usize,
        last: c_int,
        stream: *mut FILE,
    ) -> isize;

    /// Environment of the process (environ(7)): texts, the last one null.
    pub static mut environ: *mut *mut c_char;

    /// Stream of standard output (stdout(3)).
    pub static mut stdout: *mut FILE;

    /// Returns the bytes that wait in a stream to be written (stdio_ext(3)).
    pub fn __fpending(stream: *mut FILE) -> usize;

    /// Opens a stream over functions of the program (fopencookie(3)).
    pub fn fopencookie(
        cookie: *mut c_void,
        mode: *const c_char,
        functions: StreamFunctions,
    ) -> *mut FILE;

    /// Prints into a stream (vfprintf(3));
    /// `arguments` as for [`vasprintf`].
    pub fn vfprintf(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) -> c_int;

    /// Prints into memory that it allocates (asprintf(3)); `arguments` is a `va_list`, which is
    /// passed as a pointer on all machines that clump supports.
    pub fn vasprintf(
        text: *mut *mut c_char,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

unsafe extern "C-unwind" {
    /// Ends the thread (pthread_exit(3)).
    pub fn pthread_exit(result: *mut c_void) -> !;
}
