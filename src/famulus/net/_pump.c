/* The native pump: whole batches of multipart messages in and out of pyzmq's own sockets.
 *
 * pyzmq pays about 11 us per message of 4 frames, most of it for Python calls, enums and exceptions around
 * libzmq. Here a batch is one call. Nothing blocks, so the GIL is held throughout. Frames are copied, which is
 * cheaper than sharing up to tens of kilobytes and keeps Python objects away from libzmq's threads; larger ones are
 * lent to libzmq instead. Small messages for one peer travel together in a parcel (see _parcel.h), since libzmq's
 * cost is per frame.
 *
 * There must be exactly one libzmq in the process, and pyzmq has already loaded it (wheels carry their own copy).
 * So this file neither includes zmq.h nor links libzmq: bind() finds the functions in pyzmq's extension.
 *
 * pump_python.py is the same in Python and the better one to read first. tests/unit/net/test_pump.py runs on both.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NOLOAD */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "_connections.h"
#include "_messages.h"
#include "_stream.h"
#include "_waiting.h"

enum { FRAMES_STACK = 32 }; /* messages of more frames are prepared on the heap */
enum { LEND_MIN = 32 * 1024 };

/* libzmq promises this size and this alignment in its ABI since 4.1. */
typedef union {
    unsigned char bytes[64];
    void *alignment;
} zmq_msg_t;

enum { ZMQ_DONTWAIT = 1, ZMQ_SNDMORE = 2 };

typedef struct {
    int (*msg_init)(zmq_msg_t *);
    int (*msg_init_size)(zmq_msg_t *, size_t);
    int (*msg_init_data)(zmq_msg_t *, void *, size_t, void (*)(void *, void *), void *);
    void *(*msg_data)(zmq_msg_t *);
    size_t (*msg_size)(const zmq_msg_t *);
    int (*msg_more)(const zmq_msg_t *);
    int (*msg_send)(zmq_msg_t *, void *, int);
    int (*msg_recv)(zmq_msg_t *, void *, int);
    int (*msg_close)(zmq_msg_t *);
    int (*get_errno)(void);

    PyObject *socket_type; /* NULL until bind() */
    PyObject *error_for;   /* errno -> zmq.ZMQError */
    PyObject *underlying;  /* how socket_type looks it up; faster than by name, since it has a __getattr__ */
} Pump;

static Pump *pump_of(PyObject *module) { return (Pump *)PyModule_GetState(module); }

/* ---- errors ---- */

static void raise_zmq_error(const Pump *pump, int code) {
    PyObject *error = PyObject_CallFunction(pump->error_for, "i", code);
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
}

static PyObject *get(PyObject *descriptor, PyObject *socket) {
    return Py_TYPE(descriptor)->tp_descr_get(descriptor, socket, (PyObject *)Py_TYPE(socket));
}

/* The libzmq handle of a live socket, or NULL with an exception set. */
static void *handle_of(const Pump *pump, PyObject *socket) {
    if (pump->socket_type == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "bind() first");
        return NULL;
    }
    if (!PyObject_TypeCheck(socket, (PyTypeObject *)pump->socket_type)) {
        PyErr_Format(PyExc_TypeError, "a zmq.Socket is needed, not %.100s", Py_TYPE(socket)->tp_name);
        return NULL;
    }
    /* pyzmq forgets the handle of a socket when it closes it. */
    PyObject *underlying = get(pump->underlying, socket);
    if (underlying == NULL) {
        return NULL;
    }
    void *handle = PyLong_AsVoidPtr(underlying);
    Py_DECREF(underlying);
    if (handle == NULL && !PyErr_Occurred()) {
        raise_zmq_error(pump, ENOTSOCK);
    }
    return handle;
}

static int arguments_are(Py_ssize_t given, Py_ssize_t wanted, const char *function) {
    if (given == wanted) {
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, %zd given", function, wanted, given);
    return 0;
}

/* ---- lending ---- */

/* A frame that libzmq reads from the Python object itself. libzmq's thread gives it back, and that thread must not
 * touch Python: so it only puts the loan on a stack, and whoever calls the pump next lets go of what is there. */
typedef struct Loan {
    PyObject *frame;
    struct Loan *next;
} Loan;

static _Atomic(Loan *) returned;

static void give_back(void *data, void *hint) {
    (void)data;
    Loan *loan = hint;
    loan->next = atomic_load(&returned);
    while (!atomic_compare_exchange_weak(&returned, &loan->next, loan)) {
    }
}

static void let_go_of_returned(void) {
    if (atomic_load_explicit(&returned, memory_order_relaxed) == NULL) {
        return;
    }
    Loan *loan = atomic_exchange(&returned, NULL);
    while (loan != NULL) {
        Loan *next = loan->next;
        Py_DECREF(loan->frame);
        free(loan);
        loan = next;
    }
}

static int lend(const Pump *pump, zmq_msg_t *msg, PyObject *frame) {
    Loan *loan = malloc(sizeof(Loan));
    if (loan == NULL) {
        return -1;
    }
    loan->frame = Py_NewRef(frame);
    if (pump->msg_init_data(msg, PyBytes_AS_STRING(frame), (size_t)PyBytes_GET_SIZE(frame), give_back, loan) != 0) {
        Py_DECREF(frame);
        free(loan);
        return -1;
    }
    return 0;
}

/* ---- receiving ---- */

/* One frame into `msg`: 0, or the errno. */
static int recv_frame(const Pump *pump, void *handle, zmq_msg_t *msg) {
    while (pump->msg_recv(msg, handle, ZMQ_DONTWAIT) < 0) {
        int code = pump->get_errno();
        if (code != EINTR) {
            return code;
        }
    }
    return 0;
}

/* Reads what is left of a message that cannot be kept, so that the next one begins at its first frame. */
static void skip_rest(const Pump *pump, void *handle, zmq_msg_t *msg) {
    while (pump->msg_more(msg) && recv_frame(pump, handle, msg) == 0) {
    }
}

/* If the last frame of a message is a parcel, and nothing but its sender is before it, appends what is in it and gives
 * 1; 0 if it is none; -1 with an exception set. `senders` is the set of those who send parcels (on a ROUTER, where a
 * message begins with its sender), or None; NULL leaves parcels closed. */
static int unwrap(const Pump *pump, zmq_msg_t *msg, PyObject *messages, PyObject *frames, PyObject *senders) {
    if (senders == NULL || PyList_GET_SIZE(frames) != (senders != Py_None)) {
        return 0;
    }
    const unsigned char *data = pump->msg_data(msg);
    size_t size = pump->msg_size(msg);
    if (!parcel_count(data, size)) {
        return 0;
    }
    PyObject *peer = senders != Py_None ? PyList_GET_ITEM(frames, 0) : NULL;
    if (messages_append_parcel(messages, peer, data, size) < 0 || (peer != NULL && PySet_Add(senders, peer) < 0)) {
        return -1;
    }
    return 1;
}

static int append_frame(const Pump *pump, zmq_msg_t *msg, PyObject *frames) {
    PyObject *frame = messages_frame(pump->msg_data(msg), pump->msg_size(msg));
    if (frame == NULL) {
        return -1;
    }
    int failed = PyList_Append(frames, frame);
    Py_DECREF(frame);
    return failed;
}

/* Appends one whole message, or what is in it if it is a parcel: 0, libzmq's errno, or -1 with an exception set. */
static int recv_message(const Pump *pump, void *handle, zmq_msg_t *msg, PyObject *messages, PyObject *senders) {
    int code = recv_frame(pump, handle, msg);
    if (code != 0) {
        return code;
    }
    PyObject *frames = PyList_New(0);
    if (frames == NULL) {
        code = -1;
    }
    while (code == 0 && pump->msg_more(msg)) {
        if (PyList_GET_SIZE(frames) <= FRAMES_MAX && append_frame(pump, msg, frames) < 0) {
            code = -1;
        } else {
            code = recv_frame(pump, handle, msg);
        }
    }
    if (code == 0) {
        int unwrapped = unwrap(pump, msg, messages, frames, senders);
        if (unwrapped == 0 && PyList_GET_SIZE(frames) <= FRAMES_MAX) {
            unwrapped = append_frame(pump, msg, frames);
        }
        if (unwrapped < 0 || (unwrapped == 0 && PyList_Append(messages, frames) < 0)) {
            code = -1;
        }
    } else if (code < 0) {
        skip_rest(pump, handle, msg);
    }
    Py_XDECREF(frames);
    return code;
}

/* Up to `limit` messages, or a few more where the last one was a parcel; with `senders` NULL parcels stay closed. */
static PyObject *recv_messages(const Pump *pump, PyObject *socket, PyObject *limit_object, PyObject *senders) {
    let_go_of_returned();
    Py_ssize_t limit = PyLong_AsSsize_t(limit_object);
    if (limit == -1 && PyErr_Occurred()) {
        return NULL;
    }
    void *handle = handle_of(pump, socket);
    if (handle == NULL) {
        return NULL;
    }
    PyObject *messages = PyList_New(0);
    if (messages == NULL) {
        return NULL;
    }
    zmq_msg_t msg;
    int code = 0;
    pump->msg_init(&msg);
    while (code == 0 && PyList_GET_SIZE(messages) < limit) {
        code = recv_message(pump, handle, &msg, messages, senders);
    }
    pump->msg_close(&msg);
    if (code < 0) {
        Py_DECREF(messages);
        return NULL;
    }
    /* What has been read must reach the caller; a lasting error meets him at the next call. */
    if (PyList_GET_SIZE(messages) == 0 && code != 0 && code != EAGAIN) {
        Py_DECREF(messages);
        raise_zmq_error(pump, code);
        return NULL;
    }
    return messages;
}

static PyObject *recv_many(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (!arguments_are(nargs, 2, "recv_many")) {
        return NULL;
    }
    return recv_messages(pump_of(module), args[0], args[1], NULL);
}

static int is_set_or_none(PyObject *object) {
    if (object == Py_None || PySet_CheckExact(object)) {
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "a set of peers is needed, or None, not %.100s", Py_TYPE(object)->tp_name);
    return 0;
}

static PyObject *recv_parcels(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (!arguments_are(nargs, 3, "recv_parcels") || !is_set_or_none(args[2])) {
        return NULL;
    }
    return recv_messages(pump_of(module), args[0], args[1], args[2]);
}

/* ---- sending ---- */

static int send_frame(const Pump *pump, void *handle, zmq_msg_t *msg, int flags) {
    while (pump->msg_send(msg, handle, flags | ZMQ_DONTWAIT) < 0) {
        int code = pump->get_errno();
        if (code != EINTR) {
            return code;
        }
    }
    return 0;
}

/* Sends prepared frames as one message: 0, or the errno of the refusal. */
static int send_prepared(const Pump *pump, void *handle, zmq_msg_t *msgs, Py_ssize_t count) {
    int refused = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        int code = send_frame(pump, handle, &msgs[i], i + 1 < count ? ZMQ_SNDMORE : 0);
        if (code == 0) {
            continue;
        }
        if (i == 0 || refused != 0) {
            return refused != 0 ? refused : code;
        }
        /* Past the first frame EAGAIN means that the peer vanished in the middle. libzmq takes back what it has of
         * the message and then swallows frames up to the message's end, so that end has to come: without it the
         * next message would be swallowed in its place. */
        refused = code;
        if (code != EAGAIN) {
            return code;
        }
    }
    return refused;
}

/* 0; the errno of a refusal; or -1 when out of memory. All frames are prepared before the first one is sent: memory
 * that runs out in the middle must not leave half a message behind. */
static int send_message(const Pump *pump, void *handle, PyObject *frames) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(frames);
    zmq_msg_t stack[FRAMES_STACK];
    zmq_msg_t *msgs = count <= FRAMES_STACK ? stack : malloc((size_t)count * sizeof(zmq_msg_t));
    if (msgs == NULL) {
        return -1;
    }
    Py_ssize_t prepared = 0;
    for (; prepared < count; prepared++) {
        PyObject *frame = PySequence_Fast_GET_ITEM(frames, prepared);
        size_t size = (size_t)PyBytes_GET_SIZE(frame);
        if (size >= LEND_MIN) {
            if (lend(pump, &msgs[prepared], frame) != 0) {
                break;
            }
            continue;
        }
        if (pump->msg_init_size(&msgs[prepared], size) != 0) {
            break;
        }
        memcpy(pump->msg_data(&msgs[prepared]), PyBytes_AS_STRING(frame), size);
    }
    int code = prepared < count ? -1 : send_prepared(pump, handle, msgs, count);
    if (code != 0) {
        /* A frame that was sent is an empty message by now, and may be closed as well. */
        for (Py_ssize_t i = 0; i < prepared; i++) {
            pump->msg_close(&msgs[i]);
        }
    }
    if (msgs != stack) {
        free(msgs);
    }
    return code;
}

static int is_refusal(int code) { return code == EAGAIN || code == EHOSTUNREACH; }

static PyObject *raise_from_send(const Pump *pump, int code) {
    if (code < 0) {
        return PyErr_NoMemory();
    }
    raise_zmq_error(pump, code);
    return NULL;
}

typedef struct {
    Py_ssize_t index;
    int code;
} Refusal;

static PyObject *list_of_refusals(const Refusal *refusals, Py_ssize_t count) {
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *pair = Py_BuildValue("(ni)", refusals[i].index, refusals[i].code);
        if (pair == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, pair);
    }
    return list;
}

/* ---- parcels ---- */

/* Messages of one call that are to travel together: a chain of indexes through `Sending.next`. */
typedef struct {
    PyObject *peer; /* NULL on a DEALER, and where the group is empty */
    Py_ssize_t first, last, count;
    size_t size;
} Group;

enum { GROUPS = 64 };
enum { FEW = 16 };

typedef struct {
    const Pump *pump;
    void *handle;
    PyObject *messages;
    Py_ssize_t *next;
    Refusal *refusals; /* room for the worst case, but only once something is refused */
    Py_ssize_t refused;
} Sending;

/* Room for a chain of so many: `few`, if that is enough. NULL when out of memory. */
static Py_ssize_t *chain_of(Py_ssize_t count, Py_ssize_t few[FEW]) {
    return count <= FEW ? few : malloc((size_t)count * sizeof(Py_ssize_t));
}

static void end_chain(Py_ssize_t *chain, const Py_ssize_t few[FEW]) {
    if (chain != few) {
        free(chain);
    }
}

static PyObject *message_at(const Sending *sending, Py_ssize_t index) {
    return PySequence_Fast_GET_ITEM(sending->messages, index);
}

/* All messages of a group in one frame: 0, or the errno, or -1 when out of memory. */
static int send_parcel(const Sending *sending, const Group *group) {
    const Pump *pump = sending->pump;
    zmq_msg_t msgs[2];
    Py_ssize_t count = 0;
    if (group->peer != NULL) {
        size_t size = (size_t)PyBytes_GET_SIZE(group->peer);
        if (pump->msg_init_size(&msgs[count++], size) != 0) {
            return -1;
        }
        memcpy(pump->msg_data(&msgs[0]), PyBytes_AS_STRING(group->peer), size);
    }
    if (pump->msg_init_size(&msgs[count++], group->size) != 0) {
        if (count == 2) {
            pump->msg_close(&msgs[0]);
        }
        return -1;
    }
    unsigned char *at = pump->msg_data(&msgs[count - 1]);
    *at++ = PARCEL_VERSION;
    Py_ssize_t index = group->first;
    for (Py_ssize_t i = 0; i < group->count; i++, index = sending->next[index]) {
        Part parts[PARCEL_PARTS];
        messages_parts(message_at(sending, index), parts);
        at = parcel_put(at, parts);
    }
    int code = send_prepared(pump, sending->handle, msgs, count);
    if (code != 0) {
        for (Py_ssize_t i = 0; i < count; i++) {
            pump->msg_close(&msgs[i]);
        }
    }
    return code;
}

/* Notes that a message was refused: 0, or -1 when out of memory. */
static int note_refusal(Sending *sending, Py_ssize_t index, int code) {
    if (sending->refusals == NULL) {
        size_t count = (size_t)PySequence_Fast_GET_SIZE(sending->messages);
        sending->refusals = calloc(count, sizeof(Refusal));
        if (sending->refusals == NULL) {
            return -1;
        }
    }
    sending->refusals[sending->refused++] = (Refusal){index, code};
    return 0;
}

/* Sends a group and empties it: 0, or the code of an error that is no refusal. */
static int send_group(Sending *sending, Group *group) {
    if (group->count == 0) {
        return 0;
    }
    int code = send_parcel(sending, group);
    Py_ssize_t index = group->first, count = group->count;
    group->count = 0;
    group->size = 1;
    group->peer = NULL;
    if (code == 0 || !is_refusal(code)) {
        return code;
    }
    for (Py_ssize_t i = 0; i < count; i++, index = sending->next[index]) {
        if (note_refusal(sending, index, code) < 0) {
            return -1;
        }
    }
    return 0;
}

static int joins(const Group *group, PyObject *peer, size_t size) {
    return group->count > 0 && group->count < PARCEL_MESSAGES_MAX && group->size + size <= PARCEL_BYTES_MAX &&
           (group->peer == peer || (PyBytes_GET_SIZE(group->peer) == PyBytes_GET_SIZE(peer) &&
                                    memcmp(PyBytes_AS_STRING(group->peer), PyBytes_AS_STRING(peer),
                                           (size_t)PyBytes_GET_SIZE(peer)) == 0));
}

static void join(Sending *sending, Group *group, PyObject *peer, Py_ssize_t index, size_t size) {
    if (group->count == 0) {
        group->peer = peer;
        group->first = index;
    } else {
        sending->next[group->last] = index;
    }
    group->last = index;
    group->count++;
    group->size += size;
}

/* A peer's messages all go by the same group, so that they stay in order. */
static Group *group_of(Group groups[GROUPS], PyObject *peer) {
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(peer);
    unsigned hash = 0;
    for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(peer); i++) {
        hash = hash * 31 + bytes[i];
    }
    return &groups[hash % GROUPS];
}

/* What a message for a peer takes in a parcel; 0 if it does not fit into any. */
static size_t size_in_parcel(PyObject *frames) {
    Part parts[PARCEL_PARTS];
    if (PySequence_Fast_GET_SIZE(frames) != 1 + PARCEL_PARTS) {
        return 0;
    }
    messages_parts(frames, parts);
    return parcel_fits(parts) ? parcel_size(parts) : 0;
}

/* A subclass could bring a hash of its own: Python code, which may not run here (see messages_check). */
static int takes_parcels(PyObject *receivers, PyObject *peer) {
    return receivers != NULL && PyBytes_CheckExact(peer) && PySet_Contains(receivers, peer) == 1;
}

/* Sends one message as it is: 0, or the code of an error that is no refusal. */
static int send_plainly(Sending *sending, Py_ssize_t index) {
    int code = send_message(sending->pump, sending->handle, message_at(sending, index));
    return is_refusal(code) ? note_refusal(sending, index, code) : code;
}

/* Puts one message on its way: 0, or the code of an error. `receivers` may be NULL: nobody gets parcels. */
static int forward(Sending *sending, Group groups[GROUPS], PyObject *receivers, Py_ssize_t index) {
    PyObject *frames = message_at(sending, index), *peer = PySequence_Fast_GET_ITEM(frames, 0);
    Group *group = group_of(groups, peer);
    size_t size = size_in_parcel(frames);
    if (size && joins(group, peer, size)) {
        join(sending, group, peer, index, size);
        return 0;
    }
    int code = send_group(sending, group);
    if (code != 0) {
        return code;
    }
    if (size && takes_parcels(receivers, peer)) {
        join(sending, group, peer, index, size);
        return 0;
    }
    return send_plainly(sending, index);
}

/* All messages: 0, or the code of an error. */
static int forward_all(Sending *sending, PyObject *receivers) {
    Group groups[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        groups[i] = (Group){.peer = NULL, .count = 0, .size = 1};
    }
    int code = 0;
    for (Py_ssize_t i = 0; code == 0 && i < PySequence_Fast_GET_SIZE(sending->messages); i++) {
        code = forward(sending, groups, receivers, i);
    }
    for (int i = 0; code == 0 && i < GROUPS; i++) {
        code = send_group(sending, &groups[i]);
    }
    return code;
}

/* The same for a single message, which needs no groups: who has but one wants to be quick. */
static int forward_one(Sending *sending, PyObject *receivers) {
    PyObject *frames = message_at(sending, 0), *peer = PySequence_Fast_GET_ITEM(frames, 0);
    size_t size = size_in_parcel(frames);
    if (size && takes_parcels(receivers, peer)) {
        Group group = {.peer = peer, .count = 1, .size = 1 + size};
        return send_group(sending, &group);
    }
    return send_plainly(sending, 0);
}

static PyObject *send_routed(const Pump *pump, PyObject *socket, PyObject *messages, PyObject *receivers) {
    let_go_of_returned();
    void *handle = handle_of(pump, socket);
    if (handle == NULL || messages_check(messages) < 0) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(messages), few[FEW];
    Sending sending = {pump, handle, messages, chain_of(count, few), NULL, 0};
    int code = sending.next == NULL ? -1 : count == 1 ? forward_one(&sending, receivers) : forward_all(&sending, receivers);
    PyObject *list = code == 0 ? list_of_refusals(sending.refusals, sending.refused) : raise_from_send(pump, code);
    end_chain(sending.next, few);
    free(sending.refusals);
    return list;
}

static PyObject *send_many(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (!arguments_are(nargs, 2, "send_many")) {
        return NULL;
    }
    return send_routed(pump_of(module), args[0], args[1], NULL);
}

static PyObject *send_parcels(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (!arguments_are(nargs, 3, "send_parcels")) {
        return NULL;
    }
    if (!PySet_CheckExact(args[2])) {
        PyErr_Format(PyExc_TypeError, "a set of peers is needed, not %.100s", Py_TYPE(args[2])->tp_name);
        return NULL;
    }
    return send_routed(pump_of(module), args[0], args[1], args[2]);
}

/* The messages from `from` on that can travel in one parcel. */
static Group run_from(const Sending *sending, Py_ssize_t from) {
    Group group = {.peer = NULL, .first = from};
    group.count = messages_run(sending->messages, from, &group.size);
    group.last = from + group.count - 1;
    for (Py_ssize_t i = from; i <= group.last; i++) {
        sending->next[i] = i + 1;
    }
    return group;
}

static PyObject *send_in_order(const Pump *pump, PyObject *socket, PyObject *messages, int wrap) {
    let_go_of_returned();
    void *handle = handle_of(pump, socket);
    if (handle == NULL || messages_check(messages) < 0) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(messages), taken = 0, few[FEW];
    Sending sending = {pump, handle, messages, chain_of(count, few), NULL, 0};
    int code = sending.next == NULL ? -1 : 0;
    while (code == 0 && taken < count) {
        Group group = wrap ? run_from(&sending, taken) : (Group){.count = 0};
        code = group.count ? send_parcel(&sending, &group) : send_message(pump, handle, message_at(&sending, taken));
        if (code == 0) {
            taken += group.count ? group.count : 1;
        }
    }
    end_chain(sending.next, few);
    return code == 0 || is_refusal(code) ? PyLong_FromSsize_t(taken) : raise_from_send(pump, code);
}

static PyObject *send_some(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (!arguments_are(nargs, 2, "send_some")) {
        return NULL;
    }
    return send_in_order(pump_of(module), args[0], args[1], 0);
}

static PyObject *send_some_parcels(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (!arguments_are(nargs, 2, "send_some_parcels")) {
        return NULL;
    }
    return send_in_order(pump_of(module), args[0], args[1], 1);
}

/* ---- binding ---- */

/* A property of a type, itself and not its value; NULL with an exception set. */
static PyObject *descriptor_of(PyObject *type, const char *name) {
    PyObject *descriptor = PyObject_GetAttrString(type, name);
    if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_get == NULL) {
        Py_CLEAR(descriptor);
        PyErr_Format(PyExc_ImportError, "pyzmq's sockets have no property %s", name);
    }
    return descriptor;
}

static PyObject *bind(PyObject *module, PyObject *args) {
    Pump *pump = pump_of(module);
    PyObject *path, *socket_type, *error_for;
    if (!PyArg_ParseTuple(args, "O&O!O:bind", PyUnicode_FSConverter, &path, &PyType_Type, &socket_type, &error_for)) {
        return NULL;
    }
    /* The handle is never closed: pyzmq's extension stays for the life of the process anyway. */
    void *library = dlopen(PyBytes_AS_STRING(path), RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) {
        library = dlopen(PyBytes_AS_STRING(path), RTLD_LAZY);
    }
    Py_DECREF(path);
    if (library == NULL) {
        const char *reason = dlerror();
        PyErr_Format(PyExc_ImportError, "cannot open pyzmq's extension: %s", reason ? reason : "unknown reason");
        return NULL;
    }
    Pump found = *pump;
    const struct {
        const char *name;
        void *target; /* where to put the function's address */
    } wanted[] = {
        {"zmq_msg_init", &found.msg_init}, {"zmq_msg_init_size", &found.msg_init_size},
        {"zmq_msg_init_data", &found.msg_init_data},
        {"zmq_msg_data", &found.msg_data}, {"zmq_msg_size", &found.msg_size},
        {"zmq_msg_more", &found.msg_more}, {"zmq_msg_send", &found.msg_send},
        {"zmq_msg_recv", &found.msg_recv}, {"zmq_msg_close", &found.msg_close},
        {"zmq_errno", &found.get_errno},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (symbol == NULL) {
            PyErr_Format(PyExc_ImportError, "pyzmq's libzmq does not show %s", wanted[i].name);
            return NULL;
        }
        /* ISO C knows no cast from object to function pointer; POSIX promises that the bytes are the same. */
        memcpy(wanted[i].target, &symbol, sizeof(symbol));
    }
    found.underlying = descriptor_of(socket_type, "underlying");
    if (found.underlying == NULL) {
        return NULL;
    }
    found.socket_type = Py_NewRef(socket_type);
    found.error_for = Py_NewRef(error_for);
    const Pump old = *pump;
    *pump = found;
    Py_XDECREF(old.socket_type);
    Py_XDECREF(old.error_for);
    Py_XDECREF(old.underlying);
    Py_RETURN_NONE;
}

/* ---- the module ---- */

static int pump_exec(PyObject *module) {
    if (PyModule_AddIntConstant(module, "FRAMES_MAX", FRAMES_MAX) < 0) {
        return -1;
    }
    return stream_add_to(module) < 0 ? -1 : connections_add_to(module);
}

static int pump_traverse(PyObject *module, visitproc visit, void *arg) {
    Pump *pump = pump_of(module);
    Py_VISIT(pump->socket_type);
    Py_VISIT(pump->error_for);
    Py_VISIT(pump->underlying);
    return 0;
}

static int pump_clear(PyObject *module) {
    Pump *pump = pump_of(module);
    Py_CLEAR(pump->socket_type);
    Py_CLEAR(pump->error_for);
    Py_CLEAR(pump->underlying);
    return 0;
}

static void pump_free(void *module) { (void)pump_clear((PyObject *)module); }

/* METH_FASTCALL functions have another type than the slot; the cast by way of a plain function keeps gcc content. */
#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, "Find libzmq's functions in pyzmq's extension file."},
    {"recv_many", FASTCALL(recv_many), METH_FASTCALL, "Up to `limit` whole messages that are there now."},
    {"recv_parcels", FASTCALL(recv_parcels), METH_FASTCALL, "The same, with parcels opened; their senders are noted."},
    {"send_many", FASTCALL(send_many), METH_FASTCALL, "Try every message; give (index, errno) of those refused."},
    {"send_parcels", FASTCALL(send_parcels), METH_FASTCALL, "The same, in parcels for those who take them."},
    {"send_some", FASTCALL(send_some), METH_FASTCALL, "Send in order until one does not fit; give how many did."},
    {"send_some_parcels", FASTCALL(send_some_parcels), METH_FASTCALL, "The same, in parcels."},
    {"wait", FASTCALL(waiting_wait), METH_FASTCALL, "Those of `sources` that have news by `until_ns`."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, pump_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "famulus.net._pump",
    .m_doc = "The native pump; see famulus.net.pump.",
    .m_size = sizeof(Pump),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = pump_traverse,
    .m_clear = pump_clear,
    .m_free = pump_free,
};

PyMODINIT_FUNC PyInit__pump(void);
PyMODINIT_FUNC PyInit__pump(void) { return PyModuleDef_Init(&definition); }
