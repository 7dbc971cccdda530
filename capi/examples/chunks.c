/* Prints the chunks of standard input: where each begins, its length and its fingerprint. */

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <onefold_cdc.h>

static ptrdiff_t read_input(void *context, uint8_t *buffer, size_t len) {
    return read(*(int *)context, buffer, len);
}

int main(void) {
    onefold_options options = onefold_options_default();
    options.avg = 8192;
    onefold_chunker *chunker = NULL;
    onefold_stream *stream = NULL;
    onefold_fingerprinter *fingerprinter = NULL;
    int input = STDIN_FILENO;
    onefold_status status = onefold_chunker_new(&options, &chunker);
    if (status == ONEFOLD_OK) status = onefold_stream_new(chunker, read_input, &input, &stream);
    if (status == ONEFOLD_OK) status = onefold_fingerprinter_new("blake3", NULL, &fingerprinter);

    onefold_chunk chunk;
    while (status == ONEFOLD_OK && (status = onefold_stream_next(stream, &chunk)) == ONEFOLD_OK) {
        uint8_t name[ONEFOLD_FINGERPRINT_LEN];
        status = onefold_fingerprint(fingerprinter, chunk.data, chunk.len, name);
        printf("%" PRIu64 " %zu ", chunk.offset, chunk.len);
        for (size_t i = 0; i < sizeof name; i++) printf("%02x", name[i]);
        printf("\n");
    }
    if (status != ONEFOLD_END) fprintf(stderr, "chunks: %s\n", onefold_last_error());
    onefold_fingerprinter_free(fingerprinter);
    onefold_stream_free(stream);
    onefold_chunker_free(chunker);
    return status == ONEFOLD_END ? 0 : 1;
}
