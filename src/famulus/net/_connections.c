/* `Connections`: messages from and to many peers at once, each over a connected socket with frames of ZMTP.
 *
 * _wire.c handles the bytes; here we decide who is read and written, in turn, and how much may pile up.
 * connections_python.py is the same in Python, says what is promised, and should be read first.
 * tests/unit/net/test_connections.py runs on both.
 *
 * Creating objects may run Python code (a garbage collection may), and that code may call any method of ours. So a
 * connection that is over is at first only set aside (`doom`), and is freed when nobody is using it (`bury`).
 */
#include "_pump.h"

#include <errno.h>
#include <stdlib.h>
#include <structmember.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "_wire.h"

enum { EVENTS_MAX = 256 }; /* whatever else has news is reported by the next look */
enum { FEW = 16 };
enum { TOLD_MAX = 100000 }; /* peers that `gone` may list, if nobody empties it */

typedef struct Connection {
    Wire wire;
    struct Connection *next_all, *before_all;   /* among all connections */
    struct Connection *next_turn, *before_turn; /* among those to be read, or those waiting for room */
    struct Queue *queue;                        /* which of the two it is in; or NULL */
    unsigned char *rest;                        /* what was read and not yet taken, from `rest_from` on; or NULL */
    size_t rest_from, rest_size;
    size_t unfinished; /* what we hold of an incomplete message, as counted in the total */
    size_t unsent;     /* what it has not taken, as counted in the total */
    char unlooked;     /* there may be whole frames in the rest */
    char dead;
    unsigned long long written_then, received_then; /* at the last tick that looked at it, */
    long long looked_ns;                            /* which was at this time */
    long long taken_ns;                             /* when it last took something, or had nothing to take */
    long long said_ns;                              /* the tick after which it was last told that we are here */
    Py_ssize_t first, last;                         /* while messages are sent: those for it; -1 if there are none */
    struct Connection *next_touched;
} Connection;

typedef struct Queue {
    Connection *first, *last;
} Queue;

typedef struct {
    PyObject_HEAD
    int epoll;
    size_t message_max, unfinished_max, unsent_max, unsent_all_max;
    long long patience_ns, tick_ns;
    PyObject *by_peer; /* its values are pointers as integers, and nobody else sees it */
    Connection *all, *dead;
    Queue ready, waiting; /* those who are to be read; those who have no room for a large frame */
    size_t unfinished, unsent;
    size_t held_back; /* the part of `unfinished` that belongs to those waiting for room */
    PyObject *news, *gone;
    unsigned char *inbox, *scratch;
    int busy, reading, room_made, unpolled, closed;
} Connections;

/* ---- queues ---- */

static void leave(Connection *connection) {
    Queue *queue = connection->queue;
    if (queue == NULL) {
        return;
    }
    *(connection->before_turn ? &connection->before_turn->next_turn : &queue->first) = connection->next_turn;
    *(connection->next_turn ? &connection->next_turn->before_turn : &queue->last) = connection->before_turn;
    connection->queue = NULL;
}

static void join(Queue *queue, Connection *connection) {
    leave(connection);
    connection->queue = queue;
    connection->next_turn = NULL;
    connection->before_turn = queue->last;
    *(queue->last ? &queue->last->next_turn : &queue->first) = connection;
    queue->last = connection;
}

/* ---- connections come and go ---- */

static void wait_for_room(Connections *self, Connection *connection) {
    join(&self->waiting, connection);
    self->held_back += connection->unfinished;
}

static void stop_waiting(Connections *self, Connection *connection) {
    if (connection->queue == &self->waiting) {
        self->held_back -= connection->unfinished;
        leave(connection);
    }
}

static void account(Connections *self, Connection *connection, size_t unfinished) {
    self->unsent = self->unsent - connection->unsent + connection->wire.unsent_bytes;
    connection->unsent = connection->wire.unsent_bytes;
    if (unfinished < connection->unfinished) {
        self->room_made = 1;
    }
    self->unfinished = self->unfinished - connection->unfinished + unfinished;
    connection->unfinished = unfinished;
}

/* It is over: nobody finds it any more. `bury` frees what it holds. */
static void doom(Connections *self, Connection *connection) {
    if (connection->dead) {
        return;
    }
    connection->dead = 1;
    stop_waiting(self, connection);
    leave(connection);
    *(connection->before_all ? &connection->before_all->next_all : &self->all) = connection->next_all;
    if (connection->next_all != NULL) {
        connection->next_all->before_all = connection->before_all;
    }
    connection->next_all = self->dead;
    self->dead = connection;
    self->unsent -= connection->unsent;
    self->unfinished -= connection->unfinished;
    self->room_made = 1;
    /* The number may soon be that of another descriptor. */
    epoll_ctl(self->epoll, EPOLL_CTL_DEL, connection->wire.fd, NULL);
    close(connection->wire.fd);
    connection->wire.fd = -1;
}

static void bury(Connections *self) {
    while (self->busy == 0 && self->dead != NULL) {
        Connection *connection = self->dead;
        self->dead = connection->next_all;
        self->busy++;
        PyObject *peer = connection->wire.peer;
        if (peer != NULL) {
            if (PyDict_DelItem(self->by_peer, peer) < 0 ||
                (PyList_GET_SIZE(self->gone) < TOLD_MAX && PyList_Append(self->gone, peer) < 0)) {
                PyErr_Clear();
            }
        }
        wire_clear(&connection->wire);
        free(connection->rest);
        free(connection);
        self->busy--;
    }
}

/* The live one of this name, or NULL. Exact bytes only: a subclass could bring a hash of its own, which is Python code. */
static Connection *find(Connections *self, PyObject *peer) {
    PyObject *address = PyBytes_CheckExact(peer) ? PyDict_GetItemWithError(self->by_peer, peer) : NULL;
    Connection *connection = address == NULL ? NULL : PyLong_AsVoidPtr(address);
    return connection == NULL || connection->dead ? NULL : connection;
}

static int is_open(const Connections *self) {
    if (self->closed) {
        PyErr_SetString(PyExc_ValueError, "these connections are closed");
    }
    return !self->closed;
}

static PyObject *connections_add(PyObject *object, PyObject *args) {
    Connections *self = (Connections *)object;
    int fd;
    PyObject *peer, *given = Py_None;
    if (!PyArg_ParseTuple(args, "iS|O:add", &fd, &peer, &given) || !is_open(self)) {
        return NULL;
    }
    if (!PyBytes_CheckExact(peer) || PyDict_Contains(self->by_peer, peer)) {
        PyErr_SetString(PyExc_ValueError, "a peer needs a name of its own");
        return NULL;
    }
    Seal *seal = given == Py_None ? NULL : seal_new(given);
    if (given != Py_None && seal == NULL) {
        return NULL;
    }
    Connection *connection = calloc(1, sizeof(Connection));
    if (connection == NULL) {
        seal_free(seal);
        return PyErr_NoMemory();
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        seal_free(seal);
        free(connection);
        return NULL;
    }
    PyObject *address = PyLong_FromVoidPtr(connection);
    int failed = address == NULL || PyDict_SetItem(self->by_peer, peer, address) < 0;
    Py_XDECREF(address);
    if (failed) {
        epoll_ctl(self->epoll, EPOLL_CTL_DEL, fd, NULL);
        seal_free(seal);
        free(connection);
        return NULL;
    }
    connection->wire.fd = fd;
    connection->wire.seal = seal;
    connection->wire.message_max = self->message_max;
    connection->wire.peer = Py_NewRef(peer);
    connection->first = -1;
    connection->said_ns = -1;
    connection->next_all = self->all;
    if (self->all != NULL) {
        self->all->before_all = connection;
    }
    self->all = connection;
    Py_RETURN_NONE;
}

static PyObject *connections_cut(PyObject *object, PyObject *peer) {
    Connections *self = (Connections *)object;
    Connection *connection = find(self, peer);
    if (connection != NULL) {
        doom(self, connection);
        bury(self);
    }
    return PyBool_FromLong(connection != NULL);
}

/* Other descriptors, listed in `news` when they have some: marked by the lowest bit, which no address has set. */
static PyObject *change_watch(PyObject *object, PyObject *descriptor, int change) {
    Connections *self = (Connections *)object;
    long fd = PyLong_AsLong(descriptor);
    if ((fd == -1 && PyErr_Occurred()) || !is_open(self)) {
        return NULL;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)fd << 1 | 1};
    if (epoll_ctl(self->epoll, change, (int)fd, &event) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *connections_watch(PyObject *object, PyObject *fd) { return change_watch(object, fd, EPOLL_CTL_ADD); }

static PyObject *connections_forget(PyObject *object, PyObject *fd) { return change_watch(object, fd, EPOLL_CTL_DEL); }

/* ---- reading ---- */

static void flush(Connections *self, Connection *connection) {
    wire_flush(&connection->wire);
    account(self, connection, connection->unfinished);
}

/* Whoever has news gets in line. If nobody is read now, it is told that we are here, once between two ticks: its PINGs are
 * not read either. 0, or -1 with an exception set. */
static int look(Connections *self, int reads) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(self->epoll, events, EVENTS_MAX, 0);
    self->unpolled = count == EVENTS_MAX;
    int failed = 0;
    for (int i = 0; i < count; i++) {
        if (!(events[i].data.u64 & 1)) {
            Connection *connection = events[i].data.ptr;
            if (connection->dead) {
                continue;
            }
            if (events[i].events & EPOLLOUT && connection->wire.unsent != NULL) {
                flush(self, connection);
            }
            if (events[i].events & ~(uint32_t)EPOLLOUT && connection->queue == NULL) {
                join(&self->ready, connection);
            }
            if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
                connection->wire.cut_off |= (events[i].events & (EPOLLHUP | EPOLLERR)) != 0;
                connection->wire.ends = 1;
            } else if (!reads && events[i].events & EPOLLIN && connection->said_ns != self->tick_ns) {
                connection->said_ns = self->tick_ns;
                wire_say_here(&connection->wire);
                account(self, connection, connection->unfinished);
            }
        }
    }
    for (int i = 0; i < count && !failed; i++) {
        if (events[i].data.u64 & 1) {
            failed = messages_append(self->news, PyLong_FromUnsignedLongLong(events[i].data.u64 >> 1));
        }
    }
    return failed;
}

/* The next read goes into the inbox that all share, after what is left. */
static void share_inbox(Wire *wire, unsigned char *inbox) {
    size_t left = wire->to - wire->from;
    if (left > 0) {
        memcpy(inbox, wire->inbox + wire->from, left);
    }
    wire->inbox = inbox;
    wire->from = 0;
    wire->to = left;
}

static int save_rest(Connection *connection) {
    Wire *wire = &connection->wire;
    size_t size = wire_is_over(wire) ? 0 : wire->to - wire->from;
    if (wire->inbox != connection->rest || size == 0) {
        unsigned char *rest = NULL;
        if (size > 0) {
            rest = malloc(size);
            if (rest == NULL) {
                return -1;
            }
            memcpy(rest, wire->inbox + wire->from, size);
        }
        free(connection->rest);
        connection->rest = rest;
        wire->from = 0;
        wire->to = size;
    }
    connection->rest_from = wire->from;
    connection->rest_size = wire->to;
    return 0;
}

/* Reads once from the connection that is first in line, and takes what is complete. 0, or -1 with an exception set. */
static int read_turn(Connections *self, Connection *connection, PyObject *messages, Py_ssize_t limit) {
    Wire *wire = &connection->wire;
    /* Those who wait take up little; if they counted, there could be so many that nobody would ever have room. */
    size_t others = self->unfinished - self->held_back - connection->unfinished;
    int waited = wire->waits;
    leave(connection);
    /* What is left of the last read is parsed where it is. */
    wire->inbox = connection->rest;
    wire->from = connection->rest_from;
    wire->to = connection->rest_size;
    /* If it is the only one, it has room for anything. */
    wire->large_max = others == 0 ? SIZE_MAX : others < self->unfinished_max ? self->unfinished_max - others : 0;
    int more = connection->unlooked ? wire_take(wire, messages, limit) : 0;
    int read = 0;
    if (more == 0 && !wire->waits && !wire_is_over(wire) && (PyList_GET_SIZE(messages) < limit)) {
        read = 1;
        share_inbox(wire, self->inbox);
        int got = wire_read(wire) > 0;
        wire->ends = wire->ends && got;
        more = got ? wire_take(wire, messages, limit) : 0;
    }
    if (save_rest(connection) < 0) {
        wire_end(wire, "out of memory");
    }
    if (connection->dead) {
        return more < 0 ? -1 : 0; /* ended by Python code that ran meanwhile */
    }
    connection->unlooked = more > 0 || wire->waits;
    size_t large = wire->large != NULL ? (size_t)PyBytes_GET_SIZE(wire->large) : 0;
    size_t frames = wire->frames > 0 ? wire->message_bytes : 0;
    size_t rest = connection->rest_size - connection->rest_from;
    account(self, connection, rest + (large > frames ? large : frames));
    if (self->unfinished > self->unfinished_max + self->unfinished_max / 4 && connection->unfinished != self->unfinished) {
        wire_end(wire, "there is no room for what it sends");
    }
    if (wire_is_over(wire) && more <= 0) {
        doom(self, connection);
    } else if (wire->waits) {
        wait_for_room(self, connection);
        return more < 0 ? -1 : 0;
    } else if (more > 0 || !read || wire->full || wire->ends) {
        join(&self->ready, connection);
    }
    if (waited) {
        self->room_made = 1; /* there may be room for the next as well */
    }
    return more < 0 ? -1 : 0;
}

static PyObject *connections_recv(PyObject *object, PyObject *limit_object) {
    Connections *self = (Connections *)object;
    Py_ssize_t limit = PyLong_AsSsize_t(limit_object);
    if ((limit == -1 && PyErr_Occurred()) || !is_open(self)) {
        return NULL;
    }
    PyObject *messages = PyList_New(0);
    if (messages == NULL || self->reading) {
        return messages;
    }
    self->reading = 1;
    self->busy++;
    int failed = look(self, limit > 0);
    while (!failed && PyList_GET_SIZE(messages) < limit) {
        if (self->ready.first == NULL) {
            if (!self->unpolled || look(self, 1) < 0 || self->ready.first == NULL) {
                break;
            }
        }
        failed = read_turn(self, self->ready.first, messages, limit);
    }
    if (self->room_made) {
        /* One at a time: looking at all of them would be costly whenever anybody frees a bit of room. */
        self->room_made = 0;
        Connection *next = self->waiting.first;
        if (next != NULL) {
            stop_waiting(self, next);
            join(&self->ready, next);
        }
    }
    self->busy--;
    self->reading = 0;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bury(self);
    if (type != NULL) {
        Py_CLEAR(messages);
        PyErr_Restore(type, value, traceback);
    }
    return messages;
}

/* ---- writing ---- */

/* For each message: the next one for the same peer, or -1; and why it was refused, or 0. */
typedef struct {
    Py_ssize_t next;
    int refusal;
} Place;

static size_t size_of(PyObject *frames, Py_ssize_t before) {
    size_t size = 0;
    for (Py_ssize_t i = before; i < PySequence_Fast_GET_SIZE(frames); i++) {
        size += WIRE_HEAD + (size_t)PyBytes_GET_SIZE(PySequence_Fast_GET_ITEM(frames, i));
    }
    return size;
}

static int has_room(const Connections *self, const Connection *connection, size_t pending, size_t size) {
    size_t held = connection->wire.unsent_bytes + pending;
    return held == 0 || held + size <= self->unsent_max;
}

static void write_out(Wire *wire, Pieces *pieces) {
    if (pieces->bytes > 0) {
        (void)wire_write(wire, pieces, 1);
    }
    pieces->count = 0;
    pieces->bytes = pieces->used = 0;
}

/* Sends all that is for one connection, in one write if possible. */
static void send_chain(Connections *self, Connection *connection, PyObject *messages, Place *places) {
    Wire *wire = &connection->wire;
    Pieces pieces = {.scratch = self->scratch};
    Py_ssize_t index = connection->first, began = index;
    int code = 0;
    wire_flush(wire);
    while (index >= 0) {
        PyObject *frames = PySequence_Fast_GET_ITEM(messages, index);
        size_t size = size_of(frames, 1);
        if (!pieces_have_place(&pieces) || !has_room(self, connection, pieces.bytes, size)) {
            write_out(wire, &pieces);
            if (wire->cut_off) {
                break;
            }
            began = index;
            if (!has_room(self, connection, 0, size)) {
                code = EAGAIN;
                break;
            }
        }
        pieces_add_message(wire, &pieces, frames, 1);
        index = places[index].next;
    }
    write_out(wire, &pieces);
    if (wire->cut_off) {
        /* Nothing that was written since `began` is known to have left, and nothing will. */
        code = EHOSTUNREACH;
        index = began;
    }
    for (; code != 0 && index >= 0; index = places[index].next) {
        places[index].refusal = code;
    }
}

/* Together they have too much to take: the one with the most does not read, and is cut off to spare the others. */
static void make_way(Connections *self) {
    while (self->unsent > self->unsent_all_max) {
        Connection *most = self->all;
        for (Connection *each = self->all; each != NULL; each = each->next_all) {
            if (each->wire.unsent_bytes > most->wire.unsent_bytes) {
                most = each;
            }
        }
        doom(self, most);
    }
}

static void send_all(Connections *self, PyObject *messages, Place *places) {
    Connection *touched = NULL, **last = &touched;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(messages); i++) {
        PyObject *peer = PySequence_Fast_GET_ITEM(PySequence_Fast_GET_ITEM(messages, i), 0);
        Connection *connection = find(self, peer);
        int refused = connection == NULL || connection->wire.cut_off;
        places[i] = (Place){.next = -1, .refusal = refused ? EHOSTUNREACH : 0};
        if (refused) {
            continue;
        }
        if (connection->first < 0) {
            connection->first = connection->last = i;
            connection->next_touched = NULL;
            *last = connection;
            last = &connection->next_touched;
        } else {
            places[connection->last].next = i;
            connection->last = i;
        }
    }
    for (Connection *connection = touched; connection != NULL; connection = connection->next_touched) {
        send_chain(self, connection, messages, places);
        account(self, connection, connection->unfinished);
        connection->first = -1;
        if (wire_is_over(&connection->wire)) {
            doom(self, connection);
        }
    }
    make_way(self);
}

static PyObject *list_of_refusals(const Place *places, Py_ssize_t count) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        if (places[i].refusal && messages_append(list, Py_BuildValue("(ni)", i, places[i].refusal)) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *connections_send(PyObject *object, PyObject *messages) {
    Connections *self = (Connections *)object;
    if (!is_open(self) || messages_check(messages, 1 + FRAMES_MAX) < 0) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(messages); i++) {
        if (PySequence_Fast_GET_SIZE(PySequence_Fast_GET_ITEM(messages, i)) < 2) {
            return PyErr_Format(PyExc_ValueError, "message %zd has no frames behind its peer", i);
        }
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(messages);
    Place few[FEW], *places = count <= FEW ? few : malloc((size_t)count * sizeof(Place));
    if (places == NULL) {
        return PyErr_NoMemory();
    }
    self->busy++;
    send_all(self, messages, places);
    self->busy--;
    PyObject *list = list_of_refusals(places, count);
    if (places != few) {
        free(places);
    }
    bury(self);
    return list;
}

static PyObject *connections_publish(PyObject *object, PyObject *frames) {
    Connections *self = (Connections *)object;
    PyObject *messages = PyTuple_Pack(1, frames);
    if (messages == NULL || !is_open(self) || messages_check(messages, FRAMES_MAX) < 0) {
        Py_XDECREF(messages);
        return NULL;
    }
    size_t size = size_of(frames, 0);
    for (Connection *each = self->all; each != NULL; each = each->next_all) {
        Pieces pieces = {.scratch = self->scratch};
        wire_flush(&each->wire);
        if (!each->wire.cut_off && has_room(self, each, 0, size)) {
            pieces_add_message(&each->wire, &pieces, frames, 0);
            write_out(&each->wire, &pieces);
        }
        account(self, each, each->unfinished);
    }
    make_way(self);
    Py_DECREF(messages);
    bury(self);
    Py_RETURN_NONE;
}

/* ---- time passes ---- */

enum { ENOUGH = 64 * 1024 }; /* since the last tick, from one that keeps others waiting; as in connections_python.py */

static PyObject *connections_tick(PyObject *object, PyObject *now) {
    Connections *self = (Connections *)object;
    long long now_ns = PyLong_AsLongLong(now);
    if ((now_ns == -1 && PyErr_Occurred()) || !is_open(self)) {
        return NULL;
    }
    int short_of_room = self->waiting.first != NULL || self->unfinished > self->unfinished_max;
    Connection *next;
    for (Connection *each = self->unsent || self->unfinished ? self->all : NULL; each != NULL; each = next) {
        next = each->next_all;
        Wire *wire = &each->wire;
        int looked = each->looked_ns != 0 && each->looked_ns == self->tick_ns; /* also at the last tick */
        if (!looked || wire->unsent == NULL || wire->written != each->written_then) {
            each->taken_ns = now_ns;
        }
        int hogs = short_of_room && looked && each->unfinished > 0 && each->queue != &self->waiting &&
                   each->received_then > 0 && wire->received - each->received_then < ENOUGH;
        if (hogs || now_ns - each->taken_ns > self->patience_ns) {
            doom(self, each);
        }
        each->looked_ns = now_ns;
        each->written_then = wire->written;
        each->received_then = each->unfinished > 0 ? wire->received : 0;
    }
    self->tick_ns = now_ns;
    bury(self);
    Py_RETURN_NONE;
}

/* Bytes that have not reached the machines of their peers; tries to write them. */
static PyObject *connections_leaving(PyObject *object, PyObject *unused) {
    (void)unused;
    Connections *self = (Connections *)object;
    if (!is_open(self)) {
        return NULL;
    }
    unsigned long long bytes = 0;
    for (Connection *each = self->all; each != NULL; each = each->next_all) {
        int on_their_way = 0;
        flush(self, each);
        if (!each->wire.cut_off && ioctl(each->wire.fd, TIOCOUTQ, &on_their_way) == 0) {
            bytes += each->wire.unsent_bytes + (unsigned long long)on_their_way;
        }
    }
    return PyLong_FromUnsignedLongLong(bytes);
}

/* ---- the type ---- */

static PyObject *connections_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"message_bytes_max", "unfinished_bytes_max", "unsent_bytes_max", "unsent_all_bytes_max",
                            "patience_ns", NULL};
    Py_ssize_t message, unfinished, unsent, unsent_all;
    long long patience_ns;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nnnnL:Connections", names, &message, &unfinished, &unsent,
                                     &unsent_all, &patience_ns)) {
        return NULL;
    }
    if (message < 1 || unfinished < 1 || unsent < 1 || unsent_all < 1) {
        PyErr_SetString(PyExc_ValueError, "bounds are positive");
        return NULL;
    }
    Connections *self = (Connections *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->message_max = (size_t)message;
    self->unfinished_max = (size_t)unfinished;
    self->unsent_max = (size_t)unsent;
    self->unsent_all_max = (size_t)unsent_all;
    self->patience_ns = patience_ns;
    self->by_peer = PyDict_New();
    self->news = PyList_New(0);
    self->gone = PyList_New(0);
    self->inbox = PyMem_Malloc(WIRE_INBOX);
    self->scratch = PyMem_Malloc(WIRE_SCRATCH);
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (self->epoll < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
    } else if (self->by_peer && self->news && self->gone && self->inbox && self->scratch) {
        return (PyObject *)self;
    } else {
        PyErr_NoMemory();
    }
    Py_DECREF(self);
    return NULL;
}

static void close_all(Connections *self) {
    self->closed = 1;
    while (self->all != NULL) {
        doom(self, self->all);
    }
    if (self->epoll >= 0) {
        close(self->epoll);
        self->epoll = -1;
    }
}

static PyObject *connections_close(PyObject *object, PyObject *unused) {
    (void)unused;
    close_all((Connections *)object);
    bury((Connections *)object);
    Py_RETURN_NONE;
}

static void connections_dealloc(PyObject *object) {
    Connections *self = (Connections *)object;
    PyTypeObject *type = Py_TYPE(object);
    close_all(self);
    if (self->by_peer != NULL && self->gone != NULL) {
        bury(self);
    }
    Py_CLEAR(self->by_peer);
    Py_CLEAR(self->news);
    Py_CLEAR(self->gone);
    PyMem_Free(self->inbox);
    PyMem_Free(self->scratch);
    type->tp_free(object);
    Py_DECREF(type);
}

static Py_ssize_t connections_length(PyObject *object) { return PyDict_GET_SIZE(((Connections *)object)->by_peer); }

static PyObject *connections_more(PyObject *object, void *unused) {
    (void)unused;
    Connections *self = (Connections *)object;
    return PyBool_FromLong(self->ready.first != NULL || self->unpolled);
}

static PyMethodDef connections_methods[] = {
    {"add", connections_add, METH_VARARGS, "Take over a connected descriptor, under this name."},
    {"cut", connections_cut, METH_O, "End the connection of this name; whether there was one."},
    {"watch", connections_watch, METH_O, "Tell in `news` when this descriptor has some."},
    {"forget", connections_forget, METH_O, "Tell it no more."},
    {"recv", connections_recv, METH_O, "Messages, each behind its peer; about as many as the limit says."},
    {"send", connections_send, METH_O, "Try every message; give (index, errno) of those refused."},
    {"publish", connections_publish, METH_O, "Send one message to all who have room for it."},
    {"tick", connections_tick, METH_O, "End those who take nothing, and those who keep others waiting."},
    {"leaving", connections_leaving, METH_NOARGS, "Bytes that have not arrived yet; tries to write them."},
    {"close", connections_close, METH_NOARGS, "End all of them."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef connections_members[] = {
    {"fd", T_INT, offsetof(Connections, epoll), READONLY, "What has news when somebody has."},
    {"unsent", T_PYSSIZET, offsetof(Connections, unsent), READONLY, "Bytes that were taken and have not left."},
    {"unfinished", T_PYSSIZET, offsetof(Connections, unfinished), READONLY, "Bytes of messages that are not whole yet."},
    {"news", T_OBJECT_EX, offsetof(Connections, news), READONLY, "Watched descriptors with news; the caller empties it."},
    {"gone", T_OBJECT_EX, offsetof(Connections, gone), READONLY, "Peers whose connection ended; the caller empties it."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef connections_getset[] = {
    {"more", connections_more, NULL, "Whether there may be more to read without further news.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot connections_slots[] = {
    {Py_tp_doc, "Messages from and to many peers; see famulus.net.connections_python."},
    {Py_tp_new, connections_new},
    {Py_tp_dealloc, connections_dealloc},
    {Py_tp_methods, connections_methods},
    {Py_tp_members, connections_members},
    {Py_tp_getset, connections_getset},
    {Py_sq_length, connections_length},
    {0, NULL},
};

PyType_Spec connections_spec = {
    .name = "famulus.net._pump.Connections",
    .basicsize = sizeof(Connections),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = connections_slots,
};
