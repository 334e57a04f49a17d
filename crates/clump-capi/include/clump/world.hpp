/* The job, in C++20: ranks, nodes and collectives. Written by hand. */
#ifndef CLUMP_WORLD_HPP
#define CLUMP_WORLD_HPP

#include "clump/result.hpp"

#include <concepts>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace clump {

/* Operations on two elements. */
enum class op : int {
    sum = CLUMP_SUM.code,
    product = CLUMP_PRODUCT.code,
    min = CLUMP_MIN.code,
    max = CLUMP_MAX.code,
    bit_and = CLUMP_AND.code,
    bit_or = CLUMP_OR.code,
    bit_xor = CLUMP_XOR.code,
};

namespace detail {
/* The clump_type of a number. */
template <class T> constexpr clump_type type_of() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8,
                  "integers of 8 to 64 bits, float and double are combined");
    if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? CLUMP_F32 : CLUMP_F64;
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return clump_type{(std::is_signed_v<T> ? CLUMP_I8 : CLUMP_U8).code + log};
}
} // namespace detail

/* The job that this process is a rank of; one per process. Its destructor finalizes. Functions are
 * those of <clump/job.h>, with their errors and rules for threads. */
class world {
  public:
    /* Joins the job; throws failure. */
    world(int &argc, char **&argv) : cl_(detail::or_throw(clump_init(&argc, &argv))) {}
    /* Joins the job. */
    static result<world> join() {
        clump_t *cl = clump_init(nullptr, nullptr);
        if (cl == nullptr) return error::last();
        return world(cl);
    }
    world(world &&other) noexcept : cl_(std::exchange(other.cl_, nullptr)) {}
    world &operator=(world &&) = delete;
    ~world() {
        if (cl_ != nullptr) clump_finalize(cl_);
    }

    int rank() const { return clump_rank(cl_); }
    int nranks() const { return clump_nranks(cl_); }
    int node() const { return clump_node(cl_); }
    int nnodes() const { return clump_nnodes(cl_); }
    result<int> node_of(int rank) const { return detail::count(clump_node_of(cl_, rank)); }

    result<void> barrier() { return detail::nothing(clump_barrier(cl_)); }

    /* Gathers the values of all ranks, by rank. */
    template <class T> result<std::vector<T>> all_gather(const T &mine) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        std::vector<T> all(static_cast<size_t>(nranks()), mine);
        if (clump_all_gather(cl_, &mine, sizeof mine, all.data()) < 0) return error::last();
        return all;
    }

    /* Copies the values of `root` to all ranks. */
    template <class T> result<void> broadcast(int root, std::span<T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        return detail::nothing(clump_broadcast(cl_, root, values.data(), values.size_bytes()));
    }

    /* Gathers the values of all ranks on `root`, by rank; empty elsewhere. */
    template <class T> result<std::vector<T>> gather(int root, const T &mine) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        std::vector<T> all(rank() == root ? static_cast<size_t>(nranks()) : 0, mine);
        if (clump_gather(cl_, root, &mine, sizeof mine, all.data()) < 0) return error::last();
        return all;
    }

    /* Returns this rank's value of those that `root` gives, one for each rank; `values` of other
     * ranks are not read. */
    template <class T> result<T> scatter(int root, std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        if (rank() == root && values.size() != static_cast<size_t>(nranks()))
            return error{CLUMP_ERR_ARGUMENT, "one value for each rank"};
        T mine;
        const int done = clump_scatter(cl_, root, values.data(), &mine, sizeof mine);
        return detail::either(done, mine);
    }

    /* Gives `values[i]` to rank `i`; returns what the ranks give to this one, by rank. */
    template <class T> result<std::vector<T>> all_to_all(std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        if (values.size() != static_cast<size_t>(nranks()))
            return error{CLUMP_ERR_ARGUMENT, "one value for each rank"};
        std::vector<T> got(values.begin(), values.end());
        if (clump_all_to_all(cl_, values.data(), got.data(), sizeof(T)) < 0) return error::last();
        return got;
    }

    /* Combines all ranks' values; all ranks get the same bits. */
    template <class T> result<T> all_reduce(T value, op with) {
        const int done = clump_all_reduce(cl_, &value, &value, 1, detail::type_of<T>(),
                                           clump_op{static_cast<int>(with)});
        return detail::either(done, value);
    }
    template <class T> result<void> all_reduce(std::span<T> values, op with) {
        return detail::nothing(clump_all_reduce(cl_, values.data(), values.data(), values.size(),
                                                detail::type_of<T>(), clump_op{static_cast<int>(with)}));
    }

    /* Combines all ranks' values on `root`: the bits that all_reduce gives. Nothing elsewhere. */
    template <class T> result<std::optional<T>> reduce(int root, T value, op with) {
        const int done = clump_reduce(cl_, root, &value, &value, 1, detail::type_of<T>(),
                                      clump_op{static_cast<int>(with)});
        if (done < 0) return error::last();
        return rank() == root ? std::optional<T>(value) : std::nullopt;
    }

    /* Combines the values of all ranks up to this one, this one's included. */
    template <class T> result<T> scan(T value, op with) {
        const int done = clump_scan(cl_, &value, &value, 1, detail::type_of<T>(),
                                    clump_op{static_cast<int>(with)});
        return detail::either(done, value);
    }

    /* Combines the values of all ranks before this one. Nothing on rank 0. */
    template <class T> result<std::optional<T>> exclusive_scan(T value, op with) {
        const int done = clump_exclusive_scan(cl_, &value, &value, 1, detail::type_of<T>(),
                                              clump_op{static_cast<int>(with)});
        if (done < 0) return error::last();
        return rank() != 0 ? std::optional<T>(value) : std::nullopt;
    }

    /* Finalizes now, and returns the error if that failed, as clump_finalize does. */
    result<void> finalize() {
        const int done = clump_finalize(cl_);
        if (done == 0) cl_ = nullptr;
        return detail::nothing(done);
    }

    clump_t *get() const noexcept { return cl_; }

  private:
    explicit world(clump_t *cl) : cl_(cl) {}
    clump_t *cl_;
};

} // namespace clump

#endif /* CLUMP_WORLD_HPP */
