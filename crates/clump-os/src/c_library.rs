//! Functions and types of the C library that clump has others in place of, in programs that are
//! linked so: for memory and objects that are not shared.

pub use libc::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, EAGAIN, EBUSY, EDEADLK, EINVAL, ENOMEM, EPERM, ESRCH,
    ETIMEDOUT, FILE, RTLD_DEFAULT, aligned_alloc, calloc, clock_gettime, cpu_set_t, dlsym, exit,
    fflush, fopen, fputs, fread, free, fwrite, malloc, malloc_usable_size, memalign, mode_t, open,
    posix_memalign, pread, pthread_attr_destroy, pthread_attr_getstack, pthread_attr_getstacksize,
    pthread_attr_init, pthread_attr_setstacksize, pthread_attr_t, pthread_barrier_destroy,
    pthread_barrier_init, pthread_barrier_t, pthread_barrier_wait, pthread_barrierattr_t,
    pthread_cond_broadcast, pthread_cond_signal, pthread_cond_t, pthread_cond_timedwait,
    pthread_cond_wait, pthread_getaffinity_np, pthread_getattr_np, pthread_getspecific,
    pthread_join, pthread_key_create, pthread_key_delete, pthread_key_t, pthread_mutex_lock,
    pthread_mutex_t, pthread_mutex_timedlock, pthread_mutex_trylock, pthread_mutex_unlock,
    pthread_once, pthread_once_t, pthread_rwlock_init, pthread_rwlock_rdlock, pthread_rwlock_t,
    pthread_rwlock_tryrdlock, pthread_rwlock_trywrlock, pthread_rwlock_unlock,
    pthread_rwlock_wrlock, pthread_rwlockattr_t, pthread_self, pthread_setaffinity_np,
    pthread_setname_np, pthread_setspecific, pthread_spin_lock, pthread_spin_trylock,
    pthread_spin_unlock, pthread_spinlock_t, pthread_t, pwrite, read, realloc, recv, sem_getvalue,
    sem_init, sem_post, sem_t, sem_trywait, sem_wait, send, strlen, strnlen, timespec, write,
};
use std::ffi::{c_char, c_int, c_void};

/// Function that a thread runs. It may end by `pthread_exit`, which unwinds.
pub type ThreadFunction = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

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

    /// Prints into memory that it allocates (asprintf(3)); `arguments` is a `va_list`, which is
    /// passed as a pointer on all machines that clump knows.
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
