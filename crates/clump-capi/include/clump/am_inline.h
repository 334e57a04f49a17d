/* The part of <clump/am.h> that is inline: sending with words in the argument list, and the context
 * of a handler. Written by hand.
 *
 * In all of these, `words...` are the words of the message, 0 to 8, each as a uint64_t. More words
 * than 8 are CLUMP_ERR_TOO_LONG.
 *
 *   int clump_request(clump_ep *ep, int dest, int handler, words...)
 *   int clump_try_request(clump_ep *ep, int dest, int handler, words...)
 *   int clump_request_bulk(clump_ep *ep, int dest, int handler, const void *payload, size_t bytes, words...)
 *   int clump_try_request_bulk(clump_ep *ep, int dest, int handler, const void *payload, size_t bytes, words...)
 *   int clump_request_long(clump_ep *ep, int dest, int handler, uint64_t offset, const void *payload,
 *                          size_t bytes, words...)
 *   int clump_reply(clump_token *token, int handler, words...)
 *   int clump_reply_bulk(clump_token *token, int handler, const void *payload, size_t bytes, words...)
 *   int clump_reply_long(clump_token *token, int handler, uint64_t offset, const void *payload, size_t bytes,
 *                        words...)
 *   int clump_defer(clump_token *token, int dest, int handler, words...)
 *   int clump_defer_bulk(clump_token *token, int dest, int handler, const void *payload, size_t bytes, words...)
 *
 * Each does what the function of the same name with `_words` does, and fails with the same errors.
 */
#ifndef CLUMP_AM_INLINE_H
#define CLUMP_AM_INLINE_H

#include "clump/am_fast_inline.h"

#if defined(__cplusplus) && defined(__GNUC__)
/* C++ programs may ask for warnings about casts of C. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* Returns the context of the handler that runs (clump_ep_handler_with); `token` must be its. */
static __inline__ void *clump_token_context(const clump_token *token) {
    return token ? ((const clump_layout_ep *)(const void *)token)->context : NULL;
}

#if !defined(__cplusplus) && defined(__STRICT_ANSI__) && !defined(__STDC_VERSION__)

/* C of 1990 has no macros with `...`: programs in it call the functions that end in `_words`. */

#elif !defined(__cplusplus)

/* The first of these words is no word of the message but the argument before them, so that there is
 * one. */
#define CLUMP_WORDS_(...) ((const uint64_t[]){__VA_ARGS__})
#define CLUMP_COUNT_(...) ((int)(sizeof(CLUMP_WORDS_(__VA_ARGS__)) / sizeof(uint64_t)) - 1)

static __inline__ int clump_request_(clump_ep *ep, int dest, const uint64_t *all, int count) {
    return clump_request_inline(ep, dest, (int)all[0], all + 1, count);
}
static __inline__ int clump_try_request_(clump_ep *ep, int dest, const uint64_t *all, int count) {
    return clump_try_request_inline(ep, dest, (int)all[0], all + 1, count);
}
static __inline__ int clump_request_bulk_(clump_ep *ep, int dest, int handler, const void *payload,
                                      const uint64_t *all, int count) {
    return clump_request_bulk_words(ep, dest, handler, payload, (size_t)all[0], all + 1, count);
}
static __inline__ int clump_try_request_bulk_(clump_ep *ep, int dest, int handler, const void *payload,
                                          const uint64_t *all, int count) {
    return clump_try_request_bulk_words(ep, dest, handler, payload, (size_t)all[0], all + 1, count);
}
static __inline__ int clump_request_long_(clump_ep *ep, int dest, int handler, uint64_t offset,
                                      const void *payload, const uint64_t *all, int count) {
    return clump_request_long_words(ep, dest, handler, offset, payload, (size_t)all[0], all + 1, count);
}
static __inline__ int clump_reply_(clump_token *token, const uint64_t *all, int count) {
    return clump_reply_words(token, (int)all[0], all + 1, count);
}
static __inline__ int clump_reply_bulk_(clump_token *token, int handler, const void *payload, const uint64_t *all,
                                    int count) {
    return clump_reply_bulk_words(token, handler, payload, (size_t)all[0], all + 1, count);
}
static __inline__ int clump_reply_long_(clump_token *token, int handler, uint64_t offset, const void *payload,
                                    const uint64_t *all, int count) {
    return clump_reply_long_words(token, handler, offset, payload, (size_t)all[0], all + 1, count);
}
static __inline__ int clump_defer_(clump_token *token, int dest, const uint64_t *all, int count) {
    return clump_defer_words(token, dest, (int)all[0], all + 1, count);
}
static __inline__ int clump_defer_bulk_(clump_token *token, int dest, int handler, const void *payload,
                                    const uint64_t *all, int count) {
    return clump_defer_bulk_words(token, dest, handler, payload, (size_t)all[0], all + 1, count);
}

#define clump_request(ep, dest, ...)                                                                         \
    clump_request_((ep), (dest), CLUMP_WORDS_(__VA_ARGS__), CLUMP_COUNT_(__VA_ARGS__))
#define clump_try_request(ep, dest, ...)                                                                     \
    clump_try_request_((ep), (dest), CLUMP_WORDS_(__VA_ARGS__), CLUMP_COUNT_(__VA_ARGS__))
#define clump_request_bulk(ep, dest, handler, payload, ...)                                                  \
    clump_request_bulk_((ep), (dest), (handler), (payload), CLUMP_WORDS_(__VA_ARGS__), CLUMP_COUNT_(__VA_ARGS__))
#define clump_try_request_bulk(ep, dest, handler, payload, ...)                                              \
    clump_try_request_bulk_((ep), (dest), (handler), (payload), CLUMP_WORDS_(__VA_ARGS__),                   \
                            CLUMP_COUNT_(__VA_ARGS__))
#define clump_request_long(ep, dest, handler, offset, payload, ...)                                          \
    clump_request_long_((ep), (dest), (handler), (offset), (payload), CLUMP_WORDS_(__VA_ARGS__),             \
                        CLUMP_COUNT_(__VA_ARGS__))
#define clump_reply(token, ...)                                                                              \
    clump_reply_((token), CLUMP_WORDS_(__VA_ARGS__), CLUMP_COUNT_(__VA_ARGS__))
#define clump_reply_bulk(token, handler, payload, ...)                                                       \
    clump_reply_bulk_((token), (handler), (payload), CLUMP_WORDS_(__VA_ARGS__), CLUMP_COUNT_(__VA_ARGS__))
#define clump_reply_long(token, handler, offset, payload, ...)                                               \
    clump_reply_long_((token), (handler), (offset), (payload), CLUMP_WORDS_(__VA_ARGS__),                    \
                      CLUMP_COUNT_(__VA_ARGS__))
#define clump_defer(token, dest, ...)                                                                        \
    clump_defer_((token), (dest), CLUMP_WORDS_(__VA_ARGS__), CLUMP_COUNT_(__VA_ARGS__))
#define clump_defer_bulk(token, dest, handler, payload, ...)                                                 \
    clump_defer_bulk_((token), (dest), (handler), (payload), CLUMP_WORDS_(__VA_ARGS__), CLUMP_COUNT_(__VA_ARGS__))

#else /* C++ */

/* Words of a message, from numbers of any kind. */
template <class... Numbers> struct clump_words_ {
    uint64_t all[sizeof...(Numbers) + 1];
    explicit clump_words_(Numbers... numbers) : all{static_cast<uint64_t>(numbers)..., 0} {}
    static constexpr int count = static_cast<int>(sizeof...(Numbers));
};

template <class... Words> int clump_request(clump_ep *ep, int dest, int handler, Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_request_inline(ep, dest, handler, w.all, w.count);
}
template <class... Words> int clump_try_request(clump_ep *ep, int dest, int handler, Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_try_request_inline(ep, dest, handler, w.all, w.count);
}
template <class... Words>
int clump_request_bulk(clump_ep *ep, int dest, int handler, const void *payload, size_t bytes,
                       Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_request_bulk_words(ep, dest, handler, payload, bytes, w.all, w.count);
}
template <class... Words>
int clump_try_request_bulk(clump_ep *ep, int dest, int handler, const void *payload, size_t bytes,
                           Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_try_request_bulk_words(ep, dest, handler, payload, bytes, w.all, w.count);
}
template <class... Words>
int clump_request_long(clump_ep *ep, int dest, int handler, uint64_t offset, const void *payload, size_t bytes,
                       Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_request_long_words(ep, dest, handler, offset, payload, bytes, w.all, w.count);
}
template <class... Words> int clump_reply(clump_token *token, int handler, Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_reply_words(token, handler, w.all, w.count);
}
template <class... Words>
int clump_reply_bulk(clump_token *token, int handler, const void *payload, size_t bytes, Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_reply_bulk_words(token, handler, payload, bytes, w.all, w.count);
}
template <class... Words>
int clump_reply_long(clump_token *token, int handler, uint64_t offset, const void *payload, size_t bytes,
                     Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_reply_long_words(token, handler, offset, payload, bytes, w.all, w.count);
}
template <class... Words> int clump_defer(clump_token *token, int dest, int handler, Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_defer_words(token, dest, handler, w.all, w.count);
}
template <class... Words>
int clump_defer_bulk(clump_token *token, int dest, int handler, const void *payload, size_t bytes,
                     Words... words) {
    const clump_words_<Words...> w(words...);
    return clump_defer_bulk_words(token, dest, handler, payload, bytes, w.all, w.count);
}

#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* CLUMP_AM_INLINE_H */
