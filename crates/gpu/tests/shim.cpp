// The kernels as a program for the host: one thread a work-item, one group at a time. Built with
// sanitizers, it finds what a kernel does wrong with memory, and which barriers are missing.
//
// Reads requests and writes answers, all numbers little-endian of 32 bits unless said otherwise.
// Request: length of the kernel's name, name, groups, count of arguments, and each: 0 and an array's
// number, 1 and a number, or 2 and a number of 64 bits; count of arrays, and each: length, bytes.
// Answer: the bytes of each array.

#include "shim.h"

static bool read_all(void *to, size_t len) { return len == 0 || fread(to, len, 1, stdin) == 1; }

static u32 read_number()
{
    u32 number = 0;
    if (!read_all(&number, 4)) {
        exit(2);
    }
    return number;
}

int main()
{
    u32 name_len;
    while (read_all(&name_len, 4)) {
        std::string name(name_len, ' ');
        if (!read_all(&name[0], name_len)) {
            return 2;
        }
        auto found = KERNELS.find(name);
        if (found == KERNELS.end()) {
            fprintf(stderr, "shim: no kernel %s\n", name.c_str());
            return 2;
        }
        u32 groups = read_number();
        Arguments arguments;
        std::vector<std::pair<size_t, u32>> addresses;
        u32 count = read_number();
        for (u32 i = 0; i < count; i++) {
            u32 kind = read_number();
            u64 value = read_number();
            if (kind == 0) {
                addresses.emplace_back(i, static_cast<u32>(value));
            } else if (kind == 2) {
                value |= static_cast<u64>(read_number()) << 32;
            }
            arguments.values.push_back(value);
        }
        std::vector<std::pair<void *, u32>> arrays(read_number());
        for (auto &array : arrays) {
            array.second = read_number();
            // no longer than it is, so that every access behind it is seen
            if (posix_memalign(&array.first, 64, array.second) != 0
                || !read_all(array.first, array.second)) {
                return 2;
            }
        }
        for (auto &address : addresses) {
            arguments.values[address.first] =
                reinterpret_cast<u64>(arrays[address.second].first);
        }

        if (!launch(found->second, arguments, groups)) {
            return 2;
        }
        for (auto &array : arrays) {
            fwrite(array.first, array.second, 1, stdout);
            free(array.first);
        }
        fflush(stdout);
    }
    return 0;
}
