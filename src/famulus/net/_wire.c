#include "_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MORE = 1, LONG = 2, COMMAND = 4 };
enum { COMMAND_MAX = 4 * 1024 }; /* as in wire/zmtp.py */
enum { COMMANDS_MAX = 64 };
enum { COPY_MAX = 4 * 1024 };        /* anything larger is written from where it is */
enum { CHUNK = 32 * 1024 };          /* small pieces that have to wait share chunks of this size */
enum { PONGS_MAX = 16 * 1024 };      /* bytes that wait: a peer that does not read them gets no more */
enum { CONTEXT_MAX = 16, TTL = 2 };  /* of a PING, as in wire/zmtp.py */

void wire_end(Wire *wire, const char *why) {
    if (!wire_is_over(wire)) {
        strncpy(wire->ended, why, sizeof(wire->ended) - 1);
    }
}

/* Half a message may have left, and nothing may follow it. */
static void out_of_memory(Wire *wire) {
    wire->cut_off = 1;
    wire_end(wire, "out of memory");
}

/* ---- reading ---- */

static void pong(Wire *wire, const unsigned char *body, size_t size) {
    static const unsigned char ping[] = "\4PING";
    enum { NAME = sizeof(ping) - 1 };
    if (size < NAME + TTL || memcmp(body, ping, NAME) != 0 || wire->unsent_bytes > PONGS_MAX) {
        return;
    }
    size_t context = size - NAME - TTL < CONTEXT_MAX ? size - NAME - TTL : CONTEXT_MAX;
    unsigned char answer[NAME + CONTEXT_MAX] = "\4PONG";
    memcpy(answer + NAME, body + NAME + TTL, context);
    (void)wire_command(wire, answer, NAME + context);
}

void wire_say_here(Wire *wire) {
    static const unsigned char ping[] = "\4PING\0"; /* with the zero at its end, a TTL of two bytes and no context */
    pong(wire, ping, sizeof(ping));
}

static int take_command(Wire *wire, const unsigned char *data, size_t size) {
    if (wire->commands == NULL) {
        pong(wire, data, size);
        return 0;
    }
    if (PyList_GET_SIZE(wire->commands) >= COMMANDS_MAX) {
        wire_end(wire, "it sends too many commands");
        return 0;
    }
    return messages_append(wire->commands, messages_frame(data, size));
}

/* The message made of the frames, which it takes over. NULL with an exception set. */
static PyObject *whole_message(Wire *wire) {
    Py_ssize_t before = wire->peer != NULL;
    PyObject *message = PyList_New(before + wire->frames);
    if (message != NULL) {
        if (before) {
            PyList_SET_ITEM(message, 0, Py_NewRef(wire->peer));
        }
        for (int i = 0; i < wire->frames; i++) {
            PyList_SET_ITEM(message, before + i, wire->frame[i]);
        }
        wire->frames = 0;
        wire->message_bytes = 0;
    }
    return message;
}

/* One frame of a message, which this takes over; it may be NULL. */
static int take_frame(Wire *wire, PyObject *frame, int flags, PyObject *messages) {
    if (frame == NULL) {
        return -1;
    }
    if (wire->frames <= FRAMES_MAX) {
        wire->frame[wire->frames++] = frame;
    } else {
        Py_DECREF(frame);
    }
    return flags & MORE ? 0 : messages_append(messages, whole_message(wire));
}

/* Like `messages_append_parcel`: a parcel is the only frame of its message. */
static int take_parcel(Wire *wire, const unsigned char *data, size_t size, int flags, PyObject *messages) {
    int is_alone = !(flags & (COMMAND | MORE)) && wire->frames == 0;
    int found = is_alone ? messages_append_parcel(messages, wire->peer, data, size) : 0;
    if (found > 0) {
        wire->message_bytes = 0;
        wire->packs = wire->seal != NULL;
    }
    return found;
}

/* Opens what was sealed, in place: the frame, of `size` bytes now, with flags as they would be without a seal. NULL if
 * the wire is over by this. */
static unsigned char *unseal(Wire *wire, unsigned char *data, size_t *size, int *flags) {
    unsigned char *opened = *flags & (MORE | COMMAND) ? NULL : seal_open(wire->seal, data, *size);
    if (opened == NULL) {
        wire_end(wire, "it sends what is not sealed, or not the next frame");
        return NULL;
    }
    int inside = opened[0] & (SEAL_MORE | SEAL_COMMAND);
    *size -= SEAL_EXTRA;
    if (inside == (SEAL_MORE | SEAL_COMMAND) || (inside == SEAL_COMMAND && *size > COMMAND_MAX)) {
        wire_end(wire, "it sends what is no frame");
        return NULL;
    }
    *flags = inside == SEAL_COMMAND ? COMMAND : inside == SEAL_MORE ? MORE : 0;
    return opened + 1;
}

/* A whole frame that is in the inbox. */
static int take(Wire *wire, const unsigned char *data, size_t size, int flags, PyObject *messages) {
    if (flags & COMMAND) {
        return take_command(wire, data, size);
    }
    int parcel = take_parcel(wire, data, size, flags, messages);
    return parcel != 0 ? (parcel < 0 ? -1 : 0) : take_frame(wire, messages_frame(data, size), flags, messages);
}

/* A whole frame that was too large for the inbox. */
static int take_large(Wire *wire, PyObject *messages) {
    PyObject *frame = wire->large;
    wire->large = NULL;
    unsigned char *data = (unsigned char *)PyBytes_AS_STRING(frame);
    size_t size = (size_t)PyBytes_GET_SIZE(frame);
    if (wire->seal != NULL) {
        data = unseal(wire, data, &size, &wire->large_flags);
        if (data == NULL) {
            Py_DECREF(frame);
            return 0;
        }
    }
    int parcel = take_parcel(wire, data, size, wire->large_flags, messages);
    if (parcel != 0) {
        Py_DECREF(frame);
        return parcel < 0 ? -1 : 0;
    }
    if (wire->seal != NULL) {
        memmove(PyBytes_AS_STRING(frame), data, size);
        if (_PyBytes_Resize(&frame, (Py_ssize_t)size) < 0) {
            return -1;
        }
    }
    return take_frame(wire, frame, wire->large_flags, messages);
}

typedef struct {
    int flags;
    size_t head, size;
} Head;

/* 1: the head of a frame is there. 0: not yet, or it is a breach and the wire is over. */
static int read_head(Wire *wire, Head *head) {
    const unsigned char *at = wire->inbox + wire->from;
    size_t there = wire->to - wire->from;
    if (there < 2) {
        return 0;
    }
    head->flags = at[0];
    if (at[0] > (MORE | LONG | COMMAND) || (at[0] & (COMMAND | MORE)) == (COMMAND | MORE)) {
        wire_end(wire, "it sends what is no frame");
        return 0;
    }
    head->head = at[0] & LONG ? WIRE_HEAD : 2;
    if (there < head->head) {
        return 0;
    }
    unsigned long long size = at[1];
    for (size_t i = 2; i < head->head; i++) {
        size = size << 8 | at[i];
    }
    size_t left = wire->message_max - wire->message_bytes;
    if (head->flags & COMMAND ? size > COMMAND_MAX : size > left || left == 0) {
        wire_end(wire, head->flags & COMMAND ? "it sends a command that is too large" : "it sends a message that is too large");
        return 0;
    }
    head->size = (size_t)size;
    return 1;
}

/* Counts a frame whose head has been read, so that even an endless row of empty ones is bounded. */
static void count(Wire *wire, const Head *head) {
    size_t left = wire->message_max - wire->message_bytes, bytes = head->head + head->size;
    wire->message_bytes += bytes < left ? bytes : left;
}

/* Makes room for a frame that does not fit into the inbox, and copies what is there of it. */
static int begin_large(Wire *wire, const Head *head) {
    PyObject *large = messages_frame(NULL, head->size);
    if (large == NULL) {
        return -1;
    }
    count(wire, head);
    wire->large = large;
    wire->large_flags = head->flags;
    wire->large_has = wire->to - wire->from - head->head;
    memcpy(PyBytes_AS_STRING(large), wire->inbox + wire->from + head->head, wire->large_has);
    wire->from = wire->to = 0;
    return 0;
}

int wire_take(Wire *wire, PyObject *messages, Py_ssize_t limit) {
    if (wire->large != NULL) {
        if (wire->large_has < (size_t)PyBytes_GET_SIZE(wire->large)) {
            return 0;
        }
        if (take_large(wire, messages) < 0) {
            return -1;
        }
    }
    Head head;
    wire->waits = 0;
    while (!wire_is_over(wire)) {
        if (PyList_GET_SIZE(messages) >= limit) {
            return wire->to > wire->from;
        }
        const unsigned char *at = wire->inbox + wire->from;
        size_t there = wire->to - wire->from, whole = there >= 2 ? 2 + (size_t)at[1] : SIZE_MAX;
        /* Most frames are short, belong to a message of several, and are complete: they need no further check. */
        if (there >= whole && (at[0] == MORE || (at[0] == 0 && wire->frames > 0)) && wire->seal == NULL &&
            wire->message_max - wire->message_bytes > whole) {
            wire->from += whole;
            wire->message_bytes += whole;
            if (take_frame(wire, PyBytes_FromStringAndSize((const char *)at + 2, at[1]), at[0], messages) < 0) {
                return -1;
            }
            continue;
        }
        if (!read_head(wire, &head)) {
            return 0;
        }
        if (wire->to - wire->from < head.head + head.size) {
            if (head.head + head.size <= WIRE_INBOX) {
                return 0;
            }
            if (head.size > wire->large_max) {
                wire->waits = 1;
                return 0;
            }
            return begin_large(wire, &head);
        }
        unsigned char *data = wire->inbox + wire->from + head.head;
        size_t size = head.size;
        wire->from += head.head + head.size;
        if (wire->seal != NULL && (data = unseal(wire, data, &size, &head.flags)) == NULL) {
            return 0;
        }
        if (!(head.flags & COMMAND)) {
            count(wire, &head);
        }
        if (take(wire, data, size, head.flags, messages) < 0) {
            return -1;
        }
    }
    return 0;
}

size_t wire_read(Wire *wire) {
    if (wire->from > 0) {
        memmove(wire->inbox, wire->inbox + wire->from, wire->to - wire->from);
        wire->to -= wire->from;
        wire->from = 0;
    }
    struct iovec places[2];
    int places_count = 0;
    size_t wants = wire->large != NULL ? (size_t)PyBytes_GET_SIZE(wire->large) - wire->large_has : 0;
    if (wants > 0) {
        places[places_count++] = (struct iovec){PyBytes_AS_STRING(wire->large) + wire->large_has, wants};
    }
    size_t room = WIRE_INBOX - wire->to;
    places[places_count++] = (struct iovec){wire->inbox + wire->to, room};
    ssize_t got;
    do {
        got = readv(wire->fd, places, places_count);
    } while (got < 0 && errno == EINTR);
    wire->full = got > 0 && (size_t)got == wants + room;
    if (got == 0) {
        wire_end(wire, "it was closed by the other side");
    } else if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        wire_end(wire, strerror(errno));
    }
    if (got <= 0) {
        return 0;
    }
    size_t for_large = (size_t)got < wants ? (size_t)got : wants;
    wire->large_has += for_large;
    wire->to += (size_t)got - for_large;
    wire->received += (unsigned long long)got;
    return (size_t)got;
}

/* ---- writing ---- */

static void put_head(unsigned char *head, int flags, size_t size) {
    if (size < 256) {
        head[0] = (unsigned char)flags;
        head[1] = (unsigned char)size;
        return;
    }
    head[0] = (unsigned char)(flags | LONG);
    for (int i = 0; i < 8; i++) {
        head[1 + i] = (unsigned char)((unsigned long long)size >> (8 * (7 - i)));
    }
}

/* The piece that the next bytes of the scratch belong to: the last one, if that is in the scratch, too. */
static struct iovec *scratch_piece(Pieces *pieces) {
    unsigned char *at = pieces->scratch + pieces->used;
    if (pieces->count == 0 || pieces->owner[pieces->count - 1] != NULL) {
        pieces->piece[pieces->count] = (struct iovec){at, 0};
        pieces->owner[pieces->count++] = NULL;
    }
    return &pieces->piece[pieces->count - 1];
}

/* Everything up to `at` is part of this piece. */
static void fill(Pieces *pieces, struct iovec *piece, const unsigned char *at) {
    size_t size = (size_t)(at - pieces->scratch) - pieces->used;
    piece->iov_len += size;
    pieces->used += size;
    pieces->bytes += size;
}

static void add_plain(Pieces *pieces, PyObject *frames, Py_ssize_t before) {
    struct iovec *small = scratch_piece(pieces);
    unsigned char *at = pieces->scratch + pieces->used;
    Py_ssize_t end = PySequence_Fast_GET_SIZE(frames);
    for (Py_ssize_t i = before; i < end; i++) {
        PyObject *frame = PySequence_Fast_GET_ITEM(frames, i);
        size_t size = (size_t)PyBytes_GET_SIZE(frame);
        put_head(at, i + 1 < end ? MORE : 0, size);
        at += size < 256 ? 2 : WIRE_HEAD;
        if (size <= COPY_MAX) {
            memcpy(at, PyBytes_AS_STRING(frame), size);
            at += size;
            continue;
        }
        fill(pieces, small, at);
        pieces->piece[pieces->count] = (struct iovec){PyBytes_AS_STRING(frame), size};
        pieces->owner[pieces->count++] = frame;
        pieces->bytes += size;
        small = scratch_piece(pieces);
    }
    fill(pieces, small, at);
}

static int add_sealed(Wire *wire, Pieces *pieces, PyObject *frames, Py_ssize_t before);

void pieces_add_message(Wire *wire, Pieces *pieces, PyObject *frames, Py_ssize_t before) {
    if (wire->seal == NULL) {
        add_plain(pieces, frames, before);
    } else if (add_sealed(wire, pieces, frames, before) < 0) {
        out_of_memory(wire);
    }
}

int pieces_have_place(const Pieces *pieces) {
    return pieces->count + 2 * FRAMES_MAX + 1 <= WIRE_PIECES &&
           pieces->used + FRAMES_MAX * (COPY_MAX + WIRE_HEAD) <= WIRE_SCRATCH;
}

/* Writes once; returns how much was taken. 0 if there is no room, or no connection any more: reading will tell. */
static size_t write_once(Wire *wire, const struct iovec *pieces, int count) {
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    ssize_t wrote;
    do {
        wrote = sendmsg(wire->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (wrote < 0 && errno == EINTR);
    if (wrote < 0) {
        wire->cut_off = wire->cut_off || (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS);
        return 0;
    }
    wire->written += (unsigned long long)wrote;
    return (size_t)wrote;
}

static Chunk *new_chunk(Wire *wire, size_t capacity) {
    Chunk *chunk = malloc(sizeof(Chunk) + capacity);
    if (chunk != NULL) {
        *chunk = (Chunk){.data = chunk->own, .capacity = capacity};
        if (wire->unsent == NULL) {
            wire->unsent = chunk;
        } else {
            wire->unsent_last->next = chunk;
        }
        wire->unsent_last = chunk;
    }
    return chunk;
}

/* Room for so many bytes at the end of what has to leave; NULL when out of memory. */
static unsigned char *room_at_end(Wire *wire, size_t size) {
    Chunk *last = wire->unsent != NULL ? wire->unsent_last : NULL;
    size_t end = last == NULL || last->owner != NULL ? 0 : (size_t)(last->data - last->own) + last->size;
    if (last == NULL || last->owner != NULL || last->capacity - end < size) {
        /* A peer with little unsent gets a small chunk. */
        size_t usual = wire->unsent_bytes < CHUNK ? COPY_MAX : CHUNK;
        last = new_chunk(wire, size > usual ? size : usual);
        end = 0;
    }
    if (last == NULL) {
        return NULL;
    }
    last->size += size;
    wire->unsent_bytes += size;
    return last->own + end;
}

/* 0, or -1 when out of memory. */
static int keep_piece(Wire *wire, const unsigned char *data, size_t size, PyObject *owner) {
    /* Releasing an object that is exactly bytes runs no Python code. */
    if (owner != NULL && size > COPY_MAX && PyBytes_CheckExact(owner)) {
        Chunk *last = new_chunk(wire, 0);
        if (last == NULL) {
            return -1;
        }
        last->owner = Py_NewRef(owner);
        last->data = data;
        last->size = size;
        wire->unsent_bytes += size;
        return 0;
    }
    unsigned char *room = room_at_end(wire, size);
    if (room == NULL) {
        return -1;
    }
    memcpy(room, data, size);
    return 0;
}

/* Keeps what is left after the first `wrote` bytes. 0, or -1 when out of memory. */
static int keep_rest(Wire *wire, const Pieces *pieces, size_t wrote) {
    for (int i = 0; i < pieces->count; i++) {
        const struct iovec *piece = &pieces->piece[i];
        if (wrote >= piece->iov_len) {
            wrote -= piece->iov_len;
            continue;
        }
        if (keep_piece(wire, (unsigned char *)piece->iov_base + wrote, piece->iov_len - wrote, pieces->owner[i]) < 0) {
            return -1;
        }
        wrote = 0;
    }
    return 0;
}

/* ---- sealed ---- */

/* Seals a frame, and keeps it to leave. 0, or -1 when out of memory. */
static int keep_sealed(Wire *wire, int flags, const void *data, size_t size) {
    size_t whole = SEAL_EXTRA + size, head = whole < 256 ? 2 : WIRE_HEAD;
    unsigned char *at = room_at_end(wire, head + whole);
    if (at == NULL) {
        return -1;
    }
    put_head(at, 0, whole);
    at += head + SEAL_HEAD;
    at[0] = (unsigned char)flags;
    memcpy(at + 1, data, size);
    seal_close(wire->seal, at, 1 + size);
    return 0;
}

/* The parcel that was gathered, if there is one. */
static int keep_parcel(Wire *wire, Pieces *pieces) {
    int failed = pieces->packed > 0 ? keep_sealed(wire, 0, pieces->scratch, pieces->used) : 0;
    pieces->packed = 0;
    pieces->used = 0;
    return failed;
}

static int add_sealed(Wire *wire, Pieces *pieces, PyObject *frames, Py_ssize_t before) {
    size_t needed = wire->packs ? parcel_size(frames, before) : 0;
    size_t before_bytes = wire->unsent_bytes + pieces->used;
    int fits = needed > 0 && needed < PARCEL_BYTES_MAX;
    if ((!fits || pieces->used + needed > PARCEL_BYTES_MAX || pieces->packed == PARCEL_MESSAGES_MAX) &&
        keep_parcel(wire, pieces) < 0) {
        return -1;
    }
    if (fits) {
        if (pieces->packed++ == 0) {
            pieces->scratch[pieces->used++] = PARCEL_VERSION;
        }
        pieces->used += parcel_put(pieces->scratch + pieces->used, frames, before);
    }
    Py_ssize_t end = PySequence_Fast_GET_SIZE(frames);
    for (Py_ssize_t i = before; !fits && i < end; i++) {
        PyObject *frame = PySequence_Fast_GET_ITEM(frames, i);
        int flags = i + 1 < end ? SEAL_MORE : 0;
        if (keep_sealed(wire, flags, PyBytes_AS_STRING(frame), (size_t)PyBytes_GET_SIZE(frame)) < 0) {
            return -1;
        }
    }
    pieces->bytes += wire->unsent_bytes + pieces->used - before_bytes;
    return 0;
}

/* ---- out ---- */

int wire_write(Wire *wire, Pieces *pieces, int keep) {
    if (wire->seal != NULL) {
        int failed = keep_parcel(wire, pieces);
        if (failed) {
            out_of_memory(wire);
        }
        wire_flush(wire);
        return failed ? -1 : 1;
    }
    size_t wrote = wire->unsent == NULL ? write_once(wire, pieces->piece, pieces->count) : 0;
    if (wrote == 0 && !keep) {
        return 0;
    }
    if (keep_rest(wire, pieces, wrote) < 0) {
        out_of_memory(wire);
        return -1;
    }
    return 1;
}

int wire_command(Wire *wire, const unsigned char *body, size_t size) {
    unsigned char head[WIRE_HEAD];
    int failed;
    put_head(head, COMMAND, size);
    if (wire->seal != NULL) {
        failed = keep_sealed(wire, SEAL_COMMAND, body, size);
    } else {
        failed = keep_piece(wire, head, size < 256 ? 2 : WIRE_HEAD, NULL) < 0 || keep_piece(wire, body, size, NULL) < 0;
    }
    if (failed) {
        out_of_memory(wire);
    }
    wire_flush(wire);
    return failed ? -1 : 0;
}

static void drop_first(Wire *wire) {
    Chunk *chunk = wire->unsent;
    wire->unsent = chunk->next;
    Py_XDECREF(chunk->owner);
    free(chunk);
}

void wire_flush(Wire *wire) {
    while (wire->unsent != NULL) {
        struct iovec pieces[WIRE_PIECES];
        int number = 0;
        for (Chunk *chunk = wire->unsent; chunk != NULL && number < WIRE_PIECES; chunk = chunk->next) {
            pieces[number++] = (struct iovec){(void *)chunk->data, chunk->size};
        }
        size_t wrote = write_once(wire, pieces, number);
        if (wrote == 0) {
            return;
        }
        wire->unsent_bytes -= wrote;
        while (wire->unsent != NULL && wrote >= wire->unsent->size) {
            wrote -= wire->unsent->size;
            drop_first(wire);
        }
        if (wrote > 0) {
            wire->unsent->data += wrote;
            wire->unsent->size -= wrote;
        }
    }
}

void wire_clear(Wire *wire) {
    while (wire->unsent != NULL) {
        drop_first(wire);
    }
    wire->unsent_bytes = 0;
    Py_CLEAR(wire->large);
    while (wire->frames > 0) {
        Py_DECREF(wire->frame[--wire->frames]);
    }
    Py_CLEAR(wire->commands);
    Py_CLEAR(wire->peer);
    seal_free(wire->seal);
    wire->seal = NULL;
}
