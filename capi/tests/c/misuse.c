/* Wrong arguments are refused with a message that names what was expected, and nothing is lost when a
 * read fails. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onefold_cdc.h"

#define EXPECT(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            const char *why = onefold_last_error();                                \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, why ? why : "-"); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

static void expect_told(const char *part) {
    const char *message = onefold_last_error();
    if (!message || !strstr(message, part)) {
        fprintf(stderr, "told '%s', expected '%s'\n", message ? message : "-", part);
        exit(1);
    }
}

struct source {
    const uint8_t *data;
    size_t len, at;
    int calls;
};

/* Fails at every other call. */
static ptrdiff_t read_and_fail(void *context, uint8_t *buffer, size_t len) {
    struct source *source = context;
    if (source->calls++ % 2 == 0) return -5;
    size_t left = source->len - source->at;
    size_t count = len < left ? len : left;
    if (count > 5000) count = 5000;
    memcpy(buffer, source->data + source->at, count);
    source->at += count;
    return (ptrdiff_t)count;
}

static ptrdiff_t read_too_much(void *context, uint8_t *buffer, size_t len) {
    (void)context, (void)buffer;
    return (ptrdiff_t)len + 1;
}

static void chunkers(void) {
    onefold_chunker *chunker = NULL;
    onefold_options options = onefold_options_default();
    EXPECT(onefold_last_error() == NULL);
    EXPECT(onefold_chunker_new(NULL, NULL) == ONEFOLD_REFUSED);
    expect_told("out is NULL");

    options.algorithm = "nothing";
    EXPECT(onefold_chunker_new(&options, &chunker) == ONEFOLD_REFUSED && !chunker);
    expect_told("unknown algorithm 'nothing', expected one of fixed");
    options.algorithm = "\xff";
    EXPECT(onefold_chunker_new(&options, &chunker) == ONEFOLD_REFUSED);
    expect_told("algorithm is not UTF-8");
    options = onefold_options_default();
    options.min = 100, options.avg = 50, options.max = 200;
    EXPECT(onefold_chunker_new(&options, &chunker) == ONEFOLD_REFUSED);
    expect_told("average chunk size 50 is below the minimum 100");
    options = onefold_options_default();
    options.size = 3;
    EXPECT(onefold_chunker_new(&options, &chunker) == ONEFOLD_REFUSED);
    expect_told("onefold_options_default()");
    options = onefold_options_default();
    options.level = 300;
    EXPECT(onefold_chunker_new(&options, &chunker) == ONEFOLD_REFUSED);
    expect_told("level 300");
    options = onefold_options_default();
    options.kernel = "mmx";
    EXPECT(onefold_chunker_new(&options, &chunker) == ONEFOLD_REFUSED);
    expect_told("unknown kernel 'mmx'");

    EXPECT(onefold_chunker_new(NULL, &chunker) == ONEFOLD_OK);
    EXPECT(strcmp(onefold_chunker_algorithm(chunker), "mincdc") == 0);
    EXPECT(strlen(onefold_chunker_kernel(chunker)) > 0);
    EXPECT(onefold_chunker_algorithm(NULL) == NULL);
    onefold_sizes sizes;
    EXPECT(onefold_chunker_sizes(chunker, &sizes) == ONEFOLD_OK && sizes.avg == 16384);
    EXPECT(onefold_chunker_sizes(NULL, &sizes) == ONEFOLD_REFUSED);
    expect_told("chunker is NULL");

    size_t cut = 7;
    EXPECT(onefold_last_cut(chunker, NULL, 0, &cut) == ONEFOLD_END && cut == 7);
    EXPECT(onefold_last_cut(chunker, NULL, 4, &cut) == ONEFOLD_REFUSED);
    expect_told("data is NULL");
    EXPECT(onefold_last_cut(chunker, (const uint8_t *)"abcd", 4, &cut) == ONEFOLD_OK && cut == 4);
    EXPECT(onefold_next_cut(chunker, (const uint8_t *)"abcd", 4, &cut) == ONEFOLD_END);
    onefold_cut_points *points = NULL;
    EXPECT(onefold_cut(chunker, NULL, 0, 0, &points) == ONEFOLD_REFUSED && !points);
    expect_told("0 threads");
    EXPECT(onefold_cut(chunker, NULL, 0, 1, &points) == ONEFOLD_OK);
    EXPECT(onefold_cut_points_len(points) == 0);
    onefold_cut_points_free(points);
    onefold_cut_points_free(NULL);
    onefold_chunker_free(chunker);
    onefold_chunker_free(NULL);
}

static void streams(void) {
    static uint8_t data[200000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i / 251);
    onefold_chunker *chunker;
    onefold_stream *stream = NULL;
    onefold_chunk chunk;
    EXPECT(onefold_chunker_new(NULL, &chunker) == ONEFOLD_OK);
    EXPECT(onefold_stream_new(chunker, NULL, NULL, &stream) == ONEFOLD_REFUSED && !stream);
    expect_told("read is NULL");
    EXPECT(onefold_stream_next(NULL, &chunk) == ONEFOLD_REFUSED);

    EXPECT(onefold_stream_new(chunker, read_too_much, NULL, &stream) == ONEFOLD_OK);
    EXPECT(onefold_stream_next(stream, &chunk) == ONEFOLD_READ);
    expect_told("expected at most");
    onefold_stream_free(stream);

    struct source source = {data, sizeof data, 0, 0};
    EXPECT(onefold_stream_new(chunker, read_and_fail, &source, &stream) == ONEFOLD_OK);
    /* A stream outlives its chunker. */
    onefold_chunker_free(chunker);
    EXPECT(onefold_stream_next(stream, NULL) == ONEFOLD_REFUSED);
    size_t whole = 0;
    int failures = 0;
    for (;;) {
        onefold_status status = onefold_stream_next(stream, &chunk);
        if (status == ONEFOLD_END) break;
        if (status == ONEFOLD_READ) {
            expect_told("failed with -5");
            failures++;
            continue;
        }
        EXPECT(status == ONEFOLD_OK && chunk.offset == whole);
        EXPECT(memcmp(chunk.data, data + whole, chunk.len) == 0);
        whole += chunk.len;
    }
    EXPECT(whole == sizeof data && failures > 10);
    onefold_stream_free(stream);
    onefold_stream_free(NULL);
}

static void fingerprints(void) {
    onefold_fingerprinter *fingerprinter = NULL;
    uint8_t key[32] = {1}, one[32], many[64], of_chunks[64];
    EXPECT(onefold_fingerprinter_new("md5", NULL, &fingerprinter) == ONEFOLD_REFUSED);
    expect_told("unknown fingerprint algorithm 'md5'");
    EXPECT(onefold_fingerprinter_new("blake3-keyed", NULL, &fingerprinter) == ONEFOLD_REFUSED);
    expect_told("takes a key of 32 bytes");
    EXPECT(onefold_fingerprinter_new("sha256", key, &fingerprinter) == ONEFOLD_REFUSED);
    expect_told("takes no key");
    EXPECT(onefold_fingerprinter_new("blake3-keyed", key, &fingerprinter) == ONEFOLD_OK);
    onefold_fingerprinter_free(fingerprinter);

    EXPECT(onefold_fingerprinter_new("sha256", NULL, &fingerprinter) == ONEFOLD_OK);
    const uint8_t *data = (const uint8_t *)"abcde";
    EXPECT(onefold_fingerprint(fingerprinter, data, 3, one) == ONEFOLD_OK);
    /* FIPS 180-4's example: SHA-256 of "abc" begins so. */
    EXPECT(one[0] == 0xba && one[1] == 0x78 && one[2] == 0x16 && one[3] == 0xbf);
    const uint8_t *chunks[] = {data, data + 3};
    size_t lens[] = {3, 2};
    uint64_t ends[] = {3, 5}, wrong[] = {3, 2};
    EXPECT(onefold_fingerprint_many(fingerprinter, chunks, lens, 2, many) == ONEFOLD_OK);
    EXPECT(onefold_fingerprint_chunks(fingerprinter, data, 5, ends, 2, of_chunks) == ONEFOLD_OK);
    EXPECT(memcmp(many, one, 32) == 0 && memcmp(many, of_chunks, 64) == 0);
    EXPECT(onefold_fingerprint_chunks(fingerprinter, data, 5, wrong, 2, of_chunks) == ONEFOLD_REFUSED);
    expect_told("cut-point 1 is 2, expected one from 3 to 5");
    EXPECT(onefold_fingerprint_many(fingerprinter, chunks, lens, 2, NULL) == ONEFOLD_REFUSED);
    EXPECT(onefold_fingerprint_many(fingerprinter, NULL, NULL, 0, NULL) == ONEFOLD_OK);
    onefold_fingerprinter_free(fingerprinter);
    onefold_fingerprinter_free(NULL);
}

int main(void) {
    chunkers();
    streams();
    fingerprints();
    size_t count = 0;
    while (onefold_algorithm(count)) count++;
    EXPECT(count > 20 && strcmp(onefold_algorithm(0), "fixed") == 0);
    EXPECT(strlen(onefold_version()) > 0);
    printf("refused as expected\n");
    return 0;
}
