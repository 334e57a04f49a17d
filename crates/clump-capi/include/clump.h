/* libclump: active messages, one-sided operations and collectives for clusters of ordinary machines.
 *
 * Includes all that there is, but for <clump/am2.h> and the C++ headers. Written by hand.
 *
 * All functions that return `int` give 0 or a count when they went well, and a negative clump_status when
 * not; those that return a pointer give null. What went wrong is then said by clump_error_text().
 */
#ifndef CLUMP_H
#define CLUMP_H

#include "clump/am.h"
#include "clump/job.h"
#include "clump/rma.h"

#endif /* CLUMP_H */
