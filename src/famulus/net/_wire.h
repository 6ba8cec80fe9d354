/* A connected socket with frames of ZMTP on it: what a `Stream` and each of the `Connections` have in common.
 *
 * One call reads, one call writes; nothing blocks. What is small is copied, what is large is read into the Python object
 * itself and written from it. stream_python.py is the same in Python, and should be read first.
 */
#ifndef FAMULUS_WIRE_H
#define FAMULUS_WIRE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sys/uio.h>

#include "_messages.h"
#include "_seal.h"

enum {
    WIRE_INBOX = 64 * 1024, /* what is read at once, as in stream_python.py */
    WIRE_PIECES = 64,       /* in one write */
    WIRE_HEAD = 9,          /* flags, and a length of 8 bytes */
    WIRE_SCRATCH = 2 * WIRE_INBOX,
};

/* What was taken and has not left: bytes of its own, or a part of a Python object. */
typedef struct Chunk {
    struct Chunk *next;
    PyObject *owner; /* NULL: the bytes are in `own` */
    const unsigned char *data;
    size_t size, capacity; /* `capacity` of `own` */
    unsigned char own[];
} Chunk;

typedef struct {
    int fd;
    size_t message_max;   /* bytes of a message, all its frames together */
    size_t large_max;     /* a larger frame has to wait for room */
    Seal *seal;           /* what nothing is sent or heard without; or NULL */
    PyObject *peer;       /* what every message begins with; or NULL */
    PyObject *commands;   /* where they are put; NULL: a PING is answered, others are ignored */
    unsigned char *inbox; /* what was read and not yet looked at is from `from` to `to` */
    size_t from, to;
    PyObject *large;  /* a frame that does not fit into the inbox, as far as it has come; or NULL */
    size_t large_has; /* how much of it has */
    int large_flags;
    PyObject *frame[FRAMES_MAX + 1]; /* of a message whose end has not come yet; one that is too long has one more */
    int frames;                      /* how many */
    size_t message_bytes;            /* of that message so far */
    Chunk *unsent, *unsent_last;
    size_t unsent_bytes;
    char ended[64]; /* why it is over, for people; empty while it is not */
    unsigned long long received, written;
    char packs;   /* sealed messages are sent in parcels, as the other side reads them */
    char waits;   /* for room for a large frame */
    char full;    /* the last read filled all the room that there was */
    char ends;    /* the other side has closed: it is read to its end */
    char cut_off; /* a write has failed for good */
} Wire;

/* Pieces of frames, one after the other; small ones are gathered in `scratch`. For a wire with a seal, the messages of
 * one parcel are gathered there instead, and what does not fit into one is sealed and kept by the wire at once. */
typedef struct {
    struct iovec piece[WIRE_PIECES];
    PyObject *owner[WIRE_PIECES]; /* the Python object that a piece is in, or NULL */
    int count;
    size_t bytes;
    unsigned char *scratch; /* WIRE_SCRATCH bytes */
    size_t used;
    int packed; /* messages in the parcel */
} Pieces;

static inline int wire_is_over(const Wire *wire) { return wire->ended[0] != '\0'; }

/* The connection is over; the first reason is the one that counts. */
void wire_end(Wire *wire, const char *why);

/* Reads once, and notes if the connection is over. Returns how much it was; 0 also if nothing is there. */
size_t wire_read(Wire *wire);

/* Appends whole messages to `messages` until it has `limit`. 1 if more may be in the inbox, 0 if not, -1 with an exception
 * set. Making objects may run Python code, which must not call this for the same wire. */
int wire_take(Wire *wire, PyObject *messages, Py_ssize_t limit);

/* Adds a whole message, without its first `before` frames, to the pieces; there must be room for it. */
void pieces_add_message(Wire *wire, Pieces *pieces, PyObject *frames, Py_ssize_t before);
int pieces_have_place(const Pieces *pieces); /* for one more message */

/* Writes once, if nothing else has to leave first; the rest is kept. 1: taken. 0: nothing has left, and nothing is kept.
 * -1: the rest could not be kept, and the wire is over. With `keep`, what does not fit at all is kept as well, even if
 * the connection is cut off; so is what is sealed, since no other frame may have its number. */
int wire_write(Wire *wire, Pieces *pieces, int keep);

/* Sends a command, behind what has to leave first. 0, or -1 if it could not be kept, and the wire is over. */
int wire_command(Wire *wire, const unsigned char *body, size_t size);

/* Writes what was left. */
void wire_flush(Wire *wire);

/* Sends a PONG that nobody asked for. */
void wire_say_here(Wire *wire);

/* Releases everything but the descriptor. May run Python code. */
void wire_clear(Wire *wire);

#endif
