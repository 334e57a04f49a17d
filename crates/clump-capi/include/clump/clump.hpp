/* clump for C++20: a thin layer over the C interface. Everything is in the namespace clump. Written
 * by hand.
 *
 * Functions return a clump::result, which is a value or an error and must not be ignored;
 * constructors, and result::value(), throw clump::failure. Destructors close objects; objects must
 * be destroyed before their world.
 */
#ifndef CLUMP_CLUMP_HPP
#define CLUMP_CLUMP_HPP

#include "clump/standard.hpp"

#include "clump/am.hpp"
#include "clump/pgas.hpp"
#include "clump/remote.hpp"
#include "clump/rma.hpp"
#include "clump/team.hpp"
#include "clump/work.hpp"
#include "clump/world.hpp"

#ifdef __cpp_impl_coroutine
#include "clump/task_group.hpp"
#endif

#endif /* CLUMP_CLUMP_HPP */
