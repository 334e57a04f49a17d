/* Errors of the examples on global memory: one line, and the end. */
#ifndef GAS_EXAMPLE_H
#define GAS_EXAMPLE_H

#include <clump.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends this rank, and with it the job, if `fails`. */
static __inline__ void example_end(int fails) {
    if (!fails) return;
    fprintf(stderr, "%s\n", clump_error_text());
    exit(1);
}
static __inline__ void *example_pointer(void *pointer) {
    example_end(pointer == NULL);
    return pointer;
}
#define CHECKED(pointer) example_pointer(pointer)
#define DONE(status) example_end((status) < 0)

#endif /* GAS_EXAMPLE_H */
