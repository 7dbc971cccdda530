/* What the compiler for CUDA reads. */
#include "primitives.h"

#include "kernels.h"
