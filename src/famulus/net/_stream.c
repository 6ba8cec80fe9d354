/* Messages over a connected socket, as frames of ZMTP: what libzmq does in a thread of its own, without the thread.
 *
 * One call reads, one call writes; nothing blocks, so the GIL is held throughout. What is small is copied and travels in
 * parcels (see _parcel.h); what is large is read into the Python object itself, and written from it.
 *
 * stream_python.py is the same in Python, says what is promised, and is the better one to read first.
 * tests/unit/net/test_stream.py runs on both.
 */
#include "_stream.h"

#include <errno.h>
#include <structmember.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "_messages.h"

enum { MORE = 1, LONG = 2, COMMAND = 4 };
enum { HEAD_MAX = 9 };           /* flags, and a length of 8 bytes */
enum { INBOX = 64 * 1024 };      /* as in stream_python.py */
enum { COMMAND_MAX = 4 * 1024 }; /* as in wire/zmtp.py */
enum { COMMANDS_MAX = 64 };
enum { WRITE_MAX = 64 }; /* pieces in one write */

typedef struct {
    PyObject_HEAD
    int fd;
    size_t frame_max;
    unsigned char *inbox; /* what was read and not yet looked at is from `from` to `to` */
    size_t from, to;
    PyObject *large;  /* a frame that does not fit into the inbox, as far as it is there; or NULL */
    size_t large_has; /* so much of it is */
    int large_flags;
    PyObject *frames;   /* those of a message whose end is not there yet; or NULL */
    PyObject *unsent;   /* bytes that were taken and that the system had no room for */
    size_t unsent_from; /* of the first of them, this is the first byte that is left */
    PyObject *commands;
    PyObject *ended;
    unsigned long long received, written;
    int reading; /* making objects may run Python code, which must not read as well */
} Stream;

/* ---- reading ---- */

/* The connection is over; the first reason is the one that counts. -1 only when out of memory. */
static int end(Stream *self, const char *why) {
    if (PyUnicode_GetLength(self->ended) > 0) {
        return 0;
    }
    PyObject *reason = PyUnicode_DecodeLocale(why, "surrogateescape");
    if (reason == NULL) {
        return -1;
    }
    Py_SETREF(self->ended, reason);
    return 0;
}

static int is_over(const Stream *self) { return PyUnicode_GET_LENGTH(self->ended) > 0; }

/* Appends and lets go of `item`, which may be NULL. */
static int append_new(PyObject *list, PyObject *item) {
    int failed = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    return failed;
}

static int take_command(Stream *self, PyObject *body) {
    if (PyList_GET_SIZE(self->commands) >= COMMANDS_MAX) {
        Py_DECREF(body);
        return end(self, "it sends too many commands");
    }
    return append_new(self->commands, body);
}

/* One frame of a message, which this lets go of. */
static int take_frame(Stream *self, PyObject *frame, int flags, PyObject *messages) {
    if (self->frames == NULL) {
        self->frames = PyList_New(0);
    }
    int failed = self->frames == NULL;
    /* Of a message that is too long one frame more is kept, to show that it is. */
    if (!failed && PyList_GET_SIZE(self->frames) <= FRAMES_MAX) {
        failed = PyList_Append(self->frames, frame);
    }
    Py_DECREF(frame);
    if (!failed && !(flags & MORE)) {
        failed = append_new(messages, self->frames);
        self->frames = NULL;
    }
    return failed ? -1 : 0;
}

/* A whole frame that is in the inbox. */
static int take(Stream *self, const unsigned char *data, size_t size, int flags, PyObject *messages) {
    if (!(flags & (COMMAND | MORE)) && self->frames == NULL && parcel_count(data, size)) {
        return messages_append_parcel(messages, NULL, data, size);
    }
    PyObject *frame = messages_frame(data, size);
    if (frame == NULL) {
        return -1;
    }
    return flags & COMMAND ? take_command(self, frame) : take_frame(self, frame, flags, messages);
}

/* A whole frame that was too large for the inbox. */
static int take_large(Stream *self, PyObject *messages) {
    PyObject *frame = self->large;
    self->large = NULL;
    const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(frame);
    size_t size = (size_t)PyBytes_GET_SIZE(frame);
    if (!(self->large_flags & MORE) && self->frames == NULL && parcel_count(data, size)) {
        int failed = messages_append_parcel(messages, NULL, data, size);
        Py_DECREF(frame);
        return failed;
    }
    return take_frame(self, frame, self->large_flags, messages);
}

typedef struct {
    int flags;
    size_t head, size;
} Head;

/* 1: the head of a frame is there. 0: not yet, or it is a breach and the stream has ended. -1: out of memory. */
static int read_head(Stream *self, Head *head) {
    const unsigned char *at = self->inbox + self->from;
    size_t there = self->to - self->from;
    if (there < 2) {
        return 0;
    }
    head->flags = at[0];
    if (at[0] > (MORE | LONG | COMMAND) || (at[0] & (COMMAND | MORE)) == (COMMAND | MORE)) {
        return end(self, "it sends what is no frame");
    }
    head->head = at[0] & LONG ? HEAD_MAX : 2;
    if (there < head->head) {
        return 0;
    }
    unsigned long long size = at[1];
    for (size_t i = 2; i < head->head; i++) {
        size = size << 8 | at[i];
    }
    if (size > (head->flags & COMMAND ? COMMAND_MAX : self->frame_max)) {
        return end(self, "it sends a frame that is too large");
    }
    head->size = (size_t)size;
    return 1;
}

/* Makes room for a frame that does not fit into the inbox, and takes along what is there of it. */
static int begin_large(Stream *self, const Head *head) {
    self->large = messages_frame(NULL, head->size);
    if (self->large == NULL) {
        return -1;
    }
    self->large_flags = head->flags;
    self->large_has = self->to - self->from - head->head;
    memcpy(PyBytes_AS_STRING(self->large), self->inbox + self->from + head->head, self->large_has);
    self->from = self->to = 0;
    return 0;
}

/* Takes all whole frames of the inbox. 0, or -1 with an exception set. */
static int take_all(Stream *self, PyObject *messages) {
    Head head = {0, 0, 0};
    int there = 0;
    while (!is_over(self) && (there = read_head(self, &head)) == 1) {
        if (self->to - self->from < head.head + head.size) {
            if (head.head + head.size > INBOX) {
                return begin_large(self, &head);
            }
            break;
        }
        const unsigned char *data = self->inbox + self->from + head.head;
        self->from += head.head + head.size;
        if (take(self, data, head.size, head.flags, messages) < 0) {
            return -1;
        }
    }
    if (self->from > 0) {
        memmove(self->inbox, self->inbox + self->from, self->to - self->from);
        self->to -= self->from;
        self->from = 0;
    }
    return there < 0 ? -1 : 0;
}

/* Reads once: what a large frame still wants goes to its place, what follows into the inbox. -1: see errno. */
static ssize_t read_once(Stream *self) {
    struct iovec places[2];
    int count = 0;
    size_t wants = self->large != NULL ? (size_t)PyBytes_GET_SIZE(self->large) - self->large_has : 0;
    if (wants > 0) {
        places[count++] = (struct iovec){PyBytes_AS_STRING(self->large) + self->large_has, wants};
    }
    places[count++] = (struct iovec){self->inbox + self->to, INBOX - self->to};
    ssize_t got;
    do {
        got = readv(self->fd, places, count);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        size_t for_large = (size_t)got < wants ? (size_t)got : wants;
        self->large_has += for_large;
        self->to += (size_t)got - for_large;
        self->received += (unsigned long long)got;
    }
    return got;
}

static PyObject *stream_recv(PyObject *object, PyObject *unused) {
    (void)unused;
    Stream *self = (Stream *)object;
    PyObject *messages = PyList_New(0);
    if (messages == NULL || is_over(self) || self->reading) {
        return messages;
    }
    self->reading = 1;
    ssize_t got = read_once(self);
    int failed = 0;
    if (got == 0) {
        failed = end(self, "it was closed by the other side");
    } else if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        failed = end(self, strerror(errno));
    } else if (got > 0) {
        if (self->large != NULL && self->large_has == (size_t)PyBytes_GET_SIZE(self->large)) {
            failed = take_large(self, messages);
        }
        if (!failed && self->large == NULL) {
            failed = take_all(self, messages);
        }
    }
    self->reading = 0;
    if (failed < 0) {
        Py_CLEAR(messages);
    }
    return messages;
}

/* ---- writing ---- */

/* Pieces of one frame after the other; `owner` is the Python object that a piece is in, or NULL. */
typedef struct {
    struct iovec piece[WRITE_MAX];
    PyObject *owner[WRITE_MAX];
    int count;
} Pieces;

static void add(Pieces *pieces, const void *data, size_t size, PyObject *owner) {
    pieces->piece[pieces->count] = (struct iovec){(void *)data, size};
    pieces->owner[pieces->count++] = owner;
}

static size_t put_head(unsigned char head[HEAD_MAX], int flags, size_t size) {
    if (size < 256) {
        head[0] = (unsigned char)flags;
        head[1] = (unsigned char)size;
        return 2;
    }
    head[0] = (unsigned char)(flags | LONG);
    for (int i = 0; i < 8; i++) {
        head[1 + i] = (unsigned char)((unsigned long long)size >> (8 * (7 - i)));
    }
    return HEAD_MAX;
}

/* Writes once: how much was taken. Nothing if there is no room, or no connection any more: reading will tell. */
static size_t write_once(Stream *self, const struct iovec *pieces, int count) {
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    ssize_t wrote;
    do {
        wrote = sendmsg(self->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (wrote < 0 && errno == EINTR);
    if (wrote < 0) {
        return 0;
    }
    self->written += (unsigned long long)wrote;
    return (size_t)wrote;
}

/* Keeps what is left behind the first `wrote` bytes. 0, or -1 with an exception set. */
static int keep_rest(Stream *self, const Pieces *pieces, size_t wrote) {
    for (int i = 0; i < pieces->count; i++) {
        const struct iovec *piece = &pieces->piece[i];
        if (wrote >= piece->iov_len) {
            wrote -= piece->iov_len;
            continue;
        }
        PyObject *rest = pieces->owner[i];
        if (rest != NULL) {
            Py_INCREF(rest);
            if (PyList_GET_SIZE(self->unsent) == 0) {
                self->unsent_from = wrote;
            }
        } else {
            rest = PyBytes_FromStringAndSize((char *)piece->iov_base + wrote, (Py_ssize_t)(piece->iov_len - wrote));
        }
        wrote = 0;
        if (append_new(self->unsent, rest) < 0) {
            return -1;
        }
    }
    return 0;
}

/* 1: it has left, or the rest of it will. 0: not one byte of it has. -1 with an exception set. */
static int write_pieces(Stream *self, const Pieces *pieces) {
    size_t wrote = write_once(self, pieces->piece, pieces->count);
    if (wrote == 0) {
        return 0;
    }
    if (keep_rest(self, pieces, wrote) < 0) {
        (void)end(self, "out of memory"); /* half a message has left, and nothing may follow it */
        return -1;
    }
    return 1;
}

static int write_message(Stream *self, PyObject *frames) {
    unsigned char heads[FRAMES_MAX][HEAD_MAX];
    Pieces pieces = {.count = 0};
    Py_ssize_t count = PySequence_Fast_GET_SIZE(frames);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *frame = PySequence_Fast_GET_ITEM(frames, i);
        size_t size = (size_t)PyBytes_GET_SIZE(frame);
        add(&pieces, heads[i], put_head(heads[i], i + 1 < count ? MORE : 0, size), NULL);
        add(&pieces, PyBytes_AS_STRING(frame), size, frame);
    }
    return write_pieces(self, &pieces);
}

static int write_parcel(Stream *self, PyObject *messages, Py_ssize_t from, Py_ssize_t count, size_t size) {
    unsigned char frame[HEAD_MAX + PARCEL_BYTES_MAX];
    unsigned char *at = frame + put_head(frame, 0, size);
    *at++ = PARCEL_VERSION;
    for (Py_ssize_t i = from; i < from + count; i++) {
        Part parts[PARCEL_PARTS];
        messages_parts(PySequence_Fast_GET_ITEM(messages, i), parts);
        at = parcel_put(at, parts);
    }
    Pieces pieces = {.count = 0};
    add(&pieces, frame, (size_t)(at - frame), NULL);
    return write_pieces(self, &pieces);
}

/* Writes what was left. 0, or -1 with an exception set. */
static int write_unsent(Stream *self) {
    while (PyList_GET_SIZE(self->unsent) > 0) {
        struct iovec pieces[WRITE_MAX];
        int count = 0;
        for (; count < WRITE_MAX && count < PyList_GET_SIZE(self->unsent); count++) {
            PyObject *bytes = PyList_GET_ITEM(self->unsent, count);
            size_t before = count == 0 ? self->unsent_from : 0;
            pieces[count] = (struct iovec){PyBytes_AS_STRING(bytes) + before, (size_t)PyBytes_GET_SIZE(bytes) - before};
        }
        size_t wrote = write_once(self, pieces, count);
        if (wrote == 0) {
            return 0;
        }
        int done = 0;
        while (done < count && wrote >= pieces[done].iov_len) {
            wrote -= pieces[done++].iov_len;
        }
        self->unsent_from = (done == 0 ? self->unsent_from : 0) + wrote;
        if (done > 0 && PyList_SetSlice(self->unsent, 0, done, NULL) < 0) {
            return -1;
        }
    }
    self->unsent_from = 0;
    return 0;
}

static int check_counts(PyObject *messages) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(messages); i++) {
        if (PySequence_Fast_GET_SIZE(PySequence_Fast_GET_ITEM(messages, i)) > FRAMES_MAX) {
            PyErr_Format(PyExc_ValueError, "message %zd has more than %d frames", i, FRAMES_MAX);
            return -1;
        }
    }
    return 0;
}

static PyObject *stream_send(PyObject *object, PyObject *messages) {
    Stream *self = (Stream *)object;
    /* In this order: letting go of what was left may run Python code, after the check none may. */
    if (write_unsent(self) < 0 || messages_check(messages) < 0 || check_counts(messages) < 0) {
        return NULL;
    }
    Py_ssize_t taken = 0, count = PySequence_Fast_GET_SIZE(messages);
    /* What is left of one message has to leave before the next. */
    while (taken < count && PyList_GET_SIZE(self->unsent) == 0) {
        size_t size;
        Py_ssize_t together = messages_run(messages, taken, &size);
        int wrote = together > 0 ? write_parcel(self, messages, taken, together, size)
                                 : write_message(self, PySequence_Fast_GET_ITEM(messages, taken));
        if (wrote < 0) {
            return NULL;
        }
        if (wrote == 0) {
            break;
        }
        taken += together > 0 ? together : 1;
    }
    return PyLong_FromSsize_t(taken);
}

static PyObject *stream_write(PyObject *object, PyObject *bytes) {
    Stream *self = (Stream *)object;
    if (!PyBytes_Check(bytes)) {
        PyErr_Format(PyExc_TypeError, "bytes are needed, not %.100s", Py_TYPE(bytes)->tp_name);
        return NULL;
    }
    if (PyBytes_GET_SIZE(bytes) > 0 && PyList_Append(self->unsent, bytes) < 0) {
        return NULL;
    }
    if (write_unsent(self) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *stream_flush(PyObject *object, PyObject *unused) {
    (void)unused;
    Stream *self = (Stream *)object;
    if (write_unsent(self) < 0) {
        return NULL;
    }
    return PyBool_FromLong(PyList_GET_SIZE(self->unsent) == 0);
}

/* ---- the type ---- */

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *connected;
    Py_ssize_t frame_max;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Stream() takes a socket and a number of bytes");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "On:Stream", &connected, &frame_max)) {
        return NULL;
    }
    int fd = PyObject_AsFileDescriptor(connected);
    if (fd < 0) {
        return NULL;
    }
    Stream *self = (Stream *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->fd = fd;
    self->frame_max = frame_max < 0 ? 0 : (size_t)frame_max;
    self->inbox = PyMem_Malloc(INBOX);
    self->unsent = PyList_New(0);
    self->commands = PyList_New(0);
    self->ended = PyUnicode_New(0, 0);
    if (self->inbox == NULL || self->unsent == NULL || self->commands == NULL || self->ended == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void stream_dealloc(PyObject *object) {
    Stream *self = (Stream *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_CLEAR(self->large);
    Py_CLEAR(self->frames);
    Py_CLEAR(self->unsent);
    Py_CLEAR(self->commands);
    Py_CLEAR(self->ended);
    PyMem_Free(self->inbox);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef stream_methods[] = {
    {"recv", stream_recv, METH_NOARGS, "The messages that one read brought."},
    {"send", stream_send, METH_O, "Send in order until one does not fit; give how many did."},
    {"write", stream_write, METH_O, "Send bytes as they are, behind what is left of others."},
    {"flush", stream_flush, METH_NOARGS, "Try to write what is left; whether nothing is."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef stream_members[] = {
    {"commands", T_OBJECT_EX, offsetof(Stream, commands), READONLY, "Commands that came, for the caller to take."},
    {"ended", T_OBJECT_EX, offsetof(Stream, ended), READONLY, "Why it is over; empty while it is not."},
    {"received", T_ULONGLONG, offsetof(Stream, received), READONLY, "Bytes so far."},
    {"written", T_ULONGLONG, offsetof(Stream, written), READONLY, "Bytes so far."},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *stream_unsent(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(PyList_GET_SIZE(((Stream *)object)->unsent) > 0);
}

static PyGetSetDef stream_getset[] = {
    {"unsent", stream_unsent, NULL, "Whether something was taken that has not left.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot stream_slots[] = {
    {Py_tp_doc, "Messages over a connected socket, as frames of ZMTP; see famulus.net.stream_python."},
    {Py_tp_new, stream_new},
    {Py_tp_dealloc, stream_dealloc},
    {Py_tp_methods, stream_methods},
    {Py_tp_members, stream_members},
    {Py_tp_getset, stream_getset},
    {0, NULL},
};

static PyType_Spec stream_spec = {
    .name = "famulus.net._pump.Stream",
    .basicsize = sizeof(Stream),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = stream_slots,
};

int stream_add_to(PyObject *module) {
    PyObject *type = PyType_FromSpec(&stream_spec);
    int failed = type == NULL ? -1 : PyModule_AddObjectRef(module, "Stream", type);
    Py_XDECREF(type);
    return failed;
}
