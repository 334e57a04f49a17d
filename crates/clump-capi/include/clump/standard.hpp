/* What the C++ headers need of the compiler: C++20, and exceptions. Included before all else of
 * them; without these the compilation ends with one reason. Written by hand. */
#ifndef CLUMP_STANDARD_HPP
#define CLUMP_STANDARD_HPP

#if __cplusplus < 201709L
#error "the C++ headers of clump need C++20: compile with -std=c++20, or by clump-c++"
#include <clump/needs-c++20> /* ends the compilation here */
#elif !defined(__cpp_exceptions)
#error "the C++ headers of clump need exceptions: leave out -fno-exceptions, or use the headers for C"
#include <clump/needs-exceptions> /* ends the compilation here */
#endif

#endif /* CLUMP_STANDARD_HPP */
