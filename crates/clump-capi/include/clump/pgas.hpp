/* The global address space in C++20: pointers, spread arrays, phases, locks. Written by hand. */
#ifndef CLUMP_PGAS_HPP
#define CLUMP_PGAS_HPP

#include "clump/standard.hpp"

#include "clump/pgas.h"
#include "clump/rma.hpp"

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace clump {

enum class layout : int {
    block = CLUMP_BLOCK,
    cyclic = CLUMP_CYCLIC,
};

/* The layout in blocks of so many elements, around all ranks. */
struct block_cyclic {
    size_t elements = 1;
};

/* The global address space of this thread. Operations that are begun complete at sync. */
class pgas {
  public:
    /* Collective. Throws failure. */
    explicit pgas(world &cl) : it_(detail::or_throw(clump_pgas_open(cl.get()))) {}
    result<void> sync() { return detail::nothing(clump_pgas_sync(get())); }
    result<void> quiet() { return detail::nothing(clump_pgas_quiet(get())); }
    result<void> store_sync(size_t size) { return detail::nothing(clump_pgas_store_sync(get(), size)); }
    result<void> all_store_sync() { return detail::nothing(clump_pgas_all_store_sync(get())); }
    result<void> barrier() { return detail::nothing(clump_pgas_barrier(get())); }
    result<void> flush() { return detail::nothing(clump_pgas_flush(get())); }
    clump_aggregation aggregation() const {
        clump_aggregation counts{};
        (void)clump_pgas_aggregation(get(), &counts);
        return counts;
    }
    clump_pgas *get() const noexcept { return it_.get(); }

  private:
    detail::owned<clump_pgas, clump_pgas_close> it_;
};

/* A pointer to a T in the memory of any rank: plain data. Arithmetic is that of T. */
template <class T> struct global_ptr {
    static_assert(std::is_trivially_copyable_v<T>, "elements are sent as their bytes in memory");
    clump_gptr at{};

    global_ptr operator+(ptrdiff_t n) const {
        return {clump_gptr_add(at, static_cast<int64_t>(n) * static_cast<int64_t>(sizeof(T)))};
    }
    global_ptr operator-(ptrdiff_t n) const { return *this + -n; }
    bool operator==(const global_ptr &other) const { return clump_gptr_equal(at, other.at) == 1; }
};

/* An element, to operate on: what *p is for an ordinary pointer. */
template <class T> class element {
  public:
    element(clump_pgas *gas, global_ptr<T> at) : gas_(gas), at_(at) {}
    global_ptr<T> ptr() const { return at_; }

    result<T> read() const {
        T value;
        const int done = clump_pgas_read(gas_, &value, at_.at, sizeof value);
        return detail::either(done, value);
    }
    result<void> write(const T &value) { return detail::nothing(clump_pgas_write(gas_, at_.at, &value, sizeof value)); }
    /* Begun; pgas::sync waits for them. */
    result<void> put(const T &value) { return detail::nothing(clump_pgas_put(gas_, at_.at, &value, sizeof value)); }
    result<void> put_now(const T &value) {
        return detail::nothing(clump_pgas_put_now(gas_, at_.at, &value, sizeof value));
    }
    result<void> store(const T &value) { return detail::nothing(clump_pgas_store(gas_, at_.at, &value, sizeof value)); }
    result<void> add(T operand) { return begin(CLUMP_ADD, operand); }
    result<void> min(T operand) { return begin(CLUMP_ATOMIC_MIN, operand); }
    result<void> max(T operand) { return begin(CLUMP_ATOMIC_MAX, operand); }
    result<void> bit_and(T operand) { return begin(CLUMP_BIT_AND, operand); }
    result<void> bit_or(T operand) { return begin(CLUMP_BIT_OR, operand); }
    result<void> bit_xor(T operand) { return begin(CLUMP_BIT_XOR, operand); }
    /* Waited for; they return what the element was before. */
    result<T> fetch_add(T operand) { return fetch(CLUMP_ADD, operand); }
    result<T> fetch_min(T operand) { return fetch(CLUMP_ATOMIC_MIN, operand); }
    result<T> fetch_max(T operand) { return fetch(CLUMP_ATOMIC_MAX, operand); }
    result<T> fetch_and(T operand) { return fetch(CLUMP_BIT_AND, operand); }
    result<T> fetch_or(T operand) { return fetch(CLUMP_BIT_OR, operand); }
    result<T> fetch_xor(T operand) { return fetch(CLUMP_BIT_XOR, operand); }
    result<T> swap(T value) { return fetch(CLUMP_SWAP, value); }
    result<T> compare_swap(T expected, T desired) {
        T old;
        const int done = clump_pgas_atomic(gas_, at_.at, detail::type_of<T>(), CLUMP_COMPARE_SWAP, &desired,
                                           &expected, &old);
        return detail::either(done, old);
    }

  private:
    result<void> begin(int op, T operand) {
        return detail::nothing(
            clump_pgas_atomic(gas_, at_.at, detail::type_of<T>(), op, &operand, nullptr, nullptr));
    }
    result<T> fetch(int op, T operand) {
        T old;
        const int done = clump_pgas_atomic(gas_, at_.at, detail::type_of<T>(), op, &operand, nullptr, &old);
        return detail::either(done, old);
    }
    clump_pgas *gas_;
    global_ptr<T> at_;
};

/* An array whose elements are in the memories of all ranks. Its pgas must outlive it. */
template <class T> class spread {
    static_assert(std::is_trivially_copyable_v<T>, "elements are sent as their bytes in memory");

  public:
    /* All elements are zero. Collective. Throws failure. */
    spread(pgas &gas, size_t count, layout how)
        : gas_(gas.get()), count_(count),
          it_(detail::or_throw(clump_spread_alloc(gas.get(), count, sizeof(T), static_cast<int>(how)))) {}
    spread(pgas &gas, size_t count, block_cyclic blocks)
        : gas_(gas.get()), count_(count),
          it_(detail::or_throw(
              clump_spread_alloc_block_cyclic(gas.get(), count, sizeof(T), blocks.elements))) {}
    size_t size() const { return count_; }
    /* An element beyond the end is an error of what operates on it. */
    element<T> operator[](size_t index) const { return {gas_, ptr(index)}; }
    global_ptr<T> ptr(size_t index) const { return {clump_spread_at(it_.get(), index)}; }
    /* The first element at a rank. */
    global_ptr<T> on(int rank) const { return {clump_spread_on(it_.get(), rank)}; }
    result<int> owner(size_t index) const { return detail::count(clump_spread_owner(it_.get(), index)); }
    /* Begun, for each index: elements are written, or added to as often as they are named. */
    result<void> scatter(std::span<const size_t> indexes, std::span<const T> values) {
        if (indexes.size() != values.size()) return too_few();
        return detail::nothing(clump_spread_scatter(it_.get(), indexes.data(), indexes.size(), values.data()));
    }
    result<void> scatter_add(std::span<const size_t> indexes, T operand) {
        return detail::nothing(
            clump_spread_scatter_add(it_.get(), detail::type_of<T>(), indexes.data(), indexes.size(), &operand));
    }
    /* Reads the element of each index into its place. */
    result<void> gather(std::span<const size_t> indexes, std::span<T> to) const {
        if (indexes.size() != to.size()) return too_few();
        return detail::nothing(clump_spread_gather(it_.get(), indexes.data(), indexes.size(), to.data()));
    }
    /* The elements of this rank. */
    std::span<T> local() const {
        return {static_cast<T *>(clump_spread_local(it_.get())), clump_spread_count(it_.get())};
    }

  private:
    /* The failure of a place without an index, or the other way round. */
    result<void> too_few() const {
        return detail::nothing(clump_spread_gather(it_.get(), nullptr, 1, nullptr));
    }
    clump_pgas *gas_;
    size_t count_;
    detail::owned<clump_spread, clump_spread_free> it_;
};

using halo_neighbour = clump_halo_neighbour;

/* An exchange of boundaries between neighbours, in rounds. Its pgas must outlive it. */
template <class T> class halo {
    static_assert(std::is_trivially_copyable_v<T>, "elements are sent as their bytes in memory");

  public:
    /* Collective. Throws failure, at all ranks if neighbours do not agree. */
    halo(pgas &gas, std::span<const halo_neighbour> neighbours)
        : neighbours_(neighbours.begin(), neighbours.end()),
          it_(detail::or_throw(
              clump_halo_alloc(gas.get(), neighbours.data(), static_cast<int>(neighbours.size()), sizeof(T)))) {}
    size_t neighbours() const { return neighbours_.size(); }
    /* Gives each neighbour its boundary, and writes theirs into the halo cells, by position. */
    result<void> exchange(std::span<const std::span<const T>> boundaries, std::span<const std::span<T>> cells) {
        const size_t n = neighbours();
        bool fits = boundaries.size() == n && cells.size() == n;
        std::vector<const void *> from;
        std::vector<void *> to;
        for (size_t i = 0; fits && i < n; i++) {
            fits = boundaries[i].size() == neighbours_[i].count && cells[i].size() == neighbours_[i].count;
            from.push_back(boundaries[i].data());
            to.push_back(cells[i].data());
        }
        /* Null is refused before anything is sent. */
        if (!fits) return detail::nothing(clump_halo_exchange(n > 0 ? it_.get() : nullptr, nullptr, nullptr));
        return detail::nothing(clump_halo_exchange(it_.get(), from.data(), to.data()));
    }

  private:
    std::vector<halo_neighbour> neighbours_;
    detail::owned<clump_halo, clump_halo_free> it_;
};

/* The element that a pointer points to. */
template <class T> element<T> at(pgas &gas, global_ptr<T> pointer) { return {gas.get(), pointer}; }

/* Gets and bulk transfers that complete together: at end, which reports errors, or in the
 * destructor, which does not. What is got must not be used before. */
class phase {
  public:
    explicit phase(pgas &gas) : gas_(&gas) {}
    phase(const phase &) = delete;
    phase &operator=(const phase &) = delete;
    ~phase() {
        if (gas_ != nullptr) (void)gas_->sync();
    }
    template <class T> result<void> get(const element<T> &from, T &to) {
        return detail::nothing(clump_pgas_get(gas_->get(), &to, from.ptr().at, sizeof to));
    }
    template <class T> result<void> get(global_ptr<T> from, std::span<std::type_identity_t<T>> to) {
        return detail::nothing(clump_pgas_get(gas_->get(), to.data(), from.at, to.size_bytes()));
    }
    template <class T> result<void> put(global_ptr<T> to, std::span<const std::type_identity_t<T>> from) {
        return detail::nothing(clump_pgas_put(gas_->get(), to.at, from.data(), from.size_bytes()));
    }
    template <class T> result<void> store(global_ptr<T> to, std::span<const std::type_identity_t<T>> from) {
        return detail::nothing(clump_pgas_store(gas_->get(), to.at, from.data(), from.size_bytes()));
    }
    /* Writes blocks of so many elements, which are contiguous in `from`, to blocks whose
     * beginnings are `stride` elements apart. */
    template <class T>
    result<void> put_strided(global_ptr<T> to, size_t block, size_t stride,
                             std::span<const std::type_identity_t<T>> from) {
        return detail::nothing(clump_pgas_put_strided(gas_->get(), to.at, block * sizeof(T), stride * sizeof(T),
                                                      from.data(), from.size_bytes()));
    }
    /* Reads such blocks, at once. */
    template <class T>
    result<void> get_strided(global_ptr<T> from, size_t block, size_t stride,
                             std::span<std::type_identity_t<T>> to) {
        return detail::nothing(clump_pgas_get_strided(gas_->get(), to.data(), from.at, block * sizeof(T),
                                                      stride * sizeof(T), to.size_bytes()));
    }
    result<void> end() { return std::exchange(gas_, nullptr)->sync(); }

  private:
    pgas *gas_;
};

/* A lock of all ranks, with the word that it protects. */
class global_mutex {
  public:
    /* The word is that of rank 0. Collective. Throws failure. */
    explicit global_mutex(pgas &gas, uint64_t word = 0)
        : it_(detail::or_throw(clump_mutex_alloc(gas.get(), word))) {}

    /* The right to use the word, until it is destroyed; throws failure. */
    class guard {
      public:
        explicit guard(global_mutex &of) : of_(of.it_.get()) {
            detail::nothing(clump_mutex_lock(of_, &word_)).value();
        }
        guard(const guard &) = delete;
        guard &operator=(const guard &) = delete;
        ~guard() { (void)clump_mutex_unlock(of_, word_); }
        uint64_t &operator*() { return word_; }

      private:
        clump_mutex *of_;
        uint64_t word_ = 0;
    };

    /* For std::scoped_lock, which leaves the word as it is. */
    void lock() { detail::nothing(clump_mutex_lock(it_.get(), &held_)).value(); }
    void unlock() { detail::nothing(clump_mutex_unlock(it_.get(), held_)).value(); }
    bool try_lock() { return detail::count(clump_mutex_try_lock(it_.get(), &held_)).value() == 1; }

  private:
    uint64_t held_ = 0;
    detail::owned<clump_mutex, clump_mutex_free> it_;
};

} // namespace clump

#endif /* CLUMP_PGAS_HPP */
