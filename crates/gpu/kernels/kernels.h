/* All kernels. primitives.h must come first. */

#define GEAR 0
#define GEAR16 1
#define RABIN 2
#define CRC 3
#define BUZHASH 4

#define STRICT 0x80000000u /* marks a candidate that passes the strict limit of two as well */
#define RABIN_DEGREE 53
#define RABIN_MASK ((U64(1) << RABIN_DEGREE) - 1)

#include "tile.h"

#define HASH_BITS 64
#include "candidates.h"
#undef HASH_BITS
#define HASH_BITS 32
#include "candidates.h"
#undef HASH_BITS

#include "direct.h"

#include "minima.h"
#include "select.h"

#include "blake3.h"
#include "sha2.h"
#include "sha3.h"
