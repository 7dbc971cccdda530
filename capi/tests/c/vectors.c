/* Reads cases, one a line, and prints the cut-points of each: of the whole buffer by one thread and by
 * three, and of a stream whose reads have odd lengths. All three must be alike.
 *
 * A line: algorithm min avg max window level seed secret divisors file, "-" for what is left out. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onefold_cdc.h"

static void fail(const char *what) {
    const char *why = onefold_last_error();
    fprintf(stderr, "%s: %s\n", what, why ? why : "no message");
    exit(1);
}

static size_t bytes_of(const char *hex, uint8_t *out, size_t room) {
    size_t len = strlen(hex) / 2;
    if (strcmp(hex, "-") == 0) return 0;
    if (len > room) fail("too many digits");
    for (size_t i = 0; i < len; i++) {
        unsigned value;
        if (sscanf(hex + 2 * i, "%2x", &value) != 1) fail("no digit");
        out[i] = (uint8_t)value;
    }
    return len;
}

static uint8_t *read_file(const char *path, size_t *len) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    fseek(file, 0, SEEK_END);
    *len = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*len ? *len : 1);
    if (!data || fread(data, 1, *len, file) != *len) fail(path);
    fclose(file);
    return data;
}

struct source {
    const uint8_t *data;
    size_t len, at, step;
};

static ptrdiff_t read_some(void *context, uint8_t *buffer, size_t len) {
    struct source *source = context;
    size_t left = source->len - source->at;
    size_t count = len < left ? len : left;
    source->step = source->step * 31 % 9973 + 1;
    if (count > source->step) count = source->step;
    memcpy(buffer, source->data + source->at, count);
    source->at += count;
    return (ptrdiff_t)count;
}

static void compare_stream(const onefold_chunker *chunker, const uint8_t *data, size_t len,
                           const uint64_t *ends, size_t count) {
    struct source source = {data, len, 0, 7};
    onefold_stream *stream;
    if (onefold_stream_new(chunker, read_some, &source, &stream) != ONEFOLD_OK) fail("stream");
    onefold_chunk chunk;
    uint64_t start = 0;
    for (size_t i = 0; i < count; i++) {
        if (onefold_stream_next(stream, &chunk) != ONEFOLD_OK) fail("next");
        if (chunk.offset != start || chunk.offset + chunk.len != ends[i]) fail("another chunk");
        if (memcmp(chunk.data, data + start, chunk.len) != 0) fail("other bytes");
        start = ends[i];
    }
    if (onefold_stream_next(stream, &chunk) != ONEFOLD_END) fail("no end");
    if (onefold_stream_next(stream, &chunk) != ONEFOLD_END) fail("an end that is none");
    onefold_stream_free(stream);
}

int main(int argc, char **argv) {
    static char algorithm[64], level[8], window[32], seed[32], secret[80], divisors[4096], path[4096];
    uint8_t secret_bytes[32], divisor_bytes[2048];
    size_t min, avg, max;
    FILE *cases = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!cases) fail("expected the file of the cases");
    while (fscanf(cases, "%63s %zu %zu %zu %31s %7s %31s %79s %4095s %4095s", algorithm, &min, &avg,
                  &max, window, level, seed, secret, divisors, path) == 10) {
        onefold_options options = onefold_options_default();
        options.algorithm = algorithm;
        options.min = min;
        options.avg = avg;
        options.max = max;
        if (strcmp(window, "-") != 0) options.window = (size_t)atol(window);
        if (strcmp(level, "-") != 0) options.level = atoi(level);
        options.has_seed = strcmp(seed, "-") != 0;
        if (options.has_seed) options.seed = strtoull(seed, NULL, 10);
        if (bytes_of(secret, secret_bytes, sizeof secret_bytes)) options.secret = secret_bytes;
        options.divisors_len = bytes_of(divisors, divisor_bytes, sizeof divisor_bytes);
        options.divisors = divisor_bytes;

        onefold_chunker *chunker;
        if (onefold_chunker_new(&options, &chunker) != ONEFOLD_OK) fail(algorithm);
        size_t len;
        uint8_t *data = read_file(path, &len);
        onefold_cut_points *one, *three;
        if (onefold_cut(chunker, data, len, 1, &one) != ONEFOLD_OK) fail("cut");
        if (onefold_cut(chunker, data, len, 3, &three) != ONEFOLD_OK) fail("cut by three");
        size_t count = onefold_cut_points_len(one);
        const uint64_t *ends = onefold_cut_points_data(one);
        if (onefold_cut_points_len(three) != count ||
            memcmp(onefold_cut_points_data(three), ends, count * sizeof *ends) != 0)
            fail("threads cut elsewhere");
        compare_stream(chunker, data, len, ends, count);
        for (size_t i = 0; i < count; i++) printf("%s%" PRIu64, i ? " " : "", ends[i]);
        printf("\n");
        onefold_cut_points_free(one);
        onefold_cut_points_free(three);
        onefold_chunker_free(chunker);
        free(data);
    }
    fclose(cases);
    return 0;
}
