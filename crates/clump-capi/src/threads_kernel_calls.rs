//! Calls of the C library that hand pointers to the kernel, by name: those that stand in for them
//! get private copies of shared memory. Sizes are those of Linux on x86_64.

use crate::threads_kernel::{
    Argument, At, Bits, Buffers, Gives, GivesAlways, KernelCall, Memory, Message, Messages,
    Objects, Of, Private, Text, Texts, Zeroed,
};

macro_rules! kernel_calls {
    ($($($name:ident)+: $($pointer:expr),+;)+) => {
        $(kernel_calls!(@row [$($name)+] [$($pointer),+]);)+
    };
    (@row [$($name:ident)+] $pointers:tt) => {
        $(kernel_calls!(@one $name $pointers);)+
    };
    (@one $name:ident $pointers:tt) => {
        #[doc = concat!("`", stringify!($name), "`: stands in for the function it is named after.")]
        ///
        /// # Safety
        /// As for that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> usize {
            static CALL: KernelCall = KernelCall::new(stringify!($name), &$pointers);
            // SAFETY: the program upholds the contract of the C function; words that it has not
            // passed are not used.
            unsafe { CALL.run([a, b, c, d, e, f]) }
        }
    };
}

// Paths.
kernel_calls! {
    __wrap_access __wrap_acct __wrap_chdir __wrap_chmod __wrap_chown __wrap_chroot __wrap_creat
    __wrap_creat64 __wrap_dlopen __wrap_eaccess __wrap_euidaccess __wrap_freopen __wrap_freopen64
    __wrap_lchmod __wrap_lchown __wrap_mkdir __wrap_mkfifo __wrap_mknod __wrap_mq_open
    __wrap___mq_open_2     __wrap_mq_unlink __wrap_open64 __wrap___open_2 __wrap___open64_2 __wrap_opendir
    __wrap_pathconf __wrap_popen __wrap_remove __wrap_rmdir __wrap_shm_open __wrap_shm_unlink
    __wrap_system __wrap_truncate __wrap_truncate64 __wrap_umount __wrap_umount2 __wrap_unlink:
        Text(0);
    __wrap_fopen64: Text(0), Text(1);
    __wrap_link __wrap_rename __wrap_symlink: Text(0), Text(1);
    __wrap_faccessat __wrap_fchmodat __wrap_fchownat __wrap_inotify_add_watch __wrap_mkdirat
    __wrap_mkfifoat __wrap_mknodat __wrap_openat __wrap_openat64 __wrap___openat_2
    __wrap___openat64_2 __wrap_unlinkat: Text(1);
    __wrap_linkat __wrap_renameat __wrap_renameat2: Text(1), Text(3);
    __wrap_symlinkat: Text(0), Text(2);
    __wrap_mkdtemp __wrap_mkostemp __wrap_mkostemp64 __wrap_mkostemps __wrap_mkostemps64
    __wrap_mkstemp __wrap_mkstemp64 __wrap_mkstemps __wrap_mkstemps64: Memory(0, Zeroed);
    __wrap_getcwd __wrap___getcwd_chk: Memory(0, Argument(1)), Gives(0);
    __wrap_get_current_dir_name: GivesAlways;
    __wrap_tempnam: Text(0), Text(1), GivesAlways;
    __wrap_canonicalize_file_name: Text(0), GivesAlways;
    __wrap_realpath __wrap___realpath_chk: Text(0), Memory(1, Of(4096)), Gives(1);
    __wrap_readlink __wrap___readlink_chk: Text(0), Memory(1, Argument(2));
    __wrap_readlinkat __wrap___readlinkat_chk: Text(1), Memory(2, Argument(3));
    __wrap_mount: Text(0), Text(1), Text(2), Text(4);
}

// Properties of files.
kernel_calls! {
    __wrap_lstat __wrap_lstat64 __wrap_stat __wrap_stat64: Text(0), Memory(1, Of(144));
    __wrap___lxstat __wrap___lxstat64 __wrap___xstat __wrap___xstat64: Text(1), Memory(2, Of(144));
    __wrap_fstat __wrap_fstat64: Memory(1, Of(144));
    __wrap___fxstat __wrap___fxstat64: Memory(2, Of(144));
    __wrap_fstatat __wrap_fstatat64: Text(1), Memory(2, Of(144));
    __wrap___fxstatat __wrap___fxstatat64: Text(2), Memory(3, Of(144));
    __wrap_statx: Text(1), Memory(4, Of(256));
    __wrap_statfs __wrap_statfs64: Text(0), Memory(1, Of(120));
    __wrap_fstatfs __wrap_fstatfs64: Memory(1, Of(120));
    __wrap_statvfs __wrap_statvfs64: Text(0), Memory(1, Of(112));
    __wrap_fstatvfs __wrap_fstatvfs64: Memory(1, Of(112));
    __wrap_utime: Text(0), Memory(1, Of(16));
    __wrap_lutimes __wrap_utimes: Text(0), Memory(1, Of(32));
    __wrap_futimesat __wrap_utimensat: Text(1), Memory(2, Of(32));
    __wrap_futimens __wrap_futimes: Memory(1, Of(32));
    __wrap_getxattr __wrap_lgetxattr __wrap_lsetxattr __wrap_setxattr:
        Text(0), Text(1), Memory(2, Argument(3));
    __wrap_fgetxattr __wrap_fsetxattr: Text(1), Memory(2, Argument(3));
    __wrap_listxattr __wrap_llistxattr: Text(0), Memory(1, Argument(2));
    __wrap_flistxattr: Memory(1, Argument(2));
    __wrap_lremovexattr __wrap_removexattr: Text(0), Text(1);
    __wrap_fremovexattr: Text(1);
}

// Contents of files, and sockets.
kernel_calls! {
    __wrap_pread64 __wrap___pread_chk __wrap___pread64_chk __wrap_pwrite64 __wrap___read_chk
    __wrap___recv_chk __wrap_getdents64: Memory(1, Argument(2));
    __wrap_preadv __wrap_preadv64 __wrap_preadv2 __wrap_preadv64v2 __wrap_pwritev
    __wrap_pwritev64 __wrap_pwritev2 __wrap_pwritev64v2 __wrap_readv __wrap_vmsplice
    __wrap_writev: Buffers(1, 2);
    __wrap_sendfile __wrap_sendfile64: Memory(2, Of(8));
    __wrap_copy_file_range __wrap_splice: Memory(1, Of(8)), Memory(3, Of(8));
    __wrap_getentropy __wrap_getrandom: Memory(0, Argument(1));
    __wrap_pipe __wrap_pipe2: Memory(0, Of(8));
    __wrap_socketpair: Memory(3, Of(8));
    __wrap_accept __wrap_accept4 __wrap_getpeername __wrap_getsockname:
        Memory(1, At(2)), Memory(2, Of(4));
    __wrap_bind __wrap_connect: Memory(1, Argument(2));
    __wrap_recvfrom: Memory(1, Argument(2)), Memory(4, At(5)), Memory(5, Of(4));
    __wrap_sendto: Memory(1, Argument(2)), Memory(4, Argument(5));
    __wrap_getsockopt: Memory(3, At(4)), Memory(4, Of(4));
    __wrap_setsockopt: Memory(3, Argument(4));
    __wrap_recvmsg __wrap_sendmsg: Message(1);
    __wrap_recvmmsg: Messages(1, 2), Memory(4, Of(16));
    __wrap_sendmmsg: Messages(1, 2);
    __wrap_mq_send: Memory(1, Argument(2));
    __wrap_mq_receive: Memory(1, Argument(2)), Memory(3, Of(4));
    __wrap_mq_timedsend: Memory(1, Argument(2)), Memory(4, Of(16));
    __wrap_mq_timedreceive: Memory(1, Argument(2)), Memory(3, Of(4)), Memory(4, Of(16));
    __wrap_mq_getattr: Memory(1, Of(64));
    __wrap_mq_setattr: Memory(1, Of(64)), Memory(2, Of(64));
}

// Waits.
kernel_calls! {
    __wrap_poll __wrap___poll_chk: Memory(0, Objects(1, 8));
    __wrap_ppoll __wrap___ppoll_chk: Memory(0, Objects(1, 8)), Memory(2, Of(16)), Memory(3, Of(128));
    __wrap_select: Memory(1, Bits(0)), Memory(2, Bits(0)), Memory(3, Bits(0)), Memory(4, Of(16));
    __wrap_pselect: Memory(1, Bits(0)), Memory(2, Bits(0)), Memory(3, Bits(0)), Memory(4, Of(16)),
        Memory(5, Of(128));
    __wrap_epoll_ctl: Memory(3, Of(12));
    __wrap_epoll_wait: Memory(1, Objects(2, 12));
    __wrap_epoll_pwait: Memory(1, Objects(2, 12)), Memory(4, Of(128));
    __wrap_epoll_pwait2: Memory(1, Objects(2, 12)), Memory(3, Of(16)), Memory(4, Of(128));
    __wrap_nanosleep: Memory(0, Of(16)), Memory(1, Of(16));
    __wrap_clock_nanosleep: Memory(2, Of(16)), Memory(3, Of(16));
    __wrap_pthread_sigmask __wrap_sigprocmask: Memory(1, Of(128)), Memory(2, Of(128));
    __wrap_sigpending __wrap_sigsuspend: Memory(0, Of(128));
    __wrap_sigwait: Memory(0, Of(128)), Memory(1, Of(4));
    __wrap_sigwaitinfo: Memory(0, Of(128)), Memory(1, Of(128));
    __wrap_sigtimedwait: Memory(0, Of(128)), Memory(1, Of(128)), Memory(2, Of(16));
    __wrap_signalfd: Memory(1, Of(128));
    __wrap_wait: Memory(0, Of(4));
    __wrap_waitpid: Memory(1, Of(4));
    __wrap_waitid: Memory(2, Of(128));
    __wrap_wait3: Memory(0, Of(4)), Memory(2, Of(144));
    __wrap_wait4: Memory(1, Of(4)), Memory(3, Of(144));
}

// Time.
kernel_calls! {
    __wrap_clock_getres __wrap_clock_gettime __wrap_clock_settime: Memory(1, Of(16));
    __wrap_gettimeofday __wrap_settimeofday: Memory(0, Of(16)), Memory(1, Of(8));
    __wrap_time: Memory(0, Of(8));
    __wrap_timespec_get: Memory(0, Of(16));
    __wrap_times: Memory(0, Of(32));
    __wrap_getitimer: Memory(1, Of(32));
    __wrap_setitimer: Memory(1, Of(32)), Memory(2, Of(32));
    __wrap_timer_create: Memory(1, Of(64)), Memory(2, Of(8));
    __wrap_timer_settime __wrap_timerfd_settime: Memory(2, Of(32)), Memory(3, Of(32));
    __wrap_timer_gettime __wrap_timerfd_gettime: Memory(1, Of(32));
    __wrap_adjtimex __wrap_ntp_adjtime: Memory(0, Of(208));
    __wrap_clock_adjtime: Memory(1, Of(208));
}

// The process, its limits, the machine.
kernel_calls! {
    __wrap_getrusage: Memory(1, Of(144));
    __wrap_getrlimit __wrap_getrlimit64 __wrap_setrlimit __wrap_setrlimit64: Memory(1, Of(16));
    __wrap_prlimit __wrap_prlimit64: Memory(2, Of(16)), Memory(3, Of(16));
    __wrap_uname: Memory(0, Of(390));
    __wrap_sysinfo: Memory(0, Of(112));
    __wrap_getdomainname __wrap___getdomainname_chk __wrap_gethostname __wrap___gethostname_chk
    __wrap_getlogin_r __wrap___getlogin_r_chk __wrap_setdomainname __wrap_sethostname: Memory(0, Argument(1));
    __wrap_ptsname_r __wrap___ptsname_r_chk __wrap_ttyname_r __wrap___ttyname_r_chk: Memory(1, Argument(2));
    __wrap_getgroups __wrap___getgroups_chk __wrap_setgroups: Memory(1, Objects(0, 4));
    __wrap_getresgid __wrap_getresuid: Memory(0, Of(4)), Memory(1, Of(4)), Memory(2, Of(4));
    __wrap_sched_getaffinity __wrap_sched_setaffinity: Memory(2, Argument(1));
    __wrap_sched_getparam __wrap_sched_setparam: Memory(1, Of(4));
    __wrap_sched_setscheduler: Memory(2, Of(4));
    __wrap_sched_rr_get_interval: Memory(1, Of(16));
    __wrap_getcpu: Memory(0, Of(4)), Memory(1, Of(4));
    __wrap_prctl: Memory(1, Of(16));
    __wrap_execv __wrap_execvp: Text(0), Texts(1);
    __wrap_execve __wrap_execvpe: Text(0), Texts(1), Texts(2);
    __wrap_posix_spawn __wrap_posix_spawnp:
        Text(1), Memory(2, Of(80)), Memory(3, Of(336)), Texts(4), Texts(5);
}

// Calls that keep the pointers that they get, or whose memory clump cannot determine: pointers to
// shared memory end the program.
kernel_calls! {
    __wrap_aio_cancel __wrap_aio_cancel64: Private(1);
    __wrap_aio_error __wrap_aio_error64 __wrap_aio_read __wrap_aio_read64 __wrap_aio_return
    __wrap_aio_return64 __wrap_aio_suspend __wrap_aio_suspend64 __wrap_aio_write
    __wrap_aio_write64 __wrap_mincore __wrap_open_memstream __wrap_open_wmemstream
    __wrap_remap_file_pages: Private(0);
    __wrap_aio_fsync __wrap_aio_fsync64 __wrap_lio_listio __wrap_lio_listio64 __wrap_msgrcv
    __wrap_msgsnd __wrap_process_vm_readv __wrap_process_vm_writev __wrap_semop
    __wrap_semtimedop __wrap_tsearch: Private(1);
    __wrap_clone __wrap_getdirentries __wrap_getdirentries64 __wrap_scandir __wrap_scandir64:
        Private(1);
    __wrap_name_to_handle_at __wrap_scandirat __wrap_scandirat64: Private(2);
    __wrap_msgctl __wrap_shmctl: Private(2);
    __wrap_quotactl: Private(3);
    __wrap_fanotify_mark: Private(4);
}
