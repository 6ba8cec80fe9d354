#include "_messages.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { LARGE_MIN = 128 * 1024 };      /* from where on glibc gives memory back at once */
enum { KEPT_MAX = 64 * 1024 * 1024 }; /* half of it is the largest object that glibc lets us keep */

/* glibc gives the memory of a large object back to the kernel as soon as it is freed, and asks for the same pages again
 * for the next one: with bodies of 1 MiB that was a third of a broker's time. Who moves large frames keeps some memory. */
static void keep_memory(void) {
#ifdef M_TRIM_THRESHOLD
    static int kept = 0;
    if (!kept) {
        kept = 1;
        mallopt(M_TRIM_THRESHOLD, KEPT_MAX);
        mallopt(M_MMAP_THRESHOLD, KEPT_MAX / 2);
    }
#endif
}

PyObject *messages_frame(const void *data, size_t size) {
    if (size >= LARGE_MIN) {
        keep_memory();
    }
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

int messages_append(PyObject *list, PyObject *item) {
    int failed = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    return failed;
}

static int is_row(PyObject *object) { return PyList_Check(object) || PyTuple_Check(object); }

static int check_message(PyObject *frames, Py_ssize_t number) {
    if (!is_row(frames)) {
        PyErr_Format(PyExc_TypeError, "message %zd must be a list or tuple, not %.100s", number,
                     Py_TYPE(frames)->tp_name);
        return -1;
    }
    if (PySequence_Fast_GET_SIZE(frames) == 0) {
        PyErr_Format(PyExc_ValueError, "message %zd has no frames", number);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(frames); i++) {
        PyObject *frame = PySequence_Fast_GET_ITEM(frames, i);
        if (!PyBytes_Check(frame)) {
            PyErr_Format(PyExc_TypeError, "message %zd, frame %zd must be bytes, not %.100s", number, i,
                         Py_TYPE(frame)->tp_name);
            return -1;
        }
    }
    return 0;
}

int messages_check(PyObject *messages, Py_ssize_t most) {
    if (!is_row(messages)) {
        PyErr_Format(PyExc_TypeError, "messages must be a list or tuple, not %.100s", Py_TYPE(messages)->tp_name);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(messages); i++) {
        if (check_message(PySequence_Fast_GET_ITEM(messages, i), i) < 0) {
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(messages); i++) {
        if (PySequence_Fast_GET_SIZE(PySequence_Fast_GET_ITEM(messages, i)) > most) {
            PyErr_Format(PyExc_ValueError, "message %zd has more than %zd frames", i, most);
            return -1;
        }
    }
    return 0;
}

int messages_append_parcel(PyObject *messages, PyObject *peer, const unsigned char *data, size_t size) {
    const unsigned char *at = data + 1, *end = data + size;
    Py_ssize_t before = peer != NULL;
    Part parts[PARCEL_PARTS];
    while (at < end && parcel_next(&at, end, parts)) {
        PyObject *frames = PyList_New(before + PARCEL_PARTS);
        if (frames == NULL) {
            return -1;
        }
        if (peer != NULL) {
            PyList_SET_ITEM(frames, 0, Py_NewRef(peer));
        }
        for (int i = 0; i < PARCEL_PARTS; i++) {
            PyObject *frame = PyBytes_FromStringAndSize((const char *)parts[i].data, (Py_ssize_t)parts[i].size);
            if (frame == NULL) {
                Py_DECREF(frames);
                return -1;
            }
            PyList_SET_ITEM(frames, before + i, frame);
        }
        if (messages_append(messages, frames) < 0) {
            return -1;
        }
    }
    return 0;
}
