/* One-sided operations in C++20: memory of other ranks, locks, flags. Written by hand. */
#ifndef CLUMP_RMA_HPP
#define CLUMP_RMA_HPP

#include "clump/standard.hpp"

#include "clump/pending.hpp"
#include "clump/rma.h"
#include "clump/world.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

namespace clump {

namespace detail {
template <class T> constexpr bool is_rma_word = std::is_same_v<T, uint64_t> || std::is_same_v<T, uint32_t>;
} // namespace detail

/* Comparisons of a word with a value. */
enum class comparison : int {
    equal = CLUMP_EQUAL,
    not_equal = CLUMP_NOT_EQUAL,
    at_least = CLUMP_AT_LEAST,
    at_most = CLUMP_AT_MOST,
};
/* Blocks of equal length at equal distances: offset, block and stride, in bytes. */
using strides = clump_strides;

/* The global name of a segment; may be exchanged. */
struct segment_name {
    clump_segment_id value = 0;
};

/* Memory of this rank that others may access; operations on it are refused once it is destroyed. */
class segment {
  public:
    explicit segment(clump_segment *it) : it_(detail::or_throw(it)) {}
    segment_name name() const { return {clump_segment_name(it_.get())}; }
    void *base() const { return clump_segment_base(it_.get()); }
    result<void> grow(uint64_t size) { return detail::nothing(clump_segment_grow(it_.get(), size)); }

  private:
    detail::owned<clump_segment, clump_segment_close> it_;
};

/* A segment of any rank. T is uint64_t or uint32_t. */
class target {
  public:
    explicit target(clump_target *it) : it_(detail::or_throw(it)) {}
    bool is_near() const { return clump_target_is_near(get()) == 1; }
    segment_name name() const { return {clump_target_name(get())}; }

    template <class T> result<void> put(uint64_t offset, T value) {
        static_assert(detail::is_rma_word<T>, "a word is uint64_t or uint32_t");
        if constexpr (sizeof(T) == 8) return detail::nothing(clump_rma_put_u64(get(), offset, value));
        else return detail::nothing(clump_rma_put_u32(get(), offset, value));
    }
    template <class T> result<T> get_word(uint64_t offset) {
        static_assert(detail::is_rma_word<T>, "a word is uint64_t or uint32_t");
        T value = 0;
        int done;
        if constexpr (sizeof(T) == 8) done = clump_rma_get_u64(get(), offset, &value);
        else done = clump_rma_get_u32(get(), offset, &value);
        return detail::either(done, value);
    }
    template <class T> result<T> load(uint64_t offset) { return atomic<T>(offset, CLUMP_LOAD, 0); }
    template <class T> result<T> swap(uint64_t offset, T value) { return atomic<T>(offset, CLUMP_SWAP, value); }
    template <class T> result<T> fetch_add(uint64_t offset, T operand) {
        T old = 0;
        int done;
        if constexpr (sizeof(T) == 8) done = clump_rma_fetch_add_u64(get(), offset, operand, &old);
        else done = clump_rma_fetch_add_u32(get(), offset, operand, &old);
        return detail::either(done, old);
    }
    template <class T> result<T> compare_swap(uint64_t offset, T expected, T desired) {
        return atomic<T>(offset, CLUMP_COMPARE_SWAP, desired, expected);
    }
    /* Does any operation; returns the old value of the word. */
    template <class T> result<T> atomic(uint64_t offset, clump_atomic op, T operand, T other = 0) {
        static_assert(detail::is_rma_word<T>, "a word is uint64_t or uint32_t");
        T old = 0;
        int done;
        if constexpr (sizeof(T) == 8) done = clump_rma_atomic_u64(get(), offset, op, operand, other, &old);
        else done = clump_rma_atomic_u32(get(), offset, op, operand, other, &old);
        return detail::either(done, old);
    }
    /* Adds without waiting: rma::quiet waits until it is complete. */
    template <class T> result<void> add(uint64_t offset, T operand) {
        static_assert(detail::is_rma_word<T>, "a word is uint64_t or uint32_t");
        if constexpr (sizeof(T) == 8) return detail::nothing(clump_rma_add_u64(get(), offset, operand));
        else return detail::nothing(clump_rma_add_u32(get(), offset, operand));
    }
    template <class T> result<void> put(uint64_t offset, std::span<const T> from) {
        static_assert(std::is_trivially_copyable_v<T>, "bytes travel as they lie in memory");
        return detail::nothing(clump_rma_put(get(), offset, from.data(), from.size_bytes()));
    }
    template <class T>
        requires(!std::is_const_v<T>)
    result<void> put(uint64_t offset, std::span<T> from) {
        return put(offset, std::span<const T>(from));
    }
    template <class T> result<void> get(uint64_t offset, std::span<T> to) {
        static_assert(std::is_trivially_copyable_v<T>, "bytes travel as they lie in memory");
        return detail::nothing(clump_rma_get(get(), offset, to.data(), to.size_bytes()));
    }
    /* Transfers whole blocks, one after the other in `from` and `to`, to and from those of this
     * target. */
    template <class T> result<void> put_strided(const strides &to, std::span<const T> from) {
        static_assert(std::is_trivially_copyable_v<T>, "bytes travel as they lie in memory");
        return detail::nothing(clump_rma_put_strided(get(), &to, from.data(), from.size_bytes()));
    }
    template <class T>
        requires(!std::is_const_v<T>)
    result<void> put_strided(const strides &to, std::span<T> from) {
        return put_strided(to, std::span<const T>(from));
    }
    template <class T> result<void> get_strided(const strides &from, std::span<T> to) {
        static_assert(std::is_trivially_copyable_v<T>, "bytes travel as they lie in memory");
        return detail::nothing(clump_rma_get_strided(get(), &from, to.data(), to.size_bytes()));
    }
    /* Puts, and then signals: a rank that sees the signal sees what was put. */
    template <class T> result<void> put_signal(uint64_t offset, std::span<const T> from, const clump_signal &then) {
        static_assert(std::is_trivially_copyable_v<T>, "bytes travel as they lie in memory");
        return detail::nothing(clump_rma_put_signal(get(), offset, from.data(), from.size_bytes(), &then));
    }
    template <class T>
        requires(!std::is_const_v<T>)
    result<void> put_signal(uint64_t offset, std::span<T> from, const clump_signal &then) {
        return put_signal(offset, std::span<const T>(from), then);
    }
    result<void> signal(uint64_t offset, uint64_t value, bool adds = false) {
        return detail::nothing(clump_rma_signal(get(), offset, value, adds));
    }
    /* Waits until a word of this node's memory compares so; returns its value then. */
    result<uint64_t> wait_until(uint64_t offset, comparison how, uint64_t value) {
        uint64_t seen = 0;
        const int done = clump_rma_wait_until_u64(get(), offset, static_cast<int>(how), value, &seen);
        return detail::either(done, seen);
    }

    /* Split-phase operations: begun here, waited for through the result. They throw failure if
     * nothing could be begun. */
    template <class T> pending<void> start_put(uint64_t offset, std::span<const T> from) {
        static_assert(std::is_trivially_copyable_v<T>, "bytes travel as they lie in memory");
        return pending<void>(clump_rma_put_start(get(), offset, from.data(), from.size_bytes()));
    }
    template <class T> pending<T> start_atomic(uint64_t offset, clump_atomic op, T operand, T other = 0) {
        static_assert(detail::is_rma_word<T>, "a word is uint64_t or uint32_t");
        if constexpr (sizeof(T) == 8)
            return pending<T>(clump_rma_atomic_start_u64(get(), offset, op, operand, other));
        else
            return pending<T>(clump_rma_atomic_start_u32(get(), offset, op, operand, other));
    }
    /* Begins to read into `to`, which must not be used or freed until rma::sync has returned. */
    template <class T> result<void> start_get(uint64_t offset, std::span<T> to) {
        static_assert(std::is_trivially_copyable_v<T>, "bytes travel as they lie in memory");
        return detail::nothing(clump_rma_get_start(get(), offset, to.data(), to.size_bytes()));
    }
    clump_target *get() const noexcept { return it_.get(); }

  private:
    detail::owned<clump_target, clump_target_close> it_;
};

/* A word that ranks set and add to, and wait for. */
class flag {
  public:
    explicit flag(clump_flag *it) : it_(detail::or_throw(it)) {}
    result<void> set(uint64_t value) { return detail::nothing(clump_flag_set(get(), value)); }
    result<void> add(uint64_t value) { return detail::nothing(clump_flag_add(get(), value)); }
    result<uint64_t> value() {
        uint64_t value = 0;
        const int done = clump_flag_get(get(), &value);
        return detail::either(done, value);
    }
    /* Waits until the flag compares so; returns its value then. */
    result<uint64_t> wait(comparison how, uint64_t value) {
        uint64_t seen = 0;
        const int done = clump_flag_wait(get(), static_cast<int>(how), value, &seen);
        return detail::either(done, seen);
    }
    /* Waits as wait does, for `limit` at most; nothing if the time has passed. */
    result<std::optional<uint64_t>> wait_within(comparison how, uint64_t value, std::chrono::nanoseconds limit) {
        uint64_t seen = 0;
        const auto ns = static_cast<uint64_t>(std::max<int64_t>(limit.count(), 0));
        const int done = clump_flag_wait_within(get(), static_cast<int>(how), value, ns, &seen);
        return detail::either(done, done == 1 ? std::optional(seen) : std::nullopt);
    }
    clump_flag *get() const noexcept { return it_.get(); }

  private:
    detail::owned<clump_flag, clump_flag_close> it_;
};

/* A fair lock of all ranks, for std::scoped_lock and the like; its functions throw failure. */
class lock {
  public:
    explicit lock(clump_lock *it) : it_(detail::or_throw(it)) {}
    void acquire() { detail::nothing(clump_lock_acquire(it_.get())).value(); }
    void release() { detail::nothing(clump_lock_release(it_.get())).value(); }
    bool try_acquire() { return detail::count(clump_lock_try(it_.get())).value() == 1; }
    /* The word that travels with the lock, while it is held. */
    uint64_t word() const {
        uint64_t word = 0;
        detail::nothing(clump_lock_word(it_.get(), &word)).value();
        return word;
    }
    void set_word(uint64_t word) { detail::nothing(clump_lock_set_word(it_.get(), word)).value(); }

    /* Holds a lock while it lives. */
    class guard {
      public:
        explicit guard(lock &it) : it_(it) { it_.acquire(); }
        guard(const guard &) = delete;
        guard &operator=(const guard &) = delete;
        ~guard() { (void)clump_lock_release(it_.it_.get()); }

      private:
        lock &it_;
    };

  private:
    detail::owned<clump_lock, clump_lock_close> it_;
};

/* One-sided operations of this thread. */
class rma {
  public:
    /* Throws failure. */
    explicit rma(world &cl) : it_(detail::or_throw(clump_rma_open(cl.get()))) {}
    result<void> fence() { return detail::nothing(clump_rma_fence(get())); }
    result<void> quiet() { return detail::nothing(clump_rma_quiet(get())); }
    /* Waits for everything that target::start_get began. */
    result<void> sync() { return detail::nothing(clump_rma_sync(get())); }
    /* Throws failure, as the functions below. */
    segment export_segment(uint64_t size, uint64_t reserved = 0) {
        return segment(clump_segment_export(get(), size, reserved));
    }
    segment export_locks(uint64_t count) { return segment(clump_locks_export(get(), count)); }
    segment export_flags(uint64_t count) { return segment(clump_flags_export(get(), count)); }
    flag open_flag(segment_name name, uint64_t index) { return flag(clump_flag_open(get(), name.value, index)); }
    target open(segment_name name) { return target(clump_target_open(get(), name.value)); }
    lock open_lock(segment_name name, uint64_t index) { return lock(clump_lock_open(get(), name.value, index)); }
    /* Allocates memory on each rank: returns this rank's segment, and the targets of all ranks.
     * Collective. */
    std::pair<segment, std::vector<target>> allocate(world &cl, uint64_t size) {
        std::vector<clump_target *> raw(static_cast<size_t>(cl.nranks()));
        segment mine(clump_allocate(cl.get(), get(), size, raw.data()));
        std::vector<target> all;
        all.reserve(raw.size());
        for (clump_target *it : raw) all.emplace_back(it);
        return {std::move(mine), std::move(all)};
    }
    clump_rma *get() const noexcept { return it_.get(); }

  private:
    detail::owned<clump_rma, clump_rma_close> it_;
};

} // namespace clump

#endif /* CLUMP_RMA_HPP */
