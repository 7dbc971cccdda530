// Kernels on the host: one thread a work-item, one group at a time.

#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "primitives.h"

#include "kernels.h"

#include "primitive_tests.h"

// Two in turn: the thread sanitizer orders what comes before a wait before what comes after any other wait
// at the same barrier, so that with a single one it would miss what a late thread does wrong.
static pthread_barrier_t barriers[2];
static thread_local u32 waits;
static thread_local u32 item, group;
static thread_local std::vector<std::pair<void *, const void *>> copies;

u32 shim_item() { return item; }

u32 shim_group() { return group; }

void shim_barrier() { pthread_barrier_wait(&barriers[waits++ % 2]); }

void shim_copy_16(void *to, const void *from)
{
    if (reinterpret_cast<size_t>(to) % 16 != 0 || reinterpret_cast<size_t>(from) % 16 != 0) {
        fprintf(stderr, "shim: a copy at an address that is no multiple of 16\n");
        abort();
    }
    copies.emplace_back(to, from);
}

void shim_wait_for_copies()
{
    for (auto &copy : copies) {
        memcpy(copy.first, copy.second, 16);
    }
    copies.clear();
    shim_barrier();
}

struct Arguments {
    std::vector<u64> values;
    u32 *array(size_t i) const { return reinterpret_cast<u32 *>(values[i]); }
    u8 *bytes(size_t i) const { return reinterpret_cast<u8 *>(values[i]); }
    u64 *wide(size_t i) const { return reinterpret_cast<u64 *>(values[i]); }
    u32 number(size_t i) const { return static_cast<u32>(values[i]); }
};

#define WIDE(name)                                                                                 \
    {#name, [](const Arguments &a) {                                                               \
         name(a.bytes(0), a.wide(1), a.array(2), a.array(3), a.array(4), a.number(5), a.number(6), \
              a.number(7), a.number(8), a.values[9], a.values[10], a.number(11));                  \
     }}
#define NARROW(name)                                                                               \
    {#name, [](const Arguments &a) {                                                               \
         name(a.bytes(0), a.array(1), a.array(2), a.array(3), a.array(4), a.number(5),             \
              a.number(6), a.number(7), a.number(8), a.number(9), a.number(10), a.number(11));     \
     }}

static const std::map<std::string, void (*)(const Arguments &)> KERNELS = {
    WIDE(candidates_gear),
    WIDE(candidates_rabin),
    WIDE(direct_rabin),
    NARROW(candidates_gear32),
    NARROW(candidates_gear16),
    NARROW(candidates_crc),
    NARROW(candidates_buzhash),
    {"minima",
     [](const Arguments &a) {
         minima(a.bytes(0), a.wide(1), a.number(2), a.number(3), a.number(4), a.number(5));
     }},
    {"select_least",
     [](const Arguments &a) {
         select_least(a.bytes(0), a.wide(1), a.array(2), a.number(3), a.number(4), a.number(5),
                      a.number(6), a.number(7), a.number(8), a.number(9), a.number(10),
                      a.number(11), a.number(12));
     }},
    {"blake3_leaves",
     [](const Arguments &a) {
         blake3_leaves(a.array(0), a.array(1), a.array(2), a.array(3), a.number(4), a.number(5));
     }},
    {"blake3_join",
     [](const Arguments &a) {
         blake3_join(a.array(0), a.array(1), a.array(2), a.array(3), a.number(4), a.number(5));
     }},
    {"sha256",
     [](const Arguments &a) { sha256(a.array(0), a.array(1), a.array(2), a.number(3)); }},
    {"sha3_256",
     [](const Arguments &a) { sha3_256(a.array(0), a.array(1), a.array(2), a.number(3)); }},
    {"test_sums", [](const Arguments &a) { test_sums(a.array(0), a.array(1)); }},
    {"test_least", [](const Arguments &a) { test_least(a.wide(0), a.wide(1)); }},
    {"test_append", [](const Arguments &a) { test_append(a.array(0), a.array(1), a.array(2)); }},
    {"test_copy", [](const Arguments &a) { test_copy(a.bytes(0), a.bytes(1)); }},
    {"test_words", [](const Arguments &a) { test_words(a.array(0), a.array(1)); }},
    {"test_shared", [](const Arguments &a) { test_shared(a.array(0), a.array(1)); }},
    {"test_rotate", [](const Arguments &a) { test_rotate(a.wide(0), a.wide(1)); }},
};

struct Launch {
    void (*kernel)(const Arguments &);
    const Arguments *arguments;
    u32 groups;
    u32 item;
};

static void *run_item(void *given)
{
    const Launch &launch = *static_cast<Launch *>(given);
    item = launch.item;
    for (group = 0; group < launch.groups; group++) {
        launch.kernel(*launch.arguments);
        if (!copies.empty()) {
            fprintf(stderr, "shim: a copy that nothing waited for\n");
            abort();
        }
        shim_barrier();
    }
    return nullptr;
}

// Runs `groups` groups of a kernel; false if there are no threads for them.
static bool launch(void (*kernel)(const Arguments &), const Arguments &arguments, u32 groups)
{
    // shared memory is of the whole program, and so are the barriers
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> guard(one_at_a_time);
    static bool has_barriers = false;
    if (!has_barriers) {
        for (auto &barrier : barriers) {
            pthread_barrier_init(&barrier, nullptr, GROUP);
        }
        has_barriers = true;
    }
    std::vector<pthread_t> threads(GROUP);
    std::vector<Launch> launches(GROUP);
    for (u32 i = 0; i < GROUP; i++) {
        launches[i] = Launch{kernel, &arguments, groups, i};
        if (pthread_create(&threads[i], nullptr, run_item, &launches[i]) != 0) {
            return false;
        }
    }
    for (auto thread : threads) {
        pthread_join(thread, nullptr);
    }
    return true;
}
