/* Results of C++ functions in place of a status: a value, or an error with its text. C++20. Written
 * by hand. */
#ifndef CLUMP_RESULT_HPP
#define CLUMP_RESULT_HPP

#include "clump/standard.hpp"

#include "clump/job.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace clump {

/* A failure: a clump_status, and the text of clump_error_text. */
struct error {
    int status = CLUMP_ERR_INTERNAL;
    std::string text;

    /* The last failure of this thread. */
    static error last() { return {clump_error(), clump_error_text()}; }
};

/* An error as an exception, thrown only by result::value() and by constructors. */
class failure : public std::runtime_error {
  public:
    explicit failure(error e) : std::runtime_error(e.text), status_(e.status) {}
    int status() const noexcept { return status_; }

  private:
    int status_;
};

/* A value, or an error. */
template <class T> class [[nodiscard]] result {
  public:
    result(T value) : it_(std::in_place_index<0>, std::move(value)) {}
    result(clump::error e) : it_(std::in_place_index<1>, std::move(e)) {}

    bool has_value() const noexcept { return it_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    const clump::error &error() const { return std::get<1>(it_); }
    /* The value; throws failure if there is none. */
    T &value() & { return check(), std::get<0>(it_); }
    const T &value() const & { return check(), std::get<0>(it_); }
    T &&value() && { return check(), std::get<0>(std::move(it_)); }
    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }
    T &&operator*() && { return std::move(*this).value(); }
    T *operator->() { return &value(); }
    T value_or(T other) && { return has_value() ? std::get<0>(std::move(it_)) : std::move(other); }

  private:
    void check() const {
        if (!has_value()) throw failure(std::get<1>(it_));
    }
    std::variant<T, clump::error> it_;
};

/* Nothing, or an error. */
template <> class [[nodiscard]] result<void> {
  public:
    result() = default;
    result(clump::error e) : error_(std::move(e)) {}

    bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }
    const clump::error &error() const { return error_.value(); }
    /* Throws failure on failure. */
    void value() const {
        if (error_) throw failure(*error_);
    }

  private:
    std::optional<clump::error> error_;
};

namespace detail {
/* Conversions of the return values of C functions. */
inline result<void> nothing(int status) {
    if (status < 0) return error::last();
    return {};
}
inline result<int> count(int status) {
    if (status < 0) return error::last();
    return status;
}
template <class T> result<T> either(int status, T value) {
    if (status < 0) return error::last();
    return value;
}
template <class P> P *or_throw(P *pointer) {
    if (pointer == nullptr) throw failure(error::last());
    return pointer;
}
} // namespace detail
} // namespace clump

#endif /* CLUMP_RESULT_HPP */
