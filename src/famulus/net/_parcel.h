/* A parcel: several messages in one frame; docs/protocol.md has its layout. Knows neither Python nor libzmq.
 *
 *     version: 1 | for each message: length of envelope (1 byte), of header (2), of body (4), then the three
 *
 * Numbers are in network order. parcels.py is the same in Python.
 */
#ifndef FAMULUS_PARCEL_H
#define FAMULUS_PARCEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    PARCEL_VERSION = 1,
    PARCEL_PARTS = 3,
    PARCEL_HEAD = 1 + 2 + 4,
    PARCEL_MESSAGES_MAX = 1024, /* bounds what a small frame can make us allocate */
};

typedef struct {
    const unsigned char *data;
    size_t size;
} Part;

/* Reads the message at *at and moves on. 0 if it is not whole. */
static inline int parcel_next(const unsigned char **at, const unsigned char *end, Part parts[PARCEL_PARTS]) {
    const unsigned char *p = *at;
    if (end - p < PARCEL_HEAD) {
        return 0;
    }
    parts[0].size = p[0];
    parts[1].size = (size_t)p[1] << 8 | p[2];
    parts[2].size = (size_t)p[3] << 24 | (size_t)p[4] << 16 | (size_t)p[5] << 8 | p[6];
    p += PARCEL_HEAD;
    /* In 64 bits: where size_t has 32, a length near 4 GiB would wrap around and pass. */
    if ((uint64_t)(end - p) < (uint64_t)parts[0].size + parts[1].size + parts[2].size) {
        return 0;
    }
    for (int i = 0; i < PARCEL_PARTS; i++) {
        parts[i].data = p;
        p += parts[i].size;
    }
    *at = p;
    return 1;
}

/* How many messages are in it; 0 if it is no parcel. */
static inline int parcel_count(const unsigned char *data, size_t size) {
    if (size < 1 || data[0] != PARCEL_VERSION) {
        return 0;
    }
    const unsigned char *at = data + 1, *end = data + size;
    Part parts[PARCEL_PARTS];
    int count = 0;
    while (at < end) {
        if (count == PARCEL_MESSAGES_MAX || !parcel_next(&at, end, parts)) {
            return 0;
        }
        count++;
    }
    return count;
}

#endif
