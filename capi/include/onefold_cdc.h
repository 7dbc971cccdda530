/* Content-defined chunking and fingerprints of chunks. docs/c.md shows how to use it. */

#ifndef ONEFOLD_CDC_H
#define ONEFOLD_CDC_H

/* Made by cbindgen from capi/src; `ONEFOLD_WRITE_HEADER=1 cargo test -p onefold-capi` writes it anew. */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Bytes of a fingerprint; a shorter digest is padded with zeros.
#define ONEFOLD_FINGERPRINT_LEN 32

// How a function ended.
typedef enum onefold_status {
  // It did what it promises.
  ONEFOLD_OK = 0,
  // There is no more: of a stream no chunk, of a buffer too few bytes to tell where a chunk ends.
  ONEFOLD_END = 1,
  // An argument was refused; nothing was done.
  ONEFOLD_REFUSED = -1,
  // A stream's read function failed. The next call goes on with it.
  ONEFOLD_READ = -2,
  // An error in Onefold itself. Free the handle and report it.
  ONEFOLD_BROKEN = -3,
} onefold_status;

// A chunker. Threads may share it; it keeps no state between calls.
typedef struct onefold_chunker onefold_chunker;

// The ends of all chunks of an input, in bytes.
typedef struct onefold_cut_points onefold_cut_points;

// A hash function that names chunks, with its key. Threads may share it.
typedef struct onefold_fingerprinter onefold_fingerprinter;

// The chunks of what a function reads, in bounded memory. For one thread at a time.
typedef struct onefold_stream onefold_stream;

// What a chunker is made of. Begin with onefold_options_default and change what you want.
typedef struct onefold_options {
  // The size of this structure, as the caller knows it.
  size_t size;
  // The name of an algorithm or preset. NULL for "mincdc".
  const char *algorithm;
  // The shortest chunk but for the last, in bytes. 0 for what suits the algorithm.
  size_t min;
  // The mean that is aimed at, in bytes. 0 for 16 KiB, or the preset's own.
  size_t avg;
  // The longest chunk, in bytes. 0 for what suits the algorithm.
  size_t max;
  // Bytes in the window of a rolling hash. 0 for the algorithm's own.
  size_t window;
  // FastCDC's level, 0 to 3. -1 for the algorithm's own.
  int32_t level;
  // Whether `seed` counts; otherwise it is the algorithm's own.
  bool has_seed;
  // Picks the hash. Of the preset restic it is the polynomial.
  uint64_t seed;
  // 32 random bytes that key the algorithm, or NULL.
  const uint8_t *secret;
  // The pairs of bytes that bfbc cuts at, in a row, or NULL.
  const uint8_t *divisors;
  // Bytes of the divisors.
  size_t divisors_len;
  // The name of a kernel. NULL for the fastest.
  const char *kernel;
} onefold_options;

// Bounds and mean of chunk lengths, in bytes.
typedef struct onefold_sizes {
  size_t min;
  size_t avg;
  size_t max;
} onefold_sizes;

// Reads the next bytes into `buffer`, at most `len`, and returns how many they are: 0 at the end, and
// any negative number for an error. It must not call a function of the same stream.
typedef ptrdiff_t (*onefold_read)(void *context, uint8_t *buffer, size_t len);

// A chunk. Its bytes are valid until the next call with the stream.
typedef struct onefold_chunk {
  // The bytes.
  const uint8_t *data;
  // How many.
  size_t len;
  // Where in the stream the chunk begins.
  uint64_t offset;
} onefold_chunk;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Options of which all is as suits the algorithm mincdc.
struct onefold_options onefold_options_default(void);

// Makes a chunker, which onefold_chunker_free frees. NULL options are the default.
//
// Refuses names that are not known, sizes and parameters that the algorithm cannot have, and a kernel
// that cannot run here.
//
// # Safety
// All pointers in `options` are NULL or lead to what their fields promise; `out` has room.
enum onefold_status onefold_chunker_new(const struct onefold_options *options,
                                        struct onefold_chunker **out);

// Frees a chunker; NULL is nothing. Streams made of it stay.
//
// # Safety
// `chunker` is NULL or of onefold_chunker_new, and is not used again.
void onefold_chunker_free(struct onefold_chunker *chunker);

// The bounds and the mean of chunk lengths.
//
// # Safety
// `chunker` is a chunker; `out` has room.
enum onefold_status onefold_chunker_sizes(const struct onefold_chunker *chunker,
                                          struct onefold_sizes *out);

// The name of the algorithm or preset, or NULL for no chunker. Valid as long as the chunker.
//
// # Safety
// `chunker` is NULL or a chunker.
const char *onefold_chunker_algorithm(const struct onefold_chunker *chunker);

// The name of the kernel at work, or NULL for no chunker. Valid as long as the chunker.
//
// # Safety
// `chunker` is NULL or a chunker.
const char *onefold_chunker_kernel(const struct onefold_chunker *chunker);

// Finds where the next chunk of `data` ends, which begins at a cut-point and may go on.
//
// Puts the chunk's length into `cut`. ONEFOLD_END if it depends on bytes after `data`; then `len` is
// below the maximum. A length once found stays the same however much data follows.
//
// # Safety
// `chunker` is a chunker, `data` has `len` bytes, `cut` has room.
enum onefold_status onefold_next_cut(const struct onefold_chunker *chunker,
                                     const uint8_t *data,
                                     size_t len,
                                     size_t *cut);

// Finds where the next chunk of `data` ends, which begins at a cut-point and ends the input.
//
// Puts the chunk's length into `cut`. ONEFOLD_END only if `len` is 0.
//
// # Safety
// `chunker` is a chunker, `data` has `len` bytes, `cut` has room.
enum onefold_status onefold_last_cut(const struct onefold_chunker *chunker,
                                     const uint8_t *data,
                                     size_t len,
                                     size_t *cut);

// The name of the algorithm or preset with this number, counted from 0, or NULL after the last.
const char *onefold_algorithm(size_t number);

// The version of the library.
const char *onefold_version(void);

// Finds all cut-points of `data`, a whole input, by up to `threads` threads. The last is `len`.
//
// Makes `out`, which onefold_cut_points_free frees. The cut-points do not depend on `threads`.
//
// # Safety
// `chunker` is a chunker, `data` has `len` bytes, `out` has room.
enum onefold_status onefold_cut(const struct onefold_chunker *chunker,
                                const uint8_t *data,
                                size_t len,
                                size_t threads,
                                struct onefold_cut_points **out);

// How many cut-points there are; 0 for NULL.
//
// # Safety
// `cut_points` is NULL or of onefold_cut.
size_t onefold_cut_points_len(const struct onefold_cut_points *cut_points);

// The cut-points in ascending order, or NULL for NULL. Valid until they are freed.
//
// # Safety
// `cut_points` is NULL or of onefold_cut.
const uint64_t *onefold_cut_points_data(const struct onefold_cut_points *cut_points);

// Frees cut-points; NULL is nothing.
//
// # Safety
// `cut_points` is NULL or of onefold_cut, and is not used again.
void onefold_cut_points_free(struct onefold_cut_points *cut_points);

// What was wrong with the last call of this thread that failed, or NULL if none did. Valid until the
// next call of this thread that fails.
const char *onefold_last_error(void);

// Makes a fingerprinter, which onefold_fingerprinter_free frees.
//
// `algorithm` is blake3 (as is NULL), blake3-keyed, sha256, sha3-256 or sha1. `key` has 32 bytes for
// blake3-keyed, and is NULL for the others.
//
// # Safety
// `algorithm` is NULL or a text, `key` is NULL or has 32 bytes, `out` has room.
enum onefold_status onefold_fingerprinter_new(const char *algorithm,
                                              const uint8_t *key,
                                              struct onefold_fingerprinter **out);

// Frees a fingerprinter; NULL is nothing.
//
// # Safety
// `fingerprinter` is NULL or of onefold_fingerprinter_new, and is not used again.
void onefold_fingerprinter_free(struct onefold_fingerprinter *fingerprinter);

// Puts the fingerprint of a chunk into `out`: 32 bytes.
//
// # Safety
// `fingerprinter` is one, `data` has `len` bytes, `out` has room for 32.
enum onefold_status onefold_fingerprint(const struct onefold_fingerprinter *fingerprinter,
                                        const uint8_t *data,
                                        size_t len,
                                        uint8_t *out);

// Puts the fingerprints of many chunks into `out`, 32 bytes each, in their order. Short chunks are
// hashed together, several times as fast as one at a time.
//
// # Safety
// `fingerprinter` is one; `chunks` and `lens` have `count` elements, and each chunk as many bytes as its
// length says; `out` has room for 32 * `count` bytes.
enum onefold_status onefold_fingerprint_many(const struct onefold_fingerprinter *fingerprinter,
                                             const uint8_t *const *chunks,
                                             const size_t *lens,
                                             size_t count,
                                             uint8_t *out);

// Puts the fingerprints of the chunks of `data` that end at the `count` cut-points `ends` into `out`,
// 32 bytes each.
//
// # Safety
// `fingerprinter` is one, `data` has `len` bytes, `ends` has `count` elements, `out` has room for 32 *
// `count` bytes.
enum onefold_status onefold_fingerprint_chunks(const struct onefold_fingerprinter *fingerprinter,
                                               const uint8_t *data,
                                               size_t len,
                                               const uint64_t *ends,
                                               size_t count,
                                               uint8_t *out);

// Makes a stream of what `read` yields, which onefold_stream_free frees. `context` is passed to it.
//
// # Safety
// `chunker` is a chunker, `out` has room, and `read` may be called with `context` until the stream is
// freed.
enum onefold_status onefold_stream_new(const struct onefold_chunker *chunker,
                                       onefold_read read,
                                       void *context,
                                       struct onefold_stream **out);

// Puts the next chunk into `out`. ONEFOLD_END after the last one, ONEFOLD_READ if the read function
// failed; then nothing is lost, and the next call goes on.
//
// # Safety
// `stream` is a stream that no other call uses; `out` has room.
enum onefold_status onefold_stream_next(struct onefold_stream *stream, struct onefold_chunk *out);

// Frees a stream; NULL is nothing.
//
// # Safety
// `stream` is NULL or of onefold_stream_new, and is not used again.
void onefold_stream_free(struct onefold_stream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ONEFOLD_CDC_H */
