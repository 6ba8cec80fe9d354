/* `Stream`: messages over a connected socket, as frames of ZMTP; what libzmq does in a thread of its own, without one.
 *
 * _wire.c handles the bytes. stream_python.py is the same in Python, says what is promised, and should be read
 * first. tests/unit/net/test_stream.py runs on both.
 */
#include "_pump.h"

#include <structmember.h>

#include "_wire.h"

enum { TOGETHER = 32 * 1024 }; /* bytes in one write, as in stream_python.py */

typedef struct {
    PyObject_HEAD
    Wire wire;
    unsigned char *scratch; /* where what is to be written is put together */
    int reading; /* creating objects may run Python code, which must not read as well */
} Stream;

static PyObject *stream_recv(PyObject *object, PyObject *unused) {
    (void)unused;
    Stream *self = (Stream *)object;
    PyObject *messages = PyList_New(0);
    if (messages == NULL || wire_is_over(&self->wire) || self->reading) {
        return messages;
    }
    self->reading = 1;
    int failed = wire_read(&self->wire) > 0 ? wire_take(&self->wire, messages, PY_SSIZE_T_MAX) : 0;
    self->reading = 0;
    if (failed < 0) {
        Py_CLEAR(messages);
    }
    return messages;
}

/* ---- writing ---- */

static PyObject *stream_send(PyObject *object, PyObject *messages) {
    Stream *self = (Stream *)object;
    if (messages_check(messages, FRAMES_MAX) < 0) {
        return NULL;
    }
    wire_flush(&self->wire);
    Py_ssize_t taken = 0, count = PySequence_Fast_GET_SIZE(messages);
    /* What is left of earlier messages has to leave before the next. */
    while (taken < count && self->wire.unsent == NULL) {
        Pieces pieces = {.scratch = self->scratch};
        Py_ssize_t next = taken;
        do {
            pieces_add_message(&self->wire, &pieces, PySequence_Fast_GET_ITEM(messages, next++), 0);
        } while (next < count && pieces.bytes < TOGETHER && pieces_have_place(&pieces));
        int wrote = wire_write(&self->wire, &pieces, 0);
        if (wrote < 0) {
            return PyErr_NoMemory();
        }
        if (wrote == 0) {
            break;
        }
        taken = next;
    }
    return PyLong_FromSsize_t(taken);
}

static PyObject *stream_command(PyObject *object, PyObject *body) {
    Stream *self = (Stream *)object;
    if (!PyBytes_Check(body)) {
        PyErr_Format(PyExc_TypeError, "bytes are needed, not %.100s", Py_TYPE(body)->tp_name);
        return NULL;
    }
    if (wire_command(&self->wire, (unsigned char *)PyBytes_AS_STRING(body), (size_t)PyBytes_GET_SIZE(body)) < 0) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *stream_flush(PyObject *object, PyObject *unused) {
    (void)unused;
    Stream *self = (Stream *)object;
    wire_flush(&self->wire);
    return PyBool_FromLong(self->wire.unsent == NULL);
}

/* ---- the type ---- */

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *connected, *seal = Py_None;
    Py_ssize_t message_max;
    static char *names[] = {"", "", "", NULL}; /* by position only */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "On|O:Stream", names, &connected, &message_max, &seal)) {
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
    self->wire.fd = fd;
    self->wire.message_max = message_max < 0 ? 0 : (size_t)message_max;
    self->wire.large_max = SIZE_MAX;
    self->wire.inbox = PyMem_Malloc(WIRE_INBOX);
    self->scratch = PyMem_Malloc(WIRE_SCRATCH);
    self->wire.commands = PyList_New(0);
    if (self->wire.inbox == NULL || self->scratch == NULL || self->wire.commands == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    if (seal != Py_None) {
        self->wire.seal = seal_new(seal);
        self->wire.packs = 1;
        if (self->wire.seal == NULL) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static void stream_dealloc(PyObject *object) {
    Stream *self = (Stream *)object;
    PyTypeObject *type = Py_TYPE(object);
    wire_clear(&self->wire);
    PyMem_Free(self->wire.inbox);
    PyMem_Free(self->scratch);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef stream_methods[] = {
    {"recv", stream_recv, METH_NOARGS, "The messages that one read brought."},
    {"send", stream_send, METH_O, "Send in order until one does not fit; give how many did."},
    {"command", stream_command, METH_O, "Send a command, behind what is left of others."},
    {"flush", stream_flush, METH_NOARGS, "Try to write what is left; whether nothing is."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef stream_members[] = {
    {"commands", T_OBJECT_EX, offsetof(Stream, wire.commands), READONLY, "Commands that came, for the caller to take."},
    {"received", T_ULONGLONG, offsetof(Stream, wire.received), READONLY, "Bytes so far."},
    {"written", T_ULONGLONG, offsetof(Stream, wire.written), READONLY, "Bytes so far."},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *stream_unsent(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(((Stream *)object)->wire.unsent != NULL);
}

static PyObject *stream_ended(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_DecodeLocale(((Stream *)object)->wire.ended, "surrogateescape");
}

static PyGetSetDef stream_getset[] = {
    {"ended", stream_ended, NULL, "Why it is over; empty while it is not.", NULL},
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

PyType_Spec stream_spec = {
    .name = "famulus.net._pump.Stream",
    .basicsize = sizeof(Stream),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = stream_slots,
};
