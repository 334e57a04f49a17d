/* Operations that have begun, in C++20: waited for, or dropped. Written by hand. */
#ifndef CLUMP_PENDING_HPP
#define CLUMP_PENDING_HPP

#include "clump/standard.hpp"

#include "clump/pending.h"
#include "clump/result.hpp"

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace clump {

namespace detail {
/* Closes an object of C. */
template <auto Close> struct closer {
    template <class P> void operator()(P *it) const { (void)Close(it); }
};
template <class P, auto Close> using owned = std::unique_ptr<P, closer<Close>>;
} // namespace detail

/* An operation that was begun and has not been waited for: T is its result, or void. If it is
 * destroyed before, the operation completes all the same. */
template <class T> class [[nodiscard]] pending {
  public:
    /* Takes the return value of a C function; throws failure if that is null. */
    explicit pending(clump_pending *it) : it_(detail::or_throw(it)) {}
    /* Returns true if it is complete, or failed; an error if it was waited for. Polls. */
    result<bool> test() {
        const int done = clump_pending_test(it_.get());
        return detail::either(done, done == 1);
    }
    /* Waits until it is complete; once. */
    result<T> wait() {
        uint64_t value = 0;
        const int done = clump_pending_wait(it_.release(), &value);
        if constexpr (std::is_void_v<T>) return detail::nothing(done);
        else return detail::either(done, static_cast<T>(value));
    }
    clump_pending *get() const noexcept { return it_.get(); }

  private:
    detail::owned<clump_pending, clump_pending_drop> it_;
};

/* A collective that was begun and has not been waited for: R is its result. If it is destroyed
 * before, the collective progresses as long as its team is open. */
template <class R> class [[nodiscard]] pending_collective {
  public:
    /* Begins a collective whose result is stored in `value`, by `begin`; throws failure if that
     * returns null. */
    template <class Begin>
    pending_collective(R value, Begin begin)
        : value_(std::make_unique<R>(std::move(value))), it_(begin(*value_)) {}
    /* Returns true if it is complete, or failed; an error if it was waited for. Polls. */
    result<bool> test() { return it_.test(); }
    /* Waits for the result; once. */
    result<R> wait() {
        if (auto done = it_.wait(); !done) return done.error();
        return std::move(*value_);
    }

  private:
    std::unique_ptr<R> value_;
    pending<void> it_;
};

} // namespace clump

#endif /* CLUMP_PENDING_HPP */
