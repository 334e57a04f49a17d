/* Shared virtual memory in C++20: the heap, and objects for synchronisation. Written by hand. */
#ifndef CLUMP_SVM_HPP
#define CLUMP_SVM_HPP

#include "clump/standard.hpp"

#include "clump/svm.h"
#include "clump/world.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace clump::svm {

enum class home : int {
    block = SVM_HOME_BLOCK,
    cyclic = SVM_HOME_CYCLIC,
    first_write = SVM_HOME_FIRST_WRITE,
};

/* A rank's node as the home. */
constexpr home on_node(int node) { return static_cast<home>(SVM_HOME_NODE(node)); }

/* A matrix in the heap, one row behind the other. */
template <class T> class matrix {
  public:
    matrix() = default;
    matrix(std::span<T> elements, size_t columns) : elements_(elements), columns_(columns) {}
    size_t rows() const noexcept { return columns_ == 0 ? 0 : elements_.size() / columns_; }
    size_t columns() const noexcept { return columns_; }
    std::span<T> row(size_t number) const { return elements_.subspan(number * columns_, columns_); }
    T &operator()(size_t row, size_t column) const { return elements_[row * columns_ + column]; }
    std::span<T> elements() const noexcept { return elements_; }

  private:
    std::span<T> elements_;
    size_t columns_ = 0;
};

namespace detail {
inline constexpr size_t page = 4096;
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
    /* As svm_open_with: the bytes of address space, those for allocation by single ranks, and the
     * periods after which a page moves to its sole writer. */
    heap(world &cl, const svm_options &options) : cl_(cl.get()) {
        detail::checked(svm_open_with(cl_, &options));
    }
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
    /* Zeroed elements, at all ranks together: node `home_of(page)` has page `page` of them, counted
     * from 0. Pages that follow each other on one node are an allocation, which is a collective of
     * its own. */
    template <class T, class HomeOf>
        requires std::is_invocable_r_v<int, HomeOf, size_t>
    std::span<T> array_all(size_t count, HomeOf home_of) {
        static_assert(std::is_trivially_copyable_v<T>, "elements travel as they lie in memory");
        const size_t pages = (count * sizeof(T) + detail::page - 1) / detail::page;
        std::byte *first = nullptr;
        for (size_t begin = 0, end = 0; begin < pages; begin = end) {
            const int node = home_of(begin);
            for (end = begin + 1; end < pages && home_of(end) == node;)
                end++;
            void *place = clump::detail::or_throw(
                svm_alloc_all(cl_, (end - begin) * detail::page, static_cast<int>(on_node(node))));
            if (first == nullptr) first = static_cast<std::byte *>(place);
            if (place != first + begin * detail::page)
                throw failure(error{CLUMP_ERR_INTERNAL, "pages of an array do not follow each other"});
        }
        return {reinterpret_cast<T *>(first), count};
    }
    /* The same by a table of nodes, which begins anew at its end. */
    template <class T> std::span<T> array_all(size_t count, std::span<const int> nodes) {
        if (nodes.empty()) throw failure(error{CLUMP_ERR_ARGUMENT, "a table of homes has no node"});
        return array_all<T>(count, [nodes](size_t number) { return nodes[number % nodes.size()]; });
    }
    /* Zeroed, at all ranks together; homes as those of an array. */
    template <class T, class Where = home>
    matrix<T> matrix_all(size_t rows, size_t columns, Where where = home::block) {
        if (columns != 0 && rows > SIZE_MAX / sizeof(T) / columns)
            throw failure(error{CLUMP_ERR_ARGUMENT, "a matrix has more elements than there are addresses"});
        return {array_all<T>(rows * columns, where), columns};
    }
    /* An object that this rank makes during the run, and hands to others through memory. */
    template <class T, class... Args> T *make(Args &&...args) {
        void *place = clump::detail::or_throw(svm_alloc(cl_, sizeof(T), static_cast<int>(home::block)));
        return new (place) T(std::forward<Args>(args)...);
    }
    /* Ends an object of `make`, of any rank. */
    template <class T> void destroy(T *object) {
        if (object != nullptr) object->~T();
        detail::checked(svm_free(cl_, object));
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
