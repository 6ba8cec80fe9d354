#include "_messages.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { LARGE_MIN = 128 * 1024 };      /* from this size on, glibc gives memory back at once */
enum { KEPT_MAX = 64 * 1024 * 1024 }; /* half of it is the largest object that glibc lets us keep */

/* glibc gives the memory of a large object back to the kernel as soon as it is freed, and asks for the same pages again
 * for the next one: with bodies of 1 MiB that was a third of a broker's time. So we keep some for large frames. */
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

static int check_message(PyObject *frames, Py_ssize_t number, Py_ssize_t most) {
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
    if (PySequence_Fast_GET_SIZE(frames) > most) {
        PyErr_Format(PyExc_ValueError, "message %zd has more than %zd frames", number, most);
        return -1;
    }
    return 0;
}

int messages_check(PyObject *messages, Py_ssize_t most) {
    if (!is_row(messages)) {
        PyErr_Format(PyExc_TypeError, "messages must be a list or tuple, not %.100s", Py_TYPE(messages)->tp_name);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(messages); i++) {
        if (check_message(PySequence_Fast_GET_ITEM(messages, i), i, most) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- parcels ---- */

enum { PARCEL_PARTS = 3, PARCEL_HEAD = 1 + 2 + 4 };

size_t parcel_size(PyObject *frames, Py_ssize_t before) {
    size_t bytes = PARCEL_HEAD, most[PARCEL_PARTS] = {UINT8_MAX, UINT16_MAX, PARCEL_BYTES_MAX};
    if (PySequence_Fast_GET_SIZE(frames) - before != PARCEL_PARTS) {
        return 0;
    }
    for (int i = 0; i < PARCEL_PARTS; i++) {
        size_t size = (size_t)PyBytes_GET_SIZE(PySequence_Fast_GET_ITEM(frames, before + i));
        if (size > most[i]) {
            return 0;
        }
        bytes += size;
    }
    return bytes;
}

size_t parcel_put(unsigned char *at, PyObject *frames, Py_ssize_t before) {
    static const int width[PARCEL_PARTS] = {1, 2, 4};
    unsigned char *head = at, *content = at + PARCEL_HEAD;
    for (int i = 0; i < PARCEL_PARTS; i++) {
        PyObject *frame = PySequence_Fast_GET_ITEM(frames, before + i);
        size_t size = (size_t)PyBytes_GET_SIZE(frame);
        for (int shift = 8 * (width[i] - 1); shift >= 0; shift -= 8) {
            *head++ = (unsigned char)(size >> shift);
        }
        memcpy(content, PyBytes_AS_STRING(frame), size);
        content += size;
    }
    return (size_t)(content - at);
}

/* The message of a parcel at *at, which is advanced. NULL if it is incomplete, or with an exception set. */
static PyObject *next_in_parcel(PyObject *peer, const unsigned char **at, const unsigned char *end) {
    const unsigned char *p = *at;
    if (end - p < PARCEL_HEAD) {
        return NULL;
    }
    size_t body = (size_t)p[3] << 24 | (size_t)p[4] << 16 | (size_t)p[5] << 8 | p[6];
    size_t sizes[PARCEL_PARTS] = {p[0], (size_t)p[1] << 8 | p[2], body};
    p += PARCEL_HEAD;
    /* In 64 bits: where size_t has 32, a length near 4 GiB would wrap around and pass. */
    if ((uint64_t)(end - p) < (uint64_t)sizes[0] + sizes[1] + sizes[2]) {
        return NULL;
    }
    PyObject *frames = PyList_New(0);
    int failed = frames == NULL || (peer != NULL && PyList_Append(frames, peer) < 0);
    for (int i = 0; !failed && i < PARCEL_PARTS; i++) {
        failed = messages_append(frames, messages_frame(p, sizes[i]));
        p += sizes[i];
    }
    if (failed) {
        Py_CLEAR(frames);
    }
    *at = p;
    return frames;
}

int messages_append_parcel(PyObject *messages, PyObject *peer, const unsigned char *data, size_t size) {
    PyObject *found = size > 1 && data[0] == PARCEL_VERSION ? PyList_New(0) : NULL;
    const unsigned char *at = data + 1, *end = data + size;
    int failed = found == NULL;
    while (!failed && at < end) {
        failed = PyList_GET_SIZE(found) == PARCEL_MESSAGES_MAX || messages_append(found, next_in_parcel(peer, &at, end));
    }
    if (!failed) {
        failed = PyList_SetSlice(messages, PyList_GET_SIZE(messages), PyList_GET_SIZE(messages), found);
    }
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : !failed;
}
