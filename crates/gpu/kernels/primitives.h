/* The language that the kernels are written in: C with these names, as OpenCL C, as CUDA C++ and as
 * C++ on the host. Nothing else in this folder knows which of the three it is.
 *
 * All work-items of a group must reach every BARRIER, WAIT_FOR_COPIES and group_ function together.
 */

#define GROUP 128 /* work-items in every group */

#if defined(__OPENCL_VERSION__)

typedef uchar u8;
typedef uint u32;
typedef ulong u64;
#define U64(number) number##UL
#define KERNEL(name) __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void name
#define FN static inline
#define GLOBAL __global
#define LOCAL __local
#define CONSTANT __constant
/* Memory that the group shares; declared at the top of a kernel. */
#define SHARED(type, name, count) __local type name[count] __attribute__((aligned(16)))
#define ITEM ((u32)get_local_id(0))
#define GROUP_NUMBER ((u32)get_group_id(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
/* Adds to a counter that all groups share; what was there before. */
#define APPEND(counter, count) atomic_add(counter, count)
/* Sixteen bytes between addresses that are multiples of 16. */
#define COPY_16(to, from) (*(__local uint4 *)(to) = *(__global const uint4 *)(from))
#define WAIT_FOR_COPIES() BARRIER()
#define UNROLL
#define UNROLL_ALL

#elif defined(__CUDACC__)

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
#define U64(number) number##ULL
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(GROUP) name
#define FN static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define CONSTANT static __constant__
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define ITEM (threadIdx.x)
#define GROUP_NUMBER (blockIdx.x)
#define BARRIER() __syncthreads()
#define APPEND(counter, count) atomicAdd(counter, count)
#define COPY_16(to, from)                                                                          \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(                                \
                     (u32)__cvta_generic_to_shared(to)),                                           \
                 "l"(__cvta_generic_to_global(from))                                               \
                 : "memory")
#define WAIT_FOR_COPIES()                                                                          \
    do {                                                                                           \
        asm volatile("cp.async.wait_all;" ::: "memory");                                           \
        __syncthreads();                                                                           \
    } while (0)
#define UNROLL _Pragma("unroll 4")
#define UNROLL_ALL _Pragma("unroll")

#else

/* The host: one thread a work-item, one group at a time. tests/shim.h has the functions. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
#define U64(number) number##ULL
#define KERNEL(name) extern "C" void name
#define FN static inline
#define GLOBAL
#define LOCAL
#define CONSTANT static const
#define SHARED(type, name, count) alignas(16) static type name[count]
#define ITEM (shim_item())
#define GROUP_NUMBER (shim_group())
#define BARRIER() shim_barrier()
#define APPEND(counter, count) __atomic_fetch_add(counter, count, __ATOMIC_RELAXED)
#define COPY_16(to, from) shim_copy_16(to, from)
#define WAIT_FOR_COPIES() shim_wait_for_copies()
#define UNROLL
#define UNROLL_ALL

u32 shim_item();
u32 shim_group();
void shim_barrier();
/* Copies when WAIT_FOR_COPIES is reached, and not before. */
void shim_copy_16(void *to, const void *from);
void shim_wait_for_copies();

#endif

/* ---- What follows is the same everywhere ---- */

FN u32 rotate_left_32(u32 word, u32 by) { return word << by | word >> (32 - by); }

FN u32 rotate_right_32(u32 word, u32 by) { return word >> by | word << (32 - by); }

/* `by` is 1 to 63. */
FN u64 rotate_left_64(u64 word, u32 by) { return word << by | word >> (64 - by); }

FN u32 reversed_32(u32 word)
{
    return word << 24 | (word & 0xff00) << 8 | (word >> 8 & 0xff00) | word >> 24;
}

/* The four bytes from byte `at` on, little-endian. Reads whole words: up to seven bytes behind them. */
FN u32 word_at(GLOBAL const u32 *words, u32 at)
{
    u32 shift = (at & 3) * 8;
    u32 low = words[at >> 2];
    return shift == 0 ? low : low >> shift | words[(at >> 2) + 1] << (32 - shift);
}

/* The sum of `count` over the work-items before this one; that of the whole group in `scratch[GROUP]`
 * until the next call. `scratch` holds GROUP + 1 words. */
FN u32 group_sum_before(u32 count, LOCAL u32 *scratch)
{
    BARRIER(); /* the last call's total may still be read */
    scratch[ITEM] = count;
    BARRIER();
    for (u32 distance = 1; distance < GROUP; distance *= 2) {
        u32 before = ITEM >= distance ? scratch[ITEM - distance] : 0;
        BARRIER();
        scratch[ITEM] += before;
        BARRIER();
    }
    if (ITEM == GROUP - 1) {
        scratch[GROUP] = scratch[ITEM];
    }
    u32 sum = scratch[ITEM] - count;
    BARRIER();
    return sum;
}

/* The least of the group's keys. `scratch` holds GROUP numbers. */
FN u64 group_least(u64 key, LOCAL u64 *scratch)
{
    BARRIER(); /* the last call's result may still be read */
    scratch[ITEM] = key;
    BARRIER();
    for (u32 other = GROUP / 2; other > 0; other /= 2) {
        if (ITEM < other && scratch[ITEM + other] < scratch[ITEM]) {
            scratch[ITEM] = scratch[ITEM + other];
        }
        BARRIER();
    }
    return scratch[0];
}
