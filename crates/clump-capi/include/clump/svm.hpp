/* Shared virtual memory in C++20: the heap, and objects for synchronisation. Written by hand. */
#ifndef CLUMP_SVM_HPP
#define CLUMP_SVM_HPP

#include "clump/svm.h"
#include "clump/world.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace clump::svm {

enum class home : int {
    block = SVM_HOME_BLOCK,
    cyclic = SVM_HOME_CYCLIC,
    first_write = SVM_HOME_FIRST_WRITE,
};

namespace detail {
inline void checked(int status) { clump::detail::nothing(status).value(); }
} // namespace detail

/* A lock that lies in shared memory: for std::scoped_lock. One rank constructs it. */
class mutex {
  public:
    mutex() { detail::checked(svm_lock_init(&it_)); }
    void lock() { detail::checked(svm_lock_acquire(&it_)); }
    void unlock() { detail::checked(svm_lock_release(&it_)); }
    const svm_lock *get() const noexcept { return &it_; }

  private:
    svm_lock it_{};
};

/* A number that only grows, and that ranks wait for. */
class flag {
  public:
    flag() { detail::checked(svm_flag_init(&it_)); }
    void set(uint64_t value) { detail::checked(svm_flag_set(&it_, value)); }
    void wait(uint64_t value) { detail::checked(svm_flag_wait(&it_, value)); }

  private:
    svm_flag it_{};
};

/* A condition variable; waits are under a mutex that the rank has. */
class condition {
  public:
    condition() { detail::checked(svm_cond_init(&it_)); }
    void wait(mutex &held) { detail::checked(svm_cond_wait(&it_, held.get())); }
    template <class Predicate> void wait(mutex &held, Predicate done) {
        while (!done())
            wait(held);
    }
    void notify_one() { detail::checked(svm_cond_signal(&it_)); }
    void notify_all() { detail::checked(svm_cond_broadcast(&it_)); }

  private:
    svm_cond it_{};
};

/* The heap, at the same address in all ranks. */
class heap {
  public:
    /* Collective. Throws failure. */
    explicit heap(world &cl, uint64_t bytes = 0) : cl_(cl.get()) { detail::checked(svm_open(cl_, bytes)); }
    int rank() const { return svm_proc_id(cl_); }
    int nranks() const { return svm_nprocs(cl_); }
    void barrier() { detail::checked(svm_barrier(cl_)); }
    void fence() { detail::checked(svm_fence(cl_)); }
    /* Zeroed elements, by this rank alone. */
    template <class T> std::span<T> array(size_t count, home where = home::block) {
        static_assert(std::is_trivially_copyable_v<T>, "elements travel as they lie in memory");
        return {static_cast<T *>(
                    clump::detail::or_throw(svm_alloc(cl_, count * sizeof(T), static_cast<int>(where)))),
                count};
    }
    template <class T> void free(std::span<T> elements) { detail::checked(svm_free(cl_, elements.data())); }
    /* Zeroed elements, at all ranks together: the same in each. */
    template <class T> std::span<T> array_all(size_t count, home where = home::block) {
        static_assert(std::is_trivially_copyable_v<T>, "elements travel as they lie in memory");
        return {static_cast<T *>(
                    clump::detail::or_throw(svm_alloc_all(cl_, count * sizeof(T), static_cast<int>(where)))),
                count};
    }
    /* The object that all ranks find everything else by. Collective; rank 0 constructs it. */
    template <class T, class... Args> T &root(Args &&...args) {
        void *place = clump::detail::or_throw(svm_alloc_once(cl_, sizeof(T)));
        T *object = static_cast<T *>(place);
        if (rank() == 0)
            object = new (place) T(std::forward<Args>(args)...);
        barrier();
        return *object;
    }

  private:
    clump_t *cl_;
};

} // namespace clump::svm

#endif
