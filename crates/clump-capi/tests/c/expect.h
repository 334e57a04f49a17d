/* Checks of the C tests: one that fails prints its place, and ends the rank. */
#ifndef EXPECT_H
#define EXPECT_H

#include <clump.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `condition` holds. */
#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n  clump says: %s\n", __FILE__, __LINE__, #condition,         \
                    clump_error_text());                                                                     \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

/* `call` returns 0 or a count. */
#define OK(call)                                                                                             \
    do {                                                                                                     \
        int expect_got_ = (call);                                                                            \
        if (expect_got_ < 0) {                                                                               \
            fprintf(stderr, "%s:%d: %s gave %d: %s\n", __FILE__, __LINE__, #call, expect_got_,               \
                    clump_error_text());                                                                     \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

/* `call` fails with that status, and leaves a text. */
#define FAILS(status, call)                                                                                  \
    do {                                                                                                     \
        clump_error_clear();                                                                                 \
        int expect_got_ = (call);                                                                            \
        if (expect_got_ != (status) || clump_error() != (status) || clump_error_text()[0] == '\0') {         \
            fprintf(stderr, "%s:%d: %s gave %d, not %d; clump says (%d): %s\n", __FILE__, __LINE__, #call,   \
                    expect_got_, (int)(status), clump_error(), clump_error_text());                          \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

/* `call` returns null, and leaves that status. */
#define NULLS(status, call)                                                                                  \
    do {                                                                                                     \
        clump_error_clear();                                                                                 \
        const void *expect_got_ = (call);                                                                    \
        EXPECT(expect_got_ == NULL && clump_error() == (status) && clump_error_text()[0] != '\0');           \
    } while (0)

#endif /* EXPECT_H */
