// Compiles am2_forms.c as C++: <clump/am2.h> compiles without warnings, inside extern "C".
#include "am2_forms.c"
