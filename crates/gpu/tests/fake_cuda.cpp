// A driver of CUDA that runs the kernels on the host: so the code that calls the driver is tested where there
// is none. FAKE_CUDA says what goes wrong, if anything.

#include "shim.h"

typedef int Result;

enum {
    SUCCESS = 0,
    OUT_OF_MEMORY = 2,
    DEVICE_UNAVAILABLE = 46,
    NO_DEVICE = 100,
    INVALID_VALUE = 1,
    NOT_FOUND = 500,
    NO_BINARY_FOR_GPU = 209,
    UNSUPPORTED_PTX_VERSION = 222,
    LAUNCH_FAILED = 719,
};

static bool is_wrong(const char *what)
{
    const char *wanted = getenv("FAKE_CUDA");
    return wanted != nullptr && strcmp(wanted, what) == 0;
}

static thread_local bool has_context;
static int device_memory[1];

// A pointer that a call needs the context of its thread for.
static Result needs_context() { return has_context ? SUCCESS : 201; }

extern "C" {

Result cuInit(unsigned) { return is_wrong("no device") ? NO_DEVICE : SUCCESS; }

Result cuDriverGetVersion(int *version)
{
    *version = is_wrong("ancient driver") ? 10020 : 12040;
    return SUCCESS;
}

Result cuDeviceGetCount(int *count)
{
    *count = is_wrong("none") ? 0 : 1;
    return SUCCESS;
}

Result cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? SUCCESS : 101;
}

Result cuDeviceGetName(char *name, int len, int)
{
    snprintf(name, len, "fake");
    return SUCCESS;
}

Result cuDeviceTotalMem_v2(size_t *bytes, int)
{
    *bytes = size_t(1) << 30;
    return SUCCESS;
}

Result cuDeviceGetAttribute(int *value, int attribute, int)
{
    // 75: the major number of the compute capability; 16: multiprocessors; 13: kHz
    *value = attribute == 75 ? (is_wrong("old device") ? 7 : 8) : attribute == 16   ? 3
             : attribute == 13 ? 1500000
                               : 0;
    return SUCCESS;
}

Result cuDeviceGetPCIBusId(char *address, int len, int)
{
    snprintf(address, len, "0000:17:00.0");
    return SUCCESS;
}

Result cuDevicePrimaryCtxRetain(void **context, int)
{
    *context = device_memory;
    return is_wrong("busy") ? DEVICE_UNAVAILABLE : SUCCESS;
}

Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

Result cuCtxSetCurrent(void *context)
{
    has_context = context == device_memory;
    return SUCCESS;
}

Result cuCtxSynchronize() { return needs_context(); }

Result cuModuleLoadData(void **module, const void *image)
{
    const char *text = static_cast<const char *>(image);
    *module = const_cast<void *>(image);
    if (memcmp(text, "\x7f" "ELF", 4) == 0) {
        return is_wrong("new code") ? NO_BINARY_FOR_GPU : needs_context();
    }
    bool is_ptx = strstr(text, ".version 7.0\n") != nullptr && strstr(text, ".target sm_80") != nullptr;
    return is_wrong("old driver") || !is_ptx ? UNSUPPORTED_PTX_VERSION : needs_context();
}

Result cuModuleGetFunction(void **function, void *, const char *name)
{
    auto found = KERNELS.find(name);
    if (found == KERNELS.end()) {
        return NOT_FOUND;
    }
    *function = const_cast<std::pair<const std::string, void (*)(const Arguments &)> *>(&*found);
    return SUCCESS;
}

Result cuStreamCreate(void **stream, unsigned)
{
    *stream = malloc(1);
    return needs_context();
}

Result cuStreamSynchronize(void *)
{
    static std::mutex counting;
    static int calls = 0;
    std::lock_guard<std::mutex> guard(counting);
    calls++;
    bool is_lost = (is_wrong("lost") && calls > 6) || (is_wrong("lost soon") && calls > 1);
    return is_lost ? LAUNCH_FAILED : needs_context();
}

Result cuStreamDestroy_v2(void *stream)
{
    free(stream);
    return SUCCESS;
}

Result cuMemHostAlloc(void **memory, size_t bytes, unsigned)
{
    *memory = malloc(bytes);
    return needs_context();
}

Result cuMemFreeHost(void *memory)
{
    free(memory);
    return SUCCESS;
}

Result cuMemAlloc_v2(u64 *address, size_t bytes)
{
    if (is_wrong("memory")) {
        return OUT_OF_MEMORY;
    }
    void *memory = nullptr;
    if (posix_memalign(&memory, 256, bytes) != 0) {
        return OUT_OF_MEMORY;
    }
    memset(memory, 0xa5, bytes);
    *address = reinterpret_cast<u64>(memory);
    return needs_context();
}

Result cuMemFree_v2(u64 address)
{
    free(reinterpret_cast<void *>(address));
    return SUCCESS;
}

// Every address is of the device, of another, or of none.
Result cuPointerGetAttribute(void *value, int attribute, u64)
{
    // 9: the number of the device
    *static_cast<int *>(value) = is_wrong("other device") ? 1 : 0;
    return attribute != 9 || is_wrong("host memory") ? INVALID_VALUE : needs_context();
}

Result cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, void *)
{
    memcpy(reinterpret_cast<void *>(to), from, bytes);
    return needs_context();
}

Result cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, void *)
{
    memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    return needs_context();
}

Result cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, void *)
{
    memcpy(to, reinterpret_cast<void *>(from), bytes);
    return needs_context();
}

Result cuLaunchKernel(void *function, unsigned groups, unsigned y, unsigned z, unsigned items,
                      unsigned items_y, unsigned items_z, unsigned shared, void *, void **places, void **)
{
    if (items != GROUP || y != 1 || z != 1 || items_y != 1 || items_z != 1 || shared != 0 || groups == 0) {
        return INVALID_VALUE;
    }
    auto &kernel = *static_cast<std::pair<const std::string, void (*)(const Arguments &)> *>(function);
    static const std::map<std::string, size_t> COUNTS = {
        {"minima", 6}, {"select_least", 13}, {"blake3_leaves", 6}, {"blake3_join", 6}, {"sha256", 4}, {"sha3_256", 4}};
    auto count = COUNTS.find(kernel.first);
    Arguments arguments;
    for (size_t i = 0; i < (count == COUNTS.end() ? 12 : count->second); i++) {
        u64 value;
        memcpy(&value, places[i], 8);
        arguments.values.push_back(value);
    }
    return launch(kernel.second, arguments, groups) ? needs_context() : LAUNCH_FAILED;
}

// NVML, which is another library of the driver. A joule is used with each look at the counter.

Result nvmlInit_v2() { return is_wrong("no energy") ? 9 : SUCCESS; }

Result nvmlShutdown() { return SUCCESS; }

Result nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device)
{
    *device = device_memory;
    return strcmp(address, "0000:17:00.0") == 0 ? SUCCESS : 6;
}

Result nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
    static std::atomic<unsigned long long> used{5000};
    *millijoules = used += 1000;
    return device != device_memory ? 1 : is_wrong("no counter") ? 3 : SUCCESS;
}

Result cuGetErrorString(Result error, const char **text)
{
    *text = error == LAUNCH_FAILED ? "unspecified launch failure" : "an error";
    return SUCCESS;
}

Result cuGetErrorName(Result, const char **text)
{
    *text = "CUDA_ERROR";
    return SUCCESS;
}
}
