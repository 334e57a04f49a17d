// The same as C++: <clump/am2.h> compiles without warnings, inside of extern "C".
#include "am2_forms.c"
